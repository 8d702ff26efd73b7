#pragma once
/// Arrow arrays made by hand, one a layout, for tests and fuzz seeds; and the way of an array through a message.

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transload/adapters/arrow.hpp"
#include "transload/adapters/arrow_decode.hpp"
#include "transload/adapters/arrow_encode.hpp"
#include "transload/adapters/arrow_view.hpp"
#include "transload/message/header.hpp"

namespace transload::testing {

using Bytes = std::span<std::byte const>;

/// An array that owns its buffers. The C structs point into it; their release does nothing.
struct HandMade {
  std::string format;
  std::string name;
  std::string metadata;
  std::vector<std::optional<std::vector<std::byte>>> buffers;
  std::vector<std::unique_ptr<HandMade>> children;
  std::unique_ptr<HandMade> dictionary;

  ArrowSchema schema{};
  ArrowArray array{};
  std::vector<void const*> pointers;
  std::vector<ArrowSchema*> child_schemas;
  std::vector<ArrowArray*> child_arrays;

  /// Fills the C structs anew from the members above; keeps length, offset and null count.
  ArrowArray const& c() {
    pointers.clear();
    for (auto const& b : buffers) pointers.push_back(b ? b->data() : nullptr);
    child_schemas.clear();
    child_arrays.clear();
    for (auto const& child : children) {
      child->c();
      child_schemas.push_back(&child->schema);
      child_arrays.push_back(&child->array);
    }
    if (dictionary) dictionary->c();
    auto const n = static_cast<std::int64_t>(children.size());
    schema = {.format = format.c_str(), .name = name.c_str(), .metadata = metadata.empty() ? nullptr : metadata.data(),
              .flags = ARROW_FLAG_NULLABLE, .n_children = n, .children = child_schemas.data(),
              .dictionary = dictionary ? &dictionary->schema : nullptr, .release = [](ArrowSchema*) {}, .private_data = nullptr};
    array.n_buffers = static_cast<std::int64_t>(pointers.size());
    array.n_children = n;
    array.buffers = pointers.data();
    array.children = child_arrays.data();
    array.dictionary = dictionary ? &dictionary->array : nullptr;
    array.release = [](ArrowArray*) {};
    return array;
  }

  ArrowArray const& slice(std::int64_t offset, std::int64_t length) {
    array.offset = offset;
    array.length = length;
    array.null_count = buffers.empty() || !buffers[0] || format.starts_with("+u") ? 0 : -1;
    return c();
  }

