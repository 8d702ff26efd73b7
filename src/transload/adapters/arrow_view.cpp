#include "transload/adapters/arrow_view.hpp"

#include "transload/adapters/arrow_bits.hpp"
#include "transload/base/error.hpp"

namespace transload {

namespace {

using arrow_bits::load;

[[noreturn]] void is_not(ArrowField const& field, std::string_view what) {
  raise(ErrorKind::unsupported, cat("column '", field.name, "' of format ", field.format, " has no ", what));
}

}  // namespace

std::int64_t ArrowColumnView::at(std::size_t buffer, std::int64_t i) const noexcept {
  void const* const items = column_->buffers[buffer].data();
  return field_->type.item_nbytes == 4 ? load<std::int32_t>(items, i) : load<std::int64_t>(items, i);
}

void ArrowColumnView::check_row(std::size_t row) const {
  expects(row < size(), ErrorKind::failed, [&] { return cat("row ", row, " of column '", field_->name, "', which has ", size()); });
}

void ArrowColumnView::check_items(std::size_t nbytes, char kind) const {
  ArrowFormat const& type = field_->type;
  std::string_view const f = field_->format;
  bool fits = type.layout == ArrowLayout::fixed && type.item_nbytes == nbytes;
  if (fits && type.integer) {
    fits = kind == (type.is_signed ? 'i' : 'u');
  } else if (fits && (f == "f" || f == "g")) {
    fits = kind == 'f';
  } else if (fits && f == "e") {
    fits = kind == 'u';
  } else if (fits) {
    // Time is counted in signed integers; so are small decimals. Pairs, and items without a nature, are `bytes`.
    fits = kind == 'i' && f != "tiD" && f != "tin" && !f.starts_with("w:");
  }
  if (!fits) is_not(*field_, cat("items of ", nbytes, " bytes, ", kind == 'f' ? "floating" : kind == 'i' ? "signed" : "unsigned"));
}

bool ArrowColumnView::is_null(std::size_t row) const noexcept {
  if (field_->type.layout == ArrowLayout::null) return true;
  if (column_->buffers.empty() || column_->null_count == 0) return false;
  if (field_->type.layout == ArrowLayout::sparse_union || field_->type.layout == ArrowLayout::dense_union) return false;
  void const* const bitmap = column_->buffers[0].data();
  return bitmap != nullptr && !arrow_bits::bit(bitmap, offset_ + static_cast<std::int64_t>(row));
}

std::size_t ArrowColumnView::null_count() const noexcept {
  std::size_t nulls = 0;
  for (std::size_t row = 0; row < size(); ++row) nulls += is_null(row) ? 1 : 0;
  return nulls;
}

bool ArrowColumnView::boolean(std::size_t row) const {
  check_row(row);
  if (field_->type.layout != ArrowLayout::boolean) is_not(*field_, "booleans");
  return arrow_bits::bit(column_->buffers[1].data(), offset_ + static_cast<std::int64_t>(row));
}

std::span<std::byte const> ArrowColumnView::bytes(std::size_t row) const {
  check_row(row);
  std::int64_t const i = offset_ + static_cast<std::int64_t>(row);
  switch (field_->type.layout) {
    case ArrowLayout::binary: {
      std::int64_t const from = at(1, i);
      return {column_->buffers[2].data() + from, static_cast<std::size_t>(at(1, i + 1) - from)};
    }
    case ArrowLayout::view: {
      if (is_null(row)) return {};  // whatever lies there was not checked
      std::byte const* const view = column_->buffers[1].data() + 16 * i;
      auto const nbytes = static_cast<std::size_t>(load<std::int32_t>(view, 0));
      if (nbytes <= 12) return {view + 4, nbytes};
      auto const buffer = static_cast<std::size_t>(load<std::int32_t>(view, 2));
      return {column_->buffers[2 + buffer].data() + load<std::int32_t>(view, 3), nbytes};
    }
    case ArrowLayout::fixed: {
      if (has_dictionary()) return is_null(row) ? std::span<std::byte const>{} : dictionary().bytes(index(row));
      std::int64_t const width = field_->type.item_nbytes;
      return {column_->buffers[1].data() + i * width, static_cast<std::size_t>(width)};
    }
    default: is_not(*field_, "bytes of its rows");
  }
}

std::string_view ArrowColumnView::text(std::size_t row) const {
  ArrowField const& field = has_dictionary() ? *field_->dictionary : *field_;
  if (!field.type.text) is_not(*field_, "text");
  auto const data = bytes(row);
  return {reinterpret_cast<char const*>(data.data()), data.size()};
}

ArrowColumnView ArrowColumnView::child(std::size_t i) const {
  expects(i < nchildren(), ErrorKind::failed, [&] { return cat("child ", i, " of '", field_->name, "', which has ", nchildren()); });
  ArrowField const& field = field_->children[i];
  ArrowColumn const& column = column_->children[i];
  bool const same_rows = field_->type.layout == ArrowLayout::struct_ || field_->type.layout == ArrowLayout::sparse_union;
  if (!same_rows) return {field, column};
  return {field, column, column.offset + offset_, length_};
}

ArrowColumnView ArrowColumnView::child(std::string_view name) const {
  for (std::size_t i = 0; i < nchildren(); ++i) {
    if (field_->children[i].name == name) return child(i);
  }
  raise(ErrorKind::failed, cat("no column '", name, "' in '", field_->name, "'"));
}

std::pair<std::size_t, std::size_t> ArrowColumnView::list(std::size_t row) const {
  check_row(row);
  std::int64_t const i = offset_ + static_cast<std::int64_t>(row);
  switch (field_->type.layout) {
    case ArrowLayout::list: return {static_cast<std::size_t>(at(1, i)), static_cast<std::size_t>(at(1, i + 1))};
    case ArrowLayout::list_view: return {static_cast<std::size_t>(at(1, i)), static_cast<std::size_t>(at(1, i) + at(2, i))};
    case ArrowLayout::fixed_list: {
      auto const n = static_cast<std::size_t>(field_->type.list_size);
      return {static_cast<std::size_t>(i) * n, static_cast<std::size_t>(i + 1) * n};
    }
    default: is_not(*field_, "lists");
  }
}

std::pair<std::size_t, std::size_t> ArrowColumnView::member(std::size_t row) const {
  check_row(row);
  bool const dense = field_->type.layout == ArrowLayout::dense_union;
  if (!dense && field_->type.layout != ArrowLayout::sparse_union) is_not(*field_, "type ids");
  std::int64_t const i = offset_ + static_cast<std::int64_t>(row);
  auto const id = load<std::int8_t>(column_->buffers[0].data(), i);
  std::size_t child = 0;
  while (child < field_->type.type_ids.size() && field_->type.type_ids[child] != id) ++child;
  return {child, dense ? static_cast<std::size_t>(load<std::int32_t>(column_->buffers[1].data(), i)) : row};
}

std::size_t ArrowColumnView::run(std::size_t row) const {
  check_row(row);
  if (field_->type.layout != ArrowLayout::run_end) is_not(*field_, "runs");
  std::int64_t const i = offset_ + static_cast<std::int64_t>(row);
  ArrowColumnView const ends = child(0);
  auto const end = [&](std::size_t k) -> std::int64_t {
    void const* const items = ends.column_->buffers[1].data();
    std::int64_t const at = ends.offset_ + static_cast<std::int64_t>(k);
    switch (ends.field_->type.item_nbytes) {
      case 2: return load<std::int16_t>(items, at);
      case 4: return load<std::int32_t>(items, at);
      default: return load<std::int64_t>(items, at);
    }
  };
  std::size_t from = 0;
  std::size_t to = ends.size();
  while (from < to) {
    std::size_t const middle = from + (to - from) / 2;
    if (end(middle) > i) {
      to = middle;
    } else {
      from = middle + 1;
    }
  }
  return from;
}

ArrowColumnView ArrowColumnView::dictionary() const {
  if (!has_dictionary()) is_not(*field_, "dictionary");
  return {*field_->dictionary, *column_->dictionary};
}

std::size_t ArrowColumnView::index(std::size_t row) const {
  check_row(row);
  if (!has_dictionary()) is_not(*field_, "dictionary");
  std::int64_t const i = offset_ + static_cast<std::int64_t>(row);
  void const* const items = column_->buffers[1].data();
  switch (field_->type.item_nbytes) {
    case 1: return load<std::uint8_t>(items, i);
    case 2: return load<std::uint16_t>(items, i);
    case 4: return load<std::uint32_t>(items, i);
    default: return load<std::uint64_t>(items, i);
  }
}

std::size_t ArrowView::nrows() const noexcept {
  std::size_t rows = 0;
  for (ArrowColumn const& chunk : data_->chunks) rows += static_cast<std::size_t>(chunk.length);
  return rows;
}

ArrowColumnView ArrowView::chunk(std::size_t i) const {
  expects(i < nchunks(), ErrorKind::failed, [&] { return cat("chunk ", i, " of ", nchunks()); });
  return {data_->schema, data_->chunks[i]};
}

}  // namespace transload
