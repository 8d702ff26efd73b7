#pragma once
/// A peer that speaks the transport's bytes itself, and may lie.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "support/transport.hpp"
#include "transload/transport/hello.hpp"
#include "transload/transport/record.hpp"

namespace transload::test {

/// A peer that says what the test wants.
class Raw {
 public:
  explicit Raw(Address const& address) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  explicit Raw(int fd) : fd_(fd) {}
  Raw(Raw&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Raw() { end(); }

  void end() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  /// Ends with what is under way thrown away.
  void reset() {
    linger const now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    end();
  }
  void half_close() const { ::shutdown(fd_, SHUT_WR); }
  void say(std::span<std::byte const> bytes) const { (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void say(std::string_view text) const { say(std::as_bytes(std::span(text))); }
  void say(Record const& record) const {
    std::vector<std::byte> bytes;
    pack_record(record, bytes);
    say(bytes);
  }
  /// Exactly `n` bytes; fewer where the stream ends before.
  std::vector<std::byte> hear(std::size_t n, std::chrono::milliseconds timeout = 10s) const {
    std::vector<std::byte> bytes(n);
    std::size_t have = 0;
    while (have < n) {
      pollfd wait{fd_, POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(timeout.count())) <= 0) break;
      ssize_t const got = ::recv(fd_, bytes.data() + have, n - have, 0);
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    bytes.resize(have);
    return bytes;
  }
  [[nodiscard]] Hello hear_hello() const {
    auto const head = hear(hello_head_nbytes);
    if (head.size() < hello_head_nbytes) return {};
    return parse_hello(hear(hello_nbytes(head)));
  }
  /// Whether the other end's end can be seen, whatever lies unread before it.
  [[nodiscard]] bool hung_up() const {
    pollfd watched{fd_, POLLRDHUP, 0};
    return ::poll(&watched, 1, 0) > 0;
  }
  /// Whether the other end has ended the stream.
  [[nodiscard]] bool ended(std::chrono::milliseconds timeout = 10s) const {
    auto const until = std::chrono::steady_clock::now() + timeout;
    while (std::chrono::steady_clock::now() < until) {
      pollfd wait{fd_, POLLIN, 0};
      if (::poll(&wait, 1, 100) <= 0) continue;
      std::byte some[4096];
      if (::recv(fd_, some, sizeof some, 0) <= 0) return true;
    }
    return false;
  }

 private:
  int fd_;
};

/// What a raw peer says first.
inline Hello hello() {
  Hello hello;
  hello.software = "a test";
  hello.nframes_most = 100;
  hello.message_nbytes_most = 1 << 30;
  hello.window_nbytes = 1 << 20;
  return hello;
}

/// A raw peer behind its hello, and the connection that it has.
struct Liar : Host {
  Raw raw;
  Connection connection;

  explicit Liar(TransportOptions const& options = options_for(Path::tcp), Hello const& said = hello()) : Host(options), raw(address()) {
    raw.say(pack_hello(said));
    EXPECT_GE(raw.hear_hello().version_most, 1u);
    connection = accepted->wait();
  }
};

}  // namespace transload::test
