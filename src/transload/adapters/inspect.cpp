#include "transload/adapters/inspect.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "transload/adapters/arrow_view.hpp"

namespace transload {

namespace {

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> room;
  auto const [end, error] = std::to_chars(room.data(), room.data() + room.size(), value);
  std::string text(room.data(), end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  explicit Printer(InspectOptions options) : options_(options) {}

  void print(Value const& value, std::size_t depth) {
    if (nlines_ > options_.max_lines) return;
    if (value.is_shared() && !is_leaf(value)) {
      auto const [at, fresh] = seen_.try_emplace(value.id(), seen_.size());
      if (!fresh) {
        out_ += cat("<the same as #", at->second, ">");
        return;
      }
      out_ += cat("#", at->second, " ");
    }
    switch (value.kind()) {
      case ValueKind::none: out_ += "None"; return;
      case ValueKind::boolean: out_ += value.as<bool>() ? "True" : "False"; return;
      case ValueKind::integer:
      case ValueKind::bigint: out_ += value.integer_text(); return;
      case ValueKind::real: out_ += real_text(value.as<double>()); return;
      case ValueKind::complex: {
        auto const number = value.as<std::complex<double>>();
        out_ += cat("complex(", real_text(number.real()), ", ", real_text(number.imag()), ")");
        return;
      }
      case ValueKind::str:
      case ValueKind::text: quote(value.as<std::string_view>(), '"'); return;
      case ValueKind::bytes: bytes(value.as<std::span<std::byte const>>()); return;
      case ValueKind::bytearray:
        out_ += "bytearray(";
        bytes(value.as<std::span<std::byte const>>());
        out_ += ")";
        return;
      case ValueKind::memoryview: out_ += cat("memoryview ", value.format(), " ", shape(value.shape())); return;
      case ValueKind::list: elements(value, "[", "]", depth); return;
      case ValueKind::tuple: elements(value, "(", value.size() == 1 ? ",)" : ")", depth); return;
      case ValueKind::set: elements(value, "{", "}", depth); return;
      case ValueKind::frozenset: elements(value, "frozenset {", "}", depth); return;
      case ValueKind::slice: elements(value, "slice(", ")", depth); return;
      case ValueKind::range: elements(value, "range(", ")", depth); return;
      case ValueKind::object_array: elements(value, cat("array of objects ", shape(value.shape()), " ["), "]", depth); return;
      case ValueKind::dict: pairs(value, "{", depth); return;
      case ValueKind::object: pairs(value, cat(name(value), " {"), depth); return;
      case ValueKind::name: out_ += name(value); return;
      case ValueKind::reduce:
      case ValueKind::instance: rebuilt(value, depth); return;
      case ValueKind::adapted:
        out_ += cat("<", value.name(), "> ");
        if (deeper(depth)) inside(value.inner(), depth);
        return;
      case ValueKind::array: array(value); return;
      case ValueKind::scalar: {
        NdView const item = value.array();
        out_ += cat(item.dtype().text(), " ");
        items(item, 1);
        return;
      }
      case ValueKind::dtype: out_ += cat("dtype ", value.dtype().text()); return;
      case ValueKind::arrow: arrow(value); return;
      case ValueKind::pickle: out_ += cat("<pickle of ", value.as<std::span<std::byte const>>().size(), " bytes>"); return;
      case ValueKind::device: out_ += cat("<", value.as<std::span<std::byte const>>().size(), " bytes of a GPU's memory>"); return;
      case ValueKind::error:
        out_ += "<error: ";
        quote(value.as<std::string_view>(), '"');
        out_ += ">";
        return;
    }
  }

  std::string take() { return std::move(out_); }

 private:
  bool deeper(std::size_t depth) {
    if (depth < options_.max_depth) return true;
    out_ += "…";
    return false;
  }

  void line(std::size_t depth) {
    out_ += '\n';
    out_.append(2 * (depth - outdent_), ' ');
    ++nlines_;
  }

  /// Prints what stands on the same line as its owner: one level deeper, but not further to the right.
  void inside(Value const& value, std::size_t depth) {
    ++outdent_;
    print(value, depth + 1);
    --outdent_;
  }

  static bool is_leaf(Value const& value) {
    switch (value.kind()) {
      case ValueKind::none:
      case ValueKind::boolean:
      case ValueKind::integer:
      case ValueKind::bigint:
      case ValueKind::real:
      case ValueKind::str:
      case ValueKind::text:
      case ValueKind::name: return true;
      default: return false;
    }
  }

  void elements(Value const& value, std::string_view open, std::string_view close, std::size_t depth) {
    out_ += open;
    std::size_t const n = value.size();
    if (n > 0 && !deeper(depth)) {
      out_ += close;
      return;
    }
    std::size_t const shown = std::min(n, options_.max_items);
    bool leaves = true;
    for (std::size_t i = 0; i < shown; ++i) leaves = leaves && is_leaf(value[i]);
    for (std::size_t i = 0; i < shown; ++i) {
      if (leaves) {
        if (i > 0) out_ += ", ";
      } else {
        line(depth + 1);
      }
      print(value[i], depth + 1);
    }
    if (shown < n) {
      if (leaves) {
        out_ += ", ";
      } else {
        line(depth + 1);
      }
      out_ += cat("… ", n - shown, " more");
    }
    if (!leaves) line(depth);
    out_ += close;
  }

  void pairs(Value const& value, std::string_view open, std::size_t depth) {
    out_ += open;
    std::size_t const n = value.size();
    if (n == 0) {
      out_ += "}";
      return;
    }
    if (!deeper(depth)) {
      out_ += "}";
      return;
    }
    // Attributes are shown all: they are what a class is made of.
    std::size_t const shown = value.kind() == ValueKind::object ? n : std::min(n, options_.max_items);
    for (std::size_t i = 0; i < shown && nlines_ <= options_.max_lines; ++i) {
      line(depth + 1);
      auto const [key, mapped] = value.pair(i);
      if (value.kind() == ValueKind::object) {
        plain(key.as<std::string_view>());
      } else {
        print(key, depth + 1);
      }
      out_ += ": ";
      print(mapped, depth + 1);
    }
    if (shown < n) {
      line(depth + 1);
      out_ += cat("… ", n - shown, " more");
    }
    line(depth);
    out_ += "}";
  }

  void rebuilt(Value const& value, std::size_t depth) {
    out_ += name(value);
    elements(value.args(), "(", ")", depth);
    auto const also = [&](std::string_view label, Value const& part) {
      if (part.is_none()) return;
      out_ += cat(" ", label, " ");
      if (deeper(depth)) inside(part, depth);
    };
    also("with", value.kwargs());
    also("items", value.list_items());
    also("pairs", value.dict_items());
    also("state", value.state());
    also("set by", value.state_setter());
  }

  std::string name(Value const& value) {
    auto const by_value = value.name_by_value();
    if (value.name().empty() && !by_value.empty()) return cat("<class or function by value, ", by_value.size(), " bytes>");
    return escaped(value.name());
  }

  static std::string shape(std::span<std::uint64_t const> shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) text += cat(i > 0 ? ", " : "", shape[i]);
    return text + (shape.size() == 1 ? ",)" : ")");
  }

