#include "transload/adapters/arrow_decode.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <utility>

#include "transload/adapters/arrow_bits.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

namespace transload {

namespace {

using arrow_bits::bit;
using arrow_bits::bitmap_nbytes;
using arrow_bits::load;
using Bytes = std::span<std::byte const>;

/// Stands for an empty buffer, so that only an absent bitmap is null; an array without rows finds its one offset here.
alignas(64) constexpr std::array<std::byte, 64> zeros{};

// ── Checks of contents ──────────────────────────────────────────────────────────────────────────────────
// Each is a loop of or-ed sign bits over blocks of a fixed size: compilers vectorise that at -O2, without any
// instruction beyond the baseline (10 GB/s and more; memory is the limit). Where a null row may hold anything, the
// fast loop ignores nulls and only its failure leads to the loop that looks at them.

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// Or of `f(i)` over `n` items; the sign bit of the result says whether any had it.
template <class U, class F>
U or_all(std::int64_t n, F&& f) noexcept {
  constexpr std::int64_t block = 256;
  U all = 0;
  std::int64_t i = 0;
  for (; n - i >= block; i += block) {
    U any = 0;
    for (std::int64_t k = 0; k < block; ++k) any = static_cast<U>(any | f(i + k));
    all = static_cast<U>(all | any);
  }
  for (; i < n; ++i) all = static_cast<U>(all | f(i));
  return all;
}

template <class U>
bool sign(U bits) noexcept {
  return (bits >> (8 * sizeof(U) - 1)) != 0;
}

/// Every item of `offsets[0 … n]` (n + 1 items) is at least 0 and at most the next.
template <class T>
bool ascending(T const* offsets, std::int64_t n, T least_step = 0) noexcept {
  using U = Unsigned<T>;
  auto const step = static_cast<U>(least_step);
  // No difference of two items that are not negative overflows, and a negative one is seen by itself.
  auto const bad = or_all<U>(n, [=](std::int64_t i) {
    auto const a = static_cast<U>(offsets[i]);
    return static_cast<U>(a | static_cast<U>(static_cast<U>(offsets[i + 1]) - a - step));
  });
  return !sign(static_cast<U>(bad | static_cast<U>(offsets[n])));
}

/// Every item is in 0 … `count` − 1.
template <class T>
bool below(T const* items, std::int64_t n, std::uint64_t count) noexcept {
  using U = Unsigned<T>;
  constexpr auto most_signed = static_cast<std::uint64_t>(std::numeric_limits<std::make_signed_t<T>>::max());
  if (n == 0) return true;
  if (count == 0) return false;
  std::uint64_t const last = count - 1;
  if (last > most_signed && std::is_unsigned_v<T>) {
    if (last >= std::numeric_limits<U>::max()) return true;
    return std::all_of(items, items + n, [=](T item) { return static_cast<std::uint64_t>(item) <= last; });
  }
  auto const most = static_cast<U>(std::min(last, most_signed));
  return !sign(or_all<U>(n, [=](std::int64_t i) {
    auto const item = static_cast<U>(items[i]);
    return static_cast<U>(item | static_cast<U>(most - item));
  }));
}

bool ascii(std::byte const* text, std::int64_t n) noexcept {
  std::int64_t const words = n / 8;
  auto const bad = or_all<std::uint64_t>(words, [=](std::int64_t i) { return load<std::uint64_t>(text, i); });
  std::byte rest{};
  for (std::int64_t i = 8 * words; i < n; ++i) rest |= text[i];
  return (bad & 0x8080808080808080U) == 0 && (rest & std::byte{0x80}) == std::byte{};
}

bool utf8(std::byte const* text, std::int64_t n) noexcept {
  auto const* at = reinterpret_cast<std::uint8_t const*>(text);
  auto const* const end = at + n;
  while (at < end) {
    while (end - at >= 8 && (load<std::uint64_t>(at, 0) & 0x8080808080808080U) == 0) at += 8;
    if (at == end) break;
    std::uint32_t const first = *at;
    if (first < 0x80) {
      ++at;
      continue;
    }
    int const more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - at <= more) return false;
    std::uint32_t code = first & (0x3fU >> more);
    for (int i = 1; i <= more; ++i) {
      if ((at[i] & 0xc0) != 0x80) return false;
      code = (code << 6) | (at[i] & 0x3fU);
    }
    if ((more == 2 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff))) || (more == 3 && (code < 0x10000 || code > 0x10ffff))) return false;
    at += more + 1;
  }
  return true;
}

