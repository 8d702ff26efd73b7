// Our msgpack against msgpack-cxx, from both sides.
#include "transload/message/msgpack.hpp"

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <msgpack.hpp>

#include "support/messages.hpp"

namespace transload {
namespace {

namespace theirs = ::msgpack;
using transload::msgpack::Packer;
using transload::msgpack::Reader;
using transload::msgpack::Type;

std::span<std::byte const> span_of(theirs::sbuffer const& buffer) { return std::as_bytes(std::span(buffer.data(), buffer.size())); }

/// Writes one random value with both packers.
void write_both(std::mt19937_64& random, Packer& ours, theirs::packer<theirs::sbuffer>& other, int depth) {
  auto const pick = [&](std::uint64_t n) { return random() % n; };
  auto const length = [&] {
    static constexpr std::size_t edges[] = {0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536};
    return edges[pick(depth > 1 ? 6 : 10)];
  };
  switch (pick(depth > 3 ? 7 : 9)) {
    case 0: ours.nil(), other.pack_nil(); return;
    case 1: {
      bool const value = pick(2) == 1;
      ours.boolean(value);
      value ? other.pack_true() : other.pack_false();
      return;
    }
    case 2: {
      auto const value = static_cast<std::int64_t>(random()) >> pick(64);
      ours.integer(value), other.pack(value);
      return;
    }
    case 3: {
      auto const value = random() >> pick(64);
      ours.unsigned_integer(value), other.pack(value);
      return;
    }
    case 4: {
      double const value = static_cast<double>(pick(1'000'000)) + 0.5;  // msgpack-cxx writes whole floats as integers
      ours.real(value), other.pack(value);
      return;
    }
    case 5: {
      std::string const text(length(), 'x');
      ours.str(text), other.pack(text);
      return;
    }
    case 6: {
      std::vector<char> const bytes(length(), 'y');
      ours.bin(std::as_bytes(std::span(bytes)));
      other.pack_bin(static_cast<std::uint32_t>(bytes.size()));
      other.pack_bin_body(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
      return;
    }
    case 7: {
      std::size_t const n = pick(20);
      ours.array(n), other.pack_array(static_cast<std::uint32_t>(n));
      for (std::size_t i = 0; i < n; ++i) write_both(random, ours, other, depth + 1);
      return;
    }
    default: {
      std::size_t const n = pick(20);
      ours.map(n), other.pack_map(static_cast<std::uint32_t>(n));
      for (std::size_t i = 0; i < 2 * n; ++i) write_both(random, ours, other, depth + 1);
      return;
    }
  }
}

/// Whether our reader gives the object that msgpack-cxx gives.
void expect_same(Reader& reader, theirs::object const& object) {
  auto const token = reader.next();
  switch (object.type) {
    case theirs::type::NIL: ASSERT_EQ(token.type, Type::nil); return;
    case theirs::type::BOOLEAN: 
      ASSERT_EQ(token.type, Type::boolean);
      ASSERT_EQ(token.boolean, object.via.boolean);
      return;
    case theirs::type::POSITIVE_INTEGER:
      ASSERT_EQ(token.type, object.via.u64 > INT64_MAX ? Type::big_unsigned : Type::integer);
      ASSERT_EQ(token.big_unsigned, object.via.u64);
      return;
    case theirs::type::NEGATIVE_INTEGER: 
      ASSERT_EQ(token.type, Type::integer);
      ASSERT_EQ(token.integer, object.via.i64);
      return;
    case theirs::type::FLOAT64: 
      ASSERT_EQ(token.type, Type::real);
      ASSERT_EQ(token.real, object.via.f64);
      return;
    case theirs::type::STR:
      ASSERT_EQ(token.type, Type::str);
      ASSERT_EQ(token.text(), std::string_view(object.via.str.ptr, object.via.str.size));
      return;
    case theirs::type::BIN:
      ASSERT_EQ(token.type, Type::bin);
      ASSERT_EQ(token.text(), std::string_view(object.via.bin.ptr, object.via.bin.size));
      return;
    case theirs::type::ARRAY:
      ASSERT_EQ(token.type, Type::array);
      ASSERT_EQ(token.size, object.via.array.size);
      for (std::uint32_t i = 0; i < object.via.array.size; ++i) expect_same(reader, object.via.array.ptr[i]);
      return;
    case theirs::type::MAP:
      ASSERT_EQ(token.type, Type::map);
      ASSERT_EQ(token.size, object.via.map.size);
      for (std::uint32_t i = 0; i < object.via.map.size; ++i) {
        expect_same(reader, object.via.map.ptr[i].key);
        expect_same(reader, object.via.map.ptr[i].val);
      }
      return;
    default: FAIL() << "a type that we do not write";
  }
}

TEST(Msgpack, WritesByteForByteWhatMsgpackCxxWrites) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    Packer ours;
    theirs::sbuffer buffer;
    theirs::packer<theirs::sbuffer> other(buffer);
    write_both(random, ours, other, 0);
    ASSERT_EQ(ours.size(), buffer.size());
    ASSERT_EQ(std::memcmp(ours.bytes().data(), buffer.data(), buffer.size()), 0) << i;
  }
}

TEST(Msgpack, ReadsWhatMsgpackCxxReads) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 500; ++i) {
    Packer ours;
    theirs::sbuffer buffer;
    theirs::packer<theirs::sbuffer> other(buffer);
    write_both(random, ours, other, 0);
    auto const handle = theirs::unpack(buffer.data(), buffer.size());
    Reader reader(span_of(buffer));
    expect_same(reader, handle.get());
    ASSERT_TRUE(reader.done());
    Reader skipper(span_of(buffer));
    skipper.skip();
    ASSERT_TRUE(skipper.done());
  }
}

