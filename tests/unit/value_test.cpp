#include "transload/adapters/value.hpp"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/messages.hpp"
#include "transload/adapters/arrow_view.hpp"
#include "transload/adapters/encode.hpp"
#include "transload/adapters/inspect.hpp"

namespace transload {
namespace {

using test::error_of;
using test::message;
using msgpack::Packer;

/// The value of a root that `write` writes.
Value value_of(std::function<void(Packer&)> const& write) {
  return Value::open(message([&](HeaderWriter& writer) { write(writer.root()); }));
}

std::string refused(std::function<void(HeaderWriter&)> const& fill) {
  return error_of([&] { (void)Value::open(message(fill)); });
}

std::string refused_root(std::function<void(Packer&)> const& write) {
  return refused([&](HeaderWriter& writer) { write(writer.root()); });
}

void op(Packer& out, Op op, std::size_t n, bool marked = false) {
  out.array(n + 1);
  out.integer(static_cast<int>(op) | (marked ? mark : 0));
}

std::span<std::byte const> raw(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Value, ReadsPlainValues) {
  Value const list = value_of([](Packer& out) {
    op(out, Op::list, 8);
    out.nil(), out.boolean(true), out.integer(-5), out.unsigned_integer(UINT64_MAX), out.real(0.5), out.str("é"), out.bin(raw("ab"));
    op(out, Op::complex, 2), out.real(1), out.real(-1);
  });
  ASSERT_EQ(list.size(), 8U);
  EXPECT_TRUE(list[0].is_none());
  EXPECT_TRUE(list[1].as<bool>());
  EXPECT_EQ(list[2].as<int>(), -5);
  EXPECT_EQ(list[3].as<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(list[4].as<double>(), 0.5);
  EXPECT_EQ(list[5].as<std::string>(), "é");
  EXPECT_EQ(list[6].as<std::span<std::byte const>>().size(), 2U);
  EXPECT_EQ(list[7].as<std::complex<double>>(), (std::complex<double>{1, -1}));
  EXPECT_EQ(error_of([&] { (void)list[2].as<std::uint8_t>(); }), "int -5 is not in 0 … 9223372036854775807");
  EXPECT_EQ(error_of([&] { (void)list[3].as<std::int64_t>(); }), "int 18446744073709551615 is not in -9223372036854775808 … 9223372036854775807");
  EXPECT_EQ(error_of([&] { (void)list[5].as<double>(); }), "str where float is needed");
  error_of([&] { (void)list[8]; });
  error_of([&] { (void)list["x"]; });
}

TEST(Value, IntsOfAnySizeHaveTheirDigits) {
  auto const digits = [](std::vector<unsigned char> bytes) {
    return value_of([&](Packer& out) {
             op(out, Op::bigint, 1);
             out.bin(std::as_bytes(std::span(bytes)));
           })
        .integer_text();
  };
  EXPECT_EQ(digits({0, 0, 0, 0, 0, 0, 0, 0, 1}), "18446744073709551616");
  EXPECT_EQ(digits({0, 0, 0, 0, 0, 0, 0, 0, 0xff}), "-18446744073709551616");
  EXPECT_EQ(digits({0xff}), "-1");
  EXPECT_EQ(digits({0}), "0");
  std::vector<unsigned char> large(5000, 0);
  large.back() = 1;
  EXPECT_EQ(digits(large).substr(0, 4), "0x10");
}

TEST(Value, LooksUpKeysOfDictsRecordsAndObjects) {
  Value const root = Value::open(message([](HeaderWriter& writer) {
    std::vector<std::string_view> const keys = {"a", "b"};
    auto const cls = writer.add_name("shop:Order");
    auto const record = writer.add_shape(std::nullopt, keys);
    auto const object = writer.add_shape(cls, keys);
    Packer& out = writer.root();
    op(out, Op::list, 3);
    out.map(2), out.integer(1), out.str("x"), out.str("a"), out.integer(10);
    op(out, Op::record, 3), out.integer(record), out.integer(20), out.integer(21);
    op(out, Op::object, 3), out.integer(object), out.integer(30), out.integer(31);
  }));
  EXPECT_EQ(root[0]["a"].as<int>(), 10);
  EXPECT_EQ(root[1]["b"].as<int>(), 21);
  EXPECT_EQ(root[2]["b"].as<int>(), 31);
  EXPECT_EQ(root[2].name(), "shop:Order");
  EXPECT_EQ(root[0].pair(0).first.as<int>(), 1);
  EXPECT_EQ(root[1].key(1), "b");
  EXPECT_FALSE(root[1].get("c"));
  EXPECT_EQ(error_of([&] { (void)root[1]["c"]; }), "no key c");
}

TEST(Value, ReducedInstancesShowTheirParts) {
  Value const root = Value::open(message([](HeaderWriter& writer) {
    auto const make = writer.add_name("collections:OrderedDict");
    auto const set = writer.add_name("m:setter");
    Packer& out = writer.root();
    op(out, Op::list, 2);
    op(out, Op::reduce, 6);
    out.integer(make), out.array(1), out.integer(7);
    op(out, Op::tuple, 2), out.map(1), out.str("d"), out.integer(1), out.map(1), out.str("s"), out.integer(2);
    out.array(1), out.integer(3);
    out.array(2), out.str("k"), out.str("v");
    out.integer(set);
    op(out, Op::new_kw, 4);
    out.integer(make), out.array(0), out.map(1), out.str("q"), out.boolean(true), out.nil();
  }));
  Value const reduce = root[0];
  EXPECT_EQ(reduce.kind(), ValueKind::reduce);
  EXPECT_EQ(reduce.name(), "collections:OrderedDict");
  EXPECT_EQ(reduce.args()[0].as<int>(), 7);
  EXPECT_EQ(reduce["d"].as<int>(), 1);
  EXPECT_EQ(reduce["s"].as<int>(), 2);
  EXPECT_EQ(reduce.list_items()[0].as<int>(), 3);
  EXPECT_EQ(reduce.dict_items()["k"].as<std::string>(), "v");
  EXPECT_EQ(reduce.state_setter().name(), "m:setter");
  EXPECT_TRUE(root[1].kwargs()["q"].as<bool>());
  EXPECT_TRUE(root[1].state().is_none());
}

TEST(Value, SharedReferencesAndCyclesAreOneObject) {
  Value const root = value_of([](Packer& out) {
    op(out, Op::list, 3, true);
    op(out, Op::list, 1, true), out.integer(1);
    op(out, Op::ref, 1), out.integer(1);
    op(out, Op::ref, 1), out.integer(0);
  });
  EXPECT_EQ(root[0], root[1]);
  EXPECT_EQ(root[2], root);
  EXPECT_EQ(root[2][2][2].size(), 3U);
}

TEST(Value, MarkedPlainValuesCanBeReferredTo) {
  Value const root = value_of([](Packer& out) {
    op(out, Op::list, 3);
    op(out, Op::value, 1, true), out.str("x");
    op(out, Op::value, 1, true), out.map(1), out.str("self"), op(out, Op::ref, 1), out.integer(1);
    op(out, Op::ref, 1), out.integer(0);
  });
  EXPECT_EQ(root[2].as<std::string>(), "x");
  EXPECT_EQ(root[1]["self"], root[1]);
}

TEST(Value, ATupleThatContainsItselfComesThroughLast) {
  // a = []; t = (a,); a.append(t): pickle writes the tuple twice and takes the first.
  Value const root = value_of([](Packer& out) {
    op(out, Op::list, 1, true);
    op(out, Op::last, 2);
    op(out, Op::tuple, 1, true), op(out, Op::ref, 1), out.integer(0);
    op(out, Op::ref, 1), out.integer(1);
  });
  EXPECT_EQ(root[0].kind(), ValueKind::tuple);
  EXPECT_EQ(root[0][0], root);
}

TEST(Value, ReferencesToWhatIsNotThereAreMalformed) {
  EXPECT_NE(refused_root([](Packer& out) { op(out, Op::ref, 1), out.integer(0); }).find("object 0 has not begun"), std::string::npos);
  EXPECT_NE(refused_root([](Packer& out) {
              op(out, Op::tuple, 1, true);
              op(out, Op::ref, 1), out.integer(0);
            }).find("object 0 is not complete"),
            std::string::npos);
  refused_root([](Packer& out) {
    op(out, Op::last, 1, true);
    op(out, Op::ref, 1), out.integer(0);
  });
  refused([](HeaderWriter& writer) {
    auto const name = writer.add_name("m:f");
    Packer& out = writer.root();
    op(out, Op::reduce, 2, true);
    out.integer(name), out.array(1), op(out, Op::ref, 1), out.integer(0);
  });
}

TEST(Value, AnInstanceCanBeReferredToFromItsState) {
  Value const root = Value::open(message([](HeaderWriter& writer) {
    auto const name = writer.add_name("m:f");
    Packer& out = writer.root();
    op(out, Op::reduce, 3, true);
    out.integer(name), out.array(0), op(out, Op::ref, 1), out.integer(0);
  }));
  EXPECT_EQ(root.state(), root);
}

TEST(Value, ArraysAreUsedWhereTheyLie) {
  std::vector<double> const items(10'000, 1.5);
  Message made = message([&](HeaderWriter& writer) {
    auto const p = writer.add_payload(std::as_bytes(std::span(items)));
    Packer& out = writer.root();
    op(out, Op::array, 4);
    out.str("<f8"), out.integer(p), out.array(2), out.integer(100), out.integer(100), out.integer(1);
  });
  Value const root = Value::open(std::move(made));
  NdView const array = root.array();
  EXPECT_EQ(array.bytes().data(), std::as_bytes(std::span(items)).data());
  EXPECT_TRUE(array.readonly());
  EXPECT_EQ(root.as_array<double>()(99, 99), 1.5);
  EXPECT_EQ(root.shape().size(), 2U);
}

TEST(Value, AnArrayOutlivesTheValueItCameFrom) {
  NdSpan<std::int32_t> span = [] {
    std::vector<std::int32_t> const items = {1, 2, 3};
    Encoder encoder;
    encoder.array(NdView::of(std::span(items)));
    return Value::open(encoder.finish()).as_array<std::int32_t>();
  }();
  EXPECT_EQ(span.to_vector(), (std::vector<std::int32_t>{1, 2, 3}));
}

TEST(Value, InlineArraysAreAligned) {
  std::vector<double> const items = {1, 2, 3};
  for (std::string const pad : {"", "x", "xx", "xxx", "xxxxxxx"}) {
    Value const root = value_of([&](Packer& out) {
      op(out, Op::list, 2);
      out.str(pad);
      op(out, Op::floats, 1), out.bin(std::as_bytes(std::span(items)));
    });
    EXPECT_TRUE(root[1].is_floats());
    EXPECT_EQ(root[1].as_array<double>().contiguous()[2], 3);
    EXPECT_EQ(root[1].array().bytes().data(), root[1].array().bytes().data()) << "copied once";
  }
}

TEST(Value, AnEmptyInlineArrayHasNoBytesToAlign) {
  // Was a memcpy to null (found by tests/fuzz/message_fuzz).
  Value const root = value_of([&](Packer& out) { op(out, Op::array, 3), out.str("<f8"), out.bin({}), out.integer(0); });
  EXPECT_TRUE(root.as_array<double>().to_vector().empty());
}

TEST(Value, ScalarsAreNumbers) {
  auto const scalar = [](char const* dtype, auto item) {
    return value_of([&](Packer& out) {
      op(out, Op::scalar, 2);
      out.str(dtype);
      out.bin(std::as_bytes(std::span(&item, 1)));
    });
  };
  EXPECT_EQ(scalar("<f4", 0.5F).as<double>(), 0.5);
  EXPECT_EQ(scalar("<i2", std::int16_t{-3}).as<int>(), -3);
  EXPECT_EQ(scalar(">i2", std::int16_t{0x0100}).as<int>(), 1);
  EXPECT_EQ(scalar("<f2", std::uint16_t{0x3c00}).as<double>(), 1.0);
  EXPECT_EQ(scalar("<f2", std::uint16_t{0x0001}).as<double>(), 0x1p-24);
  EXPECT_TRUE(scalar("|b1", true).as<bool>());
  EXPECT_EQ(scalar("<u8", UINT64_MAX).as<std::uint64_t>(), UINT64_MAX);
  error_of([&] { (void)scalar("<u8", UINT64_MAX).as<std::int64_t>(); });
  error_of([&] { (void)scalar("<f8", 0.5).as<int>(); });
}

TEST(Value, ObjectArraysHaveTheirShape) {
  Value const root = value_of([](Packer& out) {
    op(out, Op::object_array, 6);
    out.array(2), out.integer(2), out.integer(2), out.integer(0), out.integer(1), out.str("x"), out.nil(), out.real(2);
  });
  EXPECT_EQ(root.size(), 4U);
  EXPECT_EQ(root[1].as<std::string>(), "x");
  EXPECT_EQ(root.dtype().text(), "|O");
}

TEST(Value, SurrogatesAreOnlyInText) {
  Value const root = value_of([](Packer& out) { op(out, Op::text, 1), out.bin(raw("a\xed\xb0\x80" "b")); });
  EXPECT_EQ(root.as<std::string>().size(), 5U);
  refused_root([](Packer& out) { out.str("a\xed\xb0\x80" "b"); });
  refused_root([](Packer& out) { op(out, Op::text, 1), out.bin(raw("\xff")); });
  refused_root([](Packer& out) { op(out, Op::text, 1), out.bin(raw("\xed\xb0")); });
}

TEST(Value, AnErrorRaisesItsTextWhereItIsUsed) {
  Value const root = value_of([](Packer& out) { op(out, Op::error, 1), out.str("no way"); });
  EXPECT_EQ(root.as<std::string>(), "no way");
  EXPECT_NE(error_of([&] { (void)root.as<int>(); }, ErrorKind::failed).find("no way"), std::string::npos);
}

TEST(Value, DepthHasItsLimitAndNoStack) {
  auto const nested = [](std::size_t depth) {
    return message([&](HeaderWriter& writer) {
      for (std::size_t i = 0; i < depth; ++i) op(writer.root(), Op::list, 1);
      writer.root().nil();
    });
  };
  EXPECT_NO_THROW((void)Value::open(nested(10'000)));
  EXPECT_NE(error_of([&] { (void)Value::open(nested(10'001)); }).find("nested deeper"), std::string::npos);
}

TEST(Value, ReadsADtypeOfTheTable) {
  std::vector<std::byte> const items(24, std::byte{0});
  Packer pair;
  pair.array(4), pair.str("struct"), pair.integer(12), pair.boolean(false), pair.array(2);
  pair.array(3), pair.str("a"), pair.integer(0), pair.str("<i4");
  pair.array(3), pair.str("b"), pair.integer(4), pair.str("<f8");
  Value const list = Value::open(message([&](HeaderWriter& writer) {
    EXPECT_EQ(writer.add_dtype(pair.bytes()), 0U);
    EXPECT_EQ(writer.add_dtype(pair.bytes()), 0U);
    Packer& out = writer.root();
    op(out, Op::list, 3);
    op(out, Op::array, 3), out.integer(0), out.integer(writer.add_payload(items)), out.integer(2);
    op(out, Op::scalar, 2), out.integer(0), out.bin(std::span(items).first(12));
    op(out, Op::dtype, 1), out.integer(0);
  }));
  EXPECT_EQ(list[0].dtype().text(), "{'a': <i4, 'b': <f8}");
  EXPECT_EQ(list[0].array().shape()[0], 2U);
  EXPECT_EQ(list[1].dtype().itemsize, 12U);
  EXPECT_EQ(list[2].dtype().fields.size(), 2U);
  EXPECT_EQ(&list[1].dtype(), &list[2].dtype()) << "an entry is read once, for a few bytes name it again and again";
}

struct Bad {
  char const* name;
  std::function<void(HeaderWriter&)> fill;
};

class BadNode : public testing::TestWithParam<Bad> {};

TEST_P(BadNode, IsMalformedAndNamesTheByte) {
  std::string const what = refused(GetParam().fill);
  EXPECT_NE(what.find("header byte"), std::string::npos) << what;
}

Bad bad(char const* name, std::function<void(Packer&)> write) {
  return {name, [write](HeaderWriter& writer) { write(writer.root()); }};
}

Bad bad_array(char const* name, std::function<void(Packer&)> rest, std::size_t n, std::size_t nbytes = 80) {
  return {name, [=](HeaderWriter& writer) {
            static std::vector<std::byte> const bytes(1000);
            writer.add_payload(std::span(bytes).first(nbytes));
            op(writer.root(), Op::array, n);
            rest(writer.root());
          }};
}

/// An array of eight bytes whose dtype is number 0 of a table that holds what `dtype` writes.
Bad bad_dtype(char const* name, std::function<void(Packer&)> dtype, int number = 0) {
  return {name, [=](HeaderWriter& writer) {
            Packer raw;
            dtype(raw);
            writer.add_dtype(raw.bytes());
            static std::vector<std::byte> const bytes(8);
            writer.add_payload(bytes);
            op(writer.root(), Op::array, 3), writer.root().integer(number), writer.root().integer(0), writer.root().integer(1);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Dtypes, BadNode,
    testing::Values(bad_dtype("behind the table", [](Packer& o) { o.str("<f8"); }, 1), bad_dtype("below the table", [](Packer& o) { o.str("<f8"); }, -1),
                    bad_dtype("an entry that names itself", [](Packer& o) { o.integer(0); }), bad_dtype("nil", [](Packer& o) { o.nil(); }),
                    bad_dtype("objects", [](Packer& o) { o.str("|O"); }), bad_dtype("an empty entry", [](Packer& o) { o.array(0); }),
                    bad_dtype("an index inside an entry", [](Packer& o) { o.array(3), o.str("sub"), o.integer(0), o.array(1), o.integer(1); })));

INSTANTIATE_TEST_SUITE_P(
    Nodes, BadNode,
    testing::Values(
        bad("an empty array", [](Packer& o) { o.array(0); }), bad("op 30", [](Packer& o) { o.array(1), o.integer(30); }),
        bad("op 63", [](Packer& o) { o.array(1), o.integer(63); }), bad("op 128", [](Packer& o) { o.array(1), o.integer(128); }),
        bad("a negative op", [](Packer& o) { o.array(1), o.integer(-1); }), bad("op as text", [](Packer& o) { o.array(1), o.str("x"); }),
        bad("value of a node", [](Packer& o) { op(o, Op::value, 1), op(o, Op::list, 0); }), bad("value of two", [](Packer& o) { op(o, Op::value, 2), o.nil(), o.nil(); }),
        bad("last of none", [](Packer& o) { op(o, Op::last, 0); }), bad("a name that is not there", [](Packer& o) { op(o, Op::name, 1), o.integer(0); }),
        bad("a shape that is not there", [](Packer& o) { op(o, Op::record, 1), o.integer(0); }),
        bad("a payload that is not there", [](Packer& o) { op(o, Op::bytes, 1), o.integer(0); }), bad("an empty bigint", [](Packer& o) { op(o, Op::bigint, 1), o.bin({}); }),
        bad("complex of ints", [](Packer& o) { op(o, Op::complex, 2), o.integer(1), o.integer(2); }),
        bad("floats of 7 bytes", [](Packer& o) { op(o, Op::floats, 1), o.bin(raw("1234567")); }),
        bad("scalar of 7 bytes", [](Packer& o) { op(o, Op::scalar, 2), o.str("<f8"), o.bin(raw("1234567")); }),
        bad("range of text", [](Packer& o) { op(o, Op::range, 3), o.integer(0), o.str("x"), o.integer(1); }),
        bad("object array of another shape", [](Packer& o) { op(o, Op::object_array, 3), o.integer(2), o.integer(0), o.nil(); }),
        bad("memoryview of another size", [](Packer& o) { op(o, Op::memoryview, 4), o.str("d"), o.bin(raw("1234")), o.integer(1), o.boolean(true); }),
        bad("error without text", [](Packer& o) { op(o, Op::error, 1), o.integer(1); })));

INSTANTIATE_TEST_SUITE_P(
    Arrays, BadNode,
    testing::Values(
        bad_array("another length", [](Packer& o) { o.str("<f8"), o.integer(0), o.integer(11); }, 3),
        bad_array("a negative length", [](Packer& o) { o.str("<f8"), o.integer(0), o.integer(-1); }, 3),
        bad_array("an overflow", [](Packer& o) { o.str("<f8"), o.integer(0), o.array(2), o.unsigned_integer(std::uint64_t{1} << 61), o.unsigned_integer(8); }, 3),
        bad_array("objects", [](Packer& o) { o.str("|O"), o.integer(0), o.integer(10); }, 3),
        bad_array("unknown flags", [](Packer& o) { o.str("<f8"), o.integer(0), o.integer(10), o.integer(4); }, 4),
        bad_array("strides outside", [](Packer& o) { o.str("<f8"), o.integer(0), o.integer(10), o.integer(0), o.array(1), o.integer(9), o.integer(0); }, 6),
        bad_array("an offset outside", [](Packer& o) { o.str("<f8"), o.integer(0), o.integer(10), o.integer(0), o.array(1), o.integer(8), o.integer(8); }, 6),
        bad_array("too few strides", [](Packer& o) { o.str("<f8"), o.integer(0), o.integer(10), o.integer(0), o.array(0), o.integer(0); }, 6)));

INSTANTIATE_TEST_SUITE_P(
    Tables, BadNode,
    testing::Values(Bad{"a record of a class",
                        [](HeaderWriter& w) {
                          std::vector<std::string_view> const keys = {"a"};
                          auto const shape = w.add_shape(w.add_name("m:C"), keys);
                          op(w.root(), Op::record, 2), w.root().integer(shape), w.root().nil();
                        }},
                    Bad{"too few values",
                        [](HeaderWriter& w) {
                          std::vector<std::string_view> const keys = {"a", "b"};
                          auto const shape = w.add_shape(std::nullopt, keys);
                          op(w.root(), Op::record, 2), w.root().integer(shape), w.root().nil();
                        }},
                    Bad{"adapted by a class", [](HeaderWriter& w) { op(w.root(), Op::adapted, 2), w.root().integer(w.add_name("m:C")), w.root().nil(); }},
                    Bad{"odd pairs",
                        [](HeaderWriter& w) {
                          auto const name = w.add_name("m:C");
                          op(w.root(), Op::reduce, 5), w.root().integer(name), w.root().array(0), w.root().nil(), w.root().nil(), w.root().array(1), w.root().nil();
                        }},
                    Bad{"kwargs that are no str", [](HeaderWriter& w) {
                          auto const name = w.add_name("m:C");
                          op(w.root(), Op::new_kw, 3), w.root().integer(name), w.root().array(0), w.root().map(1), w.root().integer(1), w.root().nil();
                        }}));

/// One of each kind of node, with a payload that is packed and one that is not.
Message everything() {
  static std::vector<std::int32_t> const large(50'000, 3);
  static std::vector<double> const small = {1, 2, 3};
  Tree shared = Tree::list({1, 2});
  return [&] {
    Encoder encoder;
    Tree tree = Tree::dict({{"list", shared},
                            {"again", shared},
                            {"tuple", Tree::tuple({true, nullptr, -1, UINT64_MAX, 1.5, "text", std::complex<double>(1, 2)})},
                            {"set", Tree::set({1, 2})},
                            {"frozen", Tree::frozenset({"x"})},
                            {"object", Tree::object("shop:Order", {{"id", 7}, {"prices", Tree(NdView::of(std::span(small)))}})},
                            {"large", Tree(NdView::of(std::span(large), {250, 200}))},
                            {"name", Tree::name("math:sin")},
                            {"reduce", Tree::reduce("datetime:date", {"abc"}, Tree::dict({{"k", 1}}))},
                            {"adapted", Tree::adapted("sparse", Tree::list())},
                            {"slice", Tree::slice(1, nullptr, 2)},
                            {"range", Tree::range(0, 10)},
                            {"bytes", Tree::bytes(std::as_bytes(std::span(large)).first(100))}});
    encoder.tree(tree);
    return encoder.finish();
  }();
}

TEST(Value, CutAtEveryByteIsMalformed) {
  Message const whole = everything();
  for (std::size_t n = 0; n < whole.header.nbytes(); ++n) {
    Message cut;
    cut.header = test::tight_copy(whole.header.bytes().first(n));
    for (Buffer const& frame : whole.frames) cut.frames.push_back(Buffer::borrow(frame.bytes()));
    error_of([&] { (void)Value::open(std::move(cut)); });
  }
}

TEST(Value, EachFlippedBitIsReadOrRefused) {
  Message const whole = everything();
  for (std::size_t n = 0; n < whole.header.nbytes(); ++n) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> bytes(whole.header.bytes().begin(), whole.header.bytes().end());
      bytes[n] ^= static_cast<std::byte>(1 << bit);
      Message flipped;
      flipped.header = test::tight_copy(bytes);
      for (Buffer const& frame : whole.frames) flipped.frames.push_back(Buffer::borrow(frame.bytes()));
      try {
        (void)inspect(Value::open(std::move(flipped)));
      } catch (Error const&) {
      }
    }
  }
}

TEST(Value, ReadsFromAContainerAndChecksFramesWhenTheyAreUsed) {
  Message const whole = everything();
  std::vector<std::byte> bytes;
  write_container(whole, [&](std::span<std::byte const> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  bytes.back() ^= std::byte{1};
  Value const root = Value::open(Container::parse(Buffer::borrow(bytes)));
  EXPECT_EQ(root["object"]["prices"].as_array<double>()(2), 3);
  error_of([&] { (void)root["large"].array(); });
}

TEST(Value, ChecksumsInTheHeaderAreCompared) {
  // [1, {"xxh3": [0]}, [], [], [0, 100], [3], [22, "|u1", 0, 3]]
  std::vector<unsigned char> header = {0x97, 1, 0x81, 0xa4, 'x', 'x', 'h', '3', 0x91, 0, 0x90, 0x90, 0x92, 0, 100, 0x91, 3, 0x94, 22, 0xa3, '|', 'u', '1', 0, 3};
  std::vector<std::byte> const payload(3);
  std::vector<Buffer> frames;
  frames.push_back(Buffer::borrow(payload));
  EXPECT_NE(error_of([&] { (void)Value::open(test::raw_message(header, std::move(frames))); }).find("XXH3"), std::string::npos);
}

TEST(Inspect, PrintsEachKind) {
  EXPECT_EQ(inspect(Value::open(everything())), R"({
  "list": #0 [1, 2]
  "again": <the same as #0>
  "tuple": (
    True
    None
    -1
    18446744073709551615
    1.5
    "text"
    complex(1.0, 2.0)
  )
  "set": {1, 2}
  "frozen": frozenset {"x"}
  "object": shop:Order {
    id: 7
    prices: array <f8 (3,) [1.0, 2.0, 3.0]
  }
  "large": array <i4 (250, 200) [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, … 49990 more]
  "name": math:sin
  "reduce": datetime:date("abc") state {
    "k": 1
  }
  "adapted": <sparse> []
  … 3 more
})");
}

TEST(Inspect, EndsInCycles) {
  Value const root = value_of([](Packer& out) {
    op(out, Op::list, 1, true);
    op(out, Op::ref, 1), out.integer(0);
  });
  EXPECT_EQ(inspect(root), "#0 [\n  <the same as #0>\n]");
}

TEST(Inspect, DeepStatesEndAtTheDepth) {
  Message deep = message([](HeaderWriter& writer) {
    auto const name = writer.add_name("m:f");
    for (int i = 0; i < 4900; ++i) op(writer.root(), Op::reduce, 3), writer.root().integer(name), writer.root().array(0);
    writer.root().nil();
  });
  EXPECT_LT(inspect(Value::open(std::move(deep)), {.max_depth = 100'000}).size(), 20'000U);
}

TEST(Inspect, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(inspect(value_of([](Packer& out) { out.str("\x1b[2J\n"); })), "\"\\x1b[2J\\n\"");
  EXPECT_EQ(inspect(value_of([](Packer& out) { op(out, Op::text, 1), out.bin(raw("\xed\xb0\x80")); })), "\"\\udc00\"");
}

}  // namespace
}  // namespace transload
