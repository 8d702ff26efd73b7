#include "transload/adapters/arrow_encode.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "transload/adapters/arrow_bits.hpp"
#include "transload/base/error.hpp"
#include "transload/message/msgpack.hpp"

namespace transload {

namespace {

using arrow_bits::bit;
using arrow_bits::bitmap_nbytes;
using arrow_bits::load;
using arrow_bits::store;
using Bytes = std::span<std::byte const>;

/// A payload may grow by this share over what is shown before it is worth a copy: a quarter, and a page.
constexpr std::int64_t worth_copying(std::int64_t shown) noexcept { return shown + shown / 4 + 4096; }

/// One offset of either width. Arrays without rows need no offsets buffer; this takes its place.
alignas(64) constexpr std::array<std::byte, 64> zeros{};

/// The new buffers of one encode call.
struct Made {
  std::vector<std::unique_ptr<std::byte[]>> buffers;

  std::byte* make(std::size_t nbytes) {
    buffers.push_back(std::make_unique_for_overwrite<std::byte[]>(nbytes));
    return buffers.back().get();
  }
};

[[noreturn]] void wrong(ArrowField const& field, std::string_view what) {
  raise(ErrorKind::unsupported, cat("Arrow array, field '", field.name, "' of format ", field.format, ": ", what));
}

class Encoder {
 public:
  explicit Encoder(std::uint32_t first_payload) : first_payload_(first_payload) {}

  void schema(ArrowField const& field) {
    out.array(6);
    out.str(field.format);
    if (field.has_name) {
      out.str(field.name);
    } else {
      out.nil();
    }
    out.integer(field.flags);
    if (field.metadata.empty()) {
      out.nil();
    } else {
      out.bin(std::as_bytes(std::span(field.metadata)));
    }
    out.array(field.children.size());
    for (ArrowField const& child : field.children) schema(child);
    if (field.dictionary != nullptr) {
      schema(*field.dictionary);
    } else {
      out.nil();
    }
  }

  /// Rows `start` … `start + length` of the buffers of `a`; `a.offset` is counted in.
  void array(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    check_shape(field, a, start, length);
    switch (field.type.layout) {
      case ArrowLayout::null: return null(length);
      case ArrowLayout::boolean: return boolean(a, start, length);
      case ArrowLayout::fixed: return fixed(field, a, start, length);
      case ArrowLayout::binary: return field.type.item_nbytes == 4 ? binary<std::int32_t>(field, a, start, length)
                                                                   : binary<std::int64_t>(field, a, start, length);
      case ArrowLayout::list: return field.type.item_nbytes == 4 ? list<std::int32_t>(field, a, start, length)
                                                                 : list<std::int64_t>(field, a, start, length);
      case ArrowLayout::list_view: return field.type.item_nbytes == 4 ? list_view<std::int32_t>(field, a, start, length)
                                                                      : list_view<std::int64_t>(field, a, start, length);
      case ArrowLayout::view: return view(field, a, start, length);
      case ArrowLayout::fixed_list: return fixed_list(field, a, start, length);
      case ArrowLayout::struct_: return struct_(field, a, start, length);
      case ArrowLayout::sparse_union: return sparse_union(field, a, start, length);
      case ArrowLayout::dense_union: return dense_union(field, a, start, length);
      case ArrowLayout::run_end: return run_end(field, a, start, length);
    }
  }

  msgpack::Packer out;
  std::vector<Bytes> payloads;
  std::shared_ptr<Made> made = std::make_shared<Made>();

 private:
  /// Null count and bitmap of some rows. Without nulls there is no bitmap.
  struct Validity {
    std::int64_t null_count = 0;
    Bytes bitmap;
    std::int64_t offset = 0;  ///< of the first row in `bitmap`
  };

  /// `cut`: the bitmap begins at the whole byte before the first row; else it is copied when the row is inside a byte.
  Validity validity(ArrowArray const& a, std::int64_t start, std::int64_t length, bool cut) {
    Validity v;
    void const* const bitmap = a.buffers[0];
    if (bitmap == nullptr || a.null_count == 0 || length == 0) return v;
    v.null_count = a.null_count > 0 && length == a.length ? a.null_count : length - arrow_bits::count_set(bitmap, start, length);
    if (v.null_count == 0) return v;
    std::int64_t const inside = start & 7;
    if (cut || inside == 0) {
      v.offset = inside;
      v.bitmap = bytes(bitmap, start >> 3, bitmap_nbytes(inside + length));
    } else {
      v.bitmap = remade({bitmap, start, length, 0}, bitmap_nbytes(length),
                        [&](std::byte* to) { arrow_bits::copy_bits(bitmap, start, length, to); });
    }
    return v;
  }

