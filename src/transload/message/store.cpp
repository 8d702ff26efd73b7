#include "transload/message/store.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "transload/base/error.hpp"
#include "transload/message/checksum.hpp"
#include "transload/message/header.hpp"

namespace transload {

namespace {

// 32 KiB tell what a codec makes of a frame for 5 µs (lz4, random bytes) to 120 µs (zstd, text).
constexpr std::size_t piece_nbytes = std::size_t{4} << 10;
constexpr std::size_t most_pieces = 8;
constexpr std::size_t sample_nbytes = most_pieces * piece_nbytes;
constexpr std::uint64_t many_nbytes = std::uint64_t{256} << 10;  // from here on a frame is worth all eight places

constexpr std::uint64_t most_stored(std::uint64_t nbytes) noexcept {
  return nbytes / 100 * most_stored_percent + nbytes % 100 * most_stored_percent / 100;
}

/// A number that looks random and is the same each time (splitmix64).
constexpr std::uint64_t scattered(std::uint64_t n) noexcept {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
  n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
  return n ^ (n >> 31);
}

void because(StoredFrame& stored, std::string_view reason) {
  if (!stored.reason.empty()) stored.reason += "; ";
  stored.reason += reason;
}

/// Compresses frames as the options say, one after the other.
class Packing {
 public:
  Packing(StoreOptions const& options, Resource& resource) : options_(options), resource_(resource) {
    if (options.compression != Compression::zstd) codecs_[ncodecs_++] = "lz4";
    if (options.compression != Compression::lz4) codecs_[ncodecs_++] = "zstd";
  }

  /// The frame compressed, with the codec's name in `stored`; or nothing, with the reason there.
  std::optional<Buffer> pack(std::span<std::byte const> bytes, StoredFrame& stored) {
    if (bytes.size() < least_compressed_nbytes) {
      stored.reason = cat("below ", least_compressed_nbytes, " bytes");
      return std::nullopt;
    }
    std::span<std::byte const> const sample = bytes.size() <= sample_nbytes ? bytes : take_sample(bytes);
    bool const whole = sample.size() == bytes.size();
    for (std::size_t i = 0; i < ncodecs_; ++i) {
      std::string_view const codec = codecs_[i];
      auto tried = compressor_.try_compress(codec, sample, 2 * sample.size(), resource_, options_.level, sample.size());
      std::uint64_t const left = tried ? tried->nbytes() : 2 * sample.size();
      std::uint64_t const percent = (100 * left + sample.size() - 1) / sample.size();
      if (left > most_stored(sample.size())) {
        because(stored, cat(codec, " leaves ", percent, whole ? " %" : " % of a sample"));
        continue;
      }
      if (!whole) {
        // What the sample says and an eighth more: then the block rarely has to grow.
        std::uint64_t const expected = bytes.size() / sample.size() * (left + left / 8);
        tried = compressor_.try_compress(codec, bytes, most_stored(bytes.size()), resource_, options_.level, expected);
      }
      if (tried) {
        stored.codec = codec;
        stored.nbytes = tried->nbytes();
        stored.reason.clear();
        return tried;
      }
      because(stored, cat(codec, " leaves more than ", most_stored_percent, " %, of a sample ", percent, " %"));
    }
    return std::nullopt;
  }

 private:
  std::span<std::byte const> take_sample(std::span<std::byte const> bytes) {
    std::size_t nbytes = 0;
    for (std::uint64_t const at : sample_places(bytes.size())) {
      std::memcpy(sample_.data() + nbytes, bytes.data() + at, piece_nbytes);
      nbytes += piece_nbytes;
    }
    return std::span<std::byte const>(sample_).first(nbytes);
  }

  StoreOptions const& options_;
  Resource& resource_;
  Compressor compressor_;
  std::array<std::string_view, 2> codecs_;
  std::size_t ncodecs_ = 0;
  std::array<std::byte, sample_nbytes> sample_;
};

}  // namespace

Compression compression_called(std::string_view name) {
  if (name == "auto") return Compression::automatic;
  if (name == "lz4") return Compression::lz4;
  if (name == "zstd") return Compression::zstd;
  raise(ErrorKind::unsupported, cat("compression ", name, " is none of auto, lz4, zstd"));
}

std::vector<std::uint64_t> sample_places(std::uint64_t nbytes) {
  if (nbytes <= sample_nbytes) return {};
  std::uint64_t const npieces = nbytes < many_nbytes ? most_pieces / 2 : most_pieces;
  std::uint64_t const part = nbytes / npieces;
  std::vector<std::uint64_t> places(npieces);
  // Not at equal distances: columns of equal length would show the same rows each time.
  for (std::uint64_t i = 0; i < npieces; ++i) places[i] = i * part + scattered(nbytes + i) % (part - piece_nbytes + 1);
  return places;
}

Message store(Message message, StoreOptions const& options, Resource& resource, std::vector<StoredFrame>* report) {
  Header const header = Header::parse(message.header.bytes(), message.frames.size());
  std::vector<StoredFrame> stored(message.frames.size());
  std::optional<Packing> packing;
  if (options.compression != Compression::none) packing.emplace(options, resource);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    Buffer& frame = message.frames[i];
    stored[i] = {.codec = {}, .raw_nbytes = frame.nbytes(), .nbytes = frame.nbytes(), .reason = {}};
    if (!header.frame_codec.empty() && !header.frame_codec[i].empty()) {
      stored[i].codec = header.frame_codec[i] == "lz4" ? "lz4" : "zstd";
      stored[i].raw_nbytes = header.layout.frame_nbytes[i];
    } else if (packing && frame.kind() == MemoryKind::device) {
      stored[i].reason = "device memory";
    } else if (packing) {
      if (auto packed = packing->pack(frame.bytes(), stored[i])) frame = std::move(*packed);
    }
  }

  std::vector<std::string_view> codecs;
  if (std::any_of(stored.begin(), stored.end(), [](StoredFrame const& frame) { return !frame.codec.empty(); })) {
    for (StoredFrame const& frame : stored) codecs.push_back(frame.codec);
  }
  std::vector<std::uint64_t> sums;
  if (options.checksum || !header.frame_xxh3.empty()) {
    for (std::size_t i = 0; i < message.frames.size(); ++i) {
      expects(message.frames[i].kind() != MemoryKind::device, ErrorKind::unsupported,
              [&] { return cat("frame ", i, ": device memory; bring it to the host before it is summed up"); });
      sums.push_back(xxh3(message.frames[i].bytes()));
    }
  }
  if (!codecs.empty() || !sums.empty()) message.header = to_buffer(with_stored(message.header.bytes(), codecs, sums));
  if (report != nullptr) *report = std::move(stored);
  return message;
}

}  // namespace transload
