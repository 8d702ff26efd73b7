#include "transload/adapters/place.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "transload/message/op.hpp"

namespace transload {
namespace {

using msgpack::Packer;

void op(Packer& out, Op op, std::size_t fields, bool marked = false) {
  out.array(fields + 1);
  out.unsigned_integer(static_cast<std::uint8_t>(op) | (marked ? mark : 0));
}

struct Written {
  Packer header;
  Header parsed;
};

Written written(HeaderWriter& writer) {
  Layout layout;
  Written result{writer.finish({}, layout), {}};
  result.parsed = Header::parse(result.header.bytes());
  return result;
}

TEST(Place, IsTheWayFromTheRootInWords) {
  HeaderWriter writer;
  std::uint32_t const name = writer.add_name("m:C");
  std::string_view const keys[] = {"trees"};
  std::uint32_t const shape = writer.add_shape(name, keys);
  Packer& out = writer.root();
  out.map(1);
  out.str("model");
  op(out, Op::object, 2);
  out.unsigned_integer(shape);
  op(out, Op::list, 2);
  out.nil();
  op(out, Op::name, 1);
  out.unsigned_integer(name);
  Written const message = written(writer);
  auto const bytes = message.header.bytes();

  // The last node is [NAME, n]: three bytes.
  EXPECT_EQ(place_in_object(bytes, message.parsed, bytes.size() - 3), "obj['model'].trees[1]");
  auto const use = first_use_of_name(bytes, message.parsed, name);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(place_in_object(bytes, message.parsed, *use), "obj['model']");
  EXPECT_FALSE(first_use_of_name(bytes, message.parsed, 7).has_value());
}

TEST(Place, NamesAKeyThatIsMarkedOrARepetition) {
  HeaderWriter writer;
  Packer& out = writer.root();
  op(out, Op::list, 2);
  out.map(1);
  op(out, Op::value, 1, true);
  out.str("key");
  out.integer(1);
  out.map(1);
  op(out, Op::ref, 1);
  out.integer(0);
  out.integer(2);
  Written const message = written(writer);
  auto const bytes = message.header.bytes();
  EXPECT_EQ(place_in_object(bytes, message.parsed, bytes.size() - 1), "obj[1]['key']");
}

TEST(Place, AnswersForWhatCannotBeRead) {
  HeaderWriter writer;
  op(writer.root(), Op::record, 1);
  writer.root().integer(5);  // no such shape
  Written const message = written(writer);
  EXPECT_EQ(place_in_object(message.header.bytes(), message.parsed, message.header.size()), "obj");
}

// A header is read to its end before anything limits its depth: each of these nests where no part of a path grows.
TEST(Place, DoesNotFollowNestingToTheEndOfTheStack) {
  for (std::string_view const level : {std::string_view("\x92\x1d", 2), std::string_view("\x93\x0c\x00", 3), std::string_view("\x94\x0a\x01\x90", 4)}) {
    std::string text("\x97\x01\x80\x92\xa1w\xa3m:C\x90\xc0\x90", 13);
    for (int i = 0; i < 1'000'000; ++i) text += level;
    text += "\xc0";
    auto const bytes = std::as_bytes(std::span(text));
    Header const header = Header::parse(bytes);
    EXPECT_EQ(place_in_object(bytes, header, bytes.size() - 1).substr(0, 3), "obj");
    (void)first_use_of_name(bytes, header, 1);
  }
}

TEST(Place, IsShortHoweverDeepAndQuickHoweverMuchLiesBeforeIt) {
  HeaderWriter writer;
  Packer& out = writer.root();
  for (int i = 0; i < 450; ++i) {
    out.map(1);
    out.str(std::string(70, 'k') + std::to_string(i));
  }
  op(out, Op::list, 1'000'000);
  for (int i = 0; i < 1'000'000; ++i) out.nil();
  Written const message = written(writer);
  auto const bytes = message.header.bytes();
  // Putting the path together at each of a million nodes took seconds.
  std::string const place = place_in_object(bytes, message.parsed, bytes.size() - 1);
  EXPECT_TRUE(place.starts_with("obj['kkkk") && place.ends_with("[999999]")) << place;
  EXPECT_NE(place.find("…"), std::string::npos);
  EXPECT_LT(place.size(), 4096U);
}

TEST(Place, AnswersWhereARebuiltObjectHasTooFewFields) {
  // [REDUCE, 0] and [OBJECT_ARRAY]: what is missing is not counted.
  std::string const text("\x97\x01\x80\x91\xa3m:C\x90\xc0\x90\x93\x02\x92\x09\x00\x91\x17", 18);
  auto const bytes = std::as_bytes(std::span(text));
  Header const header = Header::parse(bytes);
  EXPECT_EQ(place_in_object(bytes, header, bytes.size() - 1), "obj[0]");
}

}  // namespace
}  // namespace transload
