#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "support/arrow.hpp"

namespace transload::testing {
namespace {

std::vector<std::string> labels() {
  std::vector<std::string> out;
  for (auto const& [label, made] : one_of_each()) out.push_back(label);
  return out;
}

Made layout(std::string_view label) {
  for (auto& [name, made] : one_of_each()) {
    if (name == label) return std::move(made);
  }
  throw std::runtime_error("no such layout");
}

class ArrowEachLayout : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Layouts, ArrowEachLayout, ::testing::ValuesIn(labels()), [](auto const& info) { return info.param; });

TEST_P(ArrowEachLayout, EverySliceShowsTheSameRows) {
  Made const made = layout(GetParam());
  for (std::int64_t offset = 0; offset <= 17; ++offset) {
    for (std::int64_t length : {std::int64_t{0}, std::int64_t{1}, std::int64_t{8}, rows - offset}) {
      made->slice(offset, length);
      ArrowField const field = ArrowField::from_c(made->schema);
      ArrowColumn const before = made->column();

      ArrowData const after = receive(send(ArrowKind::array, made->schema, {&made->array}));

      ASSERT_EQ(after.chunks.size(), 1U);
      EXPECT_LE(after.chunks[0].offset, 7);
      ASSERT_EQ(show(ArrowColumnView(field, before)), show(ArrowColumnView(after.schema, after.chunks[0]))) << "rows " << offset << " + " << length;
    }
  }
}

TEST_P(ArrowEachLayout, KeepsItsTypeAndTakesAnOpWithAMark) {
  Made const made = layout(GetParam());
  made->metadata = std::string("\x01\0\0\0\x01\0\0\0k\x02\0\0\0vw", 15);
  made->c();
  HeaderWriter writer;
  ArrowArray const* chunk = &made->array;
  auto const keeper = encode_arrow(writer, ArrowKind::chunked, made->schema, std::span(&chunk, 1), 26 | mark);
  EXPECT_EQ(static_cast<int>(writer.root().bytes()[1]), 26 | mark);

  ArrowField const field = receive(send(ArrowKind::chunked, made->schema, {})).schema;

  EXPECT_EQ(field.format, made->format);
  EXPECT_EQ(field.name, "x");
  EXPECT_EQ(field.metadata, made->metadata);
  EXPECT_EQ(field.flags, ARROW_FLAG_NULLABLE);
}

TEST_P(ArrowEachLayout, ASliceOfAStructIsTheSliceOfItsChildren) {
  // The parent's offset moves the children, which have offsets of their own.
  Made child = layout(GetParam());
  child->slice(9, rows - 9);
  ArrowField const field = ArrowField::from_c(child->schema);
  std::vector<std::string> const all = show(ArrowColumnView(field, child->column()));
  Made const parent = make("+s", 20, {bits(20, [](auto i) { return i != 2; })}, std::move(child));
  for (std::int64_t offset : {0, 1, 7, 8, 9}) {
    parent->slice(offset, 11);

    ArrowView const view(receive(send(ArrowKind::array, parent->schema, {&parent->array})));

    std::vector<std::string> const expected(all.begin() + offset, all.begin() + offset + 11);
    EXPECT_EQ(show(view.column(0)), expected);
  }
}

TEST_P(ArrowEachLayout, ExportsWhatItDecoded) {
  Made const made = layout(GetParam());
  made->slice(9, 20);
  Sent const sent = send(ArrowKind::array, made->schema, {&made->array});
  auto const keeper = std::make_shared<int>(0);
  ArrowSchema schema;
  ArrowArray array;
  {
    ArrowData data = receive(sent);
    data.owned.push_back(keeper);
    data.schema.export_to(&schema);
    data.export_chunk(0, &array);
  }
  EXPECT_EQ(keeper.use_count(), 2);

  ArrowData const again = receive(send(ArrowKind::array, schema, {&array}));

  EXPECT_EQ(show(ArrowColumnView(again.schema, again.chunks[0])), show(ArrowColumnView(ArrowField::from_c(made->schema), made->column())));
  schema.release(&schema);
  array.release(&array);
  EXPECT_EQ(keeper.use_count(), 1);
}

TEST_P(ArrowEachLayout, MisalignedPayloadsAreCopied) {
  Made const made = layout(GetParam());
  Sent const sent = send(ArrowKind::array, made->schema, {&made->array});
  std::vector<std::vector<std::byte>> moved;
  for (auto const& payload : sent.payloads) {
    moved.push_back(payload);
    moved.back().insert(moved.back().begin(), std::byte{0xee});
  }
  Header const header = Header::parse(sent.header.bytes());
  msgpack::Reader reader(sent.header.bytes());
  reader.seek(header.root_offset);
  std::size_t const n = reader.array("node");
  reader.skip();

  ArrowData const data = decode_arrow(reader, n - 1, header, [&](std::uint32_t p, std::size_t) { return Bytes(moved[p]).subspan(1); }, nullptr);

  EXPECT_EQ(show(ArrowColumnView(data.schema, data.chunks[0])), show(ArrowColumnView(ArrowField::from_c(made->schema), made->column())));
}

TEST_P(ArrowEachLayout, AShorterPayloadIsMalformed) {
  Made const made = layout(GetParam());
  Sent sent = send(ArrowKind::array, made->schema, {&made->array});
  for (std::size_t p = 0; p < sent.payloads.size(); ++p) {
    auto payloads = sent.payloads;
    payloads[p].pop_back();
    for (ArrowCheck check : {ArrowCheck::all, ArrowCheck::lengths}) {
      EXPECT_THROW((void)receive(sent.header.bytes(), payloads, check), Error) << "payload " << p;
    }
  }
}

TEST_P(ArrowEachLayout, AnySingleByteChangedIsReadSafelyOrRefused) {
  Made const made = layout(GetParam());
  made->slice(1, 30);
  Sent const sent = send(ArrowKind::array, made->schema, {&made->array});
  std::vector<std::byte> const header(sent.header.bytes().begin(), sent.header.bytes().end());
  auto const try_it = [](std::vector<std::byte> const& bytes, std::vector<std::vector<std::byte>> const& payloads) {
    try {
      ArrowData const data = receive(bytes, payloads);
      for (ArrowColumn const& chunk : data.chunks) {
        if (chunk.length < 1000) (void)show(ArrowColumnView(data.schema, chunk));
      }
    } catch (Error const&) {
    } catch (std::out_of_range const&) {  // payloads.at: the header now counts payloads that this test has not
    }
  };
  for (std::size_t i = 0; i < header.size(); ++i) {
    for (int flip : {1, 4, 0x40, 0xff}) {
      auto changed = header;
      changed[i] ^= static_cast<std::byte>(flip);
      msgpack::Reader probe(changed);
      try {
        Header const parsed = Header::parse(changed);
        msgpack::Reader reader(changed);
        reader.seek(parsed.root_offset);
        if (!reader.next_is_array() || reader.array("node") < 1 || reader.integer("op") != static_cast<int>(Op::arrow)) continue;
      } catch (Error const&) {
        continue;
      }
      try_it(changed, sent.payloads);
    }
  }
  for (std::size_t p = 0; p < sent.payloads.size(); ++p) {
    for (std::size_t i = 0; i < sent.payloads[p].size(); ++i) {
      for (int flip : {1, 0x40, 0x80, 0xff}) {
        auto changed = sent.payloads;
        changed[p][i] ^= static_cast<std::byte>(flip);
        try_it(header, changed);
      }
    }
  }
}

// ── What travels ──

bool lies_in(Bytes part, MaybeBytes const& whole) { return part.data() >= whole->data() && part.data() + part.size() <= whole->data() + whole->size(); }

TEST(ArrowEncode, AWholeArrayIsBorrowed) {
  for (auto const& [label, made] : one_of_each()) {
    if (label.ends_with("list_view") || label.ends_with("_view")) continue;  // their lengths are new; below
    HeaderWriter writer;
    ArrowArray const* chunk = &made->array;
    auto const keeper = encode_arrow(writer, ArrowKind::array, made->schema, std::span(&chunk, 1));
    std::vector<Bytes> all;
    auto const collect = [&](auto const& self, HandMade const& node) -> void {
      for (auto const& buffer : node.buffers) {
        if (buffer) all.emplace_back(*buffer);
      }
      for (auto const& child : node.children) self(self, *child);
      if (node.dictionary) self(self, *node.dictionary);
    };
    collect(collect, *made);
    for (Bytes const payload : writer.payloads()) {
      EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](Bytes b) { return payload.data() >= b.data() && payload.data() + payload.size() <= b.data() + b.size(); })) << label;
    }
  }
}

