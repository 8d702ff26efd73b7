// The header: written with the tables a large object needs, and parsed.
#include "transload/message/header.hpp"

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rows.hpp"

namespace transload::bench {
namespace {

/// 100 names, 20 shapes of 5 keys, `npayloads` payloads of 1 KiB, and the rows as root.
struct Parts {
  explicit Parts(std::size_t npayloads) : payloads(npayloads, std::vector<std::byte>(1024)) {
    for (int i = 0; i < 100; ++i) names.push_back(cat("package.module:Class", i));
  }

  void write(HeaderWriter& writer) const {
    static constexpr std::array<std::string_view, 5> shape{"number", "delay", "carrier", "origin", "distance"};
    for (std::string const& name : names) writer.add_name(name);
    for (std::uint32_t i = 0; i < 20; ++i) writer.add_shape(i, shape);
    for (auto const& payload : payloads) writer.add_payload(payload);
    write_rows(writer.root(), rows);
  }

  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> payloads;
  std::vector<std::string> rows = keys();
};

void count(benchmark::State& state, std::size_t nbytes) {
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * nrows * values_a_row));
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * nbytes));
}

void write(benchmark::State& state) {
  Parts const parts(static_cast<std::size_t>(state.range(0)));
  std::size_t nbytes = 0;
  for (auto _ : state) {
    HeaderWriter writer;
    Layout layout;
    parts.write(writer);
    nbytes = writer.finish({}, layout).size();
    benchmark::DoNotOptimize(nbytes);
  }
  count(state, nbytes);
}
BENCHMARK(write)->Name("header: write 60 000 values; payloads")->Arg(0)->Arg(1000);

void parse(benchmark::State& state) {
  Parts const parts(static_cast<std::size_t>(state.range(0)));
  HeaderWriter writer;
  Layout layout;
  parts.write(writer);
  auto const header = writer.finish({}, layout);
  for (auto _ : state) {
    Header const parsed = Header::parse(header.bytes());
    benchmark::DoNotOptimize(parsed.root_offset);
  }
  count(state, header.size());
}
BENCHMARK(parse)->Name("header: parse 60 000 values; payloads")->Arg(0)->Arg(1000);

void small(benchmark::State& state) {
  HeaderWriter writer;
  Layout layout;
  writer.root().array(2);
  writer.root().integer(1);
  writer.root().integer(2);
  auto const header = writer.finish({}, layout);
  for (auto _ : state) {
    Header const parsed = Header::parse(header.bytes());
    benchmark::DoNotOptimize(parsed.root_offset);
  }
}
BENCHMARK(small)->Name("header: parse of two ints");

}  // namespace
}  // namespace transload::bench