TEST(Msgpack, TheEdgesOfEachWidthTakeTheShortestForm) {
  for (std::int64_t const edge : {std::int64_t{0}, std::int64_t{127}, std::int64_t{128}, std::int64_t{255}, std::int64_t{256}, std::int64_t{65535},
                                  std::int64_t{65536}, std::int64_t{UINT32_MAX}, std::int64_t{UINT32_MAX} + 1, std::int64_t{-32}, std::int64_t{-33},
                                  std::int64_t{-128}, std::int64_t{-129}, std::int64_t{INT16_MIN}, std::int64_t{INT16_MIN} - 1, std::int64_t{INT32_MIN},
                                  std::int64_t{INT32_MIN} - 1, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    Packer ours;
    ours.integer(edge);
    theirs::sbuffer buffer;
    theirs::pack(buffer, edge);
    ASSERT_EQ(ours.size(), buffer.size()) << edge;
    ASSERT_EQ(std::memcmp(ours.bytes().data(), buffer.data(), buffer.size()), 0) << edge;
    Reader reader(ours.bytes());
    EXPECT_EQ(reader.integer("edge"), edge);
  }
}

TEST(Msgpack, CutAnywhereIsMalformed) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 50; ++i) {
    Packer ours;
    theirs::sbuffer buffer;
    theirs::packer<theirs::sbuffer> other(buffer);
    write_both(random, ours, other, 2);
    for (std::size_t n = 0; n < std::min<std::size_t>(ours.size(), 300); ++n) {
      Buffer const cut = test::tight_copy(ours.bytes().first(n));
      Reader reader(cut.bytes());
      test::error_of([&] { reader.skip(); });
    }
  }
}

TEST(Msgpack, ExtAndFloat32AndUnusedBytesAreRefused) {
  for (int first : {0xc1, 0xc7, 0xc8, 0xc9, 0xca, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8}) {
    std::vector<std::byte> bytes(20);
    bytes[0] = static_cast<std::byte>(first);
    Reader reader(bytes);
    EXPECT_NE(test::error_of([&] { (void)reader.next(); }).find("header byte 0"), std::string::npos);
  }
}

TEST(Msgpack, CountsAboveTheBytesLeftAreRefusedAtOnce) {
  for (std::vector<unsigned char> bytes : {std::vector<unsigned char>{0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0}, {0xdf, 0, 0, 0, 1, 0xc0}, {0xc6, 0, 0, 0, 2, 0}, {0x92, 0xc0}}) {
    Reader reader(std::as_bytes(std::span(bytes)));
    test::error_of([&] { (void)reader.next(); });
  }
}

TEST(Msgpack, InsertPutsBytesBeforeWhatWasWritten) {
  Packer packer;
  packer.integer(1);
  std::size_t const at = packer.size();
  packer.integer(3);
  std::byte const two[] = {std::byte{2}};
  packer.insert(at, two);
  Reader reader(packer.bytes());
  for (int i : {1, 2, 3}) EXPECT_EQ(reader.integer("i"), i);
}

}  // namespace
}  // namespace transload
