#include "transload/message/header.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

namespace transload {

namespace {

using msgpack::Reader;

constexpr std::uint8_t device_payload = 2;  // in meta "!kinds"
constexpr std::ptrdiff_t many_device_payloads = 8;  // from which on larger ones are gathered, where the writer wishes it

std::size_t table(Reader& reader, std::string_view field) {
  std::size_t const at = reader.offset();
  std::size_t const n = reader.array(field);
  if (n > limits::table_entries) Reader::fail_at(at, cat(field, ": ", n, " entries, the limit is ", limits::table_entries));
  return n;
}

std::string_view text(Reader& reader, std::string_view field) {
  std::size_t const at = reader.offset();
  std::string_view const value = reader.str(field);
  check_utf8(value, at, field);
  return value;
}

void read_meta(Reader& reader, Header& header, std::size_t most_frames) {
  // One entry a frame: not more than there are, whatever the count says.
  auto const frames_table = [&](std::string_view field) {
    std::size_t const at = reader.offset();
    std::size_t const k = table(reader, field);
    if (k > most_frames) Reader::fail_at(at, cat(field, ": ", k, " entries, one for each of ", most_frames, " frames is needed"));
    return k;
  };
  constexpr std::array<std::string_view, 5> known{"families", "xxh3", "!codec", "!kinds", "!dtypes"};
  std::array<bool, known.size()> seen{};
  std::size_t const n = reader.map("meta");
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const at = reader.offset();
    std::string_view const key = text(reader, "meta key");
    auto const which = static_cast<std::size_t>(std::find(known.begin(), known.end(), key) - known.begin());
    if (which < known.size() && std::exchange(seen[which], true)) Reader::fail_at(at, cat("meta key ", key, " comes twice"));
    if (key == "families") {
      for (std::size_t k = table(reader, "meta families"); k > 0; --k) header.families.push_back(text(reader, "meta families"));
    } else if (key == "xxh3") {
      for (std::size_t k = frames_table("meta xxh3"); k > 0; --k) {
        std::size_t const value_at = reader.offset();
        auto const token = reader.next();
        if (token.type != msgpack::Type::big_unsigned && (token.type != msgpack::Type::integer || token.integer < 0)) {
          Reader::fail_at(value_at, "meta xxh3: not an int of 0 or more");
        }
        header.frame_xxh3.push_back(token.big_unsigned);
      }
    } else if (key == "!codec") {
      header.codec_offset = reader.offset();
      for (std::size_t k = frames_table("meta !codec"); k > 0; --k) {
        std::size_t const value_at = reader.offset();
        if (reader.peek() == 0xc0) {
          reader.skip();
          header.frame_codec.emplace_back();
        } else {
          header.frame_codec.push_back(text(reader, "meta !codec"));
          if (header.frame_codec.back().empty()) Reader::fail_at(value_at, "meta !codec: a name without a letter");
        }
      }
    } else if (key == "!kinds") {
      for (std::size_t k = table(reader, "meta !kinds"); k > 0; --k) {
        std::size_t const value_at = reader.offset();
        auto const kind = static_cast<std::uint8_t>(reader.count("meta !kinds", device_payload));
        if (kind != 0 && kind != device_payload) Reader::fail_at(value_at, cat("meta !kinds: ", unsigned{kind}, " is no kind of memory"));
        header.payload_kinds.push_back(kind);
      }
    } else if (key == "!dtypes") {
      for (std::size_t k = table(reader, "meta !dtypes"); k > 0; --k) {
        header.dtypes.push_back(reader.offset());
        reader.skip();
      }
    } else if (!key.empty() && key.front() == '!') {
      Reader::fail_at(at, cat("meta key ", key, " is not known to this version and must be"));
    } else {
      reader.skip();
    }
  }
}

void read_names(Reader& reader, Header& header) {
  std::size_t const n = table(reader, "names");
  header.names.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const at = reader.offset();
    auto const token = reader.next();
    if (token.type == msgpack::Type::str) {
      check_utf8(token.text(), at, "names");
      header.names.push_back({.by_value = false, .text = token.text(), .bytes = {}});
    } else if (token.type == msgpack::Type::bin) {
      header.names.push_back({.by_value = true, .text = {}, .bytes = token.bytes()});
    } else {
      Reader::fail_at(at, cat("names[", i, "]: ", to_string(token.type), " where str or bin is needed"));
    }
  }
}

