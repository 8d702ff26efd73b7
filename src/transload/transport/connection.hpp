#pragma once
/// One end of a connection that moves lists of frames. docs/transport.md.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transload/base/decisions.hpp"
#include "transload/base/error.hpp"
#include "transload/transport/address.hpp"
#include "transload/transport/landing.hpp"

namespace transload {

namespace transport {
class Session;
}

/// Told once how something ended: null, or the error. On a thread of the engine, or on the caller's before the call
/// returns; it must not block.
using Done = std::function<void(Error const*)>;

/// What went over one connection. Bytes are those of frames.
struct ConnectionStats {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t nbytes_sent = 0;
  std::uint64_t nbytes_received = 0;
  std::uint64_t nbytes_waiting = 0;  ///< of messages handed to `send` and not handed on yet
  std::uint64_t nbytes_ready = 0;    ///< of messages that came and were not taken yet
  std::uint64_t nbytes_copied = 0;   ///< by the processor on this side, in user space: through shared memory, and small frames
  double seconds_sending = 0;        ///< while a message was on its way out
  double seconds_receiving = 0;      ///< while one was coming in
  std::string path;                  ///< of large frames: "process", "shared memory" or "tcp"
  std::string device_path;           ///< of device frames, those sent where there were any: "process", "inline", "CUDA IPC", "staged", or "host" where they lie in host memory at the receiver
  bool peer_takes_device = false;    ///< device frames may lie on a device there
  unsigned streams = 1;              ///< over which large frames go
  std::vector<Decision> decisions;   ///< which path was taken, which was not, and why
};

/// One end of a connection. Messages arrive in the order in which they were sent, whole or not at all, each once.
///
/// `send` may be called from any thread, and `receive` by one reader at a time. A connection that is dropped is aborted,
/// unless it was closed: then it goes on to its end.
/// After a fork the child's copies are closed for it, and stay open for the parent.
class Connection {
 public:
  Connection() noexcept = default;
  explicit Connection(std::shared_ptr<transport::Session> session) noexcept : session_(std::move(session)) {}
  Connection(Connection&&) noexcept = default;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection();

  [[nodiscard]] bool valid() const noexcept { return session_ != nullptr; }

  /// Hands a message over; its bytes stay unchanged until they were handed on (the buffers are let go then, on any thread).
  /// Done when at most `TransportOptions::send_bound_nbytes` of the messages before it wait: at once for a first one of any
  /// size, later ones feel the peer's pressure. The error is `disconnected` when the connection ends before that.
  /// `kinds`, empty or one a frame, are told to a peer that asks for them (`TransportOptions::landing`). Frames in a GPU's memory, on one GPU, stay there
  /// until the peer fetches them; for a peer that takes no such frames they are brought to host memory before this returns.
  /// Few bytes of them are copied to host memory here and go with the message (`TransportOptions::inline_device_nbytes`).
  ///
  /// @throws Error{exhausted} when the message is over the limits that the peer told, and what a copy from the device throws; nothing is sent then.
  void send(Frames frames, Done done = {}, std::span<FrameKind const> kinds = {});
  /// The same for small messages: the bytes are copied before it returns, and sent from this thread where that does not block.
  void send_copy(std::span<std::span<std::byte const> const> frames, Done done = {});

  /// The next message. One at a time. The error is `disconnected` when there is none any more, `malformed` where the
  /// peer broke the rules, `exhausted` where there was no memory for what came. What is asked for inside of a `received` is
  /// told once that has returned.
  void receive(Received received);
  /// Takes the next message if one is there. Where its device frames are exported memory and wait for that (`TransportOptions::lands_when_received`), `land`
  /// makes theirs, and they are read from this thread: false, where that takes longer than 50 µs; `wait_device` waits for it, and must be called.
  ///
  /// @throws the connection's error once it ended and everything that came was taken; what `land` throws, which leaves the message to the next call unless
  /// it is an Error: that ends the connection.
  [[nodiscard]] bool try_receive(Frames& frames, LandNow const& land = {});
  /// Whether `try_receive` has begun to read device frames for which nobody has waited.
  [[nodiscard]] bool reads_device() const;
  /// Waits until device frames that `try_receive` has begun to read are there, for `budget` at most; then it goes on by itself, and `when_readable` tells.
  /// False: nothing was begun, or it is not there.
  bool wait_device(std::chrono::microseconds budget);
  /// Calls `call` once as soon as `try_receive` would not return false, perhaps at once. Asking is also what lets a
  /// message above the window come. A later `call` takes the place of one that still waits.
  void when_readable(std::function<void()> call);

  /// Ends the connection after what was sent was handed on, in `TransportOptions::close_timeout` at the latest.
  /// Messages that came and were not taken are dropped.
  void close(Done done = {});
  /// Ends it at once. The peer may get less than was sent, never a part of a message.
  void abort() noexcept;
  /// Whether nothing can be received any more, or this end was closed.
  [[nodiscard]] bool closed() const noexcept;

  [[nodiscard]] Address local_address() const;
  [[nodiscard]] Address peer_address() const;
  [[nodiscard]] ConnectionStats stats() const;

 private:
  std::shared_ptr<transport::Session> session_;
};

}  // namespace transload
