#include "transload/adapters/arrow.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <cstring>
#include <limits>

#include "transload/base/error.hpp"
#include "transload/message/header.hpp"

namespace transload {

namespace {

constexpr std::array<std::string_view, 5> kind_names{"array", "chunked", "batch", "table", "schema"};

[[noreturn]] void unknown(std::string_view format) {
  raise(ErrorKind::unsupported, cat("Arrow format '", format.substr(0, 64), "' is not known here"));
}

/// The decimal integer that is all of `text`.
std::int64_t number(std::string_view text, std::string_view format) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) unknown(format);
  return value;
}

ArrowFormat fixed(std::uint32_t nbytes, std::uint32_t align) {
  ArrowFormat type;
  type.layout = ArrowLayout::fixed;
  type.item_nbytes = nbytes;
  type.align = align;
  return type;
}

ArrowFormat index(std::uint32_t nbytes, bool is_signed) {
  ArrowFormat type = fixed(nbytes, nbytes);
  type.integer = true;
  type.is_signed = is_signed;
  return type;
}

ArrowFormat offsets(ArrowLayout layout, std::uint32_t nbytes) {
  ArrowFormat type;
  type.layout = layout;
  type.item_nbytes = nbytes;
  type.align = nbytes;
  return type;
}

ArrowFormat bytes(ArrowLayout layout, std::uint32_t offset_nbytes, bool text) {
  ArrowFormat type = offsets(layout, offset_nbytes);
  type.text = text;
  if (layout == ArrowLayout::view) type.align = 8, type.item_nbytes = 16;
  return type;
}

