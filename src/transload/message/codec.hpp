#pragma once
/// Compression of frames, meta `!codec`. docs/format.md, "Compressed frames".

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "transload/memory/buffer.hpp"

namespace transload {

/// Whether this library can decompress frames of codec `name`.
[[nodiscard]] bool knows_codec(std::string_view name) noexcept;

/// Decompresses one frame: `lz4` (LZ4 frame format) or `zstd` (Zstandard frames), which must give exactly `nbytes`
/// bytes and end with `stored`. Host memory on both sides; the result is a block of `resource`.
///
/// `nbytes` is what the header's layout says, so nothing is allocated that the codec could not have packed into `stored`.
///
/// @throws Error{unsupported} for a codec that is not known here, with its name.
/// @throws Error{malformed} for bytes that are not what the codec or the layout says.
[[nodiscard]] Buffer decompress(std::string_view codec, std::span<std::byte const> stored, std::uint64_t nbytes, Resource& resource);

/// Compresses `bytes` as one frame of `codec`, at the codec's default level.
///
/// @throws Error{unsupported} for a codec that is not known here, with its name.
[[nodiscard]] Buffer compress(std::string_view codec, std::span<std::byte const> bytes, Resource& resource);

}  // namespace transload