  /// The same, as a decoded column would look.
  [[nodiscard]] ArrowColumn column() const {
    ArrowColumn out;
    out.length = array.length, out.offset = array.offset, out.null_count = array.null_count;
    for (auto const& b : buffers) out.buffers.push_back(b ? Bytes(*b) : Bytes{});
    for (auto const& child : children) out.children.push_back(child->column());
    if (dictionary) out.dictionary = std::make_unique<ArrowColumn>(dictionary->column());
    return out;
  }
};

using Made = std::unique_ptr<HandMade>;
using MaybeBytes = std::optional<std::vector<std::byte>>;

template <class T>
MaybeBytes items(std::vector<T> const& values) {
  auto const bytes = std::as_bytes(std::span(values));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

inline MaybeBytes text(std::string_view value) {
  auto const bytes = std::as_bytes(std::span(value));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

template <class F>
MaybeBytes bits(std::int64_t n, F&& f) {
  std::vector<std::byte> out(static_cast<std::size_t>((n + 7) / 8));
  for (std::int64_t i = 0; i < n; ++i) {
    if (f(i)) out[static_cast<std::size_t>(i / 8)] |= static_cast<std::byte>(1 << (i % 8));
  }
  return out;
}

template <class... Children>
Made make(std::string format, std::int64_t length, std::vector<MaybeBytes> buffers, Children... children) {
  auto out = std::make_unique<HandMade>();
  out->format = std::move(format);
  out->name = "x";
  out->buffers = std::move(buffers);
  (out->children.push_back(std::move(children)), ...);
  out->slice(0, length);
  return out;
}

inline constexpr std::int64_t rows = 40;
inline bool shown(std::int64_t i) { return i % 5 != 3; }
inline MaybeBytes nulls() { return bits(rows, shown); }

template <class T>
std::vector<T> range(std::int64_t n, std::int64_t step = 1, std::int64_t first = 0) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<T>(first + i * step));
  return out;
}

inline Made numbers(std::int64_t n, bool with_nulls = false) {
  return make("i", n, {with_nulls ? bits(n, shown) : std::nullopt, items(range<std::int32_t>(n, 3))});
}

template <class Offset>
Made strings(std::string format, std::int64_t n) {
  std::vector<Offset> offsets{0};
  std::string data;
  for (std::int64_t i = 0; i < n; ++i) {
    data += std::string(static_cast<std::size_t>(i % 4), static_cast<char>('a' + i % 26)) + (i % 6 == 0 ? "\xc3\xa9" : "");
    offsets.push_back(static_cast<Offset>(data.size()));
  }
  return make(std::move(format), n, {bits(n, shown), items(offsets), text(data)});
}

/// Views: every third string is long; they lie in two buffers.
inline Made views(std::string format, std::int64_t n) {
  std::array<std::string, 2> data{"##########", ""};
  std::vector<std::byte> out(static_cast<std::size_t>(16 * n));
  for (std::int64_t i = 0; i < n; ++i) {
    std::byte* const at = out.data() + 16 * i;
    if (!shown(i)) continue;
    std::string const value = i % 3 == 0 ? "a string too long for a view, number " + std::to_string(i) : std::to_string(i);
    auto const size = static_cast<std::int32_t>(value.size());
    std::memcpy(at, &size, 4);
    std::memcpy(at + 4, value.data(), std::min<std::size_t>(value.size(), size <= 12 ? 12 : 4));
    if (size <= 12) continue;
    std::int32_t const buffer = i % 2;
    auto const offset = static_cast<std::int32_t>(data[static_cast<std::size_t>(buffer)].size());
    std::memcpy(at + 8, &buffer, 4);
    std::memcpy(at + 12, &offset, 4);
    data[static_cast<std::size_t>(buffer)] += value;
  }
  std::vector<std::int64_t> const lengths{static_cast<std::int64_t>(data[0].size()), static_cast<std::int64_t>(data[1].size())};
  return make(std::move(format), n, {bits(n, shown), out, text(data[0]), text(data[1]), items(lengths)});
}

/// Offsets of lists with 0, 1, 2, 0, 1, 2, … items.
template <class Offset>
std::vector<Offset> list_offsets(std::int64_t n) {
  std::vector<Offset> out{0};
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<Offset>(out.back() + static_cast<Offset>(i % 3)));
  return out;
}

template <class Offset>
Made lists(std::string format, Made child) {
  return make(std::move(format), rows, {nulls(), items(list_offsets<Offset>(rows))}, std::move(child));
}

/// List views from the back of the child to its front.
template <class Offset>
Made list_views(std::string format) {
  std::vector<Offset> offsets;
  std::vector<Offset> sizes;
  for (std::int64_t i = 0; i < rows; ++i) offsets.push_back(static_cast<Offset>(2 * (rows - 1 - i))), sizes.push_back(static_cast<Offset>((i + 1) % 3));
  return make(std::move(format), rows, {nulls(), items(offsets), items(sizes)}, numbers(2 * rows + 1));
}

inline Made dictionary_of(std::string format, MaybeBytes indices) {
  Made out = make(std::move(format), rows, {nulls(), std::move(indices)});
  out->dictionary = strings<std::int32_t>("u", 7);
  out->c();
  return out;
}

template <class End>
Made run_ends(std::string format) {
  std::vector<End> const ends{3, 8, 9, 20, static_cast<End>(rows)};
  return make("+r", rows, {}, make(std::move(format), 5, {std::nullopt, items(ends)}), strings<std::int32_t>("u", 5));
}

