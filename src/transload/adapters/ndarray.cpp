#include "transload/adapters/ndarray.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <unordered_set>

#include "transload/base/limits.hpp"
#include "transload/message/header.hpp"

namespace transload {

namespace {

using msgpack::Reader;

constexpr std::uint64_t most_item_nbytes = INT32_MAX;
constexpr int most_dtype_depth = 32;

[[noreturn]] void bad(std::string_view text, std::string_view why) { raise(ErrorKind::malformed, cat("dtype ", text, ": ", why)); }

DType parse_text(std::string_view text, bool objects) {
  if (text.size() > 64) raise(ErrorKind::malformed, "dtype: too long");
  DType dtype;
  if (text == "|O") {
    if (!objects) bad(text, "objects cannot come from raw bytes");
    dtype.form = DType::Form::object;
    dtype.kind = 'O';
    dtype.itemsize = 8;
    return dtype;
  }
  if (text.size() < 3) bad(text, "not byte order, kind and size");
  dtype.order = text[0];
  dtype.kind = text[1];
  if (dtype.order != '<' && dtype.order != '>' && dtype.order != '|') bad(text, "unknown byte order");
  std::size_t i = 2;
  std::uint64_t size = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    size = size * 10 + static_cast<std::uint64_t>(text[i] - '0');
    if (size > most_item_nbytes) bad(text, "item size is too large");
  }
  if (i == 2) bad(text, "no item size");
  auto const one_of = [&](std::initializer_list<std::uint64_t> sizes) {
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) bad(text, "no such item size");
  };
  switch (dtype.kind) {
    case 'b': one_of({1}); break;
    case 'i':
    case 'u': one_of({1, 2, 4, 8}); break;
    case 'f': one_of({2, 4, 8, 16}); break;
    case 'c': one_of({8, 16, 32}); break;
    case 'm':
    case 'M': one_of({8}); break;
    case 'U':
      size *= 4;
      if (size > most_item_nbytes) bad(text, "item size is too large");
      break;
    case 'S':
    case 'V': break;
    default: bad(text, "unknown kind");
  }
  dtype.itemsize = size;
  if (i == text.size()) return dtype;
  if (dtype.kind != 'm' && dtype.kind != 'M') bad(text, "text behind the item size");
  if (text[i] != '[' || text.back() != ']') bad(text, "the unit is not in brackets");
  dtype.unit = text.substr(i + 1, text.size() - i - 2);
  for (char const c : dtype.unit) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) bad(text, "the unit has other signs than letters and digits");
  }
  return dtype;
}

std::string name_of(Reader& reader, std::string_view field) {
  std::size_t const at = reader.offset();
  std::string_view const text = reader.str(field);
  check_utf8(text, at, field);
  return std::string(text);
}

DType parse_node(Reader& reader, bool objects, int depth) {
  std::size_t const at = reader.offset();
  if (depth > most_dtype_depth) Reader::fail_at(at, cat("dtype: nested deeper than ", most_dtype_depth));
  if (!reader.next_is_array()) {
    std::string_view const text = reader.str("dtype");
    check_utf8(text, at, "dtype");
    try {
      return parse_text(text, objects);
    } catch (Error const& error) {
      Reader::fail_at(at, error.what());
    }
  }
  std::size_t const parts = reader.array("dtype");
  if (parts == 0) Reader::fail_at(at, "dtype: an empty array");
  std::string_view const form = reader.str("dtype form");
  DType dtype;
  if (form == "sub") {
    if (parts != 3) Reader::fail_at(at, "dtype sub: three elements are needed");
    dtype.form = DType::Form::subarray;
    dtype.base = std::make_shared<DType const>(parse_node(reader, objects, depth + 1));
    std::size_t const n = reader.array("dtype sub shape");
    if (n == 0 || n > limits::ndim) Reader::fail_at(at, cat("dtype sub shape: ", n, " dimensions"));
    std::uint64_t total = std::max<std::uint64_t>(dtype.base->itemsize, 1);
    for (std::size_t i = 0; i < n; ++i) {
      auto const d = reader.count("dtype sub shape", most_item_nbytes);
      if (d != 0 && total > most_item_nbytes / d) Reader::fail_at(at, "dtype sub: item size is too large");
      if (d != 0) total *= d;
      dtype.shape.push_back(d);
    }
    dtype.itemsize = std::count(dtype.shape.begin(), dtype.shape.end(), 0U) > 0 || dtype.base->itemsize == 0 ? 0 : total;
    return dtype;
  }
  if (form != "struct") Reader::fail_at(at, cat("dtype form ", form, " is not known"));
  if (parts != 4) Reader::fail_at(at, "dtype struct: four elements are needed");
  dtype.form = DType::Form::structured;
  dtype.itemsize = reader.count("dtype struct itemsize", most_item_nbytes);
  dtype.aligned = reader.boolean("dtype struct aligned");
  std::size_t const nfields = reader.array("dtype struct fields");
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < nfields; ++i) {
    std::size_t const field_at = reader.offset();
    std::size_t const n = reader.array("dtype struct field");
    if (n != 3 && n != 4) Reader::fail_at(field_at, "dtype struct field: name, offset, dtype and perhaps a title are needed");
    DTypeField field;
    field.name = name_of(reader, "dtype struct field name");
    if (!names.insert(field.name).second) Reader::fail_at(field_at, cat("dtype struct field ", field.name, ": its name is taken"));
    field.offset = reader.count("dtype struct field offset", dtype.itemsize);
    field.dtype = parse_node(reader, objects, depth + 1);
    if (field.dtype.itemsize > dtype.itemsize - field.offset) Reader::fail_at(field_at, "dtype struct field: passes the item's end");
    if (n == 4) {
      field.title = name_of(reader, "dtype struct field title");
      field.has_title = true;
    }
    dtype.fields.push_back(std::move(field));
  }
  return dtype;
}

}  // namespace