void read_shapes(Reader& reader, Header& header) {
  std::size_t const n = table(reader, "shapes");
  header.shapes.resize(n);
  for (ShapeEntry& shape : header.shapes) {
    std::size_t const at = reader.offset();
    std::size_t const parts = reader.array("shapes");
    if (parts == 0) Reader::fail_at(at, "shapes: an empty shape");
    if (reader.peek() == 0xc0) {
      reader.skip();
    } else {
      std::size_t const cls_at = reader.offset();
      auto const cls = reader.count("shapes class", limits::table_entries);
      if (cls >= header.names.size()) Reader::fail_at(cls_at, cat("shapes class: ", cls, " of ", header.names.size(), " names"));
      shape.cls = static_cast<std::uint32_t>(cls);
    }
    shape.keys.reserve(parts - 1);
    for (std::size_t k = 1; k < parts; ++k) shape.keys.push_back(text(reader, "shapes key"));
  }
}

LayoutLimits read_limits(Reader& reader) {
  LayoutLimits limits;
  std::size_t const at = reader.offset();
  if (reader.peek() == 0xc0) {
    reader.skip();
    return limits;
  }
  std::size_t const parts = reader.array("layout");
  if (parts != 2 && parts != 3) Reader::fail_at(at, "layout: two or three elements are needed");
  limits.pack_limit = reader.count("layout pack_limit", limits::payload_nbytes);
  limits.split_limit = reader.count("layout split_limit", limits::payload_nbytes);
  if (parts == 3) limits.device_pack_limit = reader.count("layout device_pack_limit", limits::payload_nbytes);
  return limits;
}

void read_sizes(Reader& reader, Header& header) {
  std::size_t const n = table(reader, "sizes");
  header.sizes.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    PayloadSize size;
    if (reader.next_is_array()) {
      std::size_t const at = reader.offset();
      if (reader.array("sizes window") != 3) Reader::fail_at(at, "sizes window: three elements are needed");
      size.window_of = static_cast<std::int64_t>(reader.count("sizes window payload", limits::table_entries));
      size.window_offset = reader.count("sizes window offset", limits::payload_nbytes);
    }
    size.nbytes = reader.count("sizes", limits::payload_nbytes);
    header.sizes.push_back(size);
  }
}

}  // namespace

Header Header::parse(std::span<std::byte const> bytes, std::size_t most_frames) {
  expects(bytes.size() <= limits::header_nbytes, ErrorKind::malformed,
          [&] { return cat("header: ", bytes.size(), " bytes, the limit is ", limits::header_nbytes); });
  Reader reader(bytes);
  Header header;
  std::size_t const parts = reader.array("header");
  if (parts == 0) Reader::fail_at(0, "header: an empty array");
  auto const version = reader.count("version", UINT32_MAX);
  if (version != format_version) {
    Reader::fail_at(1, cat("version: ", version, " is not known here; this reader knows ", format_version));
  }
  if (parts != 7) Reader::fail_at(0, cat("header: ", parts, " elements, version 1 has 7"));
  read_meta(reader, header, most_frames);
  read_names(reader, header);
  read_shapes(reader, header);
  std::size_t const layout_at = reader.offset();
  LayoutLimits const limits = read_limits(reader);
  read_sizes(reader, header);
  auto const one_each = [&](std::size_t have, std::size_t need, std::string_view field) {
    if (have != 0 && have != need) Reader::fail_at(layout_at, cat(field, ": ", have, " entries, ", need, " are needed"));
  };
  one_each(header.payload_kinds.size(), header.sizes.size(), "meta !kinds");
  for (std::size_t p = 0; p < header.payload_kinds.size(); ++p) header.sizes[p].device = header.payload_kinds[p] == device_payload;
  try {
    header.layout = Layout::plan(header.sizes, limits, most_frames);
  } catch (Error const& error) {
    Reader::fail_at(layout_at, error.what());
  }
  one_each(header.frame_xxh3.size(), header.layout.frame_nbytes.size(), "meta xxh3");
  one_each(header.frame_codec.size(), header.layout.frame_nbytes.size(), "meta !codec");
  header.root_offset = reader.offset();
  reader.skip();
  if (!reader.done()) reader.fail_here(cat("header: ", reader.remaining(), " bytes behind root"));
  return header;
}

