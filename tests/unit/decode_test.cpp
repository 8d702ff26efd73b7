#include "transload/adapters/decode.hpp"

#include <filesystem>
#include <list>
#include <map>
#include <set>
#include <unistd.h>
#include <unordered_map>

#include <gmock/gmock.h>

#include "support/messages.hpp"
#include "transload/transload.hpp"

namespace transload {
namespace {

using test::error_of;

enum class Colour : std::int16_t { red = 1, blue = 7 };

struct Item {
  std::string name;
  double price;
  friend bool operator==(Item const&, Item const&) = default;
};

struct Order {
  static constexpr std::string_view transload_class = "shop:Order";
  std::int64_t id;
  std::vector<Item> items;
  std::vector<double> weights;
  std::map<std::string, int> counts;
  std::optional<Item> gift;
  std::optional<std::string> note;
  Colour colour;
  bool paid;
  std::array<float, 3> where;
  std::pair<int, std::string> both;
  std::set<int> tags;
  std::complex<double> z;
  std::vector<std::byte> blob;
  std::vector<bool> flags;
  friend bool operator==(Order const&, Order const&) = default;
};

Order order() {
  return {.id = 12,
          .items = {{"tea", 2.5}, {"cup", 9}},
          .weights = std::vector<double>(20'000, 0.25),
          .counts = {{"a", 1}, {"b", 2}},
          .gift = Item{"bow", 0},
          .note = std::nullopt,
          .colour = Colour::blue,
          .paid = true,
          .where = {1, 2, 3},
          .both = {4, "four"},
          .tags = {3, 1},
          .z = {1, 2},
          .blob = std::vector<std::byte>(100, std::byte{9}),
          .flags = {true, false}};
}

TEST(Fields, OfAnAggregateAreKnownByName) {
  static_assert(nfields<Order> == 14);
  static_assert(field_names<Order>()[0] == "id");
  static_assert(field_names<Order>()[13] == "flags");
  Item item{"x", 1};
  std::string seen;
  for_each_field(item, [&](std::string_view name, auto&) { seen += cat(name, " "); });
  EXPECT_EQ(seen, "name price ");
}

class Account {
 public:
  Account() = default;
  Account(std::string owner, double balance) : owner_(std::move(owner)), balance_(balance) {}
  TRANSLOAD_FIELDS(owner_, balance_);
  [[nodiscard]] double balance() const { return balance_; }

 private:
  std::string owner_;
  double balance_ = 0;
};

TEST(Fields, OfAClassAreListedInOneLine) {
  static_assert(field_names<Account>()[1] == "balance");
  Account const back = deserialize<Account>(serialize(Account("ann", 3.5)));
  EXPECT_EQ(back.balance(), 3.5);
}

struct Wide {
  int a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, d0, d1;
  std::string last;
};

TEST(Fields, ThirtyThreeOfThemAreFine) {
  static_assert(nfields<Wide> == 33);
  Wide wide{};
  wide.d1 = 5;
  wide.last = "z";
  Wide const back = deserialize<Wide>(serialize(wide));
  EXPECT_EQ(back.d1, 5);
  EXPECT_EQ(back.last, "z");
}

struct Item2 {
  std::string title;
  double price;
};
struct Item3 {
  std::string name;
  float price;
};

TEST(SchemaHash, DiffersByNameAndKind) {
  static_assert(schema_hash<Item>() != schema_hash<Item2>());
  static_assert(schema_hash<Item>() != schema_hash<Item3>());
  struct Same {
    std::string name;
    double price;
  };
  static_assert(schema_hash<Item>() == schema_hash<Same>());
}

TEST(Decode, GivesBackWhatWasEncoded) {
  Order const sent = order();
  EXPECT_EQ(deserialize<Order>(serialize(sent)), sent);
  EXPECT_EQ(deserialize<Order>(serialize(order())), sent) << "a temporary is kept by the message";
  EXPECT_EQ(loads<Order>(dumps(sent)), sent);
}

TEST(Decode, WritesAnObjectOfThePythonClass) {
  Value const value = deserialize(serialize(order()));
  EXPECT_EQ(value.kind(), ValueKind::object);
  EXPECT_EQ(value.name(), "shop:Order");
  EXPECT_EQ(value["items"][0].kind(), ValueKind::dict) << "Item has no Python class";
  EXPECT_EQ(value["weights"].kind(), ValueKind::array);
}

TEST(Decode, LargeArraysAreBorrowedOnTheWayOut) {
  Order const sent = order();
  Message const message = serialize(sent);
  EXPECT_EQ(message.frames.back().data(), reinterpret_cast<std::byte const*>(sent.weights.data()));
}

TEST(Decode, NamesThePathOfTheFieldThatDoesNotFit) {
  auto const with = [](Tree tree) { return deserialize(serialize(std::move(tree))); };
  EXPECT_EQ(error_of([&] { (void)decode<std::vector<Item>>(with(Tree::list({Tree::dict({{"name", "a"}, {"price", "b"}})}))); }),
            "root[0].price: str where float is needed");
  EXPECT_EQ(error_of([&] { (void)decode<Item>(with(Tree::dict({{"name", "a"}}))); }), "root.price: the field is missing");
  EXPECT_EQ(error_of([&] { (void)decode<Item>(with(Tree::list())); }), "root: list where an object or dict is needed");
  EXPECT_EQ(error_of([&] { (void)decode<std::map<std::string, std::int8_t>>(with(Tree::dict({{"k", 300}}))); }),
            "root.k: int 300 is not in -128 … 127");
  EXPECT_EQ(error_of([&] { (void)decode<std::pair<int, int>>(with(Tree::tuple({1}))); }), "root: tuple of 1 where a tuple of 2 is needed");
  EXPECT_EQ(error_of([&] { (void)decode<std::array<int, 2>>(with(Tree::list({1}))); }), "root: 1 elements where 2 are needed");
}

TEST(Decode, UnknownFieldsAreIgnoredAndOptionalOnesMayBeMissing) {
  struct Some {
    int a;
    std::optional<int> b;
  };
  auto const some = deserialize<Some>(serialize(Tree::object("m:C", {{"x", 1}, {"a", 2}})));
  EXPECT_EQ(some.a, 2);
  EXPECT_FALSE(some.b);
}

TEST(Decode, ReadsTheStateOfAnInstance) {
  auto const item = deserialize<Item>(serialize(Tree::reduce("m:make", {}, Tree::dict({{"name", "n"}, {"price", 1}}))));
  EXPECT_EQ(item, (Item{"n", 1.0}));
}

TEST(Decode, APythonEnumIsReadByItsValue) {
  EXPECT_EQ(deserialize<Colour>(serialize(Tree::reduce("shop:Colour", {7}))), Colour::blue);
  EXPECT_EQ(deserialize<Colour>(serialize(Tree(1))), Colour::red);
}

template <class To, class From>
To through(std::vector<From> const& items) {
  return deserialize<To>(serialize(Tree(NdView::of(std::span<From const>(items)))));
}

TEST(Decode, NumbersWidenAndAreRangeChecked) {
  EXPECT_EQ((through<std::vector<double>>(std::vector<float>{0.5F})), (std::vector<double>{0.5}));
  EXPECT_EQ((through<std::vector<double>>(std::vector<std::int32_t>{3})), (std::vector<double>{3}));
  EXPECT_EQ((through<std::vector<int>>(std::vector<std::uint8_t>{200})), (std::vector<int>{200}));
  EXPECT_EQ((through<std::vector<std::uint8_t>>(std::vector<std::int64_t>{200})), (std::vector<std::uint8_t>{200}));
  error_of([] { (void)through<std::vector<std::uint8_t>>(std::vector<std::int64_t>{-1}); });
  error_of([] { (void)through<std::vector<float>>(std::vector<double>{0.1}); });
  error_of([] { (void)through<std::vector<int>>(std::vector<double>{1}); });
  EXPECT_EQ(deserialize<std::vector<double>>(serialize(Tree::list({1, 2.5}))), (std::vector<double>{1, 2.5}));
  error_of([] {
    std::vector<double> const items(4);
    (void)deserialize<std::vector<double>>(serialize(Tree(NdView::of(std::span(items), {2, 2}))));
  });
}

TEST(Decode, TextsComeFromArraysOfText) {
  char32_t const wide[] = {U'a', 0, U'é', U'\U0001F600'};
  NdView const view(std::make_shared<DType const>(DType::parse("<U2")), std::as_bytes(std::span(wide)), {2});
  EXPECT_EQ(deserialize<std::vector<std::string>>(serialize(Tree(view))), (std::vector<std::string>{"a", "é\U0001F600"}));
  NdView const narrow(std::make_shared<DType const>(DType::parse("|S3")), std::as_bytes(std::span("ab\0c\0", 6)), {2});
  EXPECT_EQ(deserialize<std::vector<std::string>>(serialize(Tree(narrow))), (std::vector<std::string>{"ab", "c"}));
  error_of([] { (void)through<std::vector<std::string>>(std::vector<double>{1}); });
}

TEST(Decode, ViewsBorrowFromTheMessage) {
  struct Views {
    NdView any;
    NdSpan<double> typed{nullptr, 0, {}, {}, nullptr};
    std::string_view text;
  };
  std::vector<double> const items(30'000, 2);
  Message message = serialize(Tree::dict({{"any", Tree(NdView::of(std::span(items)))}, {"typed", Tree(NdView::of(std::span(items)))}, {"text", "t"}}));
  Value const value = deserialize(std::move(message));
  auto const views = decode<Views>(value);
  EXPECT_EQ(views.any.bytes().data(), reinterpret_cast<std::byte const*>(items.data()));
  EXPECT_EQ(views.typed.contiguous().data(), items.data());
  EXPECT_EQ(views.text, "t");
}

struct Branch {
  int value;
  std::vector<Branch> children;
};

TEST(Decode, ClassesThatContainThemselvesAreReadDownToALimit) {
  EXPECT_EQ(deserialize<Branch>(serialize(Branch{1, {{2, {}}, {3, {{4, {}}}}}})).children[1].children[0].value, 4);
  Encoder encoder;
  std::vector<std::string_view> const keys = {"value", "children"};
  encoder.begin_object("m:Branch", keys, /*marked=*/true);
  encoder.integer(1);
  encoder.begin(Op::list, 1);
  encoder.ref(0);
  error_of([&] { (void)deserialize<Branch>(encoder.finish()); });
}

// C++ values share nothing: a list that names another one twice, which names a third one twice, … has 2^60 leaves when it is copied out.
TEST(Decode, WhatIsReferredToAgainAndAgainIsCopiedUpToALimit) {
  using test::message;
  std::vector<std::string_view> const keys = {"value", "children"};
  Message branches = message([&](HeaderWriter& writer) {
    std::uint32_t const shape = writer.add_shape(std::nullopt, keys);
    auto& out = writer.root();
    auto const op = [&](Op op, std::size_t fields, bool marked) {
      out.array(fields + 1);
      out.unsigned_integer(static_cast<std::uint8_t>(op) | (marked ? mark : 0));
    };
    op(Op::last, 60, false);
    for (std::uint32_t i = 0; i < 60; ++i) {
      op(Op::record, 3, true);
      out.unsigned_integer(shape);
      out.unsigned_integer(i);
      op(Op::list, i == 0 ? 0 : 2, false);
      for (int k = 0; i > 0 && k < 2; ++k) {
        op(Op::ref, 1, false);
        out.unsigned_integer(i - 1);
      }
    }
  });
  EXPECT_THAT(error_of([&] { (void)deserialize<Branch>(std::move(branches)); }, ErrorKind::exhausted), testing::HasSubstr("share nothing"));
}

TEST(Decode, AnArrayThatIsNamedAgainAndAgainIsCopiedUpToALimit) {
  std::vector<double> const items(1 << 20);
  Tree const array(NdView::of(std::span(items)));
  Tree const few = Tree::list(std::vector<Tree>(10, array));
  EXPECT_EQ(deserialize<std::vector<std::vector<double>>>(serialize(few)).size(), 10U);
  Tree const many = Tree::list(std::vector<Tree>(100'000, array));
  error_of([&] { (void)deserialize<std::vector<std::vector<double>>>(serialize(many)); }, ErrorKind::exhausted);
}

TEST(Decode, TextsOfAnArrayThatShowsOneItemEndlesslyAreRefused) {
  std::vector<std::byte> const item(4);
  auto const dtype = std::make_shared<DType const>(DType::parse("<U1"));
  NdView const shown = NdView::strided(dtype, item, {std::uint64_t{1} << 40}, {0}, 0);
  Message message = test::message([&](HeaderWriter& writer) {
    auto& out = writer.root();
    std::uint32_t const payload = writer.add_payload(item);
    out.array(7);
    out.unsigned_integer(static_cast<std::uint8_t>(Op::array));
    dtype->pack(out);
    out.unsigned_integer(payload);
    out.unsigned_integer(shown.shape()[0]);
    out.unsigned_integer(0);
    out.array(1);
    out.unsigned_integer(0);
    out.unsigned_integer(0);
  });
  error_of([&] { (void)deserialize<std::vector<std::string>>(std::move(message)); }, ErrorKind::exhausted);
}

TEST(Tree, SharedNodesStayShared) {
  Tree const shared = Tree::list({1});
  Value const value = deserialize(serialize(Tree::list({shared, shared, 3})));
  EXPECT_EQ(value[0], value[1]);
}

TEST(Tree, ArraysThatShareMemoryTravelOnce) {
  std::vector<double> const items(50'000, 1);
  NdView const whole = NdView::of(std::span(items));
  NdView const half = NdView::strided(std::make_shared<DType const>(DType::of<double>()), whole.bytes(), {25'000}, {16}, 0);
  Message message = serialize(Tree::list({whole, half}));
  EXPECT_EQ(message.frames.size(), 1U);
  Value const value = deserialize(std::move(message));
  EXPECT_EQ(value[0].array().bytes().data(), value[1].array().bytes().data());
  EXPECT_EQ(value[1].as_array<double>().size(), 25'000U);
}

TEST(Tree, AThinSliceIsCopiedNotSentWhole) {
  std::vector<double> items(100'000);
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<double>(i);
  NdView const thin = NdView::strided(std::make_shared<DType const>(DType::of<double>()), std::as_bytes(std::span<double const>(items)), {2, 100}, {-8, 8000}, 8);
  Message message = serialize(Tree(thin));
  EXPECT_LT(message.nbytes(), 2'000U);
  EXPECT_EQ(deserialize(std::move(message)).as_array<double>()(1, 99), 99'000);
}

TEST(Tree, WhatTheWireCannotHoldIsUnsupported) {
  error_of([] { (void)serialize(Tree("\xff")); }, ErrorKind::unsupported);
  error_of([] { (void)serialize(Tree::object("NoModule", {})); }, ErrorKind::unsupported);
  error_of([] { (void)serialize(Tree::adapted("a:b", nullptr)); }, ErrorKind::unsupported);
}

TEST(Verbs, SaveAndLoadAFile) {
  auto const path = std::filesystem::temp_directory_path() / cat("transload-verbs-", ::getpid(), ".tld");
  save(path, order());
  EXPECT_EQ(load<Order>(path), order());
  EXPECT_EQ(load(path)["id"].as<int>(), 12);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace transload