bool same(ArrowColumn const& a, ArrowColumn const& b) noexcept {
  auto const same_buffer = [](Bytes x, Bytes y) { return x.data() == y.data() && x.size() == y.size(); };
  return a.length == b.length && a.null_count == b.null_count && a.offset == b.offset &&
         std::ranges::equal(a.buffers, b.buffers, same_buffer) && std::ranges::equal(a.children, b.children, same) &&
         (a.dictionary == nullptr) == (b.dictionary == nullptr) && (a.dictionary == nullptr || same(*a.dictionary, *b.dictionary));
}

/// Memory of our own at a multiple of 64.
std::shared_ptr<std::byte> allocate(std::size_t nbytes) {
  auto* const data = static_cast<std::byte*>(::operator new(nbytes, std::align_val_t{64}));
  return {data, [](std::byte* p) { ::operator delete(p, std::align_val_t{64}); }};
}

class Decoder {
 public:
  Decoder(msgpack::Reader& reader, Header const& header, PayloadBytes const& payload, ArrowCheck check, ArrowData& data)
      : reader_(reader), header_(header), payload_(payload), check_(check == ArrowCheck::all), data_(data) {
    for (std::uint64_t const nbytes : header.layout.frame_nbytes) room_ += 2 * nbytes;
  }

  void run(std::size_t nfields) {
    std::size_t const at = reader_.offset();
    if (nfields < 2) msgpack::Reader::fail_at(at, "ARROW: kind and schema are needed");
    auto const kind = reader_.str("ARROW kind");
    auto const known = try_arrow_kind(kind);
    if (!known) msgpack::Reader::fail_at(at, cat("ARROW kind: '", kind.substr(0, 32), "' is none of array, chunked, batch, table, schema"));
    data_.kind = *known;
    data_.schema = field(0);
    std::size_t const chunks = nfields - 2;
    bool const tabular = *known == ArrowKind::batch || *known == ArrowKind::table || *known == ArrowKind::schema;
    bool const one = *known == ArrowKind::array || *known == ArrowKind::batch;
    if (tabular && data_.schema.format != "+s") msgpack::Reader::fail_at(at, cat("ARROW ", kind, ": format ", data_.schema.format, ", +s is needed"));
    if (one ? chunks != 1 : *known == ArrowKind::schema && chunks != 0) msgpack::Reader::fail_at(at, cat("ARROW ", kind, ": ", chunks, " chunks"));
    data_.chunks.reserve(std::min<std::size_t>(chunks, 1024));  // more as they are read, not as they are claimed
    for (std::size_t i = 0; i < chunks; ++i) {
      chunk_ = i;
      at_ = reader_.offset();
      data_.chunks.push_back(column(data_.schema));
      ArrowColumn const& root = data_.chunks.back();
      if (tabular && (root.offset != 0 || root.null_count != 0)) {
        msgpack::Reader::fail_at(at_, cat("ARROW ", kind, ", chunk ", i, ": the rows of a table have neither offset nor nulls"));
      }
    }
  }

 private:
  // ── Schema ──

  std::string text(std::string_view what) {
    std::size_t const at = reader_.offset();
    std::string_view const value = reader_.str(what);
    check_utf8(value, at, what);
    // A C string ends at its first zero byte; what stands behind it would be lost unseen.
    if (value.find('\0') != std::string_view::npos) msgpack::Reader::fail_at(at, cat(what, ": a zero byte inside"));
    return std::string(value);
  }

  bool skip_nil() {
    if (reader_.peek() != 0xc0) return false;
    reader_.skip();
    return true;
  }

