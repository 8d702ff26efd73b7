/// Looks at integers and masks in a GPU's memory: a launch for each, and one wait for all.
#include <algorithm>
#include <vector>

#include "bounds_kernel.hpp"
#include "cuda_calls.hpp"
#include "kept.hpp"
#include "staging.hpp"
#include "transload/memory/bits.hpp"

namespace transload::staging {

namespace {

constexpr std::size_t results_most = 4 * bounds_blocks_most;  // of one pass

struct Looker {
  cudaStream_t stream = nullptr;
  BlockBounds* results = nullptr;  ///< pinned: what the blocks write is in host memory when the stream is done
};

Looker looker(int device) {
  Looker one;
  if (Kept<Looker>::of_process().take(device, one)) return one;
  try {
    check(cudaStreamCreateWithFlags(&one.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaHostAlloc(reinterpret_cast<void**>(&one.results), results_most * sizeof(BlockBounds), cudaHostAllocPortable), "pinned memory");
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

/// Runs a look for each of `jobs`, of `nblocks(job)` blocks by `start(job, out, stream)`, and hands what its blocks wrote to `take(job, results)`.
/// As many as their results have room for are waited for at once.
template <class Job, class NBlocks, class Start, class Take>
void pass(std::span<Job const> jobs, int device, std::span<StreamHandle const> producers, NBlocks nblocks, Start start, Take take) {
  OnDevice const on(device);
  Looker const one = looker(device);
  wait_for(one.stream, legacy_stream, device);
  for (StreamHandle const producer : producers) {
    if (producer != legacy_stream && producer != 0) wait_for(one.stream, producer, device);
  }
  for (std::size_t begin = 0; begin < jobs.size();) {
    std::size_t end = begin;
    std::size_t used = 0;
    for (; end < jobs.size() && used + nblocks(jobs[end]) <= results_most; ++end) {
      if (nblocks(jobs[end]) > 0) check(start(jobs[end], one.results + used, one.stream), "a look at a GPU's memory");
      used += nblocks(jobs[end]);
    }
    check(cudaStreamSynchronize(one.stream), "a look at a GPU's memory");
    used = 0;
    for (; begin < end; ++begin) {
      take(jobs[begin], std::span<BlockBounds const>(one.results + used, nblocks(jobs[begin])));
      used += nblocks(jobs[begin]);
    }
  }
  Kept<Looker>::of_process().give_back(device, one);  // one that failed is not used again
}

}  // namespace

std::vector<IntegerBounds> bounds_of(std::span<Integers const> arrays, int device, std::span<StreamHandle const> producers) {
  std::vector<IntegerBounds> found;
  pass(
      arrays, device, producers, [](Integers const& array) { return array.n == 0 ? std::size_t{0} : bounds_blocks(array.n); },
      [](Integers const& array, BlockBounds* out, cudaStream_t stream) { return look(array.values, array.n, array.itemsize, array.ordered, out, stream); },
      [&](Integers const& array, std::span<BlockBounds const> blocks) {
        IntegerBounds bounds{.least = 0, .most = -1};
        if (!blocks.empty()) bounds = {.least = blocks.front().least, .most = blocks.front().most};
        for (BlockBounds const& block : blocks) {
          bounds.least = std::min(bounds.least, block.least);
          bounds.most = std::max(bounds.most, block.most);
          bounds.ascending = bounds.ascending && (!array.ordered || block.ascending != 0);
        }
        found.push_back(bounds);
      });
  return found;
}

std::vector<std::uint64_t> set_bits_of(std::span<Bits const> masks, int device, std::span<StreamHandle const> producers) {
  std::vector<std::uint64_t> found;
  pass(
      masks, device, producers, [](Bits const& mask) { return mask.n == 0 ? std::size_t{0} : bounds_blocks(bits_nwords(mask.first, mask.n)); },
      [](Bits const& mask, BlockBounds* out, cudaStream_t stream) { return count_bits(mask.words, mask.first, mask.n, out, stream); },
      [&](Bits const&, std::span<BlockBounds const> blocks) {
        std::uint64_t nset = 0;
        for (BlockBounds const& block : blocks) nset += static_cast<std::uint64_t>(block.least);
        found.push_back(nset);
      });
  return found;
}

}  // namespace transload::staging
