#pragma once
/// Where payloads lie in frames: one rule, computed alike by the writer and the reader. docs/format.md, "Payloads and frames".

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transload/base/limits.hpp"

namespace transload {

/// One entry of the header's `sizes`: `nbytes` of its own, or a window of the payload `window_of`.
struct PayloadSize {
  std::uint64_t nbytes = 0;
  std::int64_t window_of = -1;  ///< payload number, or -1: the payload has bytes of its own
  std::uint64_t window_offset = 0;
  bool device = false;  ///< memory of a GPU; a window's is its payload's

  friend bool operator==(PayloadSize const&, PayloadSize const&) = default;
};

/// The limits that a writer chose: payloads up to `pack_limit` bytes share the pack, those above `split_limit` are cut.
struct LayoutLimits {
  /// 64 KiB: a frame costs 20–30 µs on Dask's tcp comm, copying 64 KiB about 10 (docs/measuring.md, "packing").
  std::uint64_t pack_limit = std::uint64_t{64} << 10;
  std::uint64_t split_limit = std::uint64_t{1} << 62;
  /// Of payloads of a GPU's memory; 0: `pack_limit`.
  std::uint64_t device_pack_limit = 0;

  [[nodiscard]] std::uint64_t packed(bool device) const noexcept { return device && device_pack_limit != 0 ? device_pack_limit : pack_limit; }

  friend bool operator==(LayoutLimits const&, LayoutLimits const&) = default;
};

/// The limits for a message whose writer has no wish: 64 KiB are packed; where that leaves more than 160 frames, larger payloads are
/// packed too, largest last, up to 256 KiB (where the copy begins to cost more than a frame; docs/measuring.md, "packing").
[[nodiscard]] LayoutLimits default_limits(std::span<PayloadSize const> sizes);

/// A payload's place: `nbytes` from `offset` of frame `frame`; over `nframes` frames when it was split.
struct Place {
  std::uint32_t frame = 0;
  std::uint32_t nframes = 0;  ///< 0: the payload is empty and lies nowhere
  std::uint64_t offset = 0;
  std::uint64_t nbytes = 0;
};

/// Alignment in the pack of a payload of `nbytes` bytes: 64 from 4 KiB up, else its largest power of two, at most 16.
[[nodiscard]] constexpr std::uint64_t payload_align(std::uint64_t nbytes) noexcept {
  if (nbytes >= 4096) return 64;
  if (nbytes == 0) return 1;
  std::uint64_t const low_bit = nbytes & (~nbytes + 1);
  return low_bit < 16 ? low_bit : 16;
}

/// A pack of device payloads ends before it passes this: whoever gathers it needs so much memory, and not as much as the object.
inline constexpr std::uint64_t device_pack_nbytes = std::uint64_t{16} << 20;

struct Layout {
  LayoutLimits limits;
  std::vector<Place> places;                ///< one a payload
  std::vector<std::uint64_t> frame_nbytes;  ///< one a frame
  bool has_pack = false;                    ///< frame 0 is the pack
  std::size_t device_frames = 0;            ///< the first frame of device payloads; their packs are there, then the others
  std::size_t ndevice_packs = 0;

  /// Applies the rule. Windows are resolved to places in the frame of their payload.
  ///
  /// More frames than `most_frames` are refused before memory is taken for them: a reader says how many it has.
  ///
  /// @throws Error{malformed} where limits, sizes or windows contradict each other or pass the limits.
  [[nodiscard]] static Layout plan(std::span<PayloadSize const> sizes, LayoutLimits limits, std::size_t most_frames = limits::table_entries);
};

/// Finds payloads that share memory and turns them into windows of one payload, which is appended when none of them
/// spans the others. `payloads` and `sizes` have one entry a payload on entry; `payloads` grows with `sizes`.
/// Payloads that only touch or are empty stay as they are.
void merge_overlaps(std::vector<std::span<std::byte const>>& payloads, std::vector<PayloadSize>& sizes);

}  // namespace transload