  ArrowField field(std::size_t depth) {
    std::size_t const at = reader_.offset();
    if (depth >= arrow_depth) msgpack::Reader::fail_at(at, cat("ARROW schema: nested deeper than ", arrow_depth));
    if (reader_.array("ARROW schema") != 6) msgpack::Reader::fail_at(at, "ARROW schema: six elements are needed");
    ArrowField field;
    field.format = text("ARROW format");
    try {
      field.type = ArrowFormat::parse(field.format);
    } catch (Error const& error) {
      msgpack::Reader::fail_at(at, error.what());
    }
    field.has_name = !skip_nil();
    if (field.has_name) field.name = text("ARROW name");
    field.flags = static_cast<std::int64_t>(reader_.count("ARROW flags", 7));
    if (!skip_nil()) {
      std::size_t const metadata_at = reader_.offset();
      Bytes const bytes = reader_.bin("ARROW metadata");
      check_metadata(bytes, metadata_at);
      field.metadata.assign(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    }
    std::size_t const children = reader_.array("ARROW children");
    for (std::size_t i = 0; i < children; ++i) field.children.push_back(this->field(depth + 1));
    if (!skip_nil()) field.dictionary = std::make_unique<ArrowField>(this->field(depth + 1));
    if (auto const wrong = field.why_wrong(); !wrong.empty()) msgpack::Reader::fail_at(at, cat("ARROW schema, field '", field.name, "': ", wrong));
    return field;
  }

  static void check_metadata(Bytes bytes, std::size_t at) {
    std::size_t read = 0;
    auto const int32 = [&] {
      if (bytes.size() - read < 4) msgpack::Reader::fail_at(at, "ARROW metadata: ends in the middle of a length");
      auto const value = load<std::int32_t>(bytes.data() + read, 0);
      read += 4;
      if (value < 0) msgpack::Reader::fail_at(at, "ARROW metadata: a negative length");
      return static_cast<std::size_t>(value);
    };
    std::size_t const pairs = int32();
    for (std::size_t i = 0; i < 2 * pairs; ++i) {
      std::size_t const nbytes = int32();
      if (nbytes > bytes.size() - read) msgpack::Reader::fail_at(at, cat("ARROW metadata: text of ", nbytes, " bytes, ", bytes.size() - read, " are left"));
      read += nbytes;
    }
    if (read != bytes.size()) msgpack::Reader::fail_at(at, cat("ARROW metadata: ", bytes.size() - read, " bytes behind its end"));
  }

  // ── Arrays ──

  [[noreturn]] void fail(ArrowField const& field, std::string_view what) const {
    msgpack::Reader::fail_at(at_, cat("ARROW chunk ", chunk_, ", field '", field.name, "' of format ", field.format, ": ", what));
  }

  std::int64_t count(std::string_view what) { return static_cast<std::int64_t>(reader_.count(what, limits::payload_nbytes)); }

  ArrowColumn column(ArrowField const& field) {
    std::size_t const at = reader_.offset();
    at_ = at;
    if (reader_.array("ARROW array") != 6) fail(field, "six elements are needed");
    ArrowColumn column;
    column.length = count("ARROW length");
    column.null_count = reader_.integer("ARROW null_count");
    if (column.null_count < -1 || column.null_count > column.length) fail(field, cat("null_count ", column.null_count, " of ", column.length, " rows"));
    column.offset = count("ARROW offset");
    if (column.offset > static_cast<std::int64_t>(limits::payload_nbytes) - column.length) fail(field, cat("rows ", column.offset, " + ", column.length));

    std::size_t const nbuffers = reader_.array("ARROW buffers");
    std::size_t const needed = buffers_of(field.type.layout);
    if (field.type.layout == ArrowLayout::view ? nbuffers < needed : nbuffers != needed) fail(field, cat(nbuffers, " buffers, ", needed, " are needed"));
    column.buffers.reserve(nbuffers);
    for (std::size_t i = 0; i < nbuffers; ++i) column.buffers.push_back(buffer(align_of(field, i, nbuffers)));

    std::size_t const children = reader_.array("ARROW children");
    if (children != field.children.size()) fail(field, cat(children, " children, the schema has ", field.children.size()));
    column.children.reserve(children);
    for (std::size_t i = 0; i < children; ++i) column.children.push_back(this->column(field.children[i]));
    if (!skip_nil()) {
      if (field.dictionary == nullptr) fail(field, "a dictionary the schema does not have");
      column.dictionary = std::make_unique<ArrowColumn>(dictionary(*field.dictionary));
    } else if (field.dictionary != nullptr) {
      fail(field, "no dictionary");
    }
    at_ = at;
    check(field, column);
    return column;
  }

  /// Chunks often carry the same dictionary, down to its buffers: then it was checked already.
  ArrowColumn dictionary(ArrowField const& field) {
    auto const seen = std::ranges::find(dictionaries_, &field, &Seen::field);
    if (seen != dictionaries_.end()) {
      bool const was = std::exchange(check_, false);
      ArrowColumn again = column(field);
      check_ = was;
      if (same(again, seen->column)) return again;
      if (check_) recheck(field, again);
      seen->column = copy(again);
      return again;
    }
    ArrowColumn first = column(field);
    dictionaries_.push_back({&field, copy(first)});
    return first;
  }

  void recheck(ArrowField const& field, ArrowColumn& column) {
    for (std::size_t i = 0; i < column.children.size(); ++i) recheck(field.children[i], column.children[i]);
    if (column.dictionary != nullptr) recheck(*field.dictionary, *column.dictionary);
    check(field, column);
  }

  static ArrowColumn copy(ArrowColumn const& column) {
    ArrowColumn to;
    to.length = column.length, to.null_count = column.null_count, to.offset = column.offset, to.buffers = column.buffers;
    for (ArrowColumn const& child : column.children) to.children.push_back(copy(child));
    if (column.dictionary != nullptr) to.dictionary = std::make_unique<ArrowColumn>(copy(*column.dictionary));
    return to;
  }

  static std::size_t buffers_of(ArrowLayout layout) noexcept {
    switch (layout) {
      case ArrowLayout::null:
      case ArrowLayout::run_end: return 0;
      case ArrowLayout::fixed_list:
      case ArrowLayout::struct_:
      case ArrowLayout::sparse_union: return 1;
      case ArrowLayout::boolean:
      case ArrowLayout::fixed:
      case ArrowLayout::list:
      case ArrowLayout::dense_union: return 2;
      default: return 3;
    }
  }

  static std::size_t align_of(ArrowField const& field, std::size_t i, std::size_t n) noexcept {
    switch (field.type.layout) {
      case ArrowLayout::fixed:
      case ArrowLayout::list:
      case ArrowLayout::binary: return i == 1 ? field.type.align : 1;
      case ArrowLayout::list_view: return i >= 1 ? field.type.align : 1;
      case ArrowLayout::dense_union: return i == 1 ? 4 : 1;
      case ArrowLayout::view: return i == 1 || i + 1 == n ? 8 : 1;
      default: return 1;
    }
  }

  Bytes buffer(std::size_t align) {
    if (skip_nil()) return {};
    std::size_t const at = reader_.offset();
    auto const p = reader_.count("ARROW payload", limits::table_entries);
    if (p >= header_.sizes.size()) msgpack::Reader::fail_at(at, cat("ARROW payload: ", p, " of ", header_.sizes.size()));
    Bytes const bytes = payload_(static_cast<std::uint32_t>(p), align);
    if (bytes.empty()) return Bytes(zeros).first(0);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % align == 0) return bytes;
    auto const [copied, is_new] = aligned_.try_emplace({bytes.data(), bytes.size()});
    if (is_new) {
      // Windows let a small message name the same bytes often; copies may not multiply them.
      if (room_ < bytes.size()) raise(ErrorKind::exhausted, "ARROW: misaligned payloads that share memory would be copied too often");
      room_ -= bytes.size();
      auto const aligned = allocate(bytes.size());
      std::memcpy(aligned.get(), bytes.data(), bytes.size());
      data_.owned.push_back(aligned);
      copied->second = aligned.get();
    }
    return {copied->second, bytes.size()};
  }