TEST(ArrowEncode, ASliceOfNumbersIsBorrowedAndCutAtWholeBytesOfItsBitmap) {
  Made const made = numbers(rows, true);
  ArrowArray const* chunk = &made->slice(18, 5);
  HeaderWriter writer;
  auto const keeper = encode_arrow(writer, ArrowKind::array, made->schema, std::span(&chunk, 1));

  ASSERT_EQ(writer.payloads().size(), 2U);
  EXPECT_TRUE(lies_in(writer.payloads()[0], made->buffers[0]));
  EXPECT_EQ(writer.payloads()[0].size(), 1U);
  EXPECT_EQ(writer.payloads()[1].data(), made->buffers[1]->data() + 4 * 16);
  EXPECT_EQ(writer.payloads()[1].size(), 4U * 7);
}

TEST(ArrowEncode, RowsWithoutNullsHaveNoBitmap) {
  Made const made = numbers(rows, true);
  ArrowArray const* chunk = &made->slice(9, 4);  // row 8 and row 13 are null
  HeaderWriter writer;
  auto const keeper = encode_arrow(writer, ArrowKind::array, made->schema, std::span(&chunk, 1));
  ASSERT_EQ(writer.payloads().size(), 1U);
  EXPECT_EQ(writer.payloads()[0].size(), 16U);
}

