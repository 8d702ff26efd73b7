#pragma once
/// Memory for a message that is about to come.

#include <cstdint>
#include <span>
#include <vector>

#include "transload/memory/buffer.hpp"

namespace transload {

/// The frames of a message, in order.
using Frames = std::vector<Buffer>;

/// One writable buffer a size, from `resource`, not initialised. A frame of 4 KiB or more is a block of its own, 64-byte
/// aligned, and goes back when it is let go. Smaller ones share blocks of up to 64 KiB, each at a multiple of 16.
///
/// @throws Error{exhausted} when `resource` has no room.
[[nodiscard]] Frames make_landing(std::span<std::uint64_t const> sizes, Resource& resource);

}  // namespace transload
