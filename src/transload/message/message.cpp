#include "transload/message/message.hpp"

#include <algorithm>
#include <cstring>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/checksum.hpp"
#include "transload/message/codec.hpp"

namespace transload {

std::uint64_t Message::nbytes() const noexcept {
  std::uint64_t sum = header.nbytes();
  for (Buffer const& frame : frames) sum += frame.nbytes();
  return sum;
}

Message Message::share() {
  Message other;
  other.header = header.share();
  other.frames.reserve(frames.size());
  for (Buffer& frame : frames) other.frames.push_back(frame.share());
  return other;
}

std::vector<Buffer> make_frames(std::span<std::span<std::byte const> const> payloads, std::span<PayloadSize const> sizes,
                                Layout const& layout, Resource& resource, std::shared_ptr<void const> const& keeper) {
  expects(payloads.size() == sizes.size() && sizes.size() == layout.places.size(), ErrorKind::failed, [&] {
    return cat("make_frames: ", payloads.size(), " payloads, ", sizes.size(), " sizes, ", layout.places.size(), " places");
  });
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    expects(!sizes[p].device, ErrorKind::unsupported, [&] { return cat("payload ", p, " is a GPU's memory, which only the walk over Python objects gathers in this version"); });
  }
  std::vector<Buffer> frames;
  frames.reserve(layout.frame_nbytes.size());
  std::span<std::byte> pack;
  if (layout.has_pack) {
    frames.push_back(Buffer::allocate(layout.frame_nbytes.front(), resource));
    pack = frames.front().writable();
  }
  std::uint64_t packed = 0;  // bytes of the pack that are written
  for (std::size_t p = 0; p < payloads.size(); ++p) {
    if (sizes[p].window_of >= 0 || sizes[p].nbytes == 0) continue;
    Place const& place = layout.places[p];
    auto const bytes = payloads[p];
    expects(bytes.size() == place.nbytes, ErrorKind::failed,
            [&] { return cat("payload ", p, ": ", bytes.size(), " bytes, ", place.nbytes, " were announced"); });
    if (layout.has_pack && place.frame == 0) {
      std::memset(pack.data() + packed, 0, place.offset - packed);
      std::memcpy(pack.data() + place.offset, bytes.data(), bytes.size());
      packed = place.offset + place.nbytes;
      continue;
    }
    std::uint64_t at = 0;
    for (std::uint32_t i = 0; i < place.nframes; ++i) {
      std::uint64_t const n = layout.frame_nbytes[place.frame + i];
      frames.push_back(Buffer::borrow(bytes.subspan(at, n), keeper));
      at += n;
    }
  }
  return frames;
}

Buffer to_buffer(msgpack::Packer packer) {
  auto const keeper = std::make_shared<msgpack::Packer>(std::move(packer));
  return Buffer::borrow(keeper->bytes(), keeper);
}

Message make_message(HeaderWriter& writer, std::optional<LayoutLimits> limits, Resource& resource,
                     std::shared_ptr<void const> const& keeper) {
  Layout layout;
  Message message;
  message.header = to_buffer(writer.finish(limits, layout));
  message.frames = make_frames(writer.payloads(), writer.sizes(), layout, resource, keeper);
  return message;
}

std::vector<Buffer> unpack_frames(Header const& header, std::span<std::span<std::byte const> const> stored, Resource& resource,
                                  OpenOptions options) {
  std::vector<std::uint64_t> nbytes;
  nbytes.reserve(stored.size());
  for (auto const bytes : stored) nbytes.push_back(bytes.size());
  header.check_frames(nbytes);
  if (options.check_xxh3) {
    for (std::size_t i = 0; i < header.frame_xxh3.size(); ++i) {
      expects(xxh3(stored[i]) == header.frame_xxh3[i], ErrorKind::malformed,
              [&] { return cat("frame ", i, ": its bytes are not those of its checksum (XXH3)"); });
    }
  }
  std::vector<Buffer> unpacked(stored.size());
  if (header.frame_codec.empty()) return unpacked;

  auto const of_frame = [](std::size_t i, auto&& act) {
    try {
      act();
    } catch (Error const& error) {
      raise(error.kind(), cat("frame ", i, ": ", error.what()));
    }
  };
  std::uint64_t const most = options.most_nbytes ? *options.most_nbytes : physical_nbytes();
  std::uint64_t claimed = 0;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::string_view const codec = header.frame_codec[i];
    if (codec.empty()) continue;
    expects(knows_codec(codec), ErrorKind::malformed, [&] {
      return cat("byte ", header.codec_offset, ": meta !codec: frame ", i, ": compressed with ", codec, ", a codec that is missing here; lz4 and zstd are known");
    });
    of_frame(i, [&] { check_ratio(codec, stored[i].size(), header.layout.frame_nbytes[i]); });
    claimed += std::min(header.layout.frame_nbytes[i], limits::payload_nbytes);
    expects(claimed <= most, ErrorKind::exhausted,
            [&] { return cat("frame ", i, ": the compressed frames up to here claim ", claimed, " bytes, the limit is ", most); });
  }
  Decompressor decompressor;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (header.frame_codec[i].empty()) continue;
    of_frame(i, [&] { unpacked[i] = decompressor.decompress(header.frame_codec[i], stored[i], header.layout.frame_nbytes[i], resource); });
  }
  return unpacked;
}

void open_frames(Header const& header, std::vector<Buffer>& frames, Resource& resource, OpenOptions options) {
  std::vector<std::span<std::byte const>> stored;
  stored.reserve(frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    expects(frames[i].kind() != MemoryKind::device, ErrorKind::unsupported,
            [&] { return cat("frame ", i, ": device memory, this version reads host frames"); });
    stored.push_back(frames[i].bytes());
  }
  auto unpacked = unpack_frames(header, stored, resource, options);
  for (std::size_t i = 0; i < header.frame_codec.size(); ++i) {
    if (!header.frame_codec[i].empty()) frames[i] = std::move(unpacked[i]);
  }
}

std::span<std::byte const> Payloads::operator[](std::size_t p) {
  expects(p < size(), ErrorKind::malformed, [&] { return cat("payload ", p, " of ", size()); });
  Place const& place = header_->layout.places[p];
  if (place.nbytes == 0) return {};
  if (place.nframes == 1) return frames_[place.frame].bytes().subspan(place.offset, place.nbytes);
  return joined(place).subspan(place.offset, place.nbytes);
}

std::span<std::byte const> Payloads::joined(Place const& place) {
  auto const pieces = frames_.subspan(place.frame, place.nframes);
  std::uint64_t nbytes = 0;
  bool touch = true;
  for (Buffer const& piece : pieces) {
    touch = touch && piece.data() == pieces.front().data() + nbytes;
    nbytes += piece.nbytes();
  }
  if (touch) return {pieces.front().data(), nbytes};
  if (auto const at = joined_.find(place.frame); at != joined_.end()) return at->second.bytes();
  Buffer whole = Buffer::allocate(nbytes, *resource_);
  std::byte* out = whole.writable().data();
  for (Buffer const& piece : pieces) {
    std::memcpy(out, piece.data(), piece.nbytes());
    out += piece.nbytes();
  }
  return joined_.emplace(place.frame, std::move(whole)).first->second.bytes();
}

}  // namespace transload
