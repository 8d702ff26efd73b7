#pragma once
/// Arrow arrays out of a message: every buffer is long enough for its format, length and offset, and every offset, index,
/// type id, run end and view points inside what it points to, before anything is handed out.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transload/adapters/arrow.hpp"
#include "transload/message/header.hpp"
#include "transload/message/msgpack.hpp"

namespace transload {

/// How much of a message `decode_arrow` believes.
enum class ArrowCheck : std::uint8_t {
  all,      ///< nothing: each offset, index, type id, run end, view, null count and UTF-8 text is looked at, O(bytes)
  lengths,  ///< the contents of buffers: only counts and lengths are checked, O(columns). For peers that are trusted
};

/// Where decoding takes payloads from: the bytes of payload number `p`, contiguous, alive as long as the keeper that is
/// given beside it. They should begin at a multiple of `align`; those that do not are copied.
using PayloadBytes = std::function<std::span<std::byte const>(std::uint32_t p, std::size_t align)>;

/// A decoded and checked ARROW node. Moves; the spans in it live as long as `keeper` and `owned`.
struct ArrowData {
  ArrowKind kind = ArrowKind::schema;
  ArrowField schema;
  std::vector<ArrowColumn> chunks;
  std::shared_ptr<void const> keeper;              ///< of the payloads
  std::vector<std::shared_ptr<void const>> owned;  ///< buffers copied because they arrived misaligned

  /// Exports chunk `i`: `out` and each of its children can be moved and released on their own and keep the bytes alive.
  void export_chunk(std::size_t i, ArrowArray* out) const;
};

/// Reads the fields behind the op of an ARROW node: `nfields` of them, the array's count less one.
///
/// A payload that does not lie at its items' alignment is copied into memory that does.
///
/// @throws Error{malformed} with the header's byte offset, the place in the schema, what came and what was needed.
[[nodiscard]] ArrowData decode_arrow(msgpack::Reader& reader, std::size_t nfields, Header const& header,
                                     PayloadBytes const& payload, std::shared_ptr<void const> keeper,
                                     ArrowCheck check = ArrowCheck::all);

}  // namespace transload
