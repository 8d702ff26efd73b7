#pragma once
/// The arguments of a gather. Internal to the room.

#include <cstddef>

namespace transload::staging {

/// From where, to where, and how many bytes, of `n` pieces: three arrays one behind the other, so that only those that are used go to the device.
class Pieces {
 public:
  /// Over `nbytes(n)` bytes of memory, which is aligned as pointers are. They may be a device's: nothing is read here.
  Pieces(std::byte* memory, std::size_t n) noexcept : memory_(memory), n_(n) {}

  [[nodiscard]] static constexpr std::size_t nbytes(std::size_t n) noexcept { return n * (2 * sizeof(void*) + sizeof(std::size_t)); }

  [[nodiscard]] void** from() const noexcept { return reinterpret_cast<void**>(memory_); }
  [[nodiscard]] void** to() const noexcept { return from() + n_; }
  [[nodiscard]] std::size_t* sizes() const noexcept { return reinterpret_cast<std::size_t*>(to() + n_); }

 private:
  std::byte* memory_;
  std::size_t n_;
};

}  // namespace transload::staging
