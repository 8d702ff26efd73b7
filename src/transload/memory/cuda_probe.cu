#include "transload/memory/cuda.hpp"

#include <cuda_runtime_api.h>

namespace transload {

bool built_with_cuda() noexcept { return true; }

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    // Without a driver the runtime says cudaErrorInsufficientDriver (35); take the error out, so that the next
    // caller of cudaGetLastError does not find it.
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

}  // namespace transload