  static Bytes bytes(void const* data, std::int64_t from, std::int64_t nbytes) {
    return {static_cast<std::byte const*>(data) + from, static_cast<std::size_t>(nbytes)};
  }

  /// What a new buffer is made from: memory, rows, and the way (bits, offsets or run ends of a width).
  using Source = std::tuple<void const*, std::int64_t, std::int64_t, std::size_t>;

  template <class Fill>
  Bytes fresh(std::size_t nbytes, Fill&& fill) {
    std::byte* const data = made->make(nbytes);
    fill(data);
    return {data, nbytes};
  }

  /// A new buffer, made once for each `source`: a dictionary that is met in every chunk is remade for the first only.
  template <class Fill>
  Bytes remade(Source const& source, std::int64_t nbytes, Fill&& fill) {
    auto const [at, is_new] = remade_.try_emplace(source);
    if (is_new) at->second = fresh(static_cast<std::size_t>(nbytes), fill);
    return at->second;
  }

  void check_shape(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    if (a.release == nullptr) wrong(field, "released");
    std::int64_t buffers = 2;
    switch (field.type.layout) {
      case ArrowLayout::null:
      case ArrowLayout::run_end: buffers = 0; break;
      case ArrowLayout::fixed_list:
      case ArrowLayout::struct_:
      case ArrowLayout::sparse_union: buffers = 1; break;
      case ArrowLayout::binary:
      case ArrowLayout::list_view: buffers = 3; break;
      case ArrowLayout::view: buffers = std::max<std::int64_t>(a.n_buffers, 3); break;
      default: break;
    }
    if (a.n_buffers != buffers) wrong(field, cat(a.n_buffers, " buffers, ", buffers, " are needed"));
    if (a.n_children != static_cast<std::int64_t>(field.children.size())) {
      wrong(field, cat(a.n_children, " children, the schema has ", field.children.size()));
    }
    if ((a.dictionary != nullptr) != (field.dictionary != nullptr)) wrong(field, "a dictionary in the schema or the array, but not in both");
    if (a.length < 0 || a.offset < 0 || length < 0 || start < a.offset || start - a.offset > a.length - length) {
      wrong(field, cat("rows ", start, " + ", length, " are needed, there are ", a.offset, " + ", a.length));
    }
  }

  void head(std::int64_t length, std::int64_t null_count, std::int64_t offset, std::size_t buffers) {
    out.array(6);
    out.integer(length);
    out.integer(null_count);
    out.integer(offset);
    out.array(buffers);
  }

  void buffer(Bytes data) {
    if (data.empty()) return out.nil();
    if (in_dictionary_ > 0) {
      auto const [at, is_new] = numbers_.try_emplace({data.data(), data.size()}, payloads.size());
      if (!is_new) return out.unsigned_integer(first_payload_ + at->second);
    }
    out.unsigned_integer(first_payload_ + payloads.size());
    payloads.push_back(data);
  }

  void no_children() {
    out.array(0);
    out.nil();
  }

  void null(std::int64_t length) {
    head(length, length, 0, 0);
    no_children();
  }

  void boolean(ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Validity const v = validity(a, start, length, true);
    std::int64_t const offset = length == 0 ? 0 : start & 7;
    head(length, v.null_count, offset, 2);
    buffer(v.bitmap);
    buffer(bytes(a.buffers[1], start >> 3, length == 0 ? 0 : bitmap_nbytes(offset + length)));
    no_children();
  }

  void fixed(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Validity const v = validity(a, start, length, true);
    std::int64_t const width = field.type.item_nbytes;
    head(length, v.null_count, v.offset, 2);
    buffer(v.bitmap);
    buffer(items(field, a, 1, start - v.offset, v.offset + length, width));
    out.array(0);
    if (field.dictionary == nullptr) return out.nil();
    ++in_dictionary_;
    array(*field.dictionary, *a.dictionary, a.dictionary->offset, a.dictionary->length);
    --in_dictionary_;
  }

