// A header alone, with more or fewer frames than it asks for. The first byte says how many frames the reader has. What is
// accepted must keep its own rules: places inside frames, frames of the sizes that their payloads need.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "transload/base/error.hpp"
#include "transload/message/header.hpp"

using namespace transload;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::size_t const most_frames = data[0] < 0xff ? data[0] : limits::table_entries;
  auto const input = std::as_bytes(std::span(data + 1, size - 1));
  try {
    Header const header = Header::parse(input, most_frames);
    if (header.layout.frame_nbytes.size() > most_frames + 1 || header.layout.places.size() != header.sizes.size()) std::abort();
    for (std::size_t p = 0; p < header.sizes.size(); ++p) {
      Place const& place = header.layout.places[p];
      if (place.nbytes != header.sizes[p].nbytes || (place.nframes == 0) != (place.nbytes == 0)) std::abort();
      if (place.nframes == 0) continue;
      std::uint64_t room = 0;
      for (std::uint32_t i = 0; i < place.nframes; ++i) room += header.layout.frame_nbytes.at(place.frame + i);
      if (place.offset > room || place.nbytes > room - place.offset) std::abort();
    }
    for (ShapeEntry const& shape : header.shapes) {
      if (shape.cls && *shape.cls >= header.names.size()) std::abort();
    }
    if (header.root_offset >= input.size()) std::abort();
    header.check_frames(header.layout.frame_nbytes);
    std::vector<std::uint64_t> more(header.layout.frame_nbytes);
    more.push_back(0);
    try {
      header.check_frames(more);
    } catch (Error const&) {
      return 0;
    }
    std::abort();
  } catch (Error const& error) {
    if (error.kind() != ErrorKind::malformed) std::abort();
  }
  return 0;
}