  void array(Value const& value) {
    NdView const array = value.array();
    out_ += value.is_floats() ? cat("floats ", shape(array.shape()), " [") : cat("array ", array.dtype().text(), " ", shape(array.shape()), " [");
    items(array, options_.max_items);
    out_ += "]";
    if (!value.is_floats() && array.readonly()) out_ += " read-only";
  }

  template <class T>
  bool items_as(NdView const& array, std::size_t most) {
    if (!detail::dtype_fits(array.dtype(), detail::dtype_kind<T>(), sizeof(T))) return false;
    NdSpan<T> const span = array.as<T>();
    std::uint64_t const n = array.size();
    // The first items in C order; for_each has no end but the last.
    std::vector<std::uint64_t> index(array.ndim(), 0);
    for (std::uint64_t i = 0; i < n && i < most; ++i) {
      if (i > 0) out_ += ", ";
      T const item = span.at(index);
      if constexpr (std::is_same_v<T, bool>) {
        out_ += item ? "True" : "False";
      } else if constexpr (std::is_floating_point_v<T>) {
        out_ += real_text(static_cast<double>(item));
      } else {
        out_ += cat(item);
      }
      for (std::size_t d = array.ndim(); d-- > 0;) {
        if (++index[d] < array.shape()[d]) break;
        index[d] = 0;
      }
    }
    if (n > most) out_ += cat(", … ", n - most, " more");
    return true;
  }

