#pragma once
/// Typed access to decoded Arrow data for C++ programs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "transload/adapters/arrow.hpp"
#include "transload/adapters/arrow_decode.hpp"

namespace transload {

namespace detail {

template <class T>
inline constexpr bool arrow_number =
    (std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, long double>) || std::is_enum_v<T>;

}  // namespace detail

/// A column of decoded data, read row by row or as one span. Copies; borrows from the ArrowData. Rows count from 0.
class ArrowColumnView {
 public:
  ArrowColumnView(ArrowField const& field, ArrowColumn const& column) noexcept
      : ArrowColumnView(field, column, column.offset, column.length) {}

  [[nodiscard]] ArrowField const& field() const noexcept { return *field_; }
  [[nodiscard]] std::string_view name() const noexcept { return field_->name; }
  [[nodiscard]] std::string_view format() const noexcept { return field_->format; }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(length_); }

  [[nodiscard]] bool is_null(std::size_t row) const noexcept;  ///< of this column alone: a parent's null is the parent's
  [[nodiscard]] std::size_t null_count() const noexcept;       ///< counts, O(rows)

  /// The items, null rows included (their values mean nothing). `T` is a number of the items' size and nature: double
  /// for `g`, int64_t for `l`, timestamps, durations and date64, uint16_t for half floats, indices for dictionaries.
  ///
  /// @throws Error{unsupported} when the column's items are something else.
  template <class T>
  [[nodiscard]] std::span<T const> values() const {
    static_assert(detail::arrow_number<T>, "an Arrow column holds numbers");
    constexpr char kind = std::is_floating_point_v<T> ? 'f' : std::is_unsigned_v<T> ? 'u' : 'i';
    check_items(sizeof(T), kind);
    auto const* const items = reinterpret_cast<T const*>(column_->buffers[1].data());
    return {items == nullptr ? nullptr : items + offset_, size()};
  }

  [[nodiscard]] bool boolean(std::size_t row) const;                        ///< format `b`
  [[nodiscard]] std::span<std::byte const> bytes(std::size_t row) const;    ///< binary, text, views, fixed-size items
  [[nodiscard]] std::string_view text(std::size_t row) const;               ///< as bytes; a dictionary is looked up

  [[nodiscard]] std::size_t nchildren() const noexcept { return field_->children.size(); }
  /// A child, moved by this column's offset where the layout says so: row `i` of a struct is row `i` of its children.
  /// The child of a list is whole: `list(row)` says which of its rows belong to a row.
  [[nodiscard]] ArrowColumnView child(std::size_t i) const;
  [[nodiscard]] ArrowColumnView child(std::string_view name) const;  ///< the first of that name
  /// The rows of a list, map, list view or fixed-size list: from … to of child(0).
  [[nodiscard]] std::pair<std::size_t, std::size_t> list(std::size_t row) const;
  /// Unions: which child, and which row of it.
  [[nodiscard]] std::pair<std::size_t, std::size_t> member(std::size_t row) const;
  /// Run-end encoded: which row of child(1) holds the value.
  [[nodiscard]] std::size_t run(std::size_t row) const;

  [[nodiscard]] bool has_dictionary() const noexcept { return field_->dictionary != nullptr; }
  [[nodiscard]] ArrowColumnView dictionary() const;
  [[nodiscard]] std::size_t index(std::size_t row) const;  ///< into the dictionary

 private:
  ArrowColumnView(ArrowField const& field, ArrowColumn const& column, std::int64_t offset, std::int64_t length) noexcept
      : field_(&field), column_(&column), offset_(offset), length_(length) {}

  void check_items(std::size_t nbytes, char kind) const;
  void check_row(std::size_t row) const;
  [[nodiscard]] std::int64_t at(std::size_t buffer, std::int64_t i) const noexcept;  ///< item i of offsets of 4 or 8 bytes

  ArrowField const* field_;
  ArrowColumn const* column_;
  std::int64_t offset_;
  std::int64_t length_;
};

/// Read-only access to decoded Arrow data for C++ programs; shares ownership, copies freely.
class ArrowView {
 public:
  explicit ArrowView(ArrowData data) : data_(std::make_shared<ArrowData const>(std::move(data))) {}

  [[nodiscard]] ArrowKind kind() const noexcept { return data_->kind; }
  [[nodiscard]] ArrowField const& schema() const noexcept { return data_->schema; }
  [[nodiscard]] ArrowData const& data() const noexcept { return *data_; }
  [[nodiscard]] std::size_t nchunks() const noexcept { return data_->chunks.size(); }
  [[nodiscard]] std::size_t nrows() const noexcept;     ///< over all chunks
  [[nodiscard]] std::size_t ncolumns() const noexcept { return data_->schema.children.size(); }
  [[nodiscard]] ArrowColumnView chunk(std::size_t i) const;

  /// A column of chunk `chunk` of a batch or table.
  [[nodiscard]] ArrowColumnView column(std::string_view name, std::size_t chunk = 0) const { return this->chunk(chunk).child(name); }
  [[nodiscard]] ArrowColumnView column(std::size_t i, std::size_t chunk = 0) const { return this->chunk(chunk).child(i); }

 private:
  std::shared_ptr<ArrowData const> data_;
};

}  // namespace transload
