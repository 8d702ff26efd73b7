#pragma once
/// Memory for a message that is about to come.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "transload/base/error.hpp"
#include "transload/memory/buffer.hpp"

namespace transload {

/// The frames of a message, in order.
using Frames = std::vector<Buffer>;

/// What a frame is at its sender, where the receiver may want to let it land in memory of a kind of its own.
enum class FrameKind : std::uint8_t {
  plain = 0,   ///< bytes that may lie anywhere
  object = 1,  ///< all of one immutable object, as Python's `bytes`: it need not be filled by a copy where it lands in a new one
  device = 2,  ///< memory of a GPU, which may land in memory of a GPU; not part of a message's body, but fetched
  inlined = 3,  ///< a few bytes of a GPU's memory, part of the body: the receiver brings them to a GPU when it takes the message
};

/// Told once: null and what came, or the error and nothing.
using Received = std::function<void(Frames, Error const*)>;

/// A message whose body is about to come, or the frames of a message that are memory of a GPU.
struct Announced {
  std::vector<std::uint64_t> sizes;  ///< bytes of each frame
  std::vector<FrameKind> kinds;      ///< of each frame
};

/// Makes memory for what is announced: a writable buffer of each size, told to `landed` from any thread, or an error. Frames of kind `device` get device
/// memory, all of one device, or all host memory.
using MakeLanding = std::function<void(Announced announced, Received landed)>;

/// The same at once, for device frames, on the thread of whoever takes their message.
using LandNow = std::function<Frames(Announced const& announced)>;

/// One writable buffer a size, from `resource`, not initialised. A frame of 4 KiB or more is a block of its own, 64-byte
/// aligned, and goes back when it is let go. Smaller ones share blocks of up to 64 KiB, each at a multiple of 16.
///
/// @throws Error{exhausted} when `resource` has no room.
[[nodiscard]] Frames make_landing(std::span<std::uint64_t const> sizes, Resource& resource);

}  // namespace transload