  static Bytes items(ArrowField const& field, ArrowArray const& a, std::int64_t index, std::int64_t from, std::int64_t n, std::int64_t width) {
    std::int64_t const nbytes = n * width;
    if (nbytes > 0 && a.buffers[index] == nullptr) wrong(field, cat("no buffer ", index));
    return bytes(a.buffers[index], from * width, nbytes);
  }

  /// The offsets of some rows, beginning at 0, and the range they span.
  struct Range {
    Bytes offsets;
    std::int64_t first = 0;
    std::int64_t last = 0;
  };

  template <class Offset>
  Range range(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Range r;
    if (length == 0) {
      r.offsets = Bytes(zeros).first(sizeof(Offset));
      return r;
    }
    r.offsets = items(field, a, 1, start, length + 1, sizeof(Offset));
    r.first = load<Offset>(r.offsets.data(), 0);
    r.last = load<Offset>(r.offsets.data(), length);
    if (r.first < 0 || r.last < r.first) wrong(field, cat("offsets from ", r.first, " to ", r.last));
    if (r.first != 0) {
      std::byte const* const from = r.offsets.data();
      r.offsets = remade({from, 0, length, sizeof(Offset)}, static_cast<std::int64_t>(r.offsets.size()), [&](std::byte* to) {
        auto const first = static_cast<Offset>(r.first);
        for (std::int64_t i = 0; i <= length; ++i) store<Offset>(to, i, static_cast<Offset>(load<Offset>(from, i) - first));
      });
    }
    return r;
  }

  template <class Offset>
  void binary(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Validity const v = validity(a, start, length, false);
    Range const r = range<Offset>(field, a, start, length);
    if (r.last > r.first && a.buffers[2] == nullptr) wrong(field, "no buffer 2");
    head(length, v.null_count, 0, 3);
    buffer(v.bitmap);
    buffer(r.offsets);
    buffer(bytes(a.buffers[2], r.first, r.last - r.first));
    no_children();
  }

  template <class Offset>
  void list(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Validity const v = validity(a, start, length, false);
    Range const r = range<Offset>(field, a, start, length);
    head(length, v.null_count, 0, 2);
    buffer(v.bitmap);
    buffer(r.offsets);
    out.array(1);
    ArrowArray const& child = *a.children[0];
    array(field.children[0], child, child.offset + r.first, r.last - r.first);
    out.nil();
  }

  template <class Offset>
  void list_view(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Validity const v = validity(a, start, length, false);
    Bytes offsets = items(field, a, 1, start, length, sizeof(Offset));
    Bytes sizes = items(field, a, 2, start, length, sizeof(Offset));
    ArrowArray const& child = *a.children[0];
    auto const shown = [&](std::int64_t row) { return v.null_count == 0 || bit(v.bitmap.data(), row); };

    // What the shown rows span. Null and empty rows may point anywhere: then they are written as (0, 0).
    std::int64_t low = std::numeric_limits<std::int64_t>::max();
    std::int64_t high = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      std::int64_t const size = load<Offset>(sizes.data(), i);
      if (size == 0 || !shown(i)) continue;
      std::int64_t const offset = load<Offset>(offsets.data(), i);
      if (offset < 0 || size < 0 || offset > child.length - size) {
        wrong(field, cat("row ", i, " shows items ", offset, " + ", size, " of ", child.length));
      }
      low = std::min(low, offset);
      high = std::max(high, offset + size);
    }
    low = std::min(low, high);
    bool anew = low != 0;
    for (std::int64_t i = 0; i < length && !anew; ++i) {
      std::int64_t const offset = load<Offset>(offsets.data(), i);
      std::int64_t const size = load<Offset>(sizes.data(), i);
      anew = offset < 0 || size < 0 || offset > high - size;
    }
    if (anew) {
      Bytes const old_offsets = offsets;
      Bytes const old_sizes = sizes;
      auto const fill = [&](bool of_sizes) {
        return [&, of_sizes](std::byte* to) {
          for (std::int64_t i = 0; i < length; ++i) {
            auto const size = load<Offset>(old_sizes.data(), i);
            bool const empty = size == 0 || !shown(i);
            auto const moved = static_cast<Offset>(load<Offset>(old_offsets.data(), i) - (empty ? 0 : static_cast<Offset>(low)));
            store<Offset>(to, i, empty ? Offset{0} : of_sizes ? size : moved);
          }
        };
      };
      std::size_t const nbytes = offsets.size();
      offsets = fresh(nbytes, fill(false));
      sizes = fresh(nbytes, fill(true));
    }
    head(length, v.null_count, 0, 3);
    buffer(v.bitmap);
    buffer(offsets);
    buffer(sizes);
    out.array(1);
    array(field.children[0], child, child.offset + low, high - low);
    out.nil();
  }

