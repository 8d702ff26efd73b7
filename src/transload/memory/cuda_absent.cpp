// The twin of cuda_probe.cu for a build without nvcc.
#include "transload/memory/cuda.hpp"

namespace transload {

bool built_with_cuda() noexcept { return false; }

int device_count() noexcept { return 0; }

}  // namespace transload
