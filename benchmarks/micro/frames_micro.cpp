// Payloads into frames: the plan, windows, and the copy into the pack.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "transload/memory/resource.hpp"
#include "transload/message/layout.hpp"
#include "transload/message/message.hpp"

namespace transload::bench {
namespace {

constexpr std::size_t npayloads = 10'000;

std::vector<PayloadSize> sizes_of(std::size_t n, std::uint64_t nbytes) { return std::vector<PayloadSize>(n, PayloadSize{.nbytes = nbytes}); }

void count(benchmark::State& state, std::size_t items) {
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * items));
}

void plan(benchmark::State& state) {
  auto const sizes = sizes_of(npayloads, static_cast<std::uint64_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(Layout::plan(sizes, default_limits(sizes)).frame_nbytes.data());
  count(state, npayloads);
}
BENCHMARK(plan)->Name("layout: plan 10 000 payloads; bytes each")->Arg(1024)->Arg(1 << 20);

void merge(benchmark::State& state) {
  std::vector<std::byte> const base(1024 * npayloads);
  auto const shared = static_cast<std::size_t>(state.range(0));  // so many payloads look into one another
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<std::span<std::byte const>> payloads;
    for (std::size_t i = 0; i < npayloads; ++i) payloads.push_back(std::span(base).subspan(1024 * i, i < shared && i + 1 < npayloads ? 2048 : 1024));
    auto sizes = sizes_of(npayloads, 1024);
    for (std::size_t i = 0; i < npayloads; ++i) sizes[i].nbytes = payloads[i].size();
    state.ResumeTiming();
    merge_overlaps(payloads, sizes);
    benchmark::DoNotOptimize(sizes.data());
  }
  count(state, npayloads);
}
BENCHMARK(merge)->Name("layout: look for overlaps of 10 000 payloads; that overlap")->Arg(0)->Arg(1000);

/// 32 MiB in payloads of one size, gathered into a pack from a warm pool.
struct Gather {
  explicit Gather(std::size_t nbytes)
      : bytes(total), sizes(sizes_of(total / nbytes, nbytes)), layout(Layout::plan(sizes, {.pack_limit = nbytes})) {
    for (std::size_t i = 0; i < sizes.size(); ++i) payloads.push_back(std::span(bytes).subspan(i * nbytes, nbytes));
  }

  static constexpr std::size_t total = std::size_t{32} << 20;
  std::vector<std::byte> bytes;
  std::vector<PayloadSize> sizes;
  Layout layout;
  std::vector<std::span<std::byte const>> payloads;
};

void gather(benchmark::State& state) {
  Gather const of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(make_frames(of.payloads, of.sizes, of.layout, default_resource()).data());
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * Gather::total));
}
BENCHMARK(gather)->Name("pack: gather 32 MiB; bytes each")->Arg(64)->Arg(1024)->Arg(8192)->Arg(65536)->Arg(1 << 20);

void copy(benchmark::State& state) {
  Gather const of(Gather::total);
  std::vector<std::byte> to(Gather::total);
  for (auto _ : state) {
    std::memcpy(to.data(), of.bytes.data(), Gather::total);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * Gather::total));
}
BENCHMARK(copy)->Name("pack: memcpy of 32 MiB, for comparison");

}  // namespace
}  // namespace transload::bench