  void fixed_list(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Validity const v = validity(a, start, length, false);
    head(length, v.null_count, 0, 1);
    buffer(v.bitmap);
    out.array(1);
    ArrowArray const& child = *a.children[0];
    std::int64_t first = 0;
    std::int64_t n = 0;
    if (__builtin_mul_overflow(start, field.type.list_size, &first) || __builtin_mul_overflow(length, field.type.list_size, &n) ||
        __builtin_add_overflow(first, child.offset, &first)) {
      wrong(field, cat(length, " rows"));
    }
    array(field.children[0], child, first, n);
    out.nil();
  }

  void struct_(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Validity const v = validity(a, start, length, false);
    head(length, v.null_count, 0, 1);
    buffer(v.bitmap);
    same_rows(field, a, start, length);
  }

  void same_rows(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    out.array(field.children.size());
    for (std::size_t i = 0; i < field.children.size(); ++i) {
      array(field.children[i], *a.children[i], a.children[i]->offset + start, length);
    }
    out.nil();
  }

  void sparse_union(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    head(length, 0, 0, 1);
    buffer(items(field, a, 0, start, length, 1));
    same_rows(field, a, start, length);
  }

  void dense_union(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    Bytes const ids = items(field, a, 0, start, length, 1);
    Bytes offsets = items(field, a, 1, start, length, 4);
    std::size_t const n = field.children.size();
    std::array<std::uint8_t, 256> child_of;
    child_of.fill(255);
    for (std::size_t i = 0; i < n; ++i) child_of[static_cast<std::uint8_t>(field.type.type_ids[i])] = static_cast<std::uint8_t>(i);

    std::vector<std::int64_t> low(n, std::numeric_limits<std::int64_t>::max());
    std::vector<std::int64_t> high(n, 0);
    for (std::int64_t i = 0; i < length; ++i) {
      std::size_t const child = child_of[static_cast<std::uint8_t>(ids[static_cast<std::size_t>(i)])];
      std::int64_t const offset = load<std::int32_t>(offsets.data(), i);
      if (child >= n || offset < 0) wrong(field, cat("row ", i, " has type id ", static_cast<int>(ids[static_cast<std::size_t>(i)]), ", offset ", offset));
      low[child] = std::min(low[child], offset);
      high[child] = std::max(high[child], offset + 1);
    }
    bool anew = false;
    for (std::size_t i = 0; i < n; ++i) {
      low[i] = std::min(low[i], high[i]);
      anew = anew || low[i] != 0;
    }
    if (anew) {
      Bytes const old = offsets;
      offsets = fresh(old.size(), [&](std::byte* to) {
        for (std::int64_t i = 0; i < length; ++i) {
          std::size_t const child = child_of[static_cast<std::uint8_t>(ids[static_cast<std::size_t>(i)])];
          store(to, i, static_cast<std::int32_t>(load<std::int32_t>(old.data(), i) - low[child]));
        }
      });
    }
    head(length, 0, 0, 2);
    buffer(ids);
    buffer(offsets);
    out.array(n);
    for (std::size_t i = 0; i < n; ++i) {
      ArrowArray const& child = *a.children[i];
      array(field.children[i], child, child.offset + low[i], high[i] - low[i]);
    }
    out.nil();
  }

  void run_end(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    switch (field.children[0].type.item_nbytes) {
      case 2: return runs<std::int16_t>(field, a, start, length);
      case 4: return runs<std::int32_t>(field, a, start, length);
      default: return runs<std::int64_t>(field, a, start, length);
    }
  }