  /// The rows that every buffer must have: those before the first one shown included.
  std::int64_t rows(ArrowColumn const& column) const noexcept { return column.offset + column.length; }

  void needs(ArrowField const& field, ArrowColumn& column, std::size_t i, std::int64_t n, std::int64_t width) {
    Bytes& bytes = column.buffers[i];
    std::int64_t nbytes = 0;
    if (__builtin_mul_overflow(n, width, &nbytes) || nbytes > static_cast<std::int64_t>(bytes.size())) {
      fail(field, cat("buffer ", i, " has ", bytes.size(), " bytes, ", n, " times ", width, " are needed"));
    }
    if (bytes.data() == nullptr) bytes = Bytes(zeros).first(0);
  }

  void needs_child(ArrowField const& field, ArrowColumn const& column, std::size_t i, std::int64_t n) const {
    if (n > column.children[i].length) fail(field, cat("child ", i, " has ", column.children[i].length, " rows, ", n, " are needed"));
  }

  template <class T>
  static T const* items(ArrowColumn const& column, std::size_t i) noexcept {
    return reinterpret_cast<T const*>(column.buffers[i].data());
  }

  /// Rows of `column` from the buffers' beginning for which `good` fails, nulls aside.
  template <class Good>
  bool all_shown(ArrowColumn const& column, Good&& good) const {
    Bytes const bitmap = column.null_count == 0 ? Bytes{} : column.buffers[0];
    for (std::int64_t i = 0; i < rows(column); ++i) {
      if ((bitmap.data() == nullptr || bit(bitmap.data(), i)) && !good(i)) return false;
    }
    return true;
  }

