#pragma once
/// Arrow arrays into a message: object → header + payloads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "transload/adapters/arrow.hpp"
#include "transload/message/header.hpp"
#include "transload/message/op.hpp"

namespace transload {

/// Takes a payload in the place of `HeaderWriter::add_payload` and returns its number, which must be the writer's next.
using AddPayload = std::function<std::uint32_t(std::span<std::byte const> bytes, std::shared_ptr<void const> const& made)>;

/// Appends one ARROW node to `writer`: its buffers as payloads, everything else in the header.
///
/// Only the rows shown travel. Fixed-width buffers are cut (bitmaps at whole bytes), children are cut to the range that
/// their parents show, and nothing is copied but what must be made anew: offsets that do not begin at 0, bitmaps of
/// nested slices that begin inside a byte, run ends and views of a slice. A dictionary travels whole and once.
///
/// Borrows the arrays' buffers: the caller keeps them, and the returned keeper of the new ones, until the frames were
/// made from `writer.payloads()`. Nothing is written to `writer` when an error is thrown. Where the caller keeps something
/// for each payload, `add` is called in the place of `writer.add_payload`, with the bytes and the keeper of the new buffers.
///
/// `op` is written first: Op::arrow, with the mark where the object takes a memo number.
/// The arrays' contents are believed as far as the process that made them is: lengths and child counts are checked,
/// offsets only at the ends of what is shown.
///
/// @throws Error{unsupported} for a layout this format does not know or arrays that do not fit the schema.
[[nodiscard]] std::shared_ptr<void const> encode_arrow(HeaderWriter& writer, ArrowKind kind, ArrowSchema const& schema,
                                                       std::span<ArrowArray const* const> chunks,
                                                       std::uint8_t op = static_cast<std::uint8_t>(Op::arrow),
                                                       AddPayload const& add = {});

}  // namespace transload
