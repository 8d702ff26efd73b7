// What a peer says behind its hello, to a live end: records and bodies, in pieces. The first byte says how, the second where
// the stream is cut in two; the peer may wait for an answer there, as one that is asked for device frames does. The end tells each
// message that came whole and then why it ended, in words, and takes the next peer.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transload/base/error.hpp"
#include "transload/transport/engine.hpp"
#include "transload/transport/hello.hpp"
#include "transload/transport/record.hpp"

using namespace transload;

namespace {

constexpr RecordLimits limits{.nframes_most = 1000, .message_nbytes_most = std::uint64_t{1} << 20, .kinds_most = 3};

struct Outcome {
  std::vector<Record> records;
  std::string error;
};

/// The records in `bytes`, fed in pieces, up to the first that has bytes behind it.
Outcome records_in(std::span<std::byte const> bytes, std::size_t piece) {
  Outcome outcome;
  RecordReader reader(limits);
  try {
    while (!bytes.empty()) {
      bytes = bytes.subspan(reader.feed(bytes.first(std::min(piece, bytes.size()))));
      if (reader.complete()) outcome.records.push_back(reader.take());
    }
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::malformed) std::abort();
    outcome.error = error.what();
  }
  return outcome;
}

/// A record is the same however its bytes are cut, and says itself again.
void read_records(std::span<std::byte const> input, std::size_t piece) {
  Outcome const whole = records_in(input, input.size() + 1);
  Outcome const cut = records_in(input, piece);
  if (whole.error != cut.error || whole.records.size() != cut.records.size()) std::abort();
  for (std::size_t i = 0; i < whole.records.size(); ++i) {
    Record const& record = whole.records[i];
    std::vector<std::byte> again;
    pack_record(record, again);
    Outcome const back = records_in(again, again.size());
    if (back.records.size() != 1 || back.records[0].sizes != record.sizes || back.records[0].nbytes != record.nbytes ||
        back.records[0].kinds != record.kinds || back.records[0].exported != record.exported || cut.records[i].sizes != record.sizes) {
      std::abort();
    }
  }
}

/// One listening end for all inputs; its connections one by one.
struct End {
  Engine engine{1};
  std::mutex mutex;
  std::promise<Connection> next;
  Listener listener;

  End() {
    TransportOptions options;
    options.nframes_most = limits.nframes_most;
    options.message_nbytes_most = limits.message_nbytes_most;
    options.window_nbytes = 1 << 16;
    options.landing = [](Announced announced, Received landed) {
      for (FrameKind const kind : announced.kinds) {
        if (static_cast<unsigned>(kind) > limits.kinds_most) std::abort();
      }
      landed(make_landing(announced.sizes, default_resource()), nullptr);
    };
    options.landing_on_device = true;  // in host memory, as an end does that has no room on its device
    listener = engine.listen({"127.0.0.1", 0}, options, [this](Connection connection) {
      std::lock_guard const lock(mutex);
      next.set_value(std::move(connection));
    });
  }
  std::future<Connection> expect() {
    std::lock_guard const lock(mutex);
    next = {};
    return next.get_future();
  }
};

int connected(Address const& address) {
  int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) std::abort();
  linger const reset{1, 0};  // no TIME_WAIT: there are many inputs, and few ports
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  return fd;
}

void say(int fd, std::span<std::byte const> bytes) { (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

/// Something was said behind the hello, or will not be soon.
void hear(int fd) {
  auto const read = [fd](std::size_t nbytes) {
    std::vector<std::byte> bytes(nbytes);
    if (::recv(fd, bytes.data(), nbytes, MSG_WAITALL) != static_cast<ssize_t>(nbytes)) std::abort();
    return bytes;
  };
  (void)read(hello_nbytes(read(hello_head_nbytes)));
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  (void)::poll(&wait, 1, 20);
}

void talk(std::span<std::byte const> input, std::size_t cut, bool waits) {
  static End end;
  Hello hello;
  hello.software = "fuzz";
  hello.nframes_most = 10;
  hello.message_nbytes_most = 1000;
  auto connection = end.expect();
  int const fd = connected(end.listener.addresses().front());
  say(fd, pack_hello(hello));
  Connection peer = connection.get();
  cut = std::min(cut, input.size());
  say(fd, input.first(cut));
  auto const say_the_rest = [&] {
    if (waits) hear(fd);
    say(fd, input.subspan(cut));
    ::shutdown(fd, SHUT_WR);
  };
  bool first = true;
  for (bool ended = false; !ended; first = false) {
    std::promise<bool> told;
    auto done = told.get_future();
    peer.receive([&](Frames frames, Error const* error) {
      std::uint64_t total = 0;
      for (Buffer const& frame : frames) total += frame.nbytes();
      if (total > limits.message_nbytes_most || frames.size() > limits.nframes_most) std::abort();
      if (error != nullptr && error->kind() != ErrorKind::malformed && error->kind() != ErrorKind::disconnected) std::abort();
      told.set_value(error != nullptr);
    });
    if (first) say_the_rest();
    if (done.wait_for(std::chrono::seconds(5)) != std::future_status::ready) std::abort();  // the peer has said its last
    ended = done.get();
  }
  ::close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 2) return 0;
  auto const input = std::as_bytes(std::span(data + 2, size - 2));
  if (data[0] % 2 == 0) {
    read_records(input, 1 + data[1] % 40);
  } else {
    talk(input, data[1], data[0] % 4 == 3);
  }
  return 0;
}