  void check(ArrowField const& field, ArrowColumn& column) {
    ArrowLayout const layout = field.type.layout;
    switch (layout) {
      case ArrowLayout::null: column.null_count = column.length; return;
      case ArrowLayout::sparse_union:
      case ArrowLayout::dense_union:
      case ArrowLayout::run_end:
        if (column.null_count > 0) fail(field, "nulls of its own");
        column.null_count = 0;
        break;
      default: validity(field, column);
    }
    switch (layout) {
      case ArrowLayout::null: return;
      case ArrowLayout::boolean: return needs(field, column, 1, bitmap_nbytes(rows(column)), 1);
      case ArrowLayout::fixed: return fixed(field, column);
      case ArrowLayout::binary: return field.type.item_nbytes == 4 ? binary<std::int32_t>(field, column) : binary<std::int64_t>(field, column);
      case ArrowLayout::view: return view(field, column);
      case ArrowLayout::list: return field.type.item_nbytes == 4 ? list<std::int32_t>(field, column) : list<std::int64_t>(field, column);
      case ArrowLayout::list_view: return field.type.item_nbytes == 4 ? list_view<std::int32_t>(field, column) : list_view<std::int64_t>(field, column);
      case ArrowLayout::fixed_list: {
        std::int64_t n = 0;
        if (__builtin_mul_overflow(rows(column), field.type.list_size, &n)) fail(field, cat(rows(column), " rows"));
        return needs_child(field, column, 0, n);
      }
      case ArrowLayout::struct_:
        for (std::size_t i = 0; i < column.children.size(); ++i) needs_child(field, column, i, rows(column));
        return;
      case ArrowLayout::sparse_union:
      case ArrowLayout::dense_union: return union_(field, column);
      case ArrowLayout::run_end:
        switch (field.children[0].type.item_nbytes) {
          case 2: return runs<std::int16_t>(field, column);
          case 4: return runs<std::int32_t>(field, column);
          default: return runs<std::int64_t>(field, column);
        }
    }
  }

  void validity(ArrowField const& field, ArrowColumn& column) {
    Bytes& bitmap = column.buffers[0];
    if (bitmap.data() == nullptr || (bitmap.empty() && rows(column) > 0)) {
      if (column.null_count > 0) fail(field, cat("null_count ", column.null_count, " without a bitmap"));
      bitmap = {};
      column.null_count = 0;
      return;
    }
    needs(field, column, 0, bitmap_nbytes(rows(column)), 1);
    if (check_ && column.null_count >= 0) {
      std::int64_t const nulls = column.length - arrow_bits::count_set(bitmap.data(), column.offset, column.length);
      if (nulls != column.null_count) fail(field, cat("null_count ", column.null_count, ", the bitmap has ", nulls));
    }
  }