  template <class End>
  void runs(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    ArrowArray const& ends = *a.children[0];
    ArrowArray const& values = *a.children[1];
    check_shape(field.children[0], ends, ends.offset, ends.length);
    Bytes old = items(field.children[0], ends, 1, ends.offset, ends.length, sizeof(End));
    // The first run that ends behind `row`.
    auto const run_of = [&](std::int64_t row) {
      std::int64_t from = 0;
      std::int64_t to = ends.length;
      while (from < to) {
        std::int64_t const middle = from + (to - from) / 2;
        if (load<End>(old.data(), middle) > row) {
          to = middle;
        } else {
          from = middle + 1;
        }
      }
      return from;
    };
    std::int64_t const first = length == 0 ? 0 : run_of(start);
    std::int64_t const last = length == 0 ? 0 : run_of(start + length - 1) + 1;
    if (last > ends.length) wrong(field, cat("the runs end before row ", start + length));
    Bytes cut = old.subspan(static_cast<std::size_t>(first) * sizeof(End), static_cast<std::size_t>(last - first) * sizeof(End));
    if (start != 0 && !cut.empty()) {
      Bytes const from = cut;
      cut = remade({from.data(), start, length, 16 + sizeof(End)}, static_cast<std::int64_t>(from.size()), [&](std::byte* to) {
        for (std::int64_t i = 0; i < last - first; ++i) {
          store(to, i, static_cast<End>(std::min<std::int64_t>(load<End>(from.data(), i) - start, length)));
        }
      });
    }
    head(length, 0, 0, 0);
    out.array(2);
    head(last - first, 0, 0, 2);
    buffer({});
    buffer(cut);
    no_children();
    array(field.children[1], values, values.offset + first, last - first);
    out.nil();
  }

  void view(ArrowField const& field, ArrowArray const& a, std::int64_t start, std::int64_t length) {
    constexpr std::int32_t most_inline = 12;
    Validity const v = validity(a, start, length, false);
    Bytes views = items(field, a, 1, start, length, 16);
    auto const n = static_cast<std::size_t>(a.n_buffers - 3);
    void const* const old_lengths = a.buffers[a.n_buffers - 1];
    if (n > 0 && old_lengths == nullptr) wrong(field, "no lengths of its buffers");

    struct Part {
      std::int64_t low = std::numeric_limits<std::int64_t>::max();
      std::int64_t high = 0;
      std::int64_t start = 0;   ///< what is subtracted from offsets into it
      std::int32_t number = 0;  ///< of the buffer in the message
    };
    std::vector<Part> parts(n);
    auto const size_of = [&](std::int64_t row) { return load<std::int32_t>(views.data(), 4 * row); };
    auto const part_of = [&](std::int64_t row) { return static_cast<std::size_t>(load<std::uint32_t>(views.data(), 4 * row + 2)); };
    auto const offset_of = [&](std::int64_t row) { return static_cast<std::int64_t>(load<std::int32_t>(views.data(), 4 * row + 3)); };
    auto const shown = [&](std::int64_t row) { return v.null_count == 0 || bit(v.bitmap.data(), row); };

    std::int64_t used = 0;
    bool anew = false;  // a null row may hold anything; one that would point somewhere is written as zeros
    for (std::int64_t i = 0; i < length; ++i) {
      std::int32_t const size = size_of(i);
      if (size >= 0 && size <= most_inline) continue;
      if (!shown(i)) {
        anew = true;
        continue;
      }
      std::size_t const part = part_of(i);
      std::int64_t const offset = offset_of(i);
      if (size < 0 || part >= n || offset < 0 || offset > load<std::int64_t>(old_lengths, static_cast<std::int64_t>(part)) - size) {
        wrong(field, cat("the view of row ", i, " points outside its buffers"));
      }
      used += size;
      parts[part].low = std::min(parts[part].low, offset);
      parts[part].high = std::max(parts[part].high, offset + size);
    }
    std::int64_t heads = 0;
    std::int64_t spanned = 0;
    std::int64_t unused = 0;
    for (Part const& part : parts) {
      heads += part.high;
      spanned += part.high == 0 ? 0 : part.high - part.low;
      unused += part.high == 0 ? 1 : 0;
    }
    anew = anew || heads > worth_copying(used) || unused > 8;
    bool const compact = spanned > worth_copying(used);

    // Which bytes travel: the buffers' beginnings, or the part of each that is shown, or the shown strings one by one.
    std::vector<Bytes> buffers;
    if (!anew) {
      for (std::size_t i = 0; i < n; ++i) buffers.push_back(bytes(a.buffers[2 + i], 0, parts[i].high));
    } else {
      if (!compact) {
        for (std::size_t i = 0; i < n; ++i) {
          if (parts[i].high == 0) continue;
          parts[i].start = parts[i].low;
          parts[i].number = static_cast<std::int32_t>(buffers.size());
          buffers.push_back(bytes(a.buffers[2 + i], parts[i].low, parts[i].high - parts[i].low));
        }
      }
      Bytes const old = views;
      std::byte* const to = made->make(old.size());
      std::byte* text = nullptr;
      std::int64_t filled = 0;
      std::int64_t room = 0;
      std::int64_t left = used;
      for (std::int64_t i = 0; i < length; ++i) {
        std::byte* const at = to + 16 * i;
        std::int32_t const size = size_of(i);
        if (!shown(i)) {
          std::memset(at, 0, 16);
          continue;
        }
        std::memcpy(at, old.data() + 16 * i, 16);
        if (size <= most_inline) continue;
        Part const& part = parts[part_of(i)];
        if (!compact) {
          store(at, 2, part.number);
          store(at, 3, static_cast<std::int32_t>(offset_of(i) - part.start));
          continue;
        }
        if (filled + size > room) {  // offsets are int32: a new buffer each 2 GiB
          if (text != nullptr) buffers.back() = buffers.back().first(static_cast<std::size_t>(filled));
          room = std::min<std::int64_t>(left, std::numeric_limits<std::int32_t>::max());
          text = made->make(static_cast<std::size_t>(room));
          buffers.emplace_back(text, static_cast<std::size_t>(room));
          filled = 0;
        }
        std::memcpy(text + filled, static_cast<std::byte const*>(a.buffers[2 + part_of(i)]) + offset_of(i), static_cast<std::size_t>(size));
        store(at, 2, static_cast<std::int32_t>(buffers.size() - 1));
        store(at, 3, static_cast<std::int32_t>(filled));
        filled += size;
        left -= size;
      }
      if (text != nullptr) buffers.back() = buffers.back().first(static_cast<std::size_t>(filled));
      views = {to, old.size()};
    }
    std::byte* const lengths = made->make(8 * buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) store(lengths, static_cast<std::int64_t>(i), static_cast<std::int64_t>(buffers[i].size()));

    head(length, v.null_count, 0, 3 + buffers.size());
    buffer(v.bitmap);
    buffer(views);
    for (Bytes const part : buffers) buffer(part);
    buffer({lengths, 8 * buffers.size()});
    no_children();
  }

