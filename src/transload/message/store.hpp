#pragma once
/// How the frames of a message are stored: compressed where that pays, with checksums where asked. docs/format.md, "meta" and
/// "Compressed frames". `open_frames` (message/message.hpp) is the way back.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transload/memory/buffer.hpp"
#include "transload/message/codec.hpp"
#include "transload/message/message.hpp"

namespace transload {

/// What frames may be compressed with.
enum class Compression : std::uint8_t {
  none,
  automatic,  ///< lz4 where it pays, else zstd where that does
  lz4,
  zstd,
};

/// The compression called `name`: auto, lz4 or zstd.
///
/// @throws Error{unsupported} for another name, with the names there are.
[[nodiscard]] Compression compression_called(std::string_view name);

/// Frames below this size (bytes) are left alone.
inline constexpr std::uint64_t least_compressed_nbytes = std::uint64_t{8} << 10;
/// A codec must bring a frame to this share of its bytes (per cent) or the frame is left alone; so does Dask.
inline constexpr std::uint64_t most_stored_percent = 70;

struct StoreOptions {
  Compression compression = Compression::none;
  int level = default_zstd_level;  ///< of zstd, wherever it is taken
  bool checksum = false;           ///< XXH3 of each frame into the header
};

/// What was done with a frame.
struct StoredFrame {
  std::string_view codec;        ///< empty: stored as it is
  std::uint64_t raw_nbytes = 0;  ///< before
  std::uint64_t nbytes = 0;      ///< as stored
  std::string reason;            ///< why it is stored as it is, when compression was asked for
};

/// Where a frame of `nbytes` bytes is looked at: offsets of pieces of 4 KiB, ascending, which do not overlap. Four of them up to
/// 256 KiB, then eight, one somewhere in each equal part. None for a frame that is its own sample, up to 32 KiB.
[[nodiscard]] std::vector<std::uint64_t> sample_places(std::uint64_t nbytes);

/// `message` with its frames stored as `options` say; the header tells it (meta `!codec` and `xxh3`).
///
/// A frame is compressed when a sample of it (`sample_places`) shrinks enough and then all of it does: never more than `most_stored_percent` of its bytes, else it stays as it is. The same bytes are stored alike
/// each time. Compressed frames are new blocks of `resource` and let go of what they were made from; the others are passed on
/// untouched. Memory beside the frames: that of one compressed frame and the codecs' own (message/codec.hpp).
///
/// Frames that are compressed already stay so. `report`, where given, gets one entry a frame.
///
/// @throws Error{unsupported} for checksums of device frames and for a level that zstd does not have; Error{exhausted}.
[[nodiscard]] Message store(Message message, StoreOptions const& options, Resource& resource, std::vector<StoredFrame>* report = nullptr);

}  // namespace transload
