#pragma once
/// Records: what travels on the first stream of a connection behind the hello. docs/transport.md, "Records".

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transload/memory/ipc.hpp"
#include "transload/transport/landing.hpp"

namespace transload {

enum class RecordType : std::uint8_t {
  message = 1,  ///< a message's number and the sizes of its frames
  body = 2,     ///< the bytes of the message that was announced follow
  grant = 3,    ///< how many bytes of bodies the other end may have sent in all
  streams = 4,  ///< how many further streams can be used now; with `please`: how many the other end should open
  goodbye = 5,  ///< nothing follows
  fetch = 6,    ///< please send the device frames of a message
  device = 7,   ///< the device frames of a message, which were asked for, follow on the further streams, or else here
  fetched = 8,  ///< the device frames of a message were read where they lay
};

/// One record. Integers on the wire are little-endian; the head has 24 bytes.
struct Record {
  RecordType type = RecordType::goodbye;
  bool follows = false;        ///< message: its body follows at once; else it waits for a grant and a `body` record
  bool please = false;         ///< streams
  bool unable = false;         ///< fetch: exported memory cannot be opened at this end, and never will be
  std::uint8_t nstreams = 0;   ///< message that follows, body, device: over how many further streams the large frames go; streams
  std::uint32_t chunk_nbytes = 0;  ///< with nstreams > 0: large frames are dealt out in chunks of so many bytes
  std::uint64_t number = 0;    ///< of a message: 0, 1, 2, …; grant: bytes
  std::vector<std::uint64_t> sizes = {};  ///< message: bytes of each frame
  std::vector<FrameKind> kinds = {};      ///< message: of each frame; empty where all are `plain`
  std::vector<ExportedMemory> exported = {};  ///< message: where its device frames lie, one each; empty where they have to be fetched
  std::uint64_t nbytes = 0;         ///< message: bytes of its body, which has all frames but the device frames (not on the wire)
  std::uint64_t device_nbytes = 0;  ///< message: bytes of its device frames (not on the wire)
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

/// Whether frames of kind `inlined` are known between two ends.
[[nodiscard]] constexpr bool knows_inlined(unsigned kinds) noexcept { return kinds >= static_cast<unsigned>(FrameKind::inlined); }

/// Whether frames of kind `device` are known at all between two ends.
[[nodiscard]] constexpr bool knows_device(unsigned kinds) noexcept { return kinds >= static_cast<unsigned>(FrameKind::device); }

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
  void take_exported(std::span<std::byte const> bytes);
  void check_whole();

  RecordLimits limits_;
  Record record_;
  std::byte head_[record_head_nbytes]{};
  std::byte part_[ExportedMemory::wire_nbytes]{};  ///< what has come of a size or of exported memory
  std::size_t in_part_ = 0;
  std::size_t have_ = 0;  ///< bytes of this record so far
  std::uint64_t nframes_ = 0;
  std::uint64_t ndevice_ = 0;
  std::size_t device_at_ = 0;  ///< frames before it have their exported memory, where they are of a GPU
  bool exports_ = false;
  bool complete_ = false;
};

}  // namespace transload