DType DType::parse(Reader& reader, bool objects) { return parse_node(reader, objects, 0); }

DType DType::parse(std::string_view text, bool objects) { return parse_text(text, objects); }

void DType::pack(msgpack::Packer& out) const {
  switch (form) {
    case Form::structured:
      out.array(4);
      out.str("struct");
      out.unsigned_integer(itemsize);
      out.boolean(aligned);
      out.array(fields.size());
      for (DTypeField const& field : fields) {
        out.array(field.has_title ? 4 : 3);
        out.str(field.name);
        out.unsigned_integer(field.offset);
        field.dtype.pack(out);
        if (field.has_title) out.str(field.title);
      }
      return;
    case Form::subarray:
      out.array(3);
      out.str("sub");
      base->pack(out);
      out.array(shape.size());
      for (std::uint64_t d : shape) out.unsigned_integer(d);
      return;
    case Form::object:
    case Form::plain: out.str(text()); return;
  }
}

std::string DType::text() const {
  switch (form) {
    case Form::object: return "|O";
    case Form::structured: {
      std::string out = "{";
      for (DTypeField const& field : fields) out += cat(out.size() > 1 ? ", " : "", "'", field.name, "': ", field.dtype.text());
      return out + "}";
    }
    case Form::subarray: {
      std::string out = "(";
      for (std::uint64_t d : shape) out += cat(out.size() > 1 ? "," : "", d);
      return cat(out, ")", base->text());
    }
    case Form::plain: break;
  }
  std::string out = cat(order, kind, kind == 'U' ? itemsize / 4 : itemsize);
  if (!unit.empty()) out += cat("[", unit, "]");
  return out;
}

bool DType::raw() const noexcept {
  switch (form) {
    case Form::plain: return true;
    case Form::object: return false;
    case Form::subarray: return base->raw();
    case Form::structured: return std::all_of(fields.begin(), fields.end(), [](DTypeField const& field) { return field.dtype.raw(); });
  }
  return false;
}

bool detail::dtype_fits(DType const& dtype, char kind, std::size_t size) noexcept {
  if (dtype.itemsize != size || !dtype.raw()) return false;
  if (dtype.form != DType::Form::plain) return kind == 'V';
  if (kind == 'V') return dtype.kind == 'V' || dtype.kind == 'S' || dtype.kind == 'U';
  if (dtype.order == '>' && size > 1) return false;
  if (kind == 'i' && (dtype.kind == 'm' || dtype.kind == 'M')) return true;
  return dtype.kind == kind;
}

std::string text_of(DType const& dtype, std::span<std::byte const> item) {
  std::string out;
  if (dtype.form == DType::Form::plain && dtype.kind == 'S') {
    out.assign(reinterpret_cast<char const*>(item.data()), item.size());
    while (!out.empty() && out.back() == '\0') out.pop_back();
    return out;
  }
  expects(dtype.form == DType::Form::plain && dtype.kind == 'U' && item.size() % 4 == 0, ErrorKind::malformed,
          [&] { return cat("an item of ", dtype.text(), " where text is needed"); });
  std::size_t kept = 0;  // up to the last character that is not zero
  for (std::size_t i = 0; i < item.size(); i += 4) {
    std::uint32_t code = 0;
    std::memcpy(&code, item.data() + i, 4);
    if (dtype.order == '>') code = __builtin_bswap32(code);
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) code = 0xfffd;
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | code >> 12);
      out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      out += static_cast<char>(0xf0 | code >> 18);
      out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
      out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
    if (code != 0) kept = out.size();
  }
  out.resize(kept);
  return out;
}