  void fixed(ArrowField const& field, ArrowColumn& column) {
    needs(field, column, 1, rows(column), field.type.item_nbytes);
    if (field.dictionary == nullptr || !check_) return;
    switch (field.type.item_nbytes) {
      case 1: return field.type.is_signed ? indices<std::int8_t>(field, column) : indices<std::uint8_t>(field, column);
      case 2: return field.type.is_signed ? indices<std::int16_t>(field, column) : indices<std::uint16_t>(field, column);
      case 4: return field.type.is_signed ? indices<std::int32_t>(field, column) : indices<std::uint32_t>(field, column);
      default: return field.type.is_signed ? indices<std::int64_t>(field, column) : indices<std::uint64_t>(field, column);
    }
  }

  template <class T>
  void indices(ArrowField const& field, ArrowColumn const& column) {
    T const* const index = items<T>(column, 1);
    auto const n = static_cast<std::uint64_t>(column.dictionary->length);
    if (below(index, rows(column), n)) return;
    if (!all_shown(column, [=](std::int64_t i) { return index[i] >= 0 && static_cast<std::uint64_t>(index[i]) < n; })) {
      fail(field, cat("an index outside its dictionary of ", n));
    }
  }

  /// The offsets of `rows` rows, and that none passes `limit`. The first may be above 0.
  template <class Offset>
  void offsets(ArrowField const& field, ArrowColumn& column, std::int64_t limit) {
    std::int64_t const n = rows(column);
    if (n == 0 && column.buffers[1].empty()) {
      column.buffers[1] = Bytes(zeros).first(sizeof(Offset));
      return;
    }
    needs(field, column, 1, n + 1, sizeof(Offset));
    auto const* const offset = items<Offset>(column, 1);
    if (check_ && !ascending(offset, n)) fail(field, "offsets that descend or are negative");
    if (offset[0] < 0 || offset[n] < offset[0] || offset[n] > limit) {
      fail(field, cat("offsets from ", offset[0], " to ", offset[n], ", there are ", limit));
    }
  }

  template <class Offset>
  void binary(ArrowField const& field, ArrowColumn& column) {
    needs(field, column, 2, 0, 1);
    offsets<Offset>(field, column, static_cast<std::int64_t>(column.buffers[2].size()));
    if (!field.type.text || !check_) return;
    auto const* const offset = items<Offset>(column, 1);
    std::byte const* const text = column.buffers[2].data();
    std::int64_t const n = rows(column);
    if (ascii(text + offset[0], offset[n] - offset[0])) return;
    // Valid as a whole and cut at no continuation byte: valid row by row.
    bool good = utf8(text + offset[0], offset[n] - offset[0]);
    for (std::int64_t i = 1; good && i < n; ++i) good = offset[i] == offset[n] || (text[offset[i]] & std::byte{0xc0}) != std::byte{0x80};
    if (!good && !all_shown(column, [=](std::int64_t i) { return utf8(text + offset[i], offset[i + 1] - offset[i]); })) fail(field, "text that is not UTF-8");
  }

