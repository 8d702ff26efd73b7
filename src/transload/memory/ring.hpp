#pragma once
/// The staging ring: bytes of a GPU on their way to a wire, or from one, through a few slots of pinned host memory.

#include <cstddef>
#include <deque>
#include <memory>
#include <span>

namespace transload {

namespace staging {
class Slots;
}

/// Moves runs of device memory, one after the other as one run of bytes, between a GPU and whoever writes or reads them in host memory. The copies
/// run ahead of a writer and behind a reader. Belongs to one thread at a time.
///
/// The runs stay valid, and nobody else uses them, while the ring lives; it waits for its copies when it dies.
class StagingRing {
 public:
  /// Bytes in one copy: the wire moves one slot while the GPU moves the next (docs/measuring.md, "Staging rings").
  static constexpr std::size_t slot_nbytes = std::size_t{1} << 20;
  static constexpr std::size_t nslots = 4;

  /// `outward`: from the device to `next()`. Otherwise from `next()` to the device.
  ///
  /// @throws Error{exhausted} without memory for the slots, Error{unsupported} without CUDA, unless `device` is `host_twin`.
  StagingRing(int device, bool outward);
  StagingRing(StagingRing const&) = delete;
  ~StagingRing();

  /// Another run behind those before. Before the first `next`.
  void add(void* device_memory, std::size_t nbytes);

  /// Bytes that can be written out now, or room for those that come next; not empty before `done`. Waits for a copy of at most a slot.
  ///
  /// @throws Error{failed} where the device has an error.
  [[nodiscard]] std::span<std::byte> next();
  /// Passes `nbytes` bytes of `next()`. With the last ones of the other way it waits until all lie on the device.
  void advance(std::size_t nbytes);
  [[nodiscard]] bool done() const noexcept { return left_ == 0; }
  [[nodiscard]] std::size_t nbytes() const noexcept { return left_; }  ///< that are left

 private:
  struct Run {
    std::byte* memory;
    std::size_t nbytes;
  };
  void fetch_ahead();
  void copy(std::size_t slot, std::size_t nbytes);

  bool outward_;
  std::unique_ptr<staging::Slots> slots_;
  std::deque<Run> runs_;       ///< not copied, or not handed to a copy, yet
  std::size_t left_ = 0;       ///< bytes that have not passed `advance`
  std::size_t uncopied_ = 0;   ///< bytes of `runs_`
  std::size_t filled_[nslots]{};  ///< bytes of each slot
  std::size_t first_ = 0;      ///< slot under the caller's hands, counted on for ever
  std::size_t end_ = 0;        ///< slots that were filled, counted on
  std::size_t at_ = 0;         ///< bytes of slot `first_` that have passed
};

}  // namespace transload
