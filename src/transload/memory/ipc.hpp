#pragma once
/// Memory of a GPU that another process of this host reads where it lies: CUDA IPC.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transload/memory/device.hpp"

namespace transload {

/// How another process finds bytes of a GPU's memory. 104 bytes on the wire, in the order of the fields, little-endian.
struct ExportedMemory {
  static constexpr std::size_t wire_nbytes = 104;

  std::array<std::byte, 64> handle{};     ///< `cudaIpcMemHandle_t` of the allocation
  std::array<std::byte, 16> device{};     ///< the GPU's UUID
  std::uint64_t allocation = 0;           ///< number of the allocation, which no other one of its process ever has
  std::uint64_t offset = 0;               ///< of the first byte in the allocation
  std::uint64_t nbytes = 0;

  friend bool operator==(ExportedMemory const&, ExportedMemory const&) = default;
};

void pack_exported(ExportedMemory const& memory, std::vector<std::byte>& out);
/// `bytes` has `wire_nbytes`.
[[nodiscard]] ExportedMemory parse_exported(std::span<std::byte const> bytes) noexcept;

/// Says how others find `bytes` of `device`. Whoever exports keeps the memory until he was told that it was read. Nothing where CUDA does not share
/// memory of this kind (pools of `cudaMallocAsync`, virtual memory, managed memory): `why_not` says so.
[[nodiscard]] std::optional<ExportedMemory> export_memory(std::span<std::byte const> bytes, int device, std::string& why_not);

/// Copies that read memory of another process.
class Pull {
 public:
  virtual ~Pull() = default;  ///< waits until nothing is read or written any more
  /// Whether all bytes have come; does not wait.
  ///
  /// @throws Error{failed} where the device has an error.
  [[nodiscard]] virtual bool done() = 0;
};

/// Begins to copy each of `from` to memory of `device`, `to`, of the same size. `process` names the other process. What was opened stays open for a
/// while: it is closed by `close_imported` when it was not used for two seconds.
///
/// @throws Error{unsupported} where memory cannot be opened here, with the reason.
[[nodiscard]] std::unique_ptr<Pull> pull(std::span<ExportedMemory const> from, std::span<void* const> to, int device,
                                         std::array<std::byte, 16> const& process);

/// Closes what nobody has used for a while; called now and then.
void close_imported() noexcept;
/// Allocations of other processes that are open here.
[[nodiscard]] std::size_t nimported() noexcept;

}  // namespace transload