  void view(ArrowField const& field, ArrowColumn& column) {
    std::int64_t const n = rows(column);
    std::size_t const nbuffers = column.buffers.size() - 3;
    needs(field, column, 1, n, 16);
    needs(field, column, nbuffers + 2, static_cast<std::int64_t>(nbuffers), 8);
    auto const* const lengths = items<std::int64_t>(column, nbuffers + 2);
    for (std::size_t i = 0; i < nbuffers; ++i) {
      if (lengths[i] < 0) fail(field, cat("buffer ", i + 2, " of length ", lengths[i]));
      needs(field, column, i + 2, lengths[i], 1);
    }
    if (!check_) return;
    std::byte const* const views = column.buffers[1].data();
    bool const is_text = field.type.text;
    // Text in buffers that are ASCII throughout needs no look of its own.
    std::vector<std::uint8_t> plain(nbuffers, 0);
    for (std::size_t i = 0; is_text && i < nbuffers; ++i) plain[i] = ascii(column.buffers[i + 2].data(), lengths[i]) ? 1 : 0;
    auto const good = [&](std::int64_t i) {
      std::byte const* const at = views + 16 * i;
      auto const size = load<std::int32_t>(at, 0);
      if (size < 0) return false;
      if (size <= 12) {  // the text, then zeros
        std::uint64_t const head = load<std::uint32_t>(at, 1);
        auto const tail = load<std::uint64_t>(at, 1);
        bool const padded = size <= 4 ? tail == 0 && (head >> (8 * size)) == 0 : size == 12 || (tail >> (8 * (size - 4))) == 0;
        return padded && (!is_text || ((head | tail) & 0x8080808080808080U) == 0 || utf8(at + 4, size));
      }
      auto const part = load<std::uint32_t>(at, 2);
      auto const offset = load<std::int32_t>(at, 3);
      if (part >= nbuffers || offset < 0 || offset > lengths[part] - size) return false;
      std::byte const* const text = column.buffers[2 + part].data() + offset;
      return load<std::uint32_t>(text, 0) == load<std::uint32_t>(at, 1) && (!is_text || plain[part] != 0 || utf8(text, size));
    };
    if (!all_shown(column, good)) fail(field, "a view that points outside its buffers, differs from what it points to, or is not UTF-8");
  }

  template <class Offset>
  void list(ArrowField const& field, ArrowColumn& column) {
    offsets<Offset>(field, column, column.children[0].length);
  }

  template <class Offset>
  void list_view(ArrowField const& field, ArrowColumn& column) {
    using U = Unsigned<Offset>;
    std::int64_t const n = rows(column);
    needs(field, column, 1, n, sizeof(Offset));
    needs(field, column, 2, n, sizeof(Offset));
    if (!check_) return;
    auto const* const offset = items<Offset>(column, 1);
    auto const* const size = items<Offset>(column, 2);
    auto const limit = static_cast<U>(std::min<std::int64_t>(column.children[0].length, std::numeric_limits<Offset>::max()));
    auto const bad = or_all<U>(n, [=](std::int64_t i) {
      auto const o = static_cast<U>(offset[i]);
      auto const s = static_cast<U>(size[i]);
      auto const left = static_cast<U>(limit - o);
      return static_cast<U>(o | s | left | static_cast<U>(left - s));
    });
    if (sign(bad)) fail(field, cat("offsets and sizes that pass the child's ", column.children[0].length, " rows"));
  }

  void union_(ArrowField const& field, ArrowColumn& column) {
    std::int64_t const n = rows(column);
    bool const dense = field.type.layout == ArrowLayout::dense_union;
    needs(field, column, 0, n, 1);
    if (dense) {
      needs(field, column, 1, n, 4);
    } else {
      for (std::size_t i = 0; i < column.children.size(); ++i) needs_child(field, column, i, n);
    }
    if (!check_) return;
    // Rows of the child that a type id stands for; −1 for ids that stand for none.
    std::array<std::int64_t, 256> room;
    room.fill(-1);
    for (std::size_t i = 0; i < column.children.size(); ++i) room[static_cast<std::uint8_t>(field.type.type_ids[i])] = column.children[i].length;
    auto const* const ids = items<std::uint8_t>(column, 0);
    bool good = true;
    if (dense) {
      auto const* const offset = items<std::int32_t>(column, 1);
      for (std::int64_t i = 0; i < n; ++i) good &= offset[i] >= 0 && offset[i] < room[ids[i]];
    } else {
      for (std::int64_t i = 0; i < n; ++i) good &= room[ids[i]] >= 0;
    }
    if (!good) fail(field, dense ? "a type id without a child, or an offset outside it" : "a type id without a child");
  }