TEST(ArrowEncode, TenRowsOfAnyLayoutAreFew) {
  for (auto const& [label, made] : one_of_each()) {
    Sent const all = send(ArrowKind::array, made->schema, {&made->array});
    made->slice(21, 2);
    EXPECT_LT(send(ArrowKind::array, made->schema, {&made->array}).nbytes(), all.nbytes() + 40) << label;
  }
}

TEST(ArrowEncode, AFewViewsOfALargeBufferTakeOnlyTheirBytes) {
  Made const made = views("vu", rows);
  std::string padding(1 << 20, '-');
  for (std::size_t b : {std::size_t{2}, std::size_t{3}}) made->buffers[b]->insert(made->buffers[b]->end(), std::byte{'-'}), made->buffers[b]->resize(1 << 20);
  *made->buffers[4] = *items(std::vector<std::int64_t>{1 << 20, 1 << 20});
  // Row 30 points to the far end of its buffer, so that neither the beginning nor the window is small.
  std::int32_t const far = (1 << 20) - 39;
  std::memcpy(made->buffers[2]->data() + far, "a string too long for a view, number 30", 39);
  std::memcpy(made->buffers[1]->data() + 16 * 30 + 12, &far, 4);
  made->slice(20, 12);
  auto const expected = show(ArrowColumnView(ArrowField::from_c(made->schema), made->column()));

  Sent const sent = send(ArrowKind::array, made->schema, {&made->array});
  ArrowData const data = receive(sent);

  EXPECT_LT(sent.nbytes(), 2000U);
  EXPECT_EQ(show(ArrowColumnView(data.schema, data.chunks[0])), expected);
}

