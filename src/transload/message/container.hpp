#pragma once
/// The container: a message as one run of bytes, in a file or on a stream. docs/format.md, "The container".

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "transload/memory/buffer.hpp"
#include "transload/memory/resource.hpp"
#include "transload/message/message.hpp"

namespace transload {

/// Takes the next bytes of a container. Called with one part after the other, in order.
using Sink = std::function<void(std::span<std::byte const>)>;

/// Fills the whole span with the next bytes of a stream, or throws (Error{disconnected} where the stream ends).
using Source = std::function<void(std::span<std::byte>)>;

/// Bytes that the container of `message` takes.
[[nodiscard]] std::uint64_t container_nbytes(Message const& message);

/// Writes `message` (host frames) as a container. Copies no frame.
///
/// @throws what `sink` throws; Error{unsupported} for device frames.
void write_container(Message const& message, Sink const& sink);

struct SaveOptions {
  bool sync = false;  ///< wait until the bytes and the name are on the disk (fsync of file and directory)
};

/// Writes the container of `message` to the file `path`: into a temporary beside it, which then takes its name, so that
/// a reader sees the old file or the new one, whole. On an error nothing is left behind and an old file stays.
/// A path that is no regular file (a pipe, a device) is written to directly.
///
/// @throws Error{failed} with path and reason; Error{exhausted} where the disk is full.
void save_container(std::filesystem::path const& path, Message const& message, SaveOptions options = {});

/// When the checksum of a frame is compared.
enum class Check {
  lazy,  ///< when the frame is used for the first time
  all,   ///< at once
};

/// A container that lies in memory. Magic, version, sizes, table and header were checked; its frames are handed out as
/// they lie, each with what keeps them alive. Thread-safe; moves.
class Container {
 public:
  /// Takes `bytes`, which must be a whole container and nothing else.
  ///
  /// @throws Error{malformed} with field and byte offset.
  [[nodiscard]] static Container parse(Buffer bytes, Check check = Check::lazy);

  /// Maps the file `path`. Its frames are private to this process: writing to them (they are writable) never changes the
  /// file. The file must not be cut short while it is mapped; replacing it, as `save_container` does, is safe.
  ///
  /// @throws Error{failed} with path and reason; Error{malformed} as `parse` does.
  [[nodiscard]] static Container open(std::filesystem::path const& path, Check check = Check::lazy);

  [[nodiscard]] std::span<std::byte const> header() const noexcept { return header_; }
  [[nodiscard]] std::size_t nframes() const noexcept { return frames_.size(); }
  [[nodiscard]] std::uint64_t frame_nbytes(std::size_t i) const { return frames_.at(i).nbytes; }

  /// Frame `i`, after its checksum was compared (once).
  ///
  /// @throws Error{malformed} when the checksum or the gap before the frame is wrong.
  [[nodiscard]] Buffer frame(std::size_t i) const;

  /// Compares the checksums of all frames that were not compared yet.
  void check_all() const;

  /// The message. With `Check::lazy` the frames are not compared; call `check_frame` before one is used.
  [[nodiscard]] Message message(Check check = Check::all) const;
  void check_frame(std::size_t i) const;

 private:
  struct Frame {
    std::uint64_t offset;
    std::uint64_t nbytes;
    std::uint64_t xxh3;
    std::uint64_t gap;  // zero bytes before it
  };

  [[nodiscard]] Buffer part(std::span<std::byte const> bytes) const;

  std::shared_ptr<Buffer const> whole_;
  std::span<std::byte const> header_;
  std::vector<Frame> frames_;
  std::unique_ptr<std::atomic<bool>[]> checked_;
};

struct ReadLimits {
  std::uint64_t total_nbytes = std::uint64_t{1} << 40;  ///< of the whole container
};

/// Reads one container from a stream, frame by frame into blocks of `resource`, and leaves what follows it unread.
/// Every checksum is compared. Table and header grow as their bytes arrive; a frame's block is taken after the table's
/// checksum was right.
///
/// @throws Error{malformed} with field and byte offset; Error{exhausted} beyond `limits` or without room; what `source` throws.
[[nodiscard]] Message read_container(Source const& source, Resource& resource, ReadLimits limits = {});

}  // namespace transload
