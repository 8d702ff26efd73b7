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

std::size_t gather_room() { no_cuda(); }

void to_host(std::span<Copy const>, int, std::span<StreamHandle const>) { no_cuda(); }

void to_device(std::span<Copy const>, int, std::span<StreamHandle const>) { no_cuda(); }

void on_device(std::span<Copy const>, int, std::span<StreamHandle const>) { no_cuda(); }

std::vector<IntegerBounds> bounds_of(std::span<Integers const>, int, std::span<StreamHandle const>) { no_cuda(); }

std::vector<std::uint64_t> set_bits_of(std::span<Bits const>, int, std::span<StreamHandle const>) { no_cuda(); }

Fence fence_after(int, std::span<StreamHandle const>) { no_cuda(); }

std::unique_ptr<Slots> slots(int) { no_cuda(); }

std::optional<ExportedMemory> export_memory(std::span<std::byte const>, int, std::string&) { no_cuda(); }

std::unique_ptr<Pull> pull(std::span<ExportedMemory const>, std::span<void* const>, int, std::array<std::byte, 16> const&) { no_cuda(); }

void close_imported() noexcept {}

std::size_t nimported() noexcept { return 0; }

}  // namespace staging

}  // namespace transload
