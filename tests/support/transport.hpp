#pragma once
/// Two ends of a connection in one test, each path that one can take, and calls that wait.

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/messages.hpp"
#include "transload/base/error.hpp"
#include "transload/transport/engine.hpp"
#include "transload/transport/host.hpp"

namespace transload::test {

using namespace std::chrono_literals;

/// The bytes of a frame: which message, which frame, which byte; so that a byte at a wrong place is seen.
inline std::vector<std::byte> pattern(std::size_t nbytes, unsigned seed = 0) {
  std::vector<std::byte> bytes(nbytes);
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (auto& b : bytes) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// Frames of these sizes, each with its own pattern, kept by the frames themselves.
inline Frames patterns(std::vector<std::size_t> const& sizes, unsigned seed = 0) {
  Frames frames;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto const keeper = std::make_shared<std::vector<std::byte>>(pattern(sizes[i], seed + static_cast<unsigned>(i)));
    frames.push_back(Buffer::borrow_writable(*keeper, keeper));
  }
  return frames;
}

inline bool same(Buffer const& a, Buffer const& b) {
  return a.nbytes() == b.nbytes() && std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin());
}

inline void expect_patterns(Frames const& frames, std::vector<std::size_t> const& sizes, unsigned seed = 0) {
  ASSERT_EQ(frames.size(), sizes.size());
  Frames const wanted = patterns(sizes, seed);
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_TRUE(same(frames[i], wanted[i])) << "frame " << i << " of " << sizes[i] << " bytes";
}

inline Frames one_frame(std::string const& text) {
  auto const keeper = std::make_shared<std::string>(text);
  Frames frames;
  frames.push_back(Buffer::borrow(std::as_bytes(std::span(*keeper)), keeper));
  return frames;
}

inline std::string text_of(Frames const& frames) {
  std::string text;
  for (Buffer const& frame : frames) text.append(reinterpret_cast<char const*>(frame.data()), frame.nbytes());
  return text;
}

/// What a callback is told, waited for.
template <class T>
class Told {
 public:
  void tell(T value) {
    std::lock_guard const lock(mutex_);
    values_.push_back(std::move(value));
    changed_.notify_all();
  }
  /// Fails the test when nothing comes.
  T wait(std::chrono::milliseconds timeout = 20s) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return !values_.empty(); })) {
      ADD_FAILURE() << "nothing was told within " << timeout.count() << " ms";
      return T{};
    }
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  bool there(std::chrono::milliseconds timeout = 0ms) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return !values_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> values_;
};

/// How a send, receive or close ended.
struct Ended {
  Frames frames;
  std::optional<ErrorKind> kind;
  std::string what;
};

inline std::shared_ptr<Told<Ended>> send(Connection& connection, Frames frames) {
  auto const told = std::make_shared<Told<Ended>>();
  connection.send(std::move(frames), [told](Error const* error) {
    told->tell({{}, error ? std::optional(error->kind()) : std::nullopt, error ? error->what() : ""});
  });
  return told;
}

inline std::shared_ptr<Told<Ended>> receive(Connection& connection) {
  auto const told = std::make_shared<Told<Ended>>();
  connection.receive([told](Frames frames, Error const* error) {
    told->tell({std::move(frames), error ? std::optional(error->kind()) : std::nullopt, error ? error->what() : ""});
  });
  return told;
}

inline std::shared_ptr<Told<Ended>> close(Connection& connection) {
  auto const told = std::make_shared<Told<Ended>>();
  connection.close([told](Error const* error) { told->tell({{}, error ? std::optional(error->kind()) : std::nullopt, error ? error->what() : ""}); });
  return told;
}

/// The next message, which must come.
inline Frames expect_message(Connection& connection, std::chrono::milliseconds timeout = 60s) {
  Ended ended = receive(connection)->wait(timeout);
  EXPECT_FALSE(ended.kind) << ended.what;
  return std::move(ended.frames);
}

inline void expect_sent(Connection& connection, Frames frames) {
  Ended const ended = send(connection, std::move(frames))->wait(60s);
  EXPECT_FALSE(ended.kind) << ended.what;
}

/// The error that ends the connection.
inline std::string expect_end(Connection& connection, ErrorKind kind = ErrorKind::disconnected, std::chrono::milliseconds timeout = 20s) {
  Ended const ended = receive(connection)->wait(timeout);
  EXPECT_EQ(ended.kind, kind) << ended.what;
  return ended.what;
}

/// Waits until `condition` holds.
template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds timeout = 10s) {
  auto const end = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

/// The paths that bytes may take between two ends of one test.
enum class Path { tcp, tcp_streams, shared_memory, process };

inline TransportOptions options_for(Path path) {
  TransportOptions options;
  options.streams = path == Path::tcp_streams ? 3 : 0;
  options.local_streams = path == Path::shared_memory ? 2 : 0;
  options.same_process = path == Path::process;
  options.hello_timeout = 10s;
  return options;
}

inline std::string path_name(::testing::TestParamInfo<Path> const& info) {
  return std::array{"tcp", "tcp_streams", "shared_memory", "process"}[static_cast<std::size_t>(info.param)];
}

/// A listener and the connections that it accepted.
struct Host {
  Engine engine;
  std::shared_ptr<Told<Connection>> accepted = std::make_shared<Told<Connection>>();
  std::shared_ptr<Told<std::string>> lines = std::make_shared<Told<std::string>>();
  Listener listener;

  explicit Host(TransportOptions options = {}, Address const& address = {"127.0.0.1", 0}) : engine(2) {
    options.log = [lines = lines](std::string const& line) { lines->tell(line); };
    listener = engine.listen(address, options, [accepted = accepted](Connection connection) { accepted->tell(std::move(connection)); });
  }
  [[nodiscard]] Address address() const { return listener.addresses().front(); }
};

/// Both ends of one connection: `a` connected, `b` was accepted.
struct Pair : Host {
  Connection a;
  Connection b;

  explicit Pair(TransportOptions options = {}, std::optional<TransportOptions> connecting = {}) : Host(options) {
    a = engine.connect(address(), connecting.value_or(options));
    b = accepted->wait();
  }
  explicit Pair(Path path) : Pair(options_for(path)) {}
};

}  // namespace transload::test
