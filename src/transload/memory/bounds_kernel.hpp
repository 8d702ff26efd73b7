#pragma once
/// Least and greatest of integers, and bits that are set, block by block. Internal to the room: needs CUDA.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace transload::staging {

/// What one block of threads found.
struct BlockBounds {
  std::int64_t least;
  std::int64_t most;
  std::int64_t ascending;
};

/// The most blocks of one launch.
inline constexpr unsigned bounds_blocks_most = 1024;

/// Blocks that `look` starts for `n` integers.
[[nodiscard]] unsigned bounds_blocks(std::size_t n);

/// Writes one `BlockBounds` a block to `out`, which the device can write: pinned memory, too.
[[nodiscard]] cudaError_t look(void const* values, std::size_t n, unsigned itemsize, bool ordered, BlockBounds* out, cudaStream_t stream);

/// Writes how many bits of each block's share are set to `out`; starts `bounds_blocks(bits_nwords(first, n))` blocks.
[[nodiscard]] cudaError_t count_bits(void const* words, std::size_t first, std::size_t n, BlockBounds* out, cudaStream_t stream);

}  // namespace transload::staging
