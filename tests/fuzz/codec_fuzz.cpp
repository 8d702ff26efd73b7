// A compressed frame: the first byte picks the codec, the next three the size that the layout would say. LZ4 frames are
// held against LZ4's own reader, which must see the same bytes or refuse them too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include <lz4frame.h>

#include "transload/base/error.hpp"
#include "transload/message/codec.hpp"

using namespace transload;

namespace {

/// What the library makes of one frame of `nbytes` bytes that ends with `stored`, or nothing.
std::optional<std::vector<std::byte>> by_library(std::span<std::byte const> stored, std::uint64_t nbytes) {
  LZ4F_dctx* context = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) std::abort();
  std::vector<std::byte> out(nbytes + 1);
  std::size_t read = 0;
  std::size_t written = 0;
  std::size_t hint = 1;
  while (hint != 0) {
    std::size_t in = stored.size() - read;
    std::size_t room = out.size() - written;
    hint = LZ4F_decompress(context, out.data() + written, &room, stored.data() + read, &in, nullptr);
    if (LZ4F_isError(hint) || (in == 0 && room == 0)) break;
    read += in;
    written += room;
  }
  LZ4F_freeDecompressionContext(context);
  if (hint != 0 || read != stored.size() || written != nbytes) return std::nullopt;
  out.resize(nbytes);
  return out;
}

/// What the library reads and we do not: skippable frames, and dictionaries it was not given.
bool only_the_librarys(std::span<std::byte const> stored) {
  std::uint32_t magic = 0;
  if (stored.size() < 5) return true;
  std::memcpy(&magic, stored.data(), sizeof(magic));
  return magic != 0x184d2204 || (stored[4] & std::byte{1}) != std::byte{0};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 4) return 0;
  std::uint64_t const nbytes = (data[1] | data[2] << 8 | data[3] << 16) % 100'000;
  bool const lz4 = (data[0] & 1) != 0;
  auto const stored = std::as_bytes(std::span(data + 4, size - 4));
  std::optional<Buffer> read;
  try {
    read = Decompressor().decompress(lz4 ? "lz4" : "zstd", stored, nbytes, default_resource());
  } catch (Error const&) {
  }
  if (lz4 && !only_the_librarys(stored)) {
    auto const theirs = by_library(stored, nbytes);
    if (theirs.has_value() != read.has_value()) std::abort();
    if (read && nbytes > 0 && std::memcmp(read->data(), theirs->data(), nbytes) != 0) std::abort();
  }
  return 0;
}
