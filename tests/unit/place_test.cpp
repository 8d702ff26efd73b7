#include "transload/adapters/place.hpp"

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

}  // namespace
}  // namespace transload