/// Every layout, with `rows` rows.
inline std::vector<std::pair<std::string, Made>> one_of_each() {
  std::vector<std::pair<std::string, Made>> all;
  auto const add = [&](std::string label, Made made) { all.emplace_back(std::move(label), std::move(made)); };
  add("null", make("n", rows, {}));
  add("bool", make("b", rows, {nulls(), bits(rows, [](auto i) { return i % 3 == 0; })}));
  add("bool_without_nulls", make("b", rows, {std::nullopt, bits(rows, [](auto i) { return i % 3 == 0; })}));
  add("int8", make("c", rows, {nulls(), items(range<std::int8_t>(rows))}));
  add("uint16", make("S", rows, {nulls(), items(range<std::uint16_t>(rows))}));
  add("int32", numbers(rows, true));
  add("int32_without_nulls", numbers(rows));
  add("int64", make("l", rows, {nulls(), items(range<std::int64_t>(rows))}));
  add("half", make("e", rows, {nulls(), items(range<std::uint16_t>(rows))}));
  add("double", make("g", rows, {nulls(), items(range<double>(rows))}));
  add("decimal32", make("d:9,2,32", rows, {nulls(), items(range<std::int32_t>(rows))}));
  add("decimal128", make("d:38,2", rows, {nulls(), items(range<std::int64_t>(2 * rows))}));
  add("decimal256", make("d:76,2,256", rows, {nulls(), items(range<std::int64_t>(4 * rows))}));
  add("fixed_binary", make("w:3", rows, {nulls(), items(range<std::int8_t>(3 * rows))}));
  add("date32", make("tdD", rows, {nulls(), items(range<std::int32_t>(rows))}));
  add("timestamp", make("tsn:Europe/Berlin", rows, {nulls(), items(range<std::int64_t>(rows))}));
  add("month_day_nano", make("tin", rows, {nulls(), items(range<std::int64_t>(2 * rows))}));
  add("utf8", strings<std::int32_t>("u", rows));
  add("large_utf8", strings<std::int64_t>("U", rows));
  add("binary", strings<std::int32_t>("z", rows));
  add("large_binary", strings<std::int64_t>("Z", rows));
  add("utf8_view", views("vu", rows));
  add("binary_view", views("vz", rows));
  add("list", lists<std::int32_t>("+l", strings<std::int32_t>("u", rows)));
  add("large_list", lists<std::int64_t>("+L", numbers(rows, true)));
  add("list_of_lists", lists<std::int32_t>("+l", lists<std::int32_t>("+l", numbers(rows, true))));
  add("list_view", list_views<std::int32_t>("+vl"));
  add("large_list_view", list_views<std::int64_t>("+vL"));
  add("fixed_list", make("+w:2", rows, {nulls()}, strings<std::int32_t>("u", 2 * rows)));
  add("struct", make("+s", rows, {nulls()}, numbers(rows, true), strings<std::int32_t>("u", rows)));
  add("map", lists<std::int32_t>("+m", make("+s", rows, {std::nullopt}, numbers(rows), strings<std::int32_t>("u", rows))));
  auto ids = range<std::int8_t>(rows);
  for (auto& id : ids) id = id % 3 == 0 ? 7 : 2;
  add("sparse_union", make("+us:7,2", rows, {items(ids)}, numbers(rows, true), strings<std::int32_t>("u", rows)));
  std::vector<std::int32_t> offsets;
  std::array<std::int32_t, 2> next{0, 0};
  for (auto const id : ids) offsets.push_back(next[id == 7 ? 0 : 1]++);
  add("dense_union", make("+ud:7,2", rows, {items(ids), items(offsets)}, numbers(next[0], true), strings<std::int32_t>("u", next[1])));
  auto small = range<std::int8_t>(rows);
  for (std::size_t i = 0; i < small.size(); ++i) small[i] = shown(static_cast<std::int64_t>(i)) ? static_cast<std::int8_t>(i % 7) : std::int8_t{-9};
  add("dictionary_int8", dictionary_of("c", items(small)));
  auto large = range<std::uint32_t>(rows);
  for (auto& index : large) index %= 7;
  add("dictionary_uint32", dictionary_of("I", items(large)));
  add("run_end_16", run_ends<std::int16_t>("s"));
  add("run_end_32", run_ends<std::int32_t>("i"));
  add("run_end_64", run_ends<std::int64_t>("l"));
  return all;
}

