#pragma once
/// A message: the header's bytes and the frames. docs/format.md, "Payloads and frames".

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "transload/memory/buffer.hpp"
#include "transload/message/header.hpp"
#include "transload/message/layout.hpp"

namespace transload {

/// What `serialize` makes and a comm sends. Moves; `share` gives a second message on the same bytes.
struct Message {
  Buffer header;
  std::vector<Buffer> frames;

  /// Bytes of header and frames together.
  [[nodiscard]] std::uint64_t nbytes() const noexcept;
  [[nodiscard]] Message share();
};

/// Makes the frames that `layout` plans: packed payloads are copied into one block of `resource` (the gaps are zeroed),
/// larger ones are borrowed with `keeper`. Windows cost nothing; their bytes travel with the payload they look into.
///
/// `payloads` and `sizes` are those of the writer after `HeaderWriter::finish`, which planned `layout`.
///
/// @throws Error{exhausted} when `resource` has no room.
[[nodiscard]] std::vector<Buffer> make_frames(std::span<std::span<std::byte const> const> payloads, std::span<PayloadSize const> sizes,
                                              Layout const& layout, Resource& resource, std::shared_ptr<void const> const& keeper = {});

/// The bytes that `packer` holds, as a buffer.
[[nodiscard]] Buffer to_buffer(msgpack::Packer packer);

/// Finishes `writer` and makes the message. Its large frames borrow the payloads and hold `keeper`.
[[nodiscard]] Message make_message(HeaderWriter& writer, std::optional<LayoutLimits> limits, Resource& resource,
                                   std::shared_ptr<void const> const& keeper = {});

struct OpenOptions {
  bool check_xxh3 = true;  ///< compare the checksums that stand in meta `xxh3`
  /// Bytes that the compressed frames of a message may claim together; nothing: the memory of this machine.
  std::optional<std::uint64_t> most_nbytes = {};
};

/// What the compressed frames of a message hold: one buffer a frame, empty for those that are stored as they are. `stored` are
/// the frames that came.
///
/// Number, sizes, checksums, names of codecs and what the frames claim, each and together, are checked for all frames before
/// the first one is decompressed, and a block of `resource` is taken for one frame after the other.
///
/// @throws Error{malformed} for frames that do not match the header and for codecs that are not known here; Error{exhausted}
/// for more than `most_nbytes`.
[[nodiscard]] std::vector<Buffer> unpack_frames(Header const& header, std::span<std::span<std::byte const> const> stored, Resource& resource,
                                                OpenOptions options = {});

/// Replaces compressed frames by what they hold. As `unpack_frames` otherwise.
///
/// @throws Error{unsupported} for device frames.
void open_frames(Header const& header, std::vector<Buffer>& frames, Resource& resource, OpenOptions options = {});

/// The payloads of a message, each as one run of bytes. Borrows header and frames (as `open_frames` left them).
///
/// A payload that was split is returned as it lies where its frames touch (as in a mapped container), and is joined into
/// a block of `resource` at its first use otherwise; windows of it look into the same block. Not thread-safe.
class Payloads {
 public:
  Payloads(Header const& header, std::span<Buffer const> frames, Resource& resource) noexcept
      : header_(&header), frames_(frames), resource_(&resource) {}

  [[nodiscard]] std::size_t size() const noexcept { return header_->layout.places.size(); }
  /// The bytes of payload `p`, `p < size()`.
  [[nodiscard]] std::span<std::byte const> operator[](std::size_t p);

 private:
  std::span<std::byte const> joined(Place const& place);

  Header const* header_;
  std::span<Buffer const> frames_;
  Resource* resource_;
  std::unordered_map<std::uint32_t, Buffer> joined_;  // by first frame
};

}  // namespace transload
