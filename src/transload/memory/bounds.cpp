/// Bounds of integers in a GPU's memory: a launch for each array, and one wait for all.
#include <algorithm>
#include <vector>

#include "bounds_kernel.hpp"
#include "cuda_calls.hpp"
#include "kept.hpp"
#include "staging.hpp"

namespace transload::staging {

namespace {

constexpr std::size_t arrays_most = 4;  // of one pass
constexpr std::size_t results_nbytes = arrays_most * bounds_blocks_most * sizeof(BlockBounds);

struct Looker {
  cudaStream_t stream = nullptr;
  BlockBounds* results = nullptr;  ///< pinned: what the blocks write is in host memory when the stream is done
};

Looker looker(int device) {
  Looker one;
  if (Kept<Looker>::of_process().take(device, one)) return one;
  try {
    check(cudaStreamCreateWithFlags(&one.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaHostAlloc(reinterpret_cast<void**>(&one.results), results_nbytes, cudaHostAllocPortable), "pinned memory");
  } catch (...) {
    if (one.stream != nullptr) (void)cudaStreamDestroy(one.stream);
    throw;
  }
  return one;
}

void wait_for(cudaStream_t stream, StreamHandle producer, int device) {
  Event const event(device);
  check(cudaEventRecord(event.get(), reinterpret_cast<cudaStream_t>(producer)), "cudaEventRecord on the producer's stream");
  check(cudaStreamWaitEvent(stream, event.get(), 0), "cudaStreamWaitEvent");
}

}  // namespace

std::vector<IntegerBounds> bounds_of(std::span<Integers const> arrays, int device, std::span<StreamHandle const> producers) {
  OnDevice const on(device);
  Looker const one = looker(device);
  std::vector<IntegerBounds> found;
  wait_for(one.stream, legacy_stream, device);
  for (StreamHandle const producer : producers) {
    if (producer != legacy_stream && producer != 0) wait_for(one.stream, producer, device);
  }
  for (std::size_t begin = 0; begin < arrays.size(); begin += arrays_most) {
    auto const some = arrays.subspan(begin, std::min(arrays_most, arrays.size() - begin));
    auto const results = [&](std::size_t i) { return one.results + i * bounds_blocks_most; };
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (some[i].n > 0) check(look(some[i].values, some[i].n, some[i].itemsize, some[i].ordered, results(i), one.stream), "a look at integers");
    }
    check(cudaStreamSynchronize(one.stream), "a look at integers");
    for (std::size_t i = 0; i < some.size(); ++i) {
      IntegerBounds bounds{.least = 0, .most = -1};
      for (unsigned block = 0; some[i].n > 0 && block < bounds_blocks(some[i].n); ++block) {
        BlockBounds const& part = results(i)[block];
        bounds.least = block == 0 ? part.least : std::min(bounds.least, part.least);
        bounds.most = block == 0 ? part.most : std::max(bounds.most, part.most);
        bounds.ascending = bounds.ascending && (!some[i].ordered || part.ascending != 0);
      }
      found.push_back(bounds);
    }
  }
  Kept<Looker>::of_process().give_back(device, one);  // one that failed is not used again
  return found;
}

}  // namespace transload::staging
