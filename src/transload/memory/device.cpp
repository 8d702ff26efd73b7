#include "transload/memory/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "staging.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/bits.hpp"
#include "transload/memory/cuda.hpp"
#include "transload/memory/ring.hpp"

namespace transload {

namespace {

void copy_here(std::span<Copy const> copies) {
  for (Copy const& copy : copies) {
    if (copy.nbytes != 0) std::memcpy(copy.to, copy.from, copy.nbytes);
  }
}

}  // namespace

void copy_to_host(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers) {
  if (device == host_twin) return copy_here(copies);
  staging::to_host(copies, device, producers);
}

void copy_to_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers) {
  if (device == host_twin) return copy_here(copies);
  staging::to_device(copies, device, producers);
}

void copy_on_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers) {
  if (device == host_twin) return copy_here(copies);
  staging::on_device(copies, device, producers);
}

bool may_have_devices() noexcept {
  if (!built_with_cuda()) return false;
  char const* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && (std::string_view(visible).empty() || std::string_view(visible).starts_with("-") || std::string_view(visible) == "NoDevFiles")) return false;
  return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/dxg", F_OK) == 0;
}

namespace {

template <class T>
IntegerBounds bounds_here(Integers const& array) {
  std::span const values(static_cast<T const*>(array.values), array.n);
  if (values.empty()) return {.least = 0, .most = -1};
  auto const [least, most] = std::ranges::minmax_element(values);
  return {.least = *least, .most = *most, .ascending = !array.ordered || std::ranges::is_sorted(values)};
}

std::uint64_t set_bits_here(Bits const& mask) {
  auto const* const words = static_cast<std::uint32_t const*>(mask.words);
  std::size_t const end = mask.first + mask.n;
  std::uint64_t nset = 0;
  for (std::size_t word = mask.first / 32; word * 32 < end; ++word) nset += static_cast<std::uint64_t>(std::popcount(words[word] & bits_in_word(mask.first, end, word)));
  return nset;
}

}  // namespace

std::vector<IntegerBounds> bounds_of(std::span<Integers const> arrays, int device, std::span<StreamHandle const> producers) {
  for (Integers const& array : arrays) {
    expects(array.itemsize == 4 || array.itemsize == 8, ErrorKind::unsupported, [&] { return cat("integers of ", array.itemsize, " bytes"); });
    expects(reinterpret_cast<std::uintptr_t>(array.values) % array.itemsize == 0, ErrorKind::malformed, "integers at an address that is no multiple of their size");
  }
  if (device != host_twin) return staging::bounds_of(arrays, device, producers);
  std::vector<IntegerBounds> found;
  for (Integers const& array : arrays) found.push_back(array.itemsize == 4 ? bounds_here<std::int32_t>(array) : bounds_here<std::int64_t>(array));
  return found;
}

std::vector<std::uint64_t> set_bits_of(std::span<Bits const> masks, int device, std::span<StreamHandle const> producers) {
  for (Bits const& mask : masks) {
    expects(reinterpret_cast<std::uintptr_t>(mask.words) % sizeof(std::uint32_t) == 0, ErrorKind::malformed, "a mask at an address that is no multiple of 4");
    expects(mask.first + mask.n >= mask.first, ErrorKind::malformed, "bits behind the end of all memory");
  }
  if (device != host_twin) return staging::set_bits_of(masks, device, producers);
  std::vector<std::uint64_t> found;
  for (Bits const& mask : masks) found.push_back(set_bits_here(mask));
  return found;
}

Fence fence_after(int device, std::span<StreamHandle const> producers) {
  if (device == host_twin) return {};
  return staging::fence_after(device, producers);
}

namespace staging {

namespace {

class TwinSlots final : public Slots {
 public:
  std::byte* bytes(std::size_t slot) noexcept override { return memory_.get() + slot * StagingRing::slot_nbytes; }
  void copy(void* to, void const* from, std::size_t nbytes) override { std::memcpy(to, from, nbytes); }
  void mark(std::size_t) override {}
  void wait(std::size_t) override {}

 private:
  std::unique_ptr<std::byte[]> memory_ = std::make_unique_for_overwrite<std::byte[]>(StagingRing::nslots * StagingRing::slot_nbytes);  // zeros took 0.2 ms
};

}  // namespace

std::unique_ptr<Slots> twin_slots() { return std::make_unique<TwinSlots>(); }

}  // namespace staging

}  // namespace transload
