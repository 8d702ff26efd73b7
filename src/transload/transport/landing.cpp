#include "transload/transport/landing.hpp"

#include <memory>

#include "transload/transport/share.hpp"

namespace transload {

Frames make_landing(std::span<std::uint64_t const> sizes, Resource& resource) {
  constexpr std::size_t shared_nbytes = std::size_t{64} << 10;
  Frames frames(sizes.size());
  struct Spot {
    std::size_t frame, offset;
  };
  std::vector<Spot> spots;
  std::size_t end = 0;
  auto const make_block = [&] {
    if (spots.size() == 1) {
      frames[spots[0].frame] = Buffer::allocate(sizes[spots[0].frame], resource);
    } else if (!spots.empty()) {
      auto const block = std::make_shared<Buffer>(Buffer::allocate(end, resource));
      for (Spot const& spot : spots) {
        frames[spot.frame] = Buffer::borrow_writable(block->writable().subspan(spot.offset, sizes[spot.frame]), block);
      }
    }
    spots.clear();
    end = 0;
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= large_frame_nbytes) {
      frames[i] = Buffer::allocate(sizes[i], resource);
    } else if (sizes[i] > 0) {
      std::size_t offset = (end + 15) / 16 * 16;
      if (offset + sizes[i] > shared_nbytes) {
        make_block();
        offset = 0;
      }
      spots.push_back({i, offset});
      end = offset + sizes[i];
    }
  }
  make_block();
  return frames;
}

}  // namespace transload