TEST(ArrowEncode, ADictionaryOfManyChunksTravelsOnce) {
  Made const made = layout("dictionary_int8");
  made->dictionary = strings<std::int32_t>("u", 9);
  made->dictionary->slice(1, 8);  // its offsets and its bitmap are made anew
  made->c();
  Sent const many = send(ArrowKind::chunked, made->schema, std::vector<ArrowArray const*>(10, &made->array));
  EXPECT_EQ(receive(many).chunks.size(), 10U);
  HeaderWriter writer;
  std::vector<ArrowArray const*> const chunks(10, &made->array);
  auto const keeper = encode_arrow(writer, ArrowKind::chunked, made->schema, chunks);
  EXPECT_EQ(writer.payloads().size(), 2U * 10 + 3);
}

TEST(ArrowEncode, WritesNothingWhenItRefuses) {
  Made const made = numbers(rows);
  made->format = "?";
  made->c();
  HeaderWriter writer;
  ArrowArray const* chunk = &made->array;
  EXPECT_THROW((void)encode_arrow(writer, ArrowKind::array, made->schema, std::span(&chunk, 1)), Error);
  made->format = "i";
  made->array.n_buffers = 3;
  EXPECT_THROW((void)encode_arrow(writer, ArrowKind::array, made->schema, std::span(&chunk, 1)), Error);
  EXPECT_EQ(writer.root().size(), 0U);
  EXPECT_TRUE(writer.payloads().empty());
}

TEST(ArrowEncode, ACallerWithKeepersGetsEachPayload) {
  Made const made = strings<std::int32_t>("u", rows);
  ArrowArray const* chunk = &made->slice(1, 9);
  HeaderWriter writer;
  std::vector<std::shared_ptr<void const>> keepers;
  auto const made_anew = encode_arrow(writer, ArrowKind::array, made->schema, std::span(&chunk, 1), 26, [&](Bytes bytes, auto const& keeper) {
    keepers.push_back(keeper);
    return writer.add_payload(bytes);
  });
  EXPECT_EQ(keepers.size(), writer.payloads().size());
  EXPECT_EQ(keepers.front(), made_anew);
}

// ── Kinds ──

TEST(ArrowDecode, ATableReadsByColumnNameAndType) {
  Made const table = make("+s", rows, {std::nullopt}, numbers(rows), strings<std::int32_t>("u", rows));
  table->children[0]->name = "n";
  table->children[1]->name = "s";
  table->c();

  ArrowView const view(receive(send(ArrowKind::table, table->schema, {&table->array, &table->array})));

  EXPECT_EQ(view.nchunks(), 2U);
  EXPECT_EQ(view.nrows(), 2 * static_cast<std::size_t>(rows));
  EXPECT_EQ(view.column("n", 1).values<std::int32_t>()[5], 15);
  EXPECT_EQ(view.column("s").text(5), "f");
  EXPECT_TRUE(view.column("s").is_null(3));
  EXPECT_EQ(view.column("s").null_count(), 8U);
  EXPECT_THROW((void)view.column("n").values<double>(), Error);
  EXPECT_THROW((void)view.column("n").values<std::uint32_t>(), Error);
  EXPECT_THROW((void)view.column("no"), Error);
  EXPECT_THROW((void)view.column("n").bytes(40), Error);
}

TEST(ArrowDecode, ATableWithoutBatchesAndASchemaKeepTheirTypes) {
  Made const table = make("+s", rows, {std::nullopt}, numbers(rows));
  EXPECT_EQ(receive(send(ArrowKind::table, table->schema, {})).schema.children[0].format, "i");
  EXPECT_EQ(receive(send(ArrowKind::schema, table->schema, {})).kind, ArrowKind::schema);
  EXPECT_THROW((void)send(ArrowKind::batch, table->schema, {}), Error);
  EXPECT_THROW((void)send(ArrowKind::schema, table->schema, {&table->array}), Error);
  EXPECT_THROW((void)send(ArrowKind::table, table->children[0]->schema, {}), Error);
}