/// `d:precision,scale[,bits]`
ArrowFormat decimal(std::string_view format) {
  std::array<std::int64_t, 3> parts{0, 0, 128};
  std::string_view rest = format.substr(2);
  std::size_t n = 0;
  for (;;) {
    std::size_t const comma = rest.find(',');
    if (n == parts.size()) unknown(format);
    parts[n++] = number(rest.substr(0, comma), format);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  auto const [precision, scale, bits] = parts;
  std::int64_t const most = bits == 32 ? 9 : bits == 64 ? 18 : bits == 128 ? 38 : bits == 256 ? 76 : 0;
  if (n < 2 || precision < 1 || precision > most || scale < INT32_MIN || scale > INT32_MAX) unknown(format);
  auto const nbytes = static_cast<std::uint32_t>(bits / 8);
  return fixed(nbytes, std::min(nbytes, 8U));
}

ArrowFormat temporal(std::string_view format) {
  std::string_view const f = format;
  if (f == "tdD" || f == "tts" || f == "ttm" || f == "tiM") return fixed(4, 4);
  if (f == "tdm" || f == "ttu" || f == "ttn" || f == "tDs" || f == "tDm" || f == "tDu" || f == "tDn") return fixed(8, 8);
  if (f == "tiD") return fixed(8, 4);   // two int32: days, milliseconds
  if (f == "tin") return fixed(16, 8);  // int32 months, int32 days, int64 nanoseconds
  if (f.size() >= 4 && f.starts_with("ts") && f[3] == ':' && std::string_view("smun").find(f[2]) != std::string_view::npos) {
    return fixed(8, 8);  // what follows the colon is the time zone
  }
  unknown(format);
}

ArrowFormat union_of(std::string_view format) {
  ArrowFormat type;
  type.layout = format[2] == 's' ? ArrowLayout::sparse_union : ArrowLayout::dense_union;
  type.item_nbytes = 1;
  std::string_view rest = format.substr(4);
  std::bitset<128> seen;
  while (!rest.empty()) {
    std::size_t const comma = rest.find(',');
    std::int64_t const id = number(rest.substr(0, comma), format);
    if (id < 0 || id > 127 || seen.test(static_cast<std::size_t>(id))) unknown(format);
    seen.set(static_cast<std::size_t>(id));
    type.type_ids.push_back(static_cast<std::int8_t>(id));
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
    if (rest.empty()) unknown(format);
  }
  return type;
}

ArrowFormat nested(std::string_view format) {
  if (format == "+s") return offsets(ArrowLayout::struct_, 0);
  if (format == "+l") return offsets(ArrowLayout::list, 4);
  if (format == "+L") return offsets(ArrowLayout::list, 8);
  if (format == "+vl") return offsets(ArrowLayout::list_view, 4);
  if (format == "+vL") return offsets(ArrowLayout::list_view, 8);
  if (format == "+r") return offsets(ArrowLayout::run_end, 0);
  if (format == "+m") {
    ArrowFormat type = offsets(ArrowLayout::list, 4);
    type.map = true;
    return type;
  }
  if (format.starts_with("+w:")) {
    ArrowFormat type = offsets(ArrowLayout::fixed_list, 0);
    type.list_size = number(format.substr(3), format);
    if (type.list_size < 0 || type.list_size > INT32_MAX) unknown(format);
    return type;
  }
  if (format.starts_with("+us:") || format.starts_with("+ud:")) return union_of(format);
  unknown(format);
}

/// Length of the metadata that begins at `metadata`: int32 count, then for each key and value int32 length and bytes.
std::size_t metadata_nbytes(char const* metadata) {
  auto const int32 = [&](std::size_t at) {
    std::int32_t value = 0;
    std::memcpy(&value, metadata + at, sizeof(value));
    expects(value >= 0, ErrorKind::unsupported, "Arrow metadata: a negative length");
    return static_cast<std::size_t>(value);
  };
  std::size_t const texts = 2 * int32(0);
  std::size_t at = 4;
  for (std::size_t i = 0; i < texts; ++i) at += 4 + int32(at);
  return at;
}

std::string utf8(char const* text, std::string_view what) {
  std::string value(text);
  try {
    check_utf8(value, 0, what);
  } catch (Error const&) {
    raise(ErrorKind::unsupported, cat("Arrow schema: a ", what, " is not UTF-8"));
  }
  return value;
}

ArrowField read(ArrowSchema const& schema, std::size_t depth) {
  expects(depth < arrow_depth, ErrorKind::unsupported, [&] { return cat("Arrow type: nested deeper than ", arrow_depth); });
  expects(schema.release != nullptr && schema.format != nullptr, ErrorKind::unsupported, "Arrow schema: released");
  ArrowField field;
  field.format = utf8(schema.format, "format");
  field.type = ArrowFormat::parse(field.format);
  field.has_name = schema.name != nullptr;
  if (field.has_name) field.name = utf8(schema.name, "name");
  field.flags = schema.flags;
  if (schema.metadata != nullptr) field.metadata.assign(schema.metadata, metadata_nbytes(schema.metadata));
  field.children.reserve(static_cast<std::size_t>(std::max<std::int64_t>(schema.n_children, 0)));
  for (std::int64_t i = 0; i < schema.n_children; ++i) field.children.push_back(read(*schema.children[i], depth + 1));
  if (schema.dictionary != nullptr) field.dictionary = std::make_unique<ArrowField>(read(*schema.dictionary, depth + 1));
  if (auto const wrong = field.why_wrong(); !wrong.empty()) raise(ErrorKind::unsupported, cat("Arrow schema, field '", field.name, "': ", wrong));
  return field;
}

struct OwnedSchema {
  std::string format;
  std::string name;
  std::string metadata;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> child_pointers;
  ArrowSchema dictionary{};
};

void release_schema(ArrowSchema* schema) {
  auto* const owned = static_cast<OwnedSchema*>(schema->private_data);
  for (ArrowSchema& child : owned->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (owned->dictionary.release != nullptr) owned->dictionary.release(&owned->dictionary);
  delete owned;
  schema->release = nullptr;
}

}  // namespace

std::string_view to_string(ArrowKind kind) noexcept { return kind_names[static_cast<std::size_t>(kind)]; }

std::optional<ArrowKind> try_arrow_kind(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kind_names.size(); ++i) {
    if (kind_names[i] == name) return static_cast<ArrowKind>(i);
  }
  return std::nullopt;
}

