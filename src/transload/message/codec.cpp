#include "transload/message/codec.hpp"

#include <memory>
#include <string>

#include <lz4frame.h>
#include <zstd.h>

#include "transload/base/error.hpp"

namespace transload {

namespace {

[[noreturn]] void unknown(std::string_view codec) {
  raise(ErrorKind::unsupported, cat("codec ", codec, " is not known here; lz4 and zstd are"));
}

[[noreturn]] void bad(std::string_view codec, std::string_view why) { raise(ErrorKind::malformed, cat(codec, " frame: ", why)); }

// The most that one stored byte can stand for: an LZ4 sequence extends a match by 255 a byte; a Zstandard RLE block
// makes 128 KiB of 4 bytes. A frame that declares more is refused before memory is taken.
constexpr std::uint64_t lz4_ratio = 255;
constexpr std::uint64_t zstd_ratio = 32768;

void check_ratio(std::string_view codec, std::uint64_t stored, std::uint64_t nbytes, std::uint64_t ratio) {
  if (nbytes / ratio > stored) bad(codec, cat(stored, " bytes cannot hold ", nbytes));
}

void decompress_lz4(std::span<std::byte const> stored, std::span<std::byte> out) {
  LZ4F_dctx* raw = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&raw, LZ4F_VERSION))) raise(ErrorKind::exhausted, "lz4: no room for a context");
  std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> const context(raw, &LZ4F_freeDecompressionContext);
  std::size_t read = 0;
  std::size_t written = 0;
  std::byte nowhere{};
  for (;;) {
    std::size_t in = stored.size() - read;
    std::size_t room = out.size() - written;
    std::size_t const hint =
        LZ4F_decompress(context.get(), out.empty() ? &nowhere : out.data() + written, &room, stored.data() + read, &in, nullptr);
    if (LZ4F_isError(hint)) bad("lz4", LZ4F_getErrorName(hint));
    read += in;
    written += room;
    if (hint == 0) break;  // the frame's end was read
    if (in == 0 && room == 0) bad("lz4", written == out.size() ? cat("more than ", out.size(), " bytes") : "ends early");
  }
  if (written != out.size()) bad("lz4", cat(written, " bytes, the header needs ", out.size()));
  if (read != stored.size()) bad("lz4", cat(stored.size() - read, " bytes behind its end"));
}

void decompress_zstd(std::span<std::byte const> stored, std::span<std::byte> out) {
  std::size_t const n = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(n)) bad("zstd", ZSTD_getErrorName(n));
  if (n != out.size()) bad("zstd", cat(n, " bytes, the header needs ", out.size()));
}

}  // namespace

bool knows_codec(std::string_view name) noexcept { return name == "lz4" || name == "zstd"; }

Buffer decompress(std::string_view codec, std::span<std::byte const> stored, std::uint64_t nbytes, Resource& resource) {
  if (!knows_codec(codec)) unknown(codec);
  check_ratio(codec, stored.size(), nbytes, codec == "lz4" ? lz4_ratio : zstd_ratio);
  Buffer out = Buffer::allocate(nbytes, resource);
  if (codec == "lz4") {
    decompress_lz4(stored, out.writable());
  } else {
    decompress_zstd(stored, out.writable());
  }
  return out;
}

Buffer compress(std::string_view codec, std::span<std::byte const> bytes, Resource& resource) {
  if (!knows_codec(codec)) unknown(codec);
  std::size_t const most = codec == "lz4" ? LZ4F_compressFrameBound(bytes.size(), nullptr) : ZSTD_compressBound(bytes.size());
  Buffer room = Buffer::allocate(most, resource);
  std::size_t n = 0;
  if (codec == "lz4") {
    n = LZ4F_compressFrame(room.writable().data(), most, bytes.data(), bytes.size(), nullptr);
    expects(!LZ4F_isError(n), ErrorKind::failed, [&] { return cat("lz4: ", LZ4F_getErrorName(n)); });
  } else {
    n = ZSTD_compress(room.writable().data(), most, bytes.data(), bytes.size(), ZSTD_CLEVEL_DEFAULT);
    expects(!ZSTD_isError(n), ErrorKind::failed, [&] { return cat("zstd: ", ZSTD_getErrorName(n)); });
  }
  auto const used = room.bytes().first(n);
  return Buffer::borrow(used, std::make_shared<Buffer>(std::move(room)));
}

}  // namespace transload
