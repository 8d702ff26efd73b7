#pragma once
/// Copies to and from GPUs through pinned memory that is kept. Internal to the room; staging.cpp has it with CUDA, cuda_absent.cpp without.

#include <span>

#include "transload/memory/device.hpp"
#include "transload/memory/resource.hpp"

namespace transload::staging {

/// Pinned memory, or that of the current device.
[[nodiscard]] Resource& resource(MemoryKind kind);

void to_host(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers);
void to_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers);
void on_device(std::span<Copy const> copies, int device, std::span<StreamHandle const> producers);

}  // namespace transload::staging