ArrowFormat ArrowFormat::parse(std::string_view format) {
  if (format.empty()) unknown(format);
  if (format.size() == 1) {
    switch (format.front()) {
      case 'n': return {};
      case 'b': return offsets(ArrowLayout::boolean, 0);
      case 'c': return index(1, true);
      case 'C': return index(1, false);
      case 's': return index(2, true);
      case 'S': return index(2, false);
      case 'i': return index(4, true);
      case 'I': return index(4, false);
      case 'l': return index(8, true);
      case 'L': return index(8, false);
      case 'e': return fixed(2, 2);
      case 'f': return fixed(4, 4);
      case 'g': return fixed(8, 8);
      case 'z': return bytes(ArrowLayout::binary, 4, false);
      case 'Z': return bytes(ArrowLayout::binary, 8, false);
      case 'u': return bytes(ArrowLayout::binary, 4, true);
      case 'U': return bytes(ArrowLayout::binary, 8, true);
      default: unknown(format);
    }
  }
  if (format == "vz") return bytes(ArrowLayout::view, 16, false);
  if (format == "vu") return bytes(ArrowLayout::view, 16, true);
  if (format.starts_with("d:")) return decimal(format);
  if (format.starts_with("w:")) {
    std::int64_t const nbytes = number(format.substr(2), format);
    if (nbytes < 0 || nbytes > INT32_MAX) unknown(format);
    return fixed(static_cast<std::uint32_t>(nbytes), 1);
  }
  if (format.front() == 't') return temporal(format);
  if (format.front() == '+') return nested(format);
  unknown(format);
}

std::string ArrowField::why_wrong() const {
  std::size_t needed = 0;
  switch (type.layout) {
    case ArrowLayout::list:
    case ArrowLayout::list_view:
    case ArrowLayout::fixed_list: needed = 1; break;
    case ArrowLayout::run_end: needed = 2; break;
    case ArrowLayout::struct_: needed = children.size(); break;
    case ArrowLayout::sparse_union:
    case ArrowLayout::dense_union: needed = type.type_ids.size(); break;
    default: break;
  }
  if (children.size() != needed) return cat("format ", format, " has ", needed, " children, here are ", children.size());
  if (type.map && (children[0].type.layout != ArrowLayout::struct_ || children[0].children.size() != 2)) {
    return "the child of a map must be a struct of key and value";
  }
  if (type.layout == ArrowLayout::run_end) {
    ArrowFormat const& ends = children[0].type;
    if (!ends.integer || !ends.is_signed || ends.item_nbytes == 1 || children[0].dictionary != nullptr) {
      return cat("run ends must have format s, i or l, here is ", children[0].format);
    }
  }
  if (dictionary != nullptr && !type.integer) return cat("dictionary indices must be integers, format ", format, " is not");
  constexpr std::int64_t known = ARROW_FLAG_DICTIONARY_ORDERED | ARROW_FLAG_NULLABLE | ARROW_FLAG_MAP_KEYS_SORTED;
  if ((flags & ~known) != 0) return cat("flags ", flags, ", known are ", known);
  return {};
}

ArrowField ArrowField::from_c(ArrowSchema const& schema) { return read(schema, 0); }

void ArrowField::export_to(ArrowSchema* out) const {
  auto owned = std::make_unique<OwnedSchema>();
  owned->format = format;
  owned->name = name;
  owned->metadata = metadata;
  owned->children.resize(children.size());
  owned->child_pointers.resize(children.size());
  *out = ArrowSchema{
      .format = owned->format.c_str(),
      .name = has_name ? owned->name.c_str() : nullptr,
      .metadata = metadata.empty() ? nullptr : owned->metadata.data(),
      .flags = flags,
      .n_children = static_cast<std::int64_t>(children.size()),
      .children = children.empty() ? nullptr : owned->child_pointers.data(),
      .dictionary = dictionary == nullptr ? nullptr : &owned->dictionary,
      .release = release_schema,
      .private_data = owned.get(),
  };
  OwnedSchema& kept = *owned.release();
  try {
    for (std::size_t i = 0; i < children.size(); ++i) {
      kept.child_pointers[i] = &kept.children[i];
      children[i].export_to(&kept.children[i]);
    }
    if (dictionary != nullptr) dictionary->export_to(&kept.dictionary);
  } catch (...) {
    out->release(out);
    throw;
  }
}

}  // namespace transload
