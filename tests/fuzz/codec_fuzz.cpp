// A compressed frame: the first byte picks the codec, the next three the size that the layout would say.
#include <cstddef>
#include <cstdint>

#include "transload/base/error.hpp"
#include "transload/message/codec.hpp"

using namespace transload;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 4) return 0;
  std::uint64_t const nbytes = (data[1] | data[2] << 8 | data[3] << 16) % 100'000;
  try {
    (void)decompress((data[0] & 1) != 0 ? "lz4" : "zstd", std::as_bytes(std::span(data + 4, size - 4)), nbytes, default_resource());
  } catch (Error const&) {
  }
  return 0;
}
