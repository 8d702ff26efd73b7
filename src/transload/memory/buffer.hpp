#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "transload/memory/resource.hpp"

namespace transload {

/// Tells whether work that a GPU was given before is done, without waiting; empty: there was none. Throws Error{failed} where the device
/// has an error. May be called from any thread.
using Fence = std::function<bool()>;

/// A run of bytes with what keeps it alive: a block of a `Resource`, or somebody else's memory and its keeper.
///
/// One owner; moves, does not copy. `nbytes()` bytes of kind `kind()`; an owned block begins at a multiple of 64. The
/// bytes of a device buffer must not be followed by the host. A buffer that is moved from is empty.
/// Destroying a buffer gives the block back to its resource, or lets go of the keeper, from whichever thread.
class Buffer {
 public:
  Buffer() noexcept = default;

  /// A writable block of `resource`, not initialised. `resource` outlives the buffer.
  ///
  /// @throws Error{exhausted} when `resource` has no room.
  [[nodiscard]] static Buffer allocate(std::size_t nbytes, Resource& resource);

  /// Bytes of somebody else, read-only. They stay valid and unchanged while `keeper` lives; without a keeper the caller
  /// sees to that.
  [[nodiscard]] static Buffer borrow(std::span<std::byte const> bytes, std::shared_ptr<void const> keeper = {},
                                     MemoryKind kind = MemoryKind::host) noexcept;
  /// The same, writable through this buffer.
  [[nodiscard]] static Buffer borrow_writable(std::span<std::byte> bytes, std::shared_ptr<void const> keeper = {},
                                              MemoryKind kind = MemoryKind::host) noexcept;

  /// Memory of GPU `device` (`host_twin` in tests), whose bytes may be read and written once `fence` says so.
  [[nodiscard]] static Buffer borrow_device(std::span<std::byte> bytes, std::shared_ptr<void const> keeper, int device, Fence fence = {},
                                            bool readonly = false);

  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(Buffer const&) = delete;
  Buffer& operator=(Buffer const&) = delete;
  ~Buffer() { reset(); }

  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return {data_, nbytes_}; }
  [[nodiscard]] std::byte const* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }
  [[nodiscard]] bool empty() const noexcept { return nbytes_ == 0; }
  [[nodiscard]] MemoryKind kind() const noexcept { return kind_; }
  /// The GPU of device memory; of host memory it says nothing.
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Whether device memory may be used now; `Fence` has what it throws. Host memory always may.
  [[nodiscard]] bool ready() const { return fence_ == nullptr || (*fence_)(); }
  [[nodiscard]] bool readonly() const noexcept { return readonly_; }
  /// Whether the bytes are a block of a resource, as opposed to borrowed.
  [[nodiscard]] bool owned() const noexcept { return resource_ != nullptr; }

  /// What keeps borrowed bytes alive; null for a block of a resource.
  [[nodiscard]] std::shared_ptr<void const> const& keeper() const noexcept { return keeper_; }

  /// The bytes, to be written.
  ///
  /// @throws Error{failed} when the buffer is read-only.
  [[nodiscard]] std::span<std::byte> writable();

  /// A second buffer on the same bytes that keeps them alive by itself. An owned block gets a keeper first (one small
  /// allocation), after which both buffers borrow.
  [[nodiscard]] Buffer share();

  /// Lets go of the bytes; the buffer is empty then.
  void reset() noexcept;

 private:
  void swap(Buffer& other) noexcept;

  std::byte* data_ = nullptr;
  std::size_t nbytes_ = 0;
  Resource* resource_ = nullptr;
  std::shared_ptr<void const> keeper_;
  std::shared_ptr<Fence const> fence_;
  int device_ = 0;
  MemoryKind kind_ = MemoryKind::host;
  bool readonly_ = false;
};

}  // namespace transload