void Header::check_frames(std::span<std::uint64_t const> frame_nbytes) const {
  expects(frame_nbytes.size() == layout.frame_nbytes.size(), ErrorKind::malformed,
          [&] { return cat("frames: ", frame_nbytes.size(), " came, the header needs ", layout.frame_nbytes.size()); });
  for (std::size_t i = 0; i < frame_nbytes.size(); ++i) {
    if (!frame_codec.empty() && !frame_codec[i].empty()) continue;
    expects(frame_nbytes[i] == layout.frame_nbytes[i], ErrorKind::malformed,
            [&] { return cat("frame ", i, ": ", frame_nbytes[i], " bytes came, the header needs ", layout.frame_nbytes[i]); });
  }
}

msgpack::Packer with_stored(std::span<std::byte const> header, std::span<std::string_view const> frame_codec,
                            std::span<std::uint64_t const> frame_xxh3) {
  Reader reader(header);
  expects(reader.array("header") == 7, ErrorKind::malformed, "header: version 1 has 7 elements");
  reader.skip();  // version
  std::size_t const meta_at = reader.offset();
  std::size_t const n = reader.map("meta");
  msgpack::Packer kept;
  std::size_t nkept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const at = reader.offset();
    std::string_view const key = reader.str("meta key");
    reader.skip();
    if (key == "!codec" || key == "xxh3") continue;
    kept.raw(reader.since(at));
    ++nkept;
  }
  msgpack::Packer out;
  out.reserve(header.size() + 16 + 5 * frame_codec.size() + 9 * frame_xxh3.size());
  out.raw(header.first(meta_at));
  out.map(nkept + (frame_codec.empty() ? 0 : 1) + (frame_xxh3.empty() ? 0 : 1));
  out.raw(kept.bytes());
  if (!frame_codec.empty()) {
    out.str("!codec");
    out.array(frame_codec.size());
    for (std::string_view const codec : frame_codec) {
      if (codec.empty()) {
        out.nil();
      } else {
        out.str(codec);
      }
    }
  }
  if (!frame_xxh3.empty()) {
    out.str("xxh3");
    out.array(frame_xxh3.size());
    for (std::uint64_t const sum : frame_xxh3) out.unsigned_integer(sum);
  }
  out.raw(header.subspan(reader.offset()));
  expects(out.size() <= limits::header_nbytes, ErrorKind::unsupported,
          [&] { return cat("the header has ", out.size(), " bytes, ", limits::header_nbytes, " are the most"); });
  return out;
}

std::uint32_t HeaderWriter::add_name(std::string_view name) {
  names_.str(name);
  return static_cast<std::uint32_t>(nnames_++);
}

std::uint32_t HeaderWriter::add_name_by_value(std::span<std::byte const> pickle) {
  names_.bin(pickle);
  return static_cast<std::uint32_t>(nnames_++);
}

std::uint32_t HeaderWriter::add_shape(std::optional<std::uint32_t> cls, std::span<std::string_view const> keys) {
  shapes_.array(1 + keys.size());
  if (cls) {
    shapes_.unsigned_integer(*cls);
  } else {
    shapes_.nil();
  }
  for (std::string_view key : keys) shapes_.str(key);
  return static_cast<std::uint32_t>(nshapes_++);
}

std::uint32_t HeaderWriter::add_payload(std::span<std::byte const> bytes) {
  payloads_.push_back(bytes);
  sizes_.push_back({.nbytes = bytes.size()});
  return static_cast<std::uint32_t>(payloads_.size() - 1);
}

std::uint32_t HeaderWriter::add_device_payload(std::span<std::byte const> bytes) {
  std::uint32_t const number = add_payload(bytes);
  sizes_.back().device = true;
  return number;
}

std::uint32_t HeaderWriter::add_dtype(std::span<std::byte const> raw) {
  auto const number = static_cast<std::uint32_t>(dtype_numbers_.size());
  auto const [entry, added] = dtype_numbers_.try_emplace(std::string(reinterpret_cast<char const*>(raw.data()), raw.size()), number);
  if (added) dtypes_.raw(raw);
  return entry->second;
}

void HeaderWriter::add_family(std::string_view family) {
  if (std::find(families_.begin(), families_.end(), family) == families_.end()) families_.emplace_back(family);
}

