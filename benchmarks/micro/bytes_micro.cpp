// What passes over every byte: checksum and codecs.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transload/memory/resource.hpp"
#include "transload/message/checksum.hpp"
#include "transload/message/codec.hpp"

namespace transload::bench {
namespace {

/// Doubles of two decimals: what measured columns are like, and what codecs take to about a third.
std::vector<double> prices(std::size_t nbytes) {
  std::vector<double> out(nbytes / sizeof(double));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::round(100 * std::sin(static_cast<double>(i)) * 50) / 100;
  return out;
}

void bytes(benchmark::State& state, std::size_t nbytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * nbytes));
}

void checksum(benchmark::State& state) {
  auto const all = prices(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(xxh3(std::as_bytes(std::span(all))));
  bytes(state, all.size() * sizeof(double));
}
BENCHMARK(checksum)->Name("checksum: XXH3; bytes")->Arg(1 << 10)->Arg(64 << 10)->Arg(32 << 20);

void compressing(benchmark::State& state, std::string const& codec) {
  auto const all = prices(std::size_t{4} << 20);
  Compressor compressor;
  for (auto _ : state) benchmark::DoNotOptimize(compressor.try_compress(codec, std::as_bytes(std::span(all)), UINT64_MAX, default_resource())->data());
  bytes(state, all.size() * sizeof(double));
}
BENCHMARK_CAPTURE(compressing, lz4, "lz4")->Name("codec: lz4, compress 4 MiB");
BENCHMARK_CAPTURE(compressing, zstd, "zstd")->Name("codec: zstd, compress 4 MiB");

void decompressing(benchmark::State& state, std::string const& codec) {
  auto const all = prices(std::size_t{4} << 20);
  std::size_t const nbytes = all.size() * sizeof(double);
  Buffer const stored = std::move(*Compressor().try_compress(codec, std::as_bytes(std::span(all)), UINT64_MAX, default_resource()));
  Decompressor decompressor;
  for (auto _ : state) benchmark::DoNotOptimize(decompressor.decompress(codec, stored.bytes(), nbytes, default_resource()).data());
  bytes(state, nbytes);
  state.counters["stored"] = static_cast<double>(stored.nbytes()) / static_cast<double>(nbytes);
}
BENCHMARK_CAPTURE(decompressing, lz4, "lz4")->Name("codec: lz4, decompress 4 MiB");
BENCHMARK_CAPTURE(decompressing, zstd, "zstd")->Name("codec: zstd, decompress 4 MiB");

}  // namespace
}  // namespace transload::bench
