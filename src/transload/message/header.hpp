#pragma once
/// The header: `[version, meta, names, shapes, layout, sizes, root]`. docs/format.md, "The header".

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transload/base/limits.hpp"
#include "transload/message/layout.hpp"
#include "transload/message/msgpack.hpp"

namespace transload {

inline constexpr unsigned format_version = 1;

/// An entry of `names`: text for a class, function or wire name; bytes for a class or function by value (family pickle).
struct NameEntry {
  bool by_value = false;
  std::string_view text;             ///< valid UTF-8; empty when by_value
  std::span<std::byte const> bytes;  ///< by_value only

  /// A registered adapter's wire name, as opposed to `module:qualified.name`.
  [[nodiscard]] bool is_wire_name() const noexcept { return !by_value && text.find(':') == std::string_view::npos; }
};

/// An entry of `shapes`: the class (an index into names) of an OBJECT, or none for a RECORD; and its keys.
struct ShapeEntry {
  std::optional<std::uint32_t> cls;
  std::vector<std::string_view> keys;
};

/// A parsed header. Borrows the bytes it was parsed from; `root` is msgpack that was not looked at yet.
struct Header {
  std::vector<NameEntry> names;
  std::vector<ShapeEntry> shapes;
  std::vector<PayloadSize> sizes;
  Layout layout;
  std::vector<std::string_view> families;     ///< meta "families"
  std::vector<std::uint64_t> frame_xxh3;      ///< meta "xxh3": empty or one a frame
  std::vector<std::string_view> frame_codec;  ///< meta "!codec": empty or one a frame, "" for none
  std::size_t codec_offset = 0;               ///< where "!codec" begins in the header's bytes
  std::vector<std::uint8_t> payload_kinds;    ///< meta "!kinds": empty or one a payload; also in `sizes`
  std::vector<std::size_t> dtypes;            ///< meta "!dtypes": where each begins in the header's bytes; not looked at yet
  std::size_t root_offset = 0;                ///< where root begins in the header's bytes

  /// Checks version, tables, limits and that nothing follows; does not descend into root. A reader that has the frames
  /// says how many: a few bytes can ask for 2^24 otherwise.
  ///
  /// @throws Error{malformed} with field and byte offset.
  [[nodiscard]] static Header parse(std::span<std::byte const> bytes, std::size_t most_frames = limits::table_entries);

  /// Throws Error{malformed} unless the frames have the number and sizes that the layout says.
  void check_frames(std::span<std::uint64_t const> frame_nbytes) const;
};

/// `header` with meta `!codec` and `xxh3` as given (one entry a frame; left out where empty) in place of its own.
///
/// @throws Error{malformed} for bytes that are no header.
[[nodiscard]] msgpack::Packer with_stored(std::span<std::byte const> header, std::span<std::string_view const> frame_codec,
                                          std::span<std::uint64_t const> frame_xxh3);

/// Collects the parts of a header while an object is walked, and writes them down.
///
/// Payloads are borrowed: the caller keeps the bytes alive and unchanged until the frames were made from `payloads()`.
class HeaderWriter {
 public:
  /// Where nodes are appended.
  [[nodiscard]] msgpack::Packer& root() noexcept { return root_; }

  std::uint32_t add_name(std::string_view name);                      ///< not interned: ask once a name
  std::uint32_t add_name_by_value(std::span<std::byte const> pickle);  ///< marks the message as family pickle
  std::uint32_t add_shape(std::optional<std::uint32_t> cls, std::span<std::string_view const> keys);
  std::uint32_t add_payload(std::span<std::byte const> bytes);
  std::uint32_t add_device_payload(std::span<std::byte const> bytes);  ///< of a GPU's memory, which is not looked into
  /// A dtype for the table in meta: raw as in ARRAY, and not a str. Equal ones share an entry.
  std::uint32_t add_dtype(std::span<std::byte const> raw);
  void add_family(std::string_view family);  ///< kept once, in order

  [[nodiscard]] std::span<std::span<std::byte const> const> payloads() const noexcept { return payloads_; }
  [[nodiscard]] std::span<PayloadSize const> sizes() const noexcept { return sizes_; }  ///< windows are known after `finish`
  [[nodiscard]] std::span<std::string const> families() const noexcept { return families_; }

  /// Merges payloads that share memory, plans the frames and returns the header's bytes; `layout` says where each payload goes.
  /// Payloads of a GPU's memory up to `device_pack` bytes share packs, where there are many of them: a few are not worth a copy.
  [[nodiscard]] msgpack::Packer finish(std::optional<LayoutLimits> wish, Layout& layout, std::uint64_t device_pack = 0);

 private:
  msgpack::Packer root_;
  msgpack::Packer names_;
  msgpack::Packer shapes_;
  std::size_t nnames_ = 0;
  std::size_t nshapes_ = 0;
  std::vector<std::span<std::byte const>> payloads_;
  std::vector<PayloadSize> sizes_;
  std::vector<std::string> families_;
  msgpack::Packer dtypes_;
  std::unordered_map<std::string, std::uint32_t> dtype_numbers_;  ///< by the bytes
};

/// Throws Error{malformed} unless `text` is valid UTF-8 (no surrogates, no overlong forms).
void check_utf8(std::string_view text, std::size_t offset, std::string_view field);

}  // namespace transload
