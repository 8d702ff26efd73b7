#pragma once
/// Records: what travels on the first stream of a connection behind the hello. docs/transport.md, "Records".

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transload/transport/landing.hpp"

namespace transload {

enum class RecordType : std::uint8_t {
  message = 1,  ///< a message's number and the sizes of its frames
  body = 2,     ///< the bytes of the message that was announced follow
  grant = 3,    ///< how many bytes of bodies the other end may have sent in all
  streams = 4,  ///< how many further streams can be used now; with `please`: how many the other end should open
  goodbye = 5,  ///< nothing follows
};

/// One record. Integers on the wire are little-endian; the head has 24 bytes.
struct Record {
  RecordType type = RecordType::goodbye;
  bool follows = false;        ///< message: its body follows at once; else it waits for a grant and a `body` record
  bool please = false;         ///< streams
  std::uint8_t nstreams = 0;   ///< message that follows, body: over how many further streams the large frames go; streams
  std::uint32_t chunk_nbytes = 0;  ///< with nstreams > 0: large frames are dealt out in chunks of so many bytes
  std::uint64_t number = 0;    ///< message, body: 0, 1, 2, …; grant: bytes
  std::vector<std::uint64_t> sizes = {};  ///< message: bytes of each frame
  std::vector<FrameKind> kinds = {};      ///< message: of each frame; empty where all are `plain`
  std::uint64_t nbytes = 0;    ///< message: bytes of all frames (not on the wire)
};

inline constexpr std::size_t record_head_nbytes = 24;
/// Bits of a frame's size on the wire; its kind is in those above.
inline constexpr unsigned record_size_bits = 56;
inline constexpr std::uint64_t record_size_most = (std::uint64_t{1} << record_size_bits) - 1;

/// Appends head and sizes.
void pack_record(Record const& record, std::vector<std::byte>& out);

/// What a reader of records takes.
struct RecordLimits {
  std::uint64_t nframes_most;
  std::uint64_t message_nbytes_most;  ///< at most `record_size_most`
  unsigned kinds_most = 0;  ///< the highest FrameKind; peers were told of no higher one
};

/// Reads records from bytes that come in any pieces. Memory grows with the bytes that came, not with what they promise.
class RecordReader {
 public:
  explicit RecordReader(RecordLimits limits) : limits_(limits) {}

  /// Takes bytes up to the end of a record at most; returns how many. `complete()` tells whether one is there now.
  ///
  /// @throws Error{malformed} for types and flags that are not known and for what is over the limits.
  std::size_t feed(std::span<std::byte const> bytes);

  [[nodiscard]] bool complete() const noexcept { return complete_; }
  /// Whether some but not all bytes of a record have come.
  [[nodiscard]] bool midway() const noexcept { return have_ > 0 && !complete_; }
  /// The complete record; the next `feed` begins a new one.
  [[nodiscard]] Record take();

 private:
  void read_head();
  void take_size(std::uint64_t size);

  RecordLimits limits_;
  Record record_;
  std::byte head_[record_head_nbytes]{};
  std::byte size_[8]{};
  std::size_t have_ = 0;  ///< bytes of this record so far
  std::uint64_t nframes_ = 0;
  bool complete_ = false;
};

}  // namespace transload
