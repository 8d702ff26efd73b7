#include "bounds_kernel.hpp"

#include <algorithm>

#include <cub/block/block_reduce.cuh>
#include <cuda/std/limits>

#include "transload/memory/bits.hpp"

namespace transload::staging {

namespace {

constexpr unsigned nthreads = 256;
constexpr unsigned items = 8;  // loads of a thread that are under way at once

struct Least {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

struct Most {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

template <class T, bool ordered>
__global__ void __launch_bounds__(nthreads) look_at(T const* values, std::size_t n, BlockBounds* out) {
  T least = cuda::std::numeric_limits<T>::max();
  T most = cuda::std::numeric_limits<T>::min();
  int ascending = 1;
  std::size_t const stride = std::size_t{gridDim.x} * nthreads;
  std::size_t i = std::size_t{blockIdx.x} * nthreads + threadIdx.x;
  for (; i + (items - 1) * stride < n; i += items * stride) {
    T loaded[items];
#pragma unroll
    for (unsigned k = 0; k < items; ++k) loaded[k] = values[i + k * stride];
#pragma unroll
    for (unsigned k = 0; k < items; ++k) {
      least = Least{}(least, loaded[k]);
      most = Most{}(most, loaded[k]);
      if (ordered && i + k * stride + 1 < n) ascending &= loaded[k] <= values[i + k * stride + 1] ? 1 : 0;
    }
  }
  for (; i < n; i += stride) {
    T const value = values[i];
    least = Least{}(least, value);
    most = Most{}(most, value);
    if (ordered && i + 1 < n) ascending &= value <= values[i + 1] ? 1 : 0;
  }
  using Reduce = cub::BlockReduce<T, nthreads>;
  __shared__ typename Reduce::TempStorage storage;
  least = Reduce(storage).Reduce(least, Least{});
  __syncthreads();
  most = Reduce(storage).Reduce(most, Most{});
  ascending = __syncthreads_and(ascending);
  if (threadIdx.x == 0) out[blockIdx.x] = {static_cast<std::int64_t>(least), static_cast<std::int64_t>(most), ascending};
}

template <class T>
void start(T const* values, std::size_t n, bool ordered, BlockBounds* out, cudaStream_t stream) {
  if (ordered) {
    look_at<T, true><<<bounds_blocks(n), nthreads, 0, stream>>>(values, n, out);
  } else {
    look_at<T, false><<<bounds_blocks(n), nthreads, 0, stream>>>(values, n, out);
  }
}

__global__ void __launch_bounds__(nthreads) count(std::uint32_t const* words, std::size_t first, std::size_t end, BlockBounds* out) {
  std::size_t const nwords = bits_nwords(first, end - first);
  std::size_t const begin = first / 32;
  unsigned long long nset = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * nthreads + threadIdx.x; i < nwords; i += std::size_t{gridDim.x} * nthreads) {
    nset += static_cast<unsigned>(__popc(words[begin + i] & bits_in_word(first, end, begin + i)));
  }
  using Reduce = cub::BlockReduce<unsigned long long, nthreads>;
  __shared__ typename Reduce::TempStorage storage;
  nset = Reduce(storage).Sum(nset);
  if (threadIdx.x == 0) out[blockIdx.x] = {static_cast<std::int64_t>(nset), 0, 0};
}

}  // namespace

unsigned bounds_blocks(std::size_t n) {
  std::size_t const wanted = (n + nthreads * items - 1) / (nthreads * items);
  return static_cast<unsigned>(std::min<std::size_t>(std::max<std::size_t>(wanted, 1), bounds_blocks_most));
}

cudaError_t look(void const* values, std::size_t n, unsigned itemsize, bool ordered, BlockBounds* out, cudaStream_t stream) {
  if (itemsize == 4) {
    start(static_cast<std::int32_t const*>(values), n, ordered, out, stream);
  } else {
    start(static_cast<std::int64_t const*>(values), n, ordered, out, stream);
  }
  return cudaGetLastError();
}

cudaError_t count_bits(void const* words, std::size_t first, std::size_t n, BlockBounds* out, cudaStream_t stream) {
  count<<<bounds_blocks(bits_nwords(first, n)), nthreads, 0, stream>>>(static_cast<std::uint32_t const*>(words), first, first + n, out);
  return cudaGetLastError();
}

}  // namespace transload::staging
