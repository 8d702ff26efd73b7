#include "wire.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "transload/transport/host.hpp"

namespace transload::transport {

void close_descriptor(int descriptor) noexcept {
  let_go(descriptor);
  ::close(descriptor);
}

SocketWire::SocketWire(Loop& loop, int descriptor) : waiter_(loop.context(), descriptor), fd_(descriptor) {
  keep_from_children(descriptor);
}

SocketWire::~SocketWire() { close(); }

Moved SocketWire::read(std::span<iovec const> into) {
  if (!into.empty()) ahead_.filling({static_cast<std::byte*>(into.front().iov_base), into.front().iov_len});
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(into.data());
  message.msg_iovlen = into.size();
  for (;;) {
    ssize_t const n = ::recvmsg(fd_, &message, MSG_DONTWAIT);
    if (n > 0) return {.nbytes = static_cast<std::size_t>(n)};
    if (n == 0) return {.ended = true};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.blocked = true};
    if (errno != EINTR) return {.error = errno};
  }
}

Moved SocketWire::write(std::span<iovec const> from) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from.data());
  message.msg_iovlen = from.size();
  for (;;) {
    ssize_t const n = ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) return {.nbytes = static_cast<std::size_t>(n)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.blocked = true};
    if (errno != EINTR) return {.error = errno};
  }
}

void SocketWire::when_readable(std::function<void()> call) {
  if (fd_ < 0) return;  // closed: Asio would call at once, and whoever asks again would never stop
  waiter_.async_wait(asio::posix::stream_descriptor::wait_read, [call = std::move(call)](asio::error_code const& error) {
    if (error != asio::error::operation_aborted) call();
  });
}

void SocketWire::when_writable(std::function<void()> call) {
  if (fd_ < 0) return;  // closed: Asio would call at once, and whoever asks again would never stop
  waiter_.async_wait(asio::posix::stream_descriptor::wait_write, [call = std::move(call)](asio::error_code const& error) {
    if (error != asio::error::operation_aborted) call();
  });
}

bool SocketWire::hung_up() const noexcept {
  std::lock_guard const lock(mutex_);
  pollfd watched{.fd = fd_, .events = POLLRDHUP, .revents = 0};
  return fd_ < 0 || (::poll(&watched, 1, 0) > 0 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0);
}

void SocketWire::shut_writing() noexcept {
  std::lock_guard const lock(mutex_);
  if (fd_ >= 0) ::shutdown(fd_, SHUT_WR);
}

void SocketWire::shut() noexcept {
  std::lock_guard const lock(mutex_);
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

void SocketWire::reset() noexcept {
  std::lock_guard const lock(mutex_);
  if (fd_ < 0) return;
  // An ordinary end waits behind bytes that the peer has not read. That of a socket that is disconnected does not.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  if (::connect(fd_, &nobody, sizeof nobody) != 0) ::shutdown(fd_, SHUT_RDWR);
}

void SocketWire::close() noexcept {
  std::lock_guard const lock(mutex_);
  if (fd_ < 0) return;
  // Shut first: a forked child that has not closed its copy yet must not keep the connection open.
  ::shutdown(fd_, SHUT_RDWR);
  let_go(fd_);
  fd_ = -1;
  asio::error_code ignored;
  waiter_.close(ignored);
}

int SocketWire::release() {
  std::lock_guard const lock(mutex_);
  int const fd = fd_;
  fd_ = -1;
  waiter_.release();
  return fd;
}

}  // namespace transload::transport
