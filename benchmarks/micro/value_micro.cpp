// C++ objects to messages and back: the encoder, the value tree, fields into structs.
#include "transload/transload.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rows.hpp"

namespace transload::bench {

struct Flight {
  static constexpr std::string_view transload_class = "payloads:Flight";
  std::int64_t number = 0;
  double delay = 0;
  std::string carrier;
};

namespace {

std::vector<Flight> flights() {
  std::vector<Flight> out;
  for (std::size_t i = 0; i < nrows; ++i) out.push_back({static_cast<std::int64_t>(i), static_cast<double>(i) * 0.5, cat("c", i % 16)});
  return out;
}

void count(benchmark::State& state) { state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * nrows)); }

void encode_structs(benchmark::State& state) {
  auto const all = flights();
  for (auto _ : state) benchmark::DoNotOptimize(serialize(all).header.data());
  count(state);
}
BENCHMARK(encode_structs)->Name("structs: serialize 10 000 of 3 fields");

void open_structs(benchmark::State& state) {
  auto const all = flights();
  Message message = serialize(all);
  for (auto _ : state) benchmark::DoNotOptimize(Value::open(message.share()).size());
  count(state);
}
BENCHMARK(open_structs)->Name("value tree: open 10 000 objects of 3 fields");

void walk_structs(benchmark::State& state) {
  Value const value = deserialize(serialize(flights()));
  for (auto _ : state) {
    double sum = 0;
    for (std::size_t i = 0; i < value.size(); ++i) sum += value[i]["delay"].as<double>();
    benchmark::DoNotOptimize(sum);
  }
  count(state);
}
BENCHMARK(walk_structs)->Name("value tree: one field of each of 10 000 objects");

void decode_structs(benchmark::State& state) {
  auto const all = flights();
  Message message = serialize(all);
  for (auto _ : state) benchmark::DoNotOptimize(deserialize<std::vector<Flight>>(message.share()).data());
  count(state);
}
BENCHMARK(decode_structs)->Name("structs: deserialize 10 000 of 3 fields");

void encode_tree(benchmark::State& state) {
  std::vector<std::pair<Tree, Tree>> pairs;
  auto const names = keys();
  for (std::size_t i = 0; i < nrows; ++i) pairs.emplace_back(names[i], Tree::tuple({static_cast<std::int64_t>(i), static_cast<double>(i) * 0.5, Tree()}));
  Tree const tree = Tree::dict(std::move(pairs));
  for (auto _ : state) {
    Encoder encoder;
    encoder.tree(tree);
    benchmark::DoNotOptimize(encoder.finish().header.data());
  }
  count(state);
}
BENCHMARK(encode_tree)->Name("tree: serialize a dict of 10 000 tuples");

void open_rows(benchmark::State& state) {
  HeaderWriter writer;
  write_rows(writer.root(), keys());
  Message message = make_message(writer, {}, default_resource());
  for (auto _ : state) benchmark::DoNotOptimize(Value::open(message.share()).size());
  count(state);
}
BENCHMARK(open_rows)->Name("value tree: open a dict of 10 000 tuples");

void arrays(benchmark::State& state) {
  std::vector<std::vector<double>> const all(1000, std::vector<double>(1000, 1.5));
  for (auto _ : state) benchmark::DoNotOptimize(serialize(all).header.data());
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1000);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * 8'000'000);
}
BENCHMARK(arrays)->Name("structs: serialize 1000 arrays of 8 kB");

}  // namespace
}  // namespace transload::bench
