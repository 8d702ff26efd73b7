#pragma once
/// Many copies in one launch. Internal to the room: needs CUDA.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace transload::staging {

/// Tells in `nbytes` how much device memory `gather` needs beside its arguments, for up to `n` pieces.
[[nodiscard]] cudaError_t gather_nbytes(unsigned n, std::size_t& nbytes);

/// Copies piece i of `nbytes[i]` bytes from `from[i]` to `to[i]`, on `stream`. The three arrays lie in device memory.
[[nodiscard]] cudaError_t gather(void* scratch, std::size_t scratch_nbytes, void** from, void** to, std::size_t* nbytes, unsigned n,
                                 cudaStream_t stream);

}  // namespace transload::staging
