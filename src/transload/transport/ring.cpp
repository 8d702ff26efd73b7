#include "ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "transload/base/error.hpp"
#include "transload/transport/host.hpp"

namespace transload::transport {

namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t publish_nbytes = std::size_t{128} << 10;

/// Copies out of the ring past the caches: the frame is larger than they are, and reading what it overwrites costs a
/// third of the memory's bandwidth (8 rings on 16 cores: 26 GB/s with memcpy, 35 with this).
void copy_out(std::byte* to, std::byte const* from, std::size_t nbytes) noexcept {
#ifdef __SSE2__
  if (nbytes >= 4096 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    std::size_t const n = nbytes / 64 * 64;
    for (std::size_t i = 0; i < n; i += 64) {
      auto const* const in = reinterpret_cast<__m128i const*>(from + i);
      auto* const out = reinterpret_cast<__m128i*>(to + i);
      __m128i const a = _mm_loadu_si128(in);
      __m128i const b = _mm_loadu_si128(in + 1);
      __m128i const c = _mm_loadu_si128(in + 2);
      __m128i const d = _mm_loadu_si128(in + 3);
      _mm_stream_si128(out, a);
      _mm_stream_si128(out + 1, b);
      _mm_stream_si128(out + 2, c);
      _mm_stream_si128(out + 3, d);
    }
    _mm_sfence();
    to += n;
    from += n;
    nbytes -= n;
  }
#endif
  if (nbytes > 0) std::memcpy(to, from, nbytes);
}

}  // namespace

