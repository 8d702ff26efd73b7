#include "gather.hpp"

#include <cub/device/device_memcpy.cuh>

namespace transload::staging {

cudaError_t gather_nbytes(unsigned n, std::size_t& nbytes) {
  void** const none = nullptr;
  std::size_t* const sizes = nullptr;
  return cub::DeviceMemcpy::Batched(nullptr, nbytes, none, none, sizes, n);
}

cudaError_t gather(void* scratch, std::size_t scratch_nbytes, void** from, void** to, std::size_t* nbytes, unsigned n, cudaStream_t stream) {
  return cub::DeviceMemcpy::Batched(scratch, scratch_nbytes, from, to, nbytes, n, stream);
}

}  // namespace transload::staging