  template <class End>
  void runs(ArrowField const& field, ArrowColumn& column) {
    ArrowColumn const& ends = column.children[0];
    if (ends.null_count != 0 || ends.buffers[0].data() != nullptr) fail(field, "nulls among the run ends");
    needs_child(field, column, 1, ends.length);
    std::int64_t const n = rows(column);
    if (n > std::numeric_limits<End>::max()) fail(field, cat(n, " rows with run ends of ", sizeof(End), " bytes"));
    auto const* const end = items<End>(ends, 1) + ends.offset;
    if (ends.length == 0) {
      if (n > 0) fail(field, cat("no runs for ", n, " rows"));
      return;
    }
    if (end[0] < 1 || end[ends.length - 1] < n) fail(field, cat("the runs end at ", end[ends.length - 1], ", there are ", n, " rows"));
    if (check_ && !ascending(end, ends.length - 1, End{1})) fail(field, "run ends that do not ascend");
  }

  struct Seen {
    ArrowField const* field;
    ArrowColumn column;
  };

  msgpack::Reader& reader_;
  Header const& header_;
  PayloadBytes const& payload_;
  bool check_;
  ArrowData& data_;
  std::vector<Seen> dictionaries_;
  std::map<std::pair<std::byte const*, std::size_t>, std::byte const*> aligned_;
  std::uint64_t room_ = 0;  ///< bytes that may still be copied
  std::size_t chunk_ = 0;
  std::size_t at_ = 0;
};

// ── Export ──────────────────────────────────────────────────────────────────────────────────────────────

/// Everything an exported array's bytes depend on.
struct Kept {
  std::shared_ptr<void const> keeper;
  std::vector<std::shared_ptr<void const>> owned;
};

struct OwnedArray {
  std::shared_ptr<Kept const> kept;
  std::vector<void const*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;
  ArrowArray dictionary{};
};

void release_array(ArrowArray* array) {
  auto* const owned = static_cast<OwnedArray*>(array->private_data);
  for (ArrowArray& child : owned->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (owned->dictionary.release != nullptr) owned->dictionary.release(&owned->dictionary);
  delete owned;
  array->release = nullptr;
}

void export_column(ArrowColumn const& column, std::shared_ptr<Kept const> const& kept, ArrowArray* out) {
  auto fresh = std::make_unique<OwnedArray>();
  fresh->kept = kept;
  for (Bytes const buffer : column.buffers) fresh->buffers.push_back(buffer.data());
  fresh->children.resize(column.children.size());
  fresh->child_pointers.resize(column.children.size());
  OwnedArray& owned = *fresh;
  *out = ArrowArray{
      .length = column.length,
      .null_count = column.null_count,
      .offset = column.offset,
      .n_buffers = static_cast<std::int64_t>(owned.buffers.size()),
      .n_children = static_cast<std::int64_t>(column.children.size()),
      .buffers = owned.buffers.data(),
      .children = column.children.empty() ? nullptr : owned.child_pointers.data(),
      .dictionary = column.dictionary == nullptr ? nullptr : &owned.dictionary,
      .release = release_array,
      .private_data = fresh.release(),
  };
  try {
    for (std::size_t i = 0; i < column.children.size(); ++i) {
      owned.child_pointers[i] = &owned.children[i];
      export_column(column.children[i], kept, &owned.children[i]);
    }
    if (column.dictionary != nullptr) export_column(*column.dictionary, kept, &owned.dictionary);
  } catch (...) {
    out->release(out);
    throw;
  }
}

}  // namespace

ArrowData decode_arrow(msgpack::Reader& reader, std::size_t nfields, Header const& header, PayloadBytes const& payload,
                       std::shared_ptr<void const> keeper, ArrowCheck check) {
  ArrowData data;
  data.keeper = std::move(keeper);
  Decoder(reader, header, payload, check, data).run(nfields);
  return data;
}

void ArrowData::export_chunk(std::size_t i, ArrowArray* out) const {
  expects(i < chunks.size(), ErrorKind::failed, [&] { return cat("chunk ", i, " of ", chunks.size()); });
  auto const kept = std::make_shared<Kept const>(Kept{keeper, owned});
  export_column(chunks[i], kept, out);
}

}  // namespace transload