// ── Lies ──

/// The layout with one buffer changed, as a message from a process that lies.
template <class T>
Sent with_item(std::string_view label, std::vector<std::size_t> const& path, std::size_t buffer, std::size_t i, T value) {
  Made const made = layout(label);
  Sent sent = send(ArrowKind::array, made->schema, {&made->array});
  HandMade* node = made.get();
  for (std::size_t child : path) node = child == 99 ? node->dictionary.get() : node->children[child].get();
  Bytes const wanted(*node->buffers[buffer]);
  for (auto& payload : sent.payloads) {
    // Buffers are told apart by their bytes: a payload is the beginning of its buffer.
    if (payload.size() >= 4 && payload.size() <= wanted.size() && std::memcmp(payload.data(), wanted.data(), payload.size()) == 0) {
      std::memcpy(payload.data() + i * sizeof(T), &value, sizeof(T));
      return sent;
    }
  }
  throw std::runtime_error("no such buffer");
}

struct Lie {
  std::string label;
  std::function<Sent()> send;
  std::string what;
};

std::vector<Lie> lies() {
  using I32 = std::int32_t;
  using I64 = std::int64_t;
  return {
      {"offset_descends", [] { return with_item<I32>("utf8", {}, 1, 5, 0); }, "descend"},
      {"offset_negative", [] { return with_item<I64>("large_utf8", {}, 1, 5, -1); }, "descend"},
      {"offset_past_the_data", [] { return with_item<I32>("binary", {}, 1, rows, 1 << 30); }, "offsets from"},
      {"offset_past_the_data_inside", [] { return with_item<I32>("binary", {}, 1, 7, 1 << 30); }, "descend"},
      {"offset_most_negative", [] { return with_item<I64>("large_binary", {}, 1, 7, INT64_MIN); }, "descend"},
      {"list_past_the_child", [] { return with_item<I32>("list", {}, 1, rows, 1000); }, "offsets from"},
      {"list_of_lists", [] { return with_item<I32>("list_of_lists", {0}, 1, 1, -5); }, "descend"},
      {"not_utf8", [] { return with_item<std::uint8_t>("utf8", {}, 2, 4, 0xff); }, "UTF-8"},
      {"half_a_character", [] { return with_item<I32>("utf8", {}, 1, 1, 1); }, "UTF-8"},
      {"view_buffer", [] { return with_item<I32>("utf8_view", {}, 1, 4 * 6 + 2, 2); }, "view"},
      {"view_buffer_negative", [] { return with_item<I32>("utf8_view", {}, 1, 4 * 6 + 2, -1); }, "view"},
      {"view_offset", [] { return with_item<I32>("binary_view", {}, 1, 4 * 6 + 3, 1 << 20); }, "view"},
      {"view_offset_negative", [] { return with_item<I32>("binary_view", {}, 1, 4 * 6 + 3, -1); }, "view"},
      {"view_size", [] { return with_item<I32>("binary_view", {}, 1, 4 * 6, INT32_MAX); }, "view"},
      {"view_size_negative", [] { return with_item<I32>("binary_view", {}, 1, 4 * 6, -1); }, "view"},
      {"view_prefix", [] { return with_item<I32>("binary_view", {}, 1, 4 * 6 + 1, 7); }, "view"},
      {"view_padding", [] { return with_item<std::uint8_t>("binary_view", {}, 1, 16 * 1 + 15, 7); }, "view"},
      {"list_view_offset", [] { return with_item<I32>("list_view", {}, 1, 4, 1000); }, "pass the child"},
      {"list_view_size", [] { return with_item<I64>("large_list_view", {}, 2, 4, 1000); }, "pass the child"},
      {"list_view_negative", [] { return with_item<I64>("large_list_view", {}, 2, 4, -1); }, "pass the child"},
      {"union_id", [] { return with_item<std::int8_t>("sparse_union", {}, 0, 4, 3); }, "type id"},
      {"union_id_negative", [] { return with_item<std::int8_t>("dense_union", {}, 0, 4, -1); }, "type id"},
      {"union_offset", [] { return with_item<I32>("dense_union", {}, 1, 4, 1000); }, "offset"},
      {"union_offset_negative", [] { return with_item<I32>("dense_union", {}, 1, 4, -1); }, "offset"},
      {"index", [] { return with_item<std::int8_t>("dictionary_int8", {}, 1, 4, 7); }, "index"},
      {"index_negative", [] { return with_item<std::int8_t>("dictionary_int8", {}, 1, 4, -1); }, "index"},
      {"index_unsigned", [] { return with_item<std::uint32_t>("dictionary_uint32", {}, 1, 4, 0xffffffffU); }, "index"},
      {"dictionary_offset", [] { return with_item<I32>("dictionary_int8", {99}, 1, 1, -1); }, "descend"},
      {"run_end_descends", [] { return with_item<std::int16_t>("run_end_16", {0}, 1, 1, 2); }, "ascend"},
      {"run_end_stands_still", [] { return with_item<I32>("run_end_32", {0}, 1, 1, 3); }, "ascend"},
      {"run_end_zero", [] { return with_item<I64>("run_end_64", {0}, 1, 0, 0); }, "runs end"},
      {"run_end_short", [] { return with_item<I64>("run_end_64", {0}, 1, 4, 30); }, "runs end"},
      {"null_count", [] { return with_item<std::uint8_t>("int64", {}, 0, 0, 0xff); }, "null_count"},
  };
}