  void items(NdView const& array, std::size_t most) {
    if (items_as<double>(array, most) || items_as<float>(array, most) || items_as<bool>(array, most)) return;
    if (items_as<std::int64_t>(array, most) || items_as<std::int32_t>(array, most) || items_as<std::int16_t>(array, most)) return;
    if (items_as<std::int8_t>(array, most) || items_as<std::uint64_t>(array, most) || items_as<std::uint32_t>(array, most)) return;
    if (items_as<std::uint16_t>(array, most) || items_as<std::uint8_t>(array, most)) return;
    DType const& dtype = array.dtype();
    if (dtype.form == DType::Form::plain && (dtype.kind == 'U' || dtype.kind == 'S')) {
      std::uint64_t shown = 0;
      array.for_each_item([&](std::span<std::byte const> item) {
        if (shown > 0) out_ += ", ";
        quote(text_of(dtype, item), '"');
        return ++shown < most;
      });
      if (array.size() > shown) out_ += cat(", … ", array.size() - shown, " more");
      return;
    }
    out_ += cat(nd_nbytes(array.shape(), dtype.itemsize), " bytes");
  }

  void arrow(Value const& value) {
    ArrowView const view = value.arrow();
    out_ += cat("arrow ", to_string(view.kind()), " of ", view.nrows(), " rows");
    if (view.kind() == ArrowKind::table || view.kind() == ArrowKind::batch) {
      out_ += " [";
      std::size_t const n = view.ncolumns();
      for (std::size_t i = 0; i < n && i < options_.max_items; ++i) {
        auto const& field = view.schema().children[i];
        out_ += cat(i > 0 ? ", " : "", escaped(field.name), ": ", escaped(field.format));
      }
      if (n > options_.max_items) out_ += cat(", … ", n - options_.max_items, " more");
      out_ += "]";
    } else {
      out_ += cat(" ", escaped(view.schema().format));
    }
  }

  // Nothing from a message reaches the terminal unescaped.
  static std::string escaped(std::string_view text, char quote = '\0') {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      char const c = text[i];
      auto const byte = static_cast<unsigned char>(c);
      if (byte == 0xed && i + 2 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0xa0) {
        // A lone surrogate, which no terminal shows.
        unsigned const code = 0xd000U | (static_cast<unsigned char>(text[i + 1]) & 0x3fU) << 6 | (static_cast<unsigned char>(text[i + 2]) & 0x3fU);
        out += "\\u";
        for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[(code >> shift) & 15];
        i += 2;
      } else if (c == '\n') {
        out += "\\n";
      } else if (c == '\\' || (quote != '\0' && c == quote)) {
        out += '\\';
        out += c;
      } else if (byte < 0x20 || byte == 0x7f) {
        out += "\\x";
        out += "0123456789abcdef"[byte >> 4];
        out += "0123456789abcdef"[byte & 15];
      } else {
        out += c;
      }
    }
    return out;
  }

  void plain(std::string_view text) { out_ += escaped(text); }

  void quote(std::string_view text, char mark) {
    std::size_t n = std::min(text.size(), options_.max_text);
    while (n < text.size() && n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;  // not inside a character
    out_ += mark;
    out_ += escaped(text.substr(0, n), mark);
    out_ += mark;
    if (n < text.size()) out_ += cat("… ", text.size() - n, " bytes more");
  }

  void bytes(std::span<std::byte const> bytes) {
    out_ += "b\"";
    std::size_t const n = std::min(bytes.size(), options_.max_text);
    for (std::byte const b : bytes.first(n)) {
      auto const c = static_cast<unsigned char>(b);
      if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
        out_ += static_cast<char>(c);
      } else {
        out_ += "\\x";
        out_ += "0123456789abcdef"[c >> 4];
        out_ += "0123456789abcdef"[c & 15];
      }
    }
    out_ += '"';
    if (n < bytes.size()) out_ += cat("… ", bytes.size() - n, " bytes more");
  }

  InspectOptions options_;
  std::string out_;
  std::size_t nlines_ = 0;
  std::size_t outdent_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> seen_;
};

}  // namespace

std::string inspect(Value const& value, InspectOptions options) {
  // Printing recurses once a level.
  options.max_depth = std::min<std::size_t>(options.max_depth, 500);
  Printer printer(options);
  printer.print(value, 0);
  return printer.take();
}

}  // namespace transload