std::uint64_t nd_nbytes(std::span<std::uint64_t const> shape, std::uint64_t itemsize) {
  expects(shape.size() <= limits::ndim, ErrorKind::malformed, [&] { return cat("shape: ", shape.size(), " dimensions, the limit is ", limits::ndim); });
  std::uint64_t product = std::max<std::uint64_t>(itemsize, 1);
  bool empty = itemsize == 0;
  for (std::uint64_t d : shape) {
    if (d == 0) {
      empty = true;
      continue;
    }
    expects(product <= limits::payload_nbytes / d, ErrorKind::malformed, "shape: the array passes 2^62 bytes");
    product *= d;
  }
  return empty ? 0 : product;
}

std::vector<std::int64_t> nd_strides(std::span<std::uint64_t const> shape, std::uint64_t itemsize, bool fortran) {
  std::vector<std::int64_t> strides(shape.size());
  // As NumPy: a dimension of 0 counts as 1, so no stride passes what nd_nbytes allows.
  auto step = static_cast<std::int64_t>(itemsize);
  for (std::size_t k = 0; k < shape.size(); ++k) {
    std::size_t const d = fortran ? k : shape.size() - 1 - k;
    strides[d] = step;
    if (shape[d] > 1) step *= static_cast<std::int64_t>(shape[d]);
  }
  return strides;
}

void check_strides(std::span<std::uint64_t const> shape, std::span<std::int64_t const> strides, std::uint64_t itemsize,
                   std::uint64_t offset, std::uint64_t nbytes) {
  expects(shape.size() == strides.size(), ErrorKind::malformed,
          [&] { return cat("strides: ", strides.size(), ", the shape has ", shape.size(), " dimensions"); });
  expects(offset <= nbytes, ErrorKind::malformed, [&] { return cat("offset: ", offset, " of ", nbytes, " bytes"); });
  // The number of items has to be countable although broadcasts need no bytes for them.
  // Items without bytes lie somewhere, too: whoever walks them steps by the strides.
  (void)nd_nbytes(shape, itemsize);
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return;
  auto const outside = [&] { raise(ErrorKind::malformed, cat("strides: items reach outside the payload's ", nbytes, " bytes")); };
  if (itemsize > nbytes - offset) outside();
  std::uint64_t low = offset;              // the first byte of any item; only goes down
  std::uint64_t high = offset + itemsize;  // behind the last one; only goes up
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<std::int64_t>(shape[d] - 1), strides[d], &reach)) outside();
    if (reach < 0) {
      std::uint64_t const down = ~static_cast<std::uint64_t>(reach) + 1;
      if (down > low) outside();
      low -= down;
    } else {
      if (static_cast<std::uint64_t>(reach) > nbytes - high) outside();
      high += static_cast<std::uint64_t>(reach);
    }
  }
}

NdView::NdView(std::shared_ptr<DType const> dtype, std::span<std::byte const> bytes, std::vector<std::uint64_t> shape, bool fortran,
               std::shared_ptr<void const> keeper)
    : dtype_(std::move(dtype)), bytes_(bytes), shape_(std::move(shape)), keeper_(std::move(keeper)) {
  std::uint64_t const nbytes = nd_nbytes(shape_, dtype_->itemsize);
  expects(nbytes == bytes_.size(), ErrorKind::malformed,
          [&] { return cat("array: ", bytes_.size(), " bytes, shape and dtype need ", nbytes); });
  strides_ = nd_strides(shape_, dtype_->itemsize, fortran);
}

NdView NdView::strided(std::shared_ptr<DType const> dtype, std::span<std::byte const> bytes, std::vector<std::uint64_t> shape,
                       std::vector<std::int64_t> strides, std::uint64_t offset, std::shared_ptr<void const> keeper) {
  check_strides(shape, strides, dtype->itemsize, offset, bytes.size());
  NdView view;
  view.dtype_ = std::move(dtype);
  view.bytes_ = bytes;
  view.shape_ = std::move(shape);
  view.strides_ = std::move(strides);
  view.offset_ = offset;
  view.keeper_ = std::move(keeper);
  return view;
}

std::uint64_t NdView::size() const noexcept {
  std::uint64_t n = 1;
  for (std::uint64_t d : shape_) n *= d;
  return n;
}

namespace {

bool contiguous(std::span<std::uint64_t const> shape, std::span<std::int64_t const> strides, std::uint64_t itemsize, bool fortran) {
  auto step = static_cast<std::int64_t>(itemsize);
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return true;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    std::size_t const d = fortran ? k : shape.size() - 1 - k;
    if (shape[d] == 1) continue;
    if (strides[d] != step) return false;
    step *= static_cast<std::int64_t>(shape[d]);
  }
  return true;
}

}  // namespace

bool NdView::c_contiguous() const noexcept { return contiguous(shape_, strides_, dtype_->itemsize, false); }
bool NdView::f_contiguous() const noexcept { return contiguous(shape_, strides_, dtype_->itemsize, true); }

}  // namespace transload