class ArrowLies : public ::testing::TestWithParam<Lie> {};

INSTANTIATE_TEST_SUITE_P(Contents, ArrowLies, ::testing::ValuesIn(lies()), [](auto const& info) { return info.param.label; });

TEST_P(ArrowLies, AreMalformed) {
  Sent const sent = GetParam().send();
  try {
    (void)receive(sent);
    FAIL() << "was believed";
  } catch (Error const& error) {
    EXPECT_EQ(error.kind(), ErrorKind::malformed);
    EXPECT_NE(std::string(error.what()).find(GetParam().what), std::string::npos) << error.what();
  }
}

/// A header whose root is an ARROW node that `write` continues behind its op.
ArrowData hand_written(std::size_t nfields, std::function<void(msgpack::Packer&)> const& write) {
  HeaderWriter writer;
  writer.root().array(nfields);
  writer.root().unsigned_integer(26);
  write(writer.root());
  Layout layout;
  auto const header = writer.finish({}, layout);
  return receive(header.bytes(), {});
}

void schema(msgpack::Packer& p, std::string_view format, std::size_t children = 0) {
  p.array(6);
  p.str(format);
  p.str("x");
  p.integer(2);
  p.nil();
  p.array(children);
  if (children == 0) p.nil();
}

TEST(ArrowDecode, RefusesWhatTheFormatDoesNotHave) {
  auto const formats = {"",       "?",     "ii",       "d:",       "d:0,0",  "d:39,0", "d:10,0,32", "d:5",      "d:1,2,3,4", "w:",     "w:-1",   "w:99999999999",
                        "w:1x",   "tsx:",  "tss",      "+w:-1",    "+us:1,", "+ud:128", "+us:1,1",  "+us:-1",   "+q",        "ttx",    "tdX",    "vq",
                        "d: 3,1", "+w:+1", "d:3,1,127", "d:3,1,0"};
  for (std::string_view format : formats) {
    EXPECT_THROW(hand_written(3, [&](auto& p) { p.str("chunked"), schema(p, format); }), Error) << format;
  }
  EXPECT_THROW(hand_written(3, [](auto& p) { p.str("other"), schema(p, "i"); }), Error);
  EXPECT_THROW(hand_written(2, [](auto& p) { p.str("array"); }), Error);
  EXPECT_THROW(hand_written(3, [](auto& p) { p.str("table"), schema(p, "i"); }), Error);
  EXPECT_THROW(hand_written(3, [](auto& p) { p.str("array"), schema(p, "i"); }), Error);
  EXPECT_THROW(hand_written(3, [](auto& p) { p.str("chunked"), schema(p, "+l"); }), Error);
  EXPECT_NO_THROW(hand_written(3, [](auto& p) { p.str("chunked"), schema(p, "tsu:Europe/Berlin"); }));
}

