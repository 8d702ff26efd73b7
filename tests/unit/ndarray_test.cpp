#include "transload/adapters/ndarray.hpp"

#include <numeric>

#include "support/messages.hpp"

namespace transload {
namespace {

using test::error_of;

DType parse(std::function<void(msgpack::Packer&)> const& write, bool objects = false) {
  msgpack::Packer packer;
  write(packer);
  msgpack::Reader reader(packer.bytes());
  DType dtype = DType::parse(reader, objects);
  EXPECT_TRUE(reader.done());
  return dtype;
}

class PlainDType : public testing::TestWithParam<std::pair<char const*, std::uint64_t>> {};

TEST_P(PlainDType, HasNumPysTextAndItemSize) {
  auto const [text, itemsize] = GetParam();
  DType const dtype = DType::parse(text);
  EXPECT_EQ(dtype.itemsize, itemsize);
  EXPECT_EQ(dtype.text(), text);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlainDType,
                         testing::Values(std::pair{"|b1", 1}, std::pair{"<i8", 8}, std::pair{">u2", 2}, std::pair{"<f2", 2}, std::pair{"<f16", 16},
                                         std::pair{"<c16", 16}, std::pair{"|S5", 5}, std::pair{"<U3", 12}, std::pair{"|V0", 0},
                                         std::pair{"<M8[ns]", 8}, std::pair{"<m8[25s]", 8}, std::pair{"<m8", 8}));

class BadDType : public testing::TestWithParam<char const*> {};

TEST_P(BadDType, IsMalformed) { error_of([] { (void)DType::parse(GetParam()); }); }

INSTANTIATE_TEST_SUITE_P(Texts, BadDType,
                         testing::Values("", "<", "<f", "f8", "=f8", "<f3", "<i16", "<x8", "<f8 ", "<f99999999999999999999", "<U999999999", "<M8[n",
                                         "<M8[n-s]", "<M4", "|O", "|b2", "<f8[ns]"));

TEST(DType, ReadsStructuredAndSubarrays) {
  DType const dtype = parse([](msgpack::Packer& out) {
    out.array(4);
    out.str("struct"), out.integer(16), out.boolean(false);
    out.array(2);
    out.array(3), out.str("x"), out.integer(0), out.str("<f8");
    out.array(4), out.str("y"), out.integer(8);
    out.array(3), out.str("sub"), out.str("<i2"), out.array(2), out.integer(2), out.integer(2);
    out.str("title");
  });
  EXPECT_EQ(dtype.itemsize, 16U);
  EXPECT_EQ(dtype.text(), "{'x': <f8, 'y': (2,2)<i2}");
  EXPECT_EQ(dtype.fields[1].dtype.itemsize, 8U);
  msgpack::Packer again;
  dtype.pack(again);
  msgpack::Reader reader(again.bytes());
  EXPECT_EQ(DType::parse(reader).text(), dtype.text());
}

TEST(DType, AFieldOutsideItsItemIsMalformed) {
  auto const with = [](std::int64_t offset, char const* dtype) {
    return error_of([&] {
      parse([&](msgpack::Packer& out) {
        out.array(4);
        out.str("struct"), out.integer(8), out.boolean(false);
        out.array(1);
        out.array(3), out.str("x"), out.integer(offset), out.str(dtype);
      });
    });
  };
  EXPECT_NE(with(1, "<f8").find("passes the item's end"), std::string::npos);
  with(9, "|V0");
  with(-1, "|V0");
}

TEST(DType, TwoFieldsOfOneNameAreMalformed) {
  error_of([] {
    parse([](msgpack::Packer& out) {
      out.array(4);
      out.str("struct"), out.integer(8), out.boolean(false);
      out.array(2);
      for (int i : {0, 4}) out.array(3), out.str("x"), out.integer(i), out.str("<i4");
    });
  });
}

TEST(DType, NestingAndSizesHaveLimits) {
  EXPECT_NE(error_of([] {
              parse([](msgpack::Packer& out) {
                for (int i = 0; i < 40; ++i) out.array(3), out.str("sub");
                out.str("<i1");
                for (int i = 0; i < 40; ++i) out.array(1), out.integer(1);
              });
            }).find("nested deeper"),
            std::string::npos);
  error_of([] { parse([](msgpack::Packer& out) { out.array(3), out.str("sub"), out.str("<i8"), out.array(2), out.integer(65536), out.integer(65536); }); });
}

TEST(Shape, ProductsThatPassTheLimitAreMalformedAlsoBesideAZero) {
  std::uint64_t const big[] = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  std::uint64_t const hidden[] = {0, std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  error_of([&] { (void)nd_nbytes(big, 1); });
  error_of([&] { (void)nd_nbytes(hidden, 1); });
  std::vector<std::uint64_t> const many(65, 1);
  error_of([&] { (void)nd_nbytes(many, 1); });
  std::uint64_t const fine[] = {0, 3};
  EXPECT_EQ(nd_nbytes(fine, 8), 0U);
}

struct Window {
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> strides;
  std::uint64_t offset;
  bool inside;
};

class Strides : public testing::TestWithParam<Window> {};

TEST_P(Strides, AreInsideOrMalformed) {
  Window const& w = GetParam();
  if (w.inside) {
    EXPECT_NO_THROW(check_strides(w.shape, w.strides, 8, w.offset, 800));
  } else {
    error_of([&] { check_strides(w.shape, w.strides, 8, w.offset, 800); });
  }
}

INSTANTIATE_TEST_SUITE_P(Of100Doubles, Strides,
                         testing::Values(Window{{100}, {8}, 0, true}, Window{{100}, {8}, 1, false}, Window{{100}, {-8}, 792, true},
                                         Window{{100}, {-8}, 784, false}, Window{{101}, {8}, 0, false}, Window{{50}, {16}, 8, true},
                                         Window{{1 << 20}, {0}, 792, true}, Window{{1 << 20}, {0}, 793, false}, Window{{10, 10}, {8, 80}, 0, true},
                                         Window{{10, 10}, {8, 88}, 0, false}, Window{{2}, {INT64_MAX}, 0, false}, Window{{2}, {INT64_MIN}, 0, false},
                                         Window{{3, 3}, {INT64_MAX, INT64_MAX}, 0, false}, Window{{std::uint64_t{1} << 62}, {4}, 0, false},
                                         Window{{0}, {INT64_MAX}, 800, true}, Window{{0}, {8}, 801, false}, Window{{}, {}, 792, true},
                                         Window{{}, {}, 793, false}, Window{{2}, {}, 0, false}, Window{{1}, {INT64_MIN}, 0, true}));

// Nothing is read there, but whoever walks the items steps from one to the next.
TEST(CheckStrides, KeepsItemsWithoutBytesInsideToo) {
  error_of([] { check_strides(std::vector<std::uint64_t>{1000, 3}, std::vector<std::int64_t>{0, 1}, 0, 0, 0); });
  error_of([] { check_strides(std::vector<std::uint64_t>{2}, std::vector<std::int64_t>{INT64_MAX}, 0, 0, 8); });
  EXPECT_NO_THROW(check_strides(std::vector<std::uint64_t>{1000, 3}, std::vector<std::int64_t>{0, 0}, 0, 8, 8));
}

TEST(NdView, ReadsBothOrdersAndStrides) {
  std::vector<double> items(6);
  std::iota(items.begin(), items.end(), 0.0);
  auto const dtype = std::make_shared<DType const>(DType::of<double>());
  auto const bytes = std::as_bytes(std::span<double const>(items));
  NdView const c(dtype, bytes, {2, 3});
  NdView const f(dtype, bytes, {2, 3}, true);
  NdView const back = NdView::strided(dtype, bytes, {3}, {-16}, 40);
  EXPECT_EQ(c.as<double>()(1, 0), 3);
  EXPECT_EQ(f.as<double>()(1, 0), 1);
  EXPECT_TRUE(c.c_contiguous());
  EXPECT_TRUE(f.f_contiguous());
  EXPECT_EQ(back.as<double>().to_vector(), (std::vector<double>{5, 3, 1}));
  EXPECT_EQ(f.as<double>().to_vector(), (std::vector<double>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(c.as<double>().contiguous().data(), items.data());
  error_of([&] { (void)f.as<double>().contiguous(); }, ErrorKind::unsupported);
  error_of([&] { (void)c.as<double>()(2, 0); });
  error_of([&] { (void)c.as<double>()(0); });
}

TEST(NdView, GivesOnlyTheTypeThatItHolds) {
  std::vector<std::int32_t> const items = {1, 2};
  NdView const view = NdView::of(std::span<std::int32_t const>(items));
  EXPECT_EQ(view.as<std::int32_t>()(1), 2);
  EXPECT_EQ(error_of([&] { (void)view.as<float>(); }), "array of <i4 where float of 4 bytes is needed");
  error_of([&] { (void)view.as<std::uint32_t>(); });
  NdView const swapped(std::make_shared<DType const>(DType::parse(">i4")), std::as_bytes(std::span<std::int32_t const>(items)), {2});
  error_of([&] { (void)swapped.as<std::int32_t>(); });
}

TEST(NdView, StructsReadStructuredItems) {
  struct Item {
    std::int32_t a;
    float b;
  };
  std::vector<Item> const items = {{1, 2}, {3, 4}};
  DType dtype;
  dtype.form = DType::Form::structured;
  dtype.itemsize = 8;
  dtype.fields.push_back({"a", 0, DType::of<std::int32_t>(), {}, false});
  dtype.fields.push_back({"b", 4, DType::of<float>(), {}, false});
  NdView const view(std::make_shared<DType const>(dtype), std::as_bytes(std::span<Item const>(items)), {2});
  EXPECT_EQ(view.as<Item>()(1).b, 4);
}

TEST(NdView, AFewBytesAreNotBlownUp) {
  double const one = 1;
  NdView const view = NdView::strided(std::make_shared<DType const>(DType::of<double>()), std::as_bytes(std::span<double const>(&one, 1)), {1U << 20, 1U << 20}, {0, 0}, 0);
  EXPECT_EQ(view.as<double>()(99, 99), 1);
  error_of([&] { (void)view.as<double>().to_vector(); }, ErrorKind::exhausted);
}

TEST(NdView, ABoolIsAnyByteButZero) {
  std::byte const bytes[] = {std::byte{0}, std::byte{1}, std::byte{7}};
  NdView const view(std::make_shared<DType const>(DType::of<bool>()), bytes, {3});
  int sum = 0;
  view.as<bool>().for_each([&](bool item) { sum += item ? 1 : 0; });
  EXPECT_EQ(sum, 2);
}

}  // namespace
}  // namespace transload
