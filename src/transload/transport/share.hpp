#pragma once
/// How the bytes of a message are dealt out over the streams of a connection, by a rule that both ends know.

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace transload {

/// Frames from so many bytes on are large: they get memory of their own at the receiver (64-byte aligned) and may go over
/// further streams. Smaller ones follow their message's record.
inline constexpr std::size_t large_frame_nbytes = 4096;

/// A list of pieces of memory and how far they were filled or written.
class Pieces {
 public:
  void add(void const* data, std::size_t nbytes) {
    if (nbytes > 0) {
      list_.push_back({const_cast<void*>(data), nbytes});
      nbytes_ += nbytes;
    }
  }
  /// The pieces that are left, the first one cut to what is left of it; at most `most`.
  [[nodiscard]] std::span<iovec const> left(std::size_t most = 512) const noexcept {
    return std::span<iovec const>(list_).subspan(at_, std::min(most, list_.size() - at_));
  }
  /// Passes `nbytes` bytes, at most `nbytes()`.
  void advance(std::size_t nbytes) noexcept {
    nbytes_ -= nbytes;
    while (nbytes > 0) {
      iovec& piece = list_[at_];
      std::size_t const n = std::min(nbytes, piece.iov_len);
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + n;
      piece.iov_len -= n;
      nbytes -= n;
      if (piece.iov_len == 0) ++at_;
    }
  }
  [[nodiscard]] bool done() const noexcept { return nbytes_ == 0; }
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return nbytes_; }  ///< that are left
  void clear() noexcept {
    list_.clear();
    at_ = 0;
    nbytes_ = 0;
  }

 private:
  std::vector<iovec> list_;
  std::size_t at_ = 0;
  std::uint64_t nbytes_ = 0;
};

/// What stream `index` of `nstreams` carries of `large`, the large frames in order seen as one run: the chunks of
/// `chunk_nbytes` bytes number index, index + nstreams, ….
[[nodiscard]] inline Pieces share(std::span<iovec const> large, unsigned nstreams, unsigned index, std::size_t chunk_nbytes) {
  Pieces pieces;
  std::uint64_t run = 0;  // where the frame begins in the run
  for (iovec const& frame : large) {
    std::uint64_t const end = run + frame.iov_len;
    // The first chunk of ours that reaches into the frame.
    std::uint64_t chunk = run / chunk_nbytes;
    chunk += (index + nstreams - chunk % nstreams) % nstreams;
    for (; chunk * chunk_nbytes < end; chunk += nstreams) {
      std::uint64_t const from = std::max(run, chunk * chunk_nbytes);
      std::uint64_t const to = std::min<std::uint64_t>(end, (chunk + 1) * chunk_nbytes);
      pieces.add(static_cast<std::byte*>(frame.iov_base) + (from - run), to - from);
    }
    run = end;
  }
  return pieces;
}

/// The chunk size by which `nbytes` bytes are spread evenly over `nstreams`: in 64 KiB … 1 MiB.
[[nodiscard]] inline std::uint32_t chunk_for(std::uint64_t nbytes, unsigned nstreams) noexcept {
  std::uint64_t const even = (nbytes + nstreams - 1) / std::max(nstreams, 1u);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((even + 63) / 64 * 64, 64 << 10, 1 << 20));
}

}  // namespace transload