TEST(ArrowDecode, RefusesNestingBeyondTheLimit) {
  auto const nested = [](std::size_t depth) {
    return hand_written(3, [&](auto& p) {
      p.str("chunked");
      for (std::size_t i = 1; i < depth; ++i) schema(p, "+l", 1);
      schema(p, "i");
      for (std::size_t i = 1; i < depth; ++i) p.nil();
    });
  };
  EXPECT_NO_THROW(nested(arrow_depth));
  EXPECT_THROW(nested(arrow_depth + 1), Error);
}

TEST(ArrowDecode, RefusesCountsThatOverflow) {
  auto const with = [](std::int64_t length, std::int64_t nulls, std::int64_t offset, std::string_view format, std::size_t buffers) {
    return hand_written(4, [&](auto& p) {
      p.str("array"), schema(p, format), p.array(6), p.integer(length), p.integer(nulls), p.integer(offset);
      p.array(buffers);
      for (std::size_t i = 0; i < buffers; ++i) p.nil();
      p.array(0), p.nil();
    });
  };
  EXPECT_NO_THROW(with(0, 0, 0, "l", 2));
  EXPECT_NO_THROW(with(std::int64_t{1} << 62, 0, 0, "n", 0));
  EXPECT_THROW(with(1, 0, 0, "l", 2), Error);
  EXPECT_THROW(with(0, 0, 1, "l", 2), Error);
  EXPECT_THROW(with(std::int64_t{1} << 61, 0, 0, "l", 2), Error);
  EXPECT_THROW(with(std::int64_t{1} << 62, 0, 1, "n", 0), Error);
  EXPECT_THROW(with(-1, 0, 0, "n", 0), Error);
  EXPECT_THROW(with(0, 1, 0, "n", 0), Error);
  EXPECT_THROW(with(0, -2, 0, "n", 0), Error);
  EXPECT_THROW(with(0, 0, 0, "l", 3), Error);
  EXPECT_THROW(with(0, 0, 0, "n", 1), Error);
  EXPECT_NO_THROW(with(0, 0, 0, "u", 3));
  EXPECT_NO_THROW(with(0, 0, 0, "vu", 3));
}

TEST(ArrowDecode, RefusesMetadataThatLies) {
  for (std::string const& metadata : {std::string("\x01\0\0\0", 4), std::string("\0\0\0\0x", 5), std::string("\xff\xff\xff\xff", 4), std::string("\x01", 1),
                                      std::string("\x01\0\0\0\x09\0\0\0k\0\0\0\0", 13), std::string("\xff\xff\xff\x7f\0\0\0\0", 8)}) {
    EXPECT_THROW(hand_written(3, [&](auto& p) {
                   p.str("chunked"), p.array(6), p.str("i"), p.nil(), p.integer(2), p.bin(std::as_bytes(std::span(metadata))), p.array(0), p.nil();
                 }),
                 Error);
  }
}

TEST(ArrowDecode, TrustsContentsWhenToldTo) {
  // For peers that are trusted: the lengths still hold, what the buffers say is not read.
  EXPECT_NO_THROW((void)receive(with_item<std::int8_t>("dictionary_int8", {}, 1, 4, 7), ArrowCheck::lengths));
  EXPECT_THROW((void)receive(with_item<std::int32_t>("binary", {}, 1, rows, 1 << 30), ArrowCheck::lengths), Error);
}

}  // namespace
}  // namespace transload::testing