msgpack::Packer HeaderWriter::finish(std::optional<LayoutLimits> wish, Layout& layout, std::uint64_t device_pack) {
  expects(nnames_ <= limits::table_entries && nshapes_ <= limits::table_entries && sizes_.size() <= limits::table_entries &&
              dtype_numbers_.size() <= limits::table_entries,
          ErrorKind::unsupported,
          [&] { return cat(nnames_, " names, ", nshapes_, " shapes, ", sizes_.size(), " payloads, ", dtype_numbers_.size(), " dtypes; ", limits::table_entries, " are the most"); });
  merge_overlaps(payloads_, sizes_);
  LayoutLimits limits = wish ? *wish : default_limits(sizes_);
  auto const gains = [&](PayloadSize const& size) { return size.device && size.window_of < 0 && size.nbytes > limits.pack_limit && size.nbytes <= device_pack; };
  if (std::ranges::count_if(sizes_, gains) >= many_device_payloads) limits.device_pack_limit = device_pack;
  layout = Layout::plan(sizes_, limits);

  msgpack::Packer out;
  out.reserve(root_.size() + names_.size() + shapes_.size() + 3 * sizes_.size() + 128);
  out.array(7);
  out.unsigned_integer(format_version);
  // "host" alone is what a reader assumes.
  bool const plain = families_.empty() || (families_.size() == 1 && families_.front() == "host");
  bool const devices = std::ranges::any_of(sizes_, &PayloadSize::device);
  out.map((plain ? 0 : 1) + (devices ? 1 : 0) + (dtype_numbers_.empty() ? 0 : 1));
  if (!plain) {
    out.str("families");
    out.array(families_.size());
    for (std::string const& family : families_) out.str(family);
  }
  if (devices) {
    out.str("!kinds");
    out.array(sizes_.size());
    for (PayloadSize const& size : sizes_) out.unsigned_integer(size.device ? device_payload : 0);
  }
  if (!dtype_numbers_.empty()) {
    out.str("!dtypes");
    out.array(dtype_numbers_.size());
    out.raw(dtypes_.bytes());
  }
  out.array(nnames_);
  out.raw(names_.bytes());
  out.array(nshapes_);
  out.raw(shapes_.bytes());
  if (sizes_.empty()) {
    out.nil();
  } else {
    out.array(limits.device_pack_limit == 0 ? 2 : 3);
    out.unsigned_integer(limits.pack_limit);
    out.unsigned_integer(limits.split_limit);
    if (limits.device_pack_limit != 0) out.unsigned_integer(limits.device_pack_limit);
  }
  out.array(sizes_.size());
  for (PayloadSize const& size : sizes_) {
    if (size.window_of < 0) {
      out.unsigned_integer(size.nbytes);
    } else {
      out.array(3);
      out.integer(size.window_of);
      out.unsigned_integer(size.window_offset);
      out.unsigned_integer(size.nbytes);
    }
  }
  out.raw(root_.bytes());
  expects(out.size() <= limits::header_nbytes, ErrorKind::unsupported,
          [&] { return cat("the header has ", out.size(), " bytes, ", limits::header_nbytes, " are the most"); });
  return out;
}

void check_utf8(std::string_view text, std::size_t offset, std::string_view field) {
  auto const* at = reinterpret_cast<unsigned char const*>(text.data());
  auto const* const end = at + text.size();
  auto const bad = [&] { msgpack::Reader::fail_at(offset, cat(field, ": invalid UTF-8")); };
  while (at < end) {
    if (*at < 0x80) {
      ++at;
      continue;
    }
    std::size_t more = 0;
    std::uint32_t code = 0;
    std::uint32_t least = 0;
    if ((*at & 0xe0) == 0xc0) {
      more = 1, code = *at & 0x1fU, least = 0x80;
    } else if ((*at & 0xf0) == 0xe0) {
      more = 2, code = *at & 0x0fU, least = 0x800;
    } else if ((*at & 0xf8) == 0xf0) {
      more = 3, code = *at & 0x07U, least = 0x10000;
    } else {
      bad();
    }
    if (static_cast<std::size_t>(end - at) <= more) bad();
    for (std::size_t i = 1; i <= more; ++i) {
      if ((at[i] & 0xc0) != 0x80) bad();
      code = (code << 6) | (at[i] & 0x3fU);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) bad();
    at += more + 1;
  }
}

}  // namespace transload
