#include "transload/message/layout.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

namespace transload {

namespace {

std::uint64_t align_up(std::uint64_t offset, std::uint64_t align) noexcept { return (offset + align - 1) & ~(align - 1); }

}  // namespace

LayoutLimits default_limits(std::span<PayloadSize const> sizes) {
  constexpr std::size_t many_frames = 160;
  constexpr std::uint64_t most = std::uint64_t{256} << 10;
  LayoutLimits limits;
  std::vector<std::uint64_t> large;
  for (PayloadSize const& size : sizes) {
    if (size.window_of < 0 && size.nbytes > limits.pack_limit) large.push_back(size.nbytes);
  }
  if (large.size() < many_frames) return limits;
  // One frame is the pack; the others are for the largest.
  auto const first_packed = large.begin() + (many_frames - 1);
  std::nth_element(large.begin(), first_packed, large.end(), std::greater<>{});
  limits.pack_limit = std::clamp(*first_packed, limits.pack_limit, most);
  return limits;
}

Layout Layout::plan(std::span<PayloadSize const> sizes, LayoutLimits limits, std::size_t most_frames) {
  expects(limits.split_limit >= 1 && limits.split_limit >= limits.pack_limit && limits.split_limit >= limits.device_pack_limit, ErrorKind::malformed,
          [&] { return cat("layout: split_limit ", limits.split_limit, " below 1 or below pack_limit ", limits.pack_limit, " or device_pack_limit ", limits.device_pack_limit); });
  Layout layout;
  layout.limits = limits;
  layout.places.resize(sizes.size());

  auto const room_for = [&](std::size_t p, std::uint64_t pieces) {
    expects(layout.frame_nbytes.size() <= most_frames && pieces <= most_frames - layout.frame_nbytes.size(), ErrorKind::malformed, [&] {
      return cat("sizes[", p, "]: ", sizes[p].nbytes, " bytes in pieces of ", limits.split_limit, ": more frames than the ", most_frames, " there are or may be");
    });
  };
  bool any_device = false;
  // Payloads of one kind that are small: into packs of at most `most` bytes.
  auto const pack = [&](bool device, std::uint64_t most) {
    std::uint64_t nbytes = 0;
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      PayloadSize const& size = sizes[p];
      expects(size.nbytes <= limits::payload_nbytes, ErrorKind::malformed, [&] { return cat("sizes[", p, "]: ", size.nbytes, " bytes"); });
      any_device = any_device || size.device;
      if (size.device != device || size.window_of >= 0 || size.nbytes > limits.packed(device) || size.nbytes == 0) continue;
      std::uint64_t offset = align_up(nbytes, payload_align(size.nbytes));
      if (nbytes > 0 && offset + size.nbytes > most) {
        layout.frame_nbytes.push_back(nbytes);
        room_for(p, 1);
        offset = 0;
      }
      layout.places[p] = {.frame = static_cast<std::uint32_t>(layout.frame_nbytes.size()), .nframes = 1, .offset = offset, .nbytes = size.nbytes};
      nbytes = offset + size.nbytes;
      expects(nbytes <= limits::payload_nbytes, ErrorKind::malformed, [&] { return cat("sizes[", p, "]: the pack passes the limit"); });
    }
    if (nbytes > 0) layout.frame_nbytes.push_back(nbytes);
  };
  auto const cut = [&](bool device) {
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      PayloadSize const& size = sizes[p];
      if (size.device != device || size.window_of >= 0 || size.nbytes <= limits.packed(device)) continue;
      std::uint64_t const pieces = (size.nbytes + limits.split_limit - 1) / limits.split_limit;
      room_for(p, pieces);
      layout.places[p] = {.frame = static_cast<std::uint32_t>(layout.frame_nbytes.size()),
                          .nframes = static_cast<std::uint32_t>(pieces),
                          .offset = 0,
                          .nbytes = size.nbytes};
      for (std::uint64_t left = size.nbytes; left > 0; left -= std::min(left, limits.split_limit)) {
        layout.frame_nbytes.push_back(std::min(left, limits.split_limit));
      }
    }
  };
  pack(false, limits::payload_nbytes);
  layout.has_pack = !layout.frame_nbytes.empty();
  cut(false);
  layout.device_frames = layout.frame_nbytes.size();
  if (any_device) {
    pack(true, device_pack_nbytes);
    layout.ndevice_packs = layout.frame_nbytes.size() - layout.device_frames;
    cut(true);
  }

  for (std::size_t p = 0; p < sizes.size(); ++p) {
    PayloadSize const& size = sizes[p];
    if (size.window_of < 0) continue;
    auto const owner = static_cast<std::uint64_t>(size.window_of);
    expects(owner < sizes.size() && sizes[owner].window_of < 0, ErrorKind::malformed,
            [&] { return cat("sizes[", p, "]: window of payload ", owner, ", which has no bytes of its own"); });
    expects(size.device == sizes[owner].device, ErrorKind::malformed,
            [&] { return cat("sizes[", p, "]: window of payload ", owner, ", which is memory of another kind"); });
    expects(size.window_offset <= sizes[owner].nbytes && size.nbytes <= sizes[owner].nbytes - size.window_offset,
            ErrorKind::malformed,
            [&] { return cat("sizes[", p, "]: bytes ", size.window_offset, " + ", size.nbytes, " of payload ", owner, ", which has ",
                sizes[owner].nbytes); });
    layout.places[p] = layout.places[owner];
    layout.places[p].offset += size.window_offset;
    layout.places[p].nbytes = size.nbytes;
    if (size.nbytes == 0) layout.places[p].nframes = 0;
  }
  return layout;
}

void merge_overlaps(std::vector<std::span<std::byte const>>& payloads, std::vector<PayloadSize>& sizes) {
  if (payloads.size() < 2) return;
  std::vector<std::uint32_t> order(payloads.size());
  std::iota(order.begin(), order.end(), 0U);
  auto const begin = [&](std::uint32_t p) { return payloads[p].data(); };
  auto const end = [&](std::uint32_t p) { return payloads[p].data() + payloads[p].size(); };
  std::erase_if(order, [&](std::uint32_t p) { return payloads[p].empty(); });
  // Memory that both the host and a GPU see (managed memory) may be sent as either: only payloads of one kind are merged.
  auto const before = [&](std::uint32_t a, std::uint32_t b) {
    if (sizes[a].device != sizes[b].device) return sizes[b].device;
    return begin(a) != begin(b) ? begin(a) < begin(b) : payloads[a].size() > payloads[b].size();
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);

  for (std::size_t i = 0; i < order.size();) {
    std::byte const* const low = begin(order[i]);
    std::byte const* high = end(order[i]);
    std::size_t j = i + 1;
    for (; j < order.size() && sizes[order[j]].device == sizes[order[i]].device && begin(order[j]) < high; ++j) high = std::max(high, end(order[j]));
    if (j - i > 1) {
      // The first of a group begins lowest and is the longest of those; it is the owner if nobody ends behind it.
      std::int64_t owner = order[i];
      if (end(order[i]) != high) {
        owner = static_cast<std::int64_t>(payloads.size());
        payloads.emplace_back(low, high);
        sizes.push_back({.nbytes = static_cast<std::uint64_t>(high - low), .device = sizes[order[i]].device});
      }
      for (std::size_t k = i; k < j; ++k) {
        if (order[k] == owner) continue;
        sizes[order[k]].window_of = owner;
        sizes[order[k]].window_offset = static_cast<std::uint64_t>(begin(order[k]) - low);
      }
    }
    i = j;
  }
}

}  // namespace transload
