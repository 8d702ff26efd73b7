#pragma once
/// What a connection may use and how long it waits. Each end has its own; what both must agree on is said in the hello.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "transload/base/limits.hpp"
#include "transload/memory/resource.hpp"
#include "transload/transport/landing.hpp"

namespace transload {

struct TransportOptions {
  // ── what a peer may make us allocate ──
  std::size_t nframes_most = limits::table_entries;           ///< frames of a message
  std::uint64_t message_nbytes_most = limits::payload_nbytes;  ///< bytes of a message, all frames together

  // ── bytes under way ──
  /// Bytes that the peer may send before anybody here has asked for them; larger messages wait for `receive`.
  std::size_t window_nbytes = std::size_t{4} << 20;
  /// A send is done once at most so many bytes of the messages before it wait to be handed on.
  std::size_t send_bound_nbytes = std::size_t{8} << 20;

  // ── paths ──
  /// TCP streams for large frames beside the first one; 0: none. -1: by the number of cores (docs/transport.md).
  int streams = -1;
  /// Streams through shared memory for large frames to a peer on this host, as above; 0 turns shared memory off.
  int local_streams = -1;
  bool same_process = true;  ///< a peer in this process gets the frames by reference
  /// Messages whose frames of 4 KiB and more have so many bytes together use the further streams.
  std::uint64_t stripe_from_nbytes = std::uint64_t{512} << 10;

  // ── patience ──
  std::chrono::milliseconds hello_timeout{10'000};  ///< for the connection and the hello of the other end
  std::chrono::milliseconds stall_timeout{30'000};  ///< for the next byte in the midst of a message, and TCP's own timeouts
  std::chrono::milliseconds close_timeout{5'000};   ///< for what was sent before `close` to be handed on

  int backlog = 2048;  ///< of a listener: connections that wait to be accepted

  /// Where received frames lie: host memory; outlives the connection. Null: the process's pool.
  Resource* resource = nullptr;
  /// Where received device frames lie: memory of a GPU; outlives the connection. Null, and no `landing` that takes them: peers bring theirs to host memory.
  Resource* device_resource = nullptr;
  /// Makes memory for messages above the window that have frames of kind `object`, and for frames of kind `device`; only peers of an end that takes
  /// such frames tell their kinds. Called on a thread of the engine; must not block. Empty: frames lie in `resource` and `device_resource`.
  MakeLanding landing;
  bool landing_on_device = false;  ///< `landing` takes frames of kind `device`
  /// Exported device frames wait for `Connection::try_receive` with a `LandNow`, which spares two changes of thread; `landing` is asked for the others,
  /// and where whoever receives has none.
  bool lands_when_received = false;
  /// Device frames of a peer on this host are read where they lie (CUDA IPC), and ours are exported.
  bool exports = true;
  /// Device frames of a message that have so many bytes together at most, and may be read at once, are copied to the host by `send` and go with its body, to a
  /// peer whose `device_resource` takes them; 0: none. That costs two small copies and spares the way there and back of a fetch.
  std::uint64_t inline_device_nbytes = std::uint64_t{64} << 10;
  /// Takes a line for the log, from any thread. Empty: nobody reads it.
  std::function<void(std::string const&)> log;
};

}  // namespace transload
