// The twin of cuda_probe.cu and staging.cpp for a build without nvcc.
#include "staging.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"

namespace transload {

namespace {

[[noreturn]] void no_cuda() { raise(ErrorKind::unsupported, "this transload was built without CUDA"); }

}  // namespace

bool built_with_cuda() noexcept { return false; }

int device_count() noexcept { return 0; }

int device_of(void const*) { no_cuda(); }

int current_device() { no_cuda(); }

StagingStats staging_stats() noexcept { return {}; }

namespace staging {

Resource& resource(MemoryKind) { no_cuda(); }

void to_host(std::span<Copy const>, int, std::span<StreamHandle const>) { no_cuda(); }

void to_device(std::span<Copy const>, int, std::span<StreamHandle const>) { no_cuda(); }

void on_device(std::span<Copy const>, int, std::span<StreamHandle const>) { no_cuda(); }

}  // namespace staging

}  // namespace transload
