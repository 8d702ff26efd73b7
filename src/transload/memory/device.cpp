#include "transload/memory/device.hpp"

#include <cstring>

#include "staging.hpp"

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

}  // namespace transload
