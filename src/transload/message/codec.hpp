#pragma once
/// Compression of one frame. docs/format.md, "Compressed frames".

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "transload/memory/buffer.hpp"

namespace transload {

/// Whether this library can read and write frames of codec `name`.
[[nodiscard]] bool knows_codec(std::string_view name) noexcept;

/// The level at which zstd is asked where nobody says another: its own default, 3, takes 1.3 to 2 times as long, mostly for a tenth to a fifth
/// fewer bytes (docs/measuring.md, "Compression").
inline constexpr int default_zstd_level = 1;

/// Throws Error{malformed} when `stored_nbytes` bytes of `codec` cannot hold `nbytes`: one byte of LZ4 stands for at most
/// 255, one of Zstandard for 32 768.
///
/// @throws Error{unsupported} for a codec that is not known here, with its name.
void check_ratio(std::string_view codec, std::uint64_t stored_nbytes, std::uint64_t nbytes);

/// Compresses frames, one after the other, and keeps the codecs' working memory (16 KiB for lz4, about 1 MiB for zstd at level 1)
/// for the next one. Host memory. Not thread-safe.
class Compressor {
 public:
  Compressor();
  Compressor(Compressor const&) = delete;
  Compressor& operator=(Compressor const&) = delete;
  ~Compressor();

  /// `bytes` as one frame of `codec`, in a block of `resource`; nothing where that takes more than `most_nbytes`.
  ///
  /// The block grows with what was written, from `expected_nbytes` (a guess) on, so that memory beside the input is at most
  /// three times what the frame takes. `level` is zstd's; lz4 has none.
  ///
  /// @throws Error{unsupported} for a codec or a level that is not known here; Error{exhausted} without memory.
  [[nodiscard]] std::optional<Buffer> try_compress(std::string_view codec, std::span<std::byte const> bytes, std::uint64_t most_nbytes,
                                                   Resource& resource, int level = default_zstd_level, std::uint64_t expected_nbytes = 0);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

/// Decompresses frames, one after the other, and keeps zstd's working memory for the next one. Not thread-safe.
class Decompressor {
 public:
  Decompressor();
  Decompressor(Decompressor const&) = delete;
  Decompressor& operator=(Decompressor const&) = delete;
  ~Decompressor();

  /// What `stored` holds: one LZ4 frame without a dictionary, or Zstandard frames, which give exactly `nbytes` bytes and end
  /// with `stored`. The result is a block of `resource`; lz4 takes no other memory, zstd about 160 KiB.
  ///
  /// `nbytes` is what the header's layout says. The block is taken after all that can be seen without decoding was right:
  /// the claim, the lengths of the parts, their end, sizes and checksums of the codec's own heads.
  ///
  /// @throws Error{unsupported} for a codec that is not known here, with its name.
  /// @throws Error{malformed} with the byte of `stored` for what is not what the codec or the layout says.
  [[nodiscard]] Buffer decompress(std::string_view codec, std::span<std::byte const> stored, std::uint64_t nbytes, Resource& resource);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace transload