RingMemory RingMemory::make() {
  RingMemory memory;
  memory.fd_ = ::memfd_create("transload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  expects(memory.fd_ >= 0, ErrorKind::exhausted, [] { return cat("memfd_create: ", std::strerror(errno)); });
  keep_from_children(memory.fd_);
  expects(::ftruncate(memory.fd_, nbytes) == 0 && ::fcntl(memory.fd_, F_ADD_SEALS, seals) == 0, ErrorKind::exhausted,
          [] { return cat("shared memory: ", std::strerror(errno)); });
  memory.map();
  return memory;
}

RingMemory RingMemory::open(int descriptor) {
  RingMemory memory;
  memory.fd_ = descriptor;
  keep_from_children(descriptor);
  struct stat about {};
  int const has = ::fcntl(descriptor, F_GET_SEALS);  // -1 where there can be none: every bit
  bool const sealed = has >= 0 && (has & F_SEAL_SHRINK) != 0 && (has & F_SEAL_GROW) != 0;
  expects(sealed && ::fstat(descriptor, &about) == 0 && about.st_size == static_cast<off_t>(nbytes), ErrorKind::malformed,
          "shared memory of another size, or whose size can change");
  memory.map();
  return memory;
}

void RingMemory::map() {
  void* const at = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  expects(at != MAP_FAILED, ErrorKind::exhausted, [] { return cat("shared memory: mmap: ", std::strerror(errno)); });
  base_ = static_cast<std::byte*>(at);
}

RingMemory::~RingMemory() {
  if (base_ != nullptr) ::munmap(base_, nbytes);
  close_descriptor();
}

void RingMemory::close_descriptor() noexcept {
  if (fd_ >= 0) transport::close_descriptor(fd_);
  fd_ = -1;
}

// A new memory file holds zeros, which is what both counters begin with.
RingState& RingMemory::state(int ring) const noexcept { return reinterpret_cast<RingState*>(base_)[ring]; }

void RingMemory::swap(RingMemory& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
}

RingWire::RingWire(Loop& loop, int socket, RingMemory memory, bool connecting)
    : loop_(loop), socket_(loop, socket), memory_(std::move(memory)) {
  memory_.close_descriptor();
  int const mine = connecting ? 0 : 1;
  out_ = &memory_.state(mine);
  in_ = &memory_.state(1 - mine);
  out_bytes_ = memory_.bytes(mine);
  in_bytes_ = memory_.bytes(1 - mine);
}

void RingWire::start() { wait_for_peer(); }

Moved RingWire::read(std::span<iovec const> into) {
  std::size_t moved = 0;
  for (iovec const& piece : into) {
    std::size_t done = 0;
    while (done < piece.iov_len) {
      std::uint64_t written = in_->written.load(std::memory_order_acquire);
      if (written == taken_) {
        if (moved > 0) return {.nbytes = moved};
        in_->reader_waits.store(1);
        written = in_->written.load();
        if (written == taken_) return peer_gone_ ? Moved{.ended = true} : Moved{.blocked = true};
        in_->reader_waits.store(0);
      }
      std::uint64_t const there = written - taken_;
      if (there > RingMemory::ring_nbytes) return {.error = EPROTO};
      std::size_t const at = taken_ % RingMemory::ring_nbytes;
      std::size_t const n = std::min({static_cast<std::size_t>(there), piece.iov_len - done, RingMemory::ring_nbytes - at, publish_nbytes});
      auto* const to = static_cast<std::byte*>(piece.iov_base) + done;
      ahead_.filling({to, piece.iov_len - done});
      copy_out(to, in_bytes_ + at, n);
      taken_ += n;
      done += n;
      moved += n;
      in_->taken.store(taken_);
      if (in_->writer_waits.load() != 0 && in_->writer_waits.exchange(0) != 0) wake_peer();
    }
  }
  return {.nbytes = moved};
}

Moved RingWire::write(std::span<iovec const> from) {
  if (peer_gone_) return {.error = EPIPE};
  std::size_t moved = 0;
  for (iovec const& piece : from) {
    std::size_t done = 0;
    while (done < piece.iov_len) {
      std::uint64_t taken = out_->taken.load(std::memory_order_acquire);
      if (written_ - taken >= RingMemory::ring_nbytes) {
        if (moved > 0) return {.nbytes = moved};
        out_->writer_waits.store(1);
        taken = out_->taken.load();
        if (written_ - taken == RingMemory::ring_nbytes) return {.blocked = true};
        out_->writer_waits.store(0);
      }
      std::uint64_t const under_way = written_ - taken;
      if (under_way > RingMemory::ring_nbytes) return {.error = EPROTO};
      std::size_t const at = written_ % RingMemory::ring_nbytes;
      std::size_t const room = RingMemory::ring_nbytes - static_cast<std::size_t>(under_way);
      std::size_t const n = std::min({room, piece.iov_len - done, RingMemory::ring_nbytes - at, publish_nbytes});
      std::memcpy(out_bytes_ + at, static_cast<std::byte const*>(piece.iov_base) + done, n);
      written_ += n;
      done += n;
      moved += n;
      out_->written.store(written_);
      if (out_->reader_waits.load() != 0 && out_->reader_waits.exchange(0) != 0) wake_peer();
    }
  }
  return {.nbytes = moved};
}

void RingWire::wake_peer() noexcept {
  std::byte const one{1};
  // A full socket wakes the peer as well, and a closed one is seen when we look.
  (void)::send(socket_.descriptor(), &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void RingWire::when_readable(std::function<void()> call) {
  if (closed_) return;
  readable_ = std::move(call);
  if (peer_gone_ || in_->written.load() != taken_) look();
}

void RingWire::when_writable(std::function<void()> call) {
  if (closed_) return;
  writable_ = std::move(call);
  if (peer_gone_ || written_ - out_->taken.load() != RingMemory::ring_nbytes) look();
}

void RingWire::look() {
  loop_.post([self = shared_from_this()] {
    if (self->closed_) return;
    for (auto* const waiting : {&self->readable_, &self->writable_}) {
      if (auto const call = std::exchange(*waiting, {})) call();
    }
  });
}

void RingWire::wait_for_peer() {
  socket_.when_readable([weak = weak_from_this()] {
    auto const self = weak.lock();
    if (self == nullptr || self->closed_) return;
    std::byte bytes[64];
    iovec const into{bytes, sizeof bytes};
    for (;;) {
      Moved const moved = self->socket_.read({&into, 1});
      if (moved.blocked) break;
      if (moved.ended || moved.error != 0) {
        self->peer_gone_ = true;
        break;
      }
      if (moved.nbytes < sizeof bytes) break;
    }
    self->look();
    if (!self->peer_gone_) self->wait_for_peer();
  });
}

void RingWire::close() noexcept {
  closed_ = true;
  readable_ = nullptr;
  writable_ = nullptr;
  socket_.close();
}

void RingWire::idle() noexcept {
  // Two looks without a byte: the pages of what went out go back to the system. The peer has taken it all, and only we write there.
  bool const quiet = written_at_idle_ == written_;
  written_at_idle_ = written_;
  if (!quiet || given_back_ == written_ || out_->taken.load() != written_) return;
  given_back_ = written_;
  ::madvise(out_bytes_, RingMemory::ring_nbytes, MADV_REMOVE);
}

}  // namespace transload::transport