  std::uint32_t first_payload_;
  int in_dictionary_ = 0;
  std::map<Source, Bytes> remade_;
  std::map<std::pair<void const*, std::size_t>, std::size_t> numbers_;
};

}  // namespace

std::shared_ptr<void const> encode_arrow(HeaderWriter& writer, ArrowKind kind, ArrowSchema const& schema,
                                         std::span<ArrowArray const* const> chunks, std::uint8_t op, AddPayload const& add) {
  ArrowField const field = ArrowField::from_c(schema);
  bool const tabular = kind == ArrowKind::batch || kind == ArrowKind::table || kind == ArrowKind::schema;
  expects(!tabular || field.format == "+s", ErrorKind::unsupported, [&] { return cat("Arrow ", to_string(kind), ": format ", field.format); });
  bool const one = kind == ArrowKind::array || kind == ArrowKind::batch;
  expects(kind == ArrowKind::schema ? chunks.empty() : !one || chunks.size() == 1, ErrorKind::unsupported,
          [&] { return cat("Arrow ", to_string(kind), ": ", chunks.size(), " chunks"); });

  auto const first = static_cast<std::uint32_t>(writer.payloads().size());
  Encoder encoder(first);
  encoder.out.array(3 + chunks.size());
  encoder.out.unsigned_integer(op);
  encoder.out.str(to_string(kind));
  encoder.schema(field);
  for (ArrowArray const* chunk : chunks) {
    bool const has_bitmap = tabular && chunk->null_count != 0 && chunk->n_buffers == 1 && chunk->buffers[0] != nullptr;
    expects(!has_bitmap || arrow_bits::count_set(chunk->buffers[0], chunk->offset, chunk->length) == chunk->length,
            ErrorKind::unsupported, "Arrow table: null rows");
    encoder.array(field, *chunk, chunk->offset, chunk->length);
  }

  for (std::size_t i = 0; i < encoder.payloads.size(); ++i) {
    std::uint32_t const number = add ? add(encoder.payloads[i], encoder.made) : writer.add_payload(encoder.payloads[i]);
    expects(number == first + i, ErrorKind::failed, [&] { return cat("encode_arrow: payload ", number, " where ", first + i, " is next"); });
  }
  writer.root().raw(encoder.out.bytes());
  return encoder.made;
}

}  // namespace transload
