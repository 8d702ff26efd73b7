#include "gather.hpp"

#include <cub/device/device_memcpy.cuh>

namespace transload::staging {

std::size_t gather_nbytes(unsigned n) {
  std::size_t nbytes = 0;
  void** const none = nullptr;
  std::size_t* const sizes = nullptr;
  if (cub::DeviceMemcpy::Batched(nullptr, nbytes, none, none, sizes, n) != cudaSuccess) (void)cudaGetLastError();
  return nbytes;
}

cudaError_t gather(void* scratch, std::size_t scratch_nbytes, void** from, void** to, std::size_t* nbytes, unsigned n, cudaStream_t stream) {
  return cub::DeviceMemcpy::Batched(scratch, scratch_nbytes, from, to, nbytes, n, stream);
}

}  // namespace transload::staging