/// A row as text, through the typed view.
inline std::string show(ArrowColumnView const& column, std::size_t row) {
  if (column.is_null(row)) return "null";
  auto const rows_of = [&](ArrowColumnView const& child, std::size_t from, std::size_t to) {
    std::string out = "[";
    for (std::size_t i = from; i < to; ++i) out += show(child, i) + ",";
    return out + "]";
  };
  switch (column.field().type.layout) {
    case ArrowLayout::null: return "null";
    case ArrowLayout::boolean: return column.boolean(row) ? "true" : "false";
    case ArrowLayout::fixed:
      if (column.has_dictionary()) return "#" + show(column.dictionary(), column.index(row));
      [[fallthrough]];
    case ArrowLayout::binary:
    case ArrowLayout::view: {
      auto const bytes = column.bytes(row);
      return std::string(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    }
    case ArrowLayout::list:
    case ArrowLayout::list_view:
    case ArrowLayout::fixed_list: {
      auto const [from, to] = column.list(row);
      return rows_of(column.child(0), from, to);
    }
    case ArrowLayout::struct_: {
      std::string out = "{";
      for (std::size_t i = 0; i < column.nchildren(); ++i) out += show(column.child(i), row) + ",";
      return out + "}";
    }
    case ArrowLayout::sparse_union:
    case ArrowLayout::dense_union: {
      auto const [child, at] = column.member(row);
      return std::to_string(child) + ":" + show(column.child(child), at);
    }
    case ArrowLayout::run_end: return show(column.child(1), column.run(row));
  }
  return "?";
}

inline std::vector<std::string> show(ArrowColumnView const& column) {
  std::vector<std::string> out;
  for (std::size_t row = 0; row < column.size(); ++row) out.push_back(show(column, row));
  return out;
}

/// A message with one ARROW node as its root. Payloads are copied, each to its own memory.
struct Sent {
  msgpack::Packer header;
  std::vector<std::vector<std::byte>> payloads;

  [[nodiscard]] std::size_t nbytes() const {
    std::size_t n = header.size();
    for (auto const& payload : payloads) n += payload.size();
    return n;
  }
};

inline Sent send(ArrowKind kind, ArrowSchema const& schema, std::vector<ArrowArray const*> const& chunks) {
  Sent sent;
  HeaderWriter writer;
  auto const made = encode_arrow(writer, kind, schema, chunks);
  Layout layout;
  sent.header = writer.finish({}, layout);
  for (Bytes const payload : writer.payloads()) sent.payloads.emplace_back(payload.begin(), payload.end());
  return sent;
}

/// Decodes the root; the result keeps a copy of the payloads.
inline ArrowData receive(Bytes header_bytes, std::vector<std::vector<std::byte>> const& payloads, ArrowCheck check = ArrowCheck::all) {
  Header const header = Header::parse(header_bytes);
  msgpack::Reader reader(header_bytes);
  reader.seek(header.root_offset);
  std::size_t const n = reader.array("node");
  expects(n >= 1 && reader.integer("op") == static_cast<int>(Op::arrow), ErrorKind::malformed, "the root is no ARROW node");
  auto const kept = std::make_shared<std::vector<std::vector<std::byte>> const>(payloads);
  return decode_arrow(reader, n - 1, header, [&](std::uint32_t p, std::size_t) { return Bytes(kept->at(p)); }, kept, check);
}

inline ArrowData receive(Sent const& sent, ArrowCheck check = ArrowCheck::all) { return receive(sent.header.bytes(), sent.payloads, check); }

}  // namespace transload::testing
