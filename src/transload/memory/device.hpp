#pragma once
/// Memory of GPUs: the one door for copies between it and host memory.
///
/// Every function here returns when its bytes are where they belong, for every stream. A build without CUDA has the same functions, which
/// throw Error{unsupported}; device `host_twin` works there, too.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transload/memory/buffer.hpp"

namespace transload {

/// A "device" whose memory is ordinary host memory: copies to and from it are `memcpy`. For tests on machines without a GPU.
inline constexpr int host_twin = -1;

/// A stream as the CUDA runtime names it: 1 is the legacy default stream, 2 the calling thread's own, else the address of a `cudaStream_t`.
using StreamHandle = std::uintptr_t;
inline constexpr StreamHandle legacy_stream = 1;

/// One run of bytes to be copied.
struct Copy {
  void* to = nullptr;
  void const* from = nullptr;
  std::size_t nbytes = 0;
};

/// Copies from memory of `device` to host memory, when the work that `producers` were given so far is done: what is small is gathered on
/// the device first, and all goes through pinned memory, several copies at a time.
///
/// @throws Error{exhausted} without memory for that, Error{failed} where CUDA reports an error, Error{unsupported} without CUDA or in a forked child.
void copy_to_host(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers = {});
/// The other way: what is small crosses together and is scattered on the device. `producers` are those that may still use the memory.
void copy_to_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers = {});
/// Copies between two places on `device`; many in one launch.
void copy_on_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers = {});

/// Passed when the work that `producers` and the legacy default stream were given so far is done.
///
/// @throws as the copies.
[[nodiscard]] Fence fence_after(int device, std::span<StreamHandle const> producers = {});

/// Signed integers in a device's memory.
struct Integers {
  void const* values = nullptr;  ///< at a multiple of `itemsize`
  std::size_t n = 0;
  unsigned itemsize = 4;  ///< bytes: 4 or 8
  bool ordered = false;   ///< whether they ascend is asked, too
};
struct IntegerBounds {
  std::int64_t least = 0;  ///< of none: 0
  std::int64_t most = 0;   ///< of none: -1
  bool ascending = true;   ///< none is less than the one before; where that was asked
};
/// Looks at all of each array, in one pass for all, when the work that `producers` were given so far is done.
///
/// @throws as the copies; Error{malformed} for an address that is no multiple of the item's size.
[[nodiscard]] std::vector<IntegerBounds> bounds_of(std::span<Integers const> arrays, int device, std::span<StreamHandle const> producers = {});

/// Bits in a device's memory, as Arrow has masks: bit i of words of 32 in this machine's order is bit i % 32 of word i / 32.
struct Bits {
  void const* words = nullptr;  ///< at a multiple of 4, and whole words of memory up to the last bit
  std::size_t first = 0;        ///< the bit that begins
  std::size_t n = 0;
};
/// How many bits of each mask are set, in one pass for all, as `bounds_of`.
///
/// @throws as the copies; Error{malformed} for an address that is no multiple of 4.
[[nodiscard]] std::vector<std::uint64_t> set_bits_of(std::span<Bits const> masks, int device, std::span<StreamHandle const> producers = {});

/// The device of a pointer into GPU memory, -1 for host memory, pinned or not.
///
/// @throws Error{unsupported} without CUDA.
[[nodiscard]] int device_of(void const* pointer);

/// The current device of the calling thread.
[[nodiscard]] int current_device();

/// What the copies of this process keep.
struct StagingStats {
  std::size_t pinned_nbytes = 0;  ///< page-locked host memory
  std::size_t device_nbytes = 0;  ///< of GPUs, to gather into
  std::uint64_t waits = 0;        ///< for staging memory that others used
  std::uint64_t unpinned = 0;     ///< staging rings in ordinary memory, as too many were in use
};
[[nodiscard]] StagingStats staging_stats() noexcept;

}  // namespace transload
