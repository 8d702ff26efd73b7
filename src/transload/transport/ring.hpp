#pragma once
/// A stream of bytes through shared memory, between two processes of one host. Internal to the room: needs Asio.
///
/// Two rings lie in one sealed memory file, one each way. The sender copies in and the receiver copies out at the same
/// time, so a byte is copied twice and neither side's memory is ever the other's: nothing can change after it was checked,
/// and nothing is left behind when a process is killed. A Unix socket wakes the side that waits, and tells that the
/// other one is gone. Measured beside process_vm_readv, mapped segments and TCP: docs/transport.md, "Shared memory".

#include <atomic>
#include <cstdint>

#include "transload/memory/fresh.hpp"
#include "wire.hpp"

namespace transload::transport {

/// The counters of one ring, each on its own cache line: the peer may write anything there, so each side keeps its own
/// count of what it did and checks the other's.
struct RingState {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> taken;
  alignas(64) std::atomic<std::uint32_t> reader_waits;
  alignas(64) std::atomic<std::uint32_t> writer_waits;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(RingState) == 256);

/// The memory file: a page of counters, then the bytes of the ring from the connecting end, then of the other one.
class RingMemory {
 public:
  static constexpr std::size_t ring_nbytes = std::size_t{1} << 20;
  static constexpr std::size_t head_nbytes = 4096;
  static constexpr std::size_t nbytes = head_nbytes + 2 * ring_nbytes;

  RingMemory() noexcept = default;
  /// A new one. @throws Error{exhausted}
  [[nodiscard]] static RingMemory make();
  /// Maps what a peer passed, after looking that it is sealed against changes of its size. Takes `descriptor`.
  /// @throws Error{malformed}
  [[nodiscard]] static RingMemory open(int descriptor);

  RingMemory(RingMemory&& other) noexcept { swap(other); }
  RingMemory& operator=(RingMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~RingMemory();

  [[nodiscard]] int descriptor() const noexcept { return fd_; }
  void close_descriptor() noexcept;  ///< the mapping stays
  [[nodiscard]] RingState& state(int ring) const noexcept;
  [[nodiscard]] std::byte* bytes(int ring) const noexcept { return base_ + head_nbytes + static_cast<std::size_t>(ring) * ring_nbytes; }

 private:
  void map();
  void swap(RingMemory& other) noexcept;

  int fd_ = -1;
  std::byte* base_ = nullptr;
};

class RingWire final : public Wire, public std::enable_shared_from_this<RingWire> {
 public:
  /// `connecting`: this end made the memory.
  RingWire(Loop& loop, int socket, RingMemory memory, bool connecting);
  void start();  ///< on the loop; before anything waits

  [[nodiscard]] Moved read(std::span<iovec const> into) override;
  [[nodiscard]] Moved write(std::span<iovec const> from) override;
  void when_readable(std::function<void()> call) override;
  void when_writable(std::function<void()> call) override;
  void shut_writing() noexcept override { socket_.shut_writing(); }
  void close() noexcept override;
  [[nodiscard]] unsigned copies() const noexcept override { return 1; }
  void idle() noexcept override;

 private:
  void wait_for_peer();
  void wake_peer() noexcept;
  void look();

  Loop& loop_;
  SocketWire socket_;
  RingMemory memory_;
  RingState* out_;
  RingState* in_;
  std::byte* out_bytes_;
  std::byte* in_bytes_;
  Ahead ahead_;
  std::uint64_t written_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t given_back_ = 0;  ///< `written_` when the memory was last given back
  std::uint64_t written_at_idle_ = 0;
  bool peer_gone_ = false;
  bool closed_ = false;
  std::function<void()> readable_;
  std::function<void()> writable_;
};

}  // namespace transload::transport
