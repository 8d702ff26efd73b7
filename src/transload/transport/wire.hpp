#pragma once
/// One stream of bytes, both ways, that never blocks. Internal to the room: needs Asio.

#include <sys/uio.h>

#include <asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <functional>
#include <mutex>
#include <span>

#include "loop.hpp"
#include "transload/memory/fresh.hpp"

namespace transload::transport {

/// What a read or write did.
struct Moved {
  std::size_t nbytes = 0;
  bool blocked = false;  ///< nothing can be moved now
  bool ended = false;    ///< read: the peer's bytes have an end here
  int error = 0;         ///< of the system; the stream is broken
};

/// Belongs to a loop. `read`, `when_…` and `close` are called there; `write` by whoever has the right to write, never two
/// at once and never beside `close`; `SocketWire::shut` and `reset` from anywhere.
class Wire {
 public:
  virtual ~Wire() = default;
  [[nodiscard]] virtual Moved read(std::span<iovec const> into) = 0;
  [[nodiscard]] virtual Moved write(std::span<iovec const> from) = 0;
  /// Calls `call` once when a read or write may move something. Dropped, not called, when the wire is closed.
  virtual void when_readable(std::function<void()> call) = 0;
  virtual void when_writable(std::function<void()> call) = 0;
  virtual void shut_writing() noexcept = 0;
  virtual void close() noexcept = 0;
  /// Bytes that this side's processor copies for a byte that is moved.
  [[nodiscard]] virtual unsigned copies() const noexcept = 0;
  /// Called now and then while nothing is under way: gives back what can be had again.
  virtual void idle() noexcept {}
};

/// A connected TCP or Unix stream socket.
class SocketWire : public Wire {
 public:
  /// Takes `descriptor`, which does not block.
  SocketWire(Loop& loop, int descriptor);
  ~SocketWire() override;

  [[nodiscard]] Moved read(std::span<iovec const> into) override;
  [[nodiscard]] Moved write(std::span<iovec const> from) override;
  void when_readable(std::function<void()> call) override;
  void when_writable(std::function<void()> call) override;
  void shut_writing() noexcept override;
  /// Ends both directions at once; reads and writes that wait see it.
  void shut() noexcept;
  /// The same, seen by the peer before it has read what was written.
  void reset() noexcept;
  void close() noexcept override;
  [[nodiscard]] unsigned copies() const noexcept override { return 0; }

  /// Whether the other end has ended its half, though bytes of before may not have been read yet. From any thread.
  [[nodiscard]] bool hung_up() const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return fd_; }
  /// Gives the descriptor away; waiting calls are dropped.
  [[nodiscard]] int release();

 private:
  Ahead ahead_;
  asio::posix::stream_descriptor waiter_;
  mutable std::mutex mutex_;  // between `shut`, `reset`, `hung_up` and `close`
  int fd_;
};

/// Closes a descriptor that an engine had.
void close_descriptor(int descriptor) noexcept;

}  // namespace transload::transport
