// Places in words: of the byte that the first three bytes name, and of the first use of each name. Errors ask for them, so
// they answer for malformed headers too, in words of bounded length.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "transload/adapters/place.hpp"
#include "transload/base/error.hpp"

using namespace transload;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 3) return 0;
  std::size_t const offset = static_cast<std::size_t>(data[0]) | static_cast<std::size_t>(data[1]) << 8 | static_cast<std::size_t>(data[2]) << 16;
  auto const input = std::as_bytes(std::span(data + 3, size - 3));
  try {
    Header const header = Header::parse(input);
    auto const fits = [](std::string const& words) { return words.starts_with("obj") && words.size() < 8192; };
    if (!fits(place_in_object(input, header, offset)) || !fits(place_in_object(input, header, offset % (input.size() + 1)))) std::abort();
    for (std::size_t name = 0; name <= header.names.size() && name < 8; ++name) {
      auto const use = first_use_of_name(input, header, name);
      if (use && (*use < header.root_offset || *use >= input.size() || !fits(place_in_object(input, header, *use)))) std::abort();
    }
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::malformed) std::abort();
  }
  return 0;
}
