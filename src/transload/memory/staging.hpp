#pragma once
/// Copies to and from GPUs through pinned memory that is kept. Internal to the room; staging.cpp and slots.cpp have it with CUDA, cuda_absent.cpp without.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transload/memory/device.hpp"
#include "transload/memory/ipc.hpp"
#include "transload/memory/resource.hpp"

namespace transload::staging {

/// Pinned memory, or that of the current device.
[[nodiscard]] Resource& resource(MemoryKind kind);

/// Bytes of device memory that a gather of as many pieces as fit into a slot needs beside its arguments.
///
/// @throws Error where CUDA cannot say, as without a GPU.
[[nodiscard]] std::size_t gather_room();

void to_host(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers);
void to_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers);
void on_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers);

[[nodiscard]] std::vector<IntegerBounds> bounds_of(std::span<Integers const> arrays, int device, std::span<StreamHandle const> producers);
[[nodiscard]] std::vector<std::uint64_t> set_bits_of(std::span<Bits const> masks, int device, std::span<StreamHandle const> producers);
[[nodiscard]] Fence fence_after(int device, std::span<StreamHandle const> producers);

/// The slots of a staging ring, and a stream for their copies, which end in the order in which they began.
class Slots {
 public:
  virtual ~Slots() = default;
  [[nodiscard]] virtual std::byte* bytes(std::size_t slot) noexcept = 0;
  /// Begins a copy between a slot and a GPU's memory.
  virtual void copy(void* to, void const* from, std::size_t nbytes) = 0;
  virtual void mark(std::size_t slot) = 0;  ///< behind the copies of `slot`
  virtual void wait(std::size_t slot) = 0;  ///< until they are done
};
[[nodiscard]] std::unique_ptr<Slots> slots(int device);
[[nodiscard]] std::unique_ptr<Slots> twin_slots();

// As in ipc.hpp.
[[nodiscard]] std::optional<ExportedMemory> export_memory(std::span<std::byte const> bytes, int device, std::string& why_not);
[[nodiscard]] std::unique_ptr<Pull> pull(std::span<ExportedMemory const> from, std::span<void* const> to, int device, std::array<std::byte, 16> const& process);
void close_imported() noexcept;
[[nodiscard]] std::size_t nimported() noexcept;

}  // namespace transload::staging
