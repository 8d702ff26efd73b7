// The header's msgpack beside msgpack-cxx, on the same bytes.
#include "transload/message/msgpack.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>

#include <msgpack.hpp>

#include "rows.hpp"

namespace transload::bench {
namespace {

namespace theirs = ::msgpack;

std::vector<std::string> const all_keys = keys();

transload::msgpack::Packer packed() {
  transload::msgpack::Packer packer;
  write_rows(packer, all_keys);
  return packer;
}

void count(benchmark::State& state, std::size_t nbytes) {
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * nrows * values_a_row));
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * nbytes));
}

void write(benchmark::State& state) {
  transload::msgpack::Packer packer;
  for (auto _ : state) {
    packer.clear();
    write_rows(packer, all_keys);
    benchmark::DoNotOptimize(packer.bytes().data());
  }
  count(state, packer.size());
}
BENCHMARK(write)->Name("msgpack: write 60 000 values");

void write_theirs(benchmark::State& state) {
  theirs::sbuffer buffer;
  for (auto _ : state) {
    buffer.clear();
    theirs::packer<theirs::sbuffer> packer(buffer);
    packer.pack_map(static_cast<std::uint32_t>(all_keys.size()));
    for (std::size_t i = 0; i < all_keys.size(); ++i) {
      auto const size = static_cast<std::uint32_t>(all_keys[i].size());
      packer.pack_str(size).pack_str_body(all_keys[i].data(), size);
      packer.pack_array(4).pack_uint64(static_cast<std::uint64_t>(Op::tuple)).pack_int64(static_cast<std::int64_t>(i)).pack_double(static_cast<double>(i) * 0.5).pack_nil();
    }
    benchmark::DoNotOptimize(buffer.data());
  }
  count(state, buffer.size());
}
BENCHMARK(write_theirs)->Name("msgpack: write 60 000 values, msgpack-cxx");

void read(benchmark::State& state) {
  auto const packer = packed();
  for (auto _ : state) {
    std::int64_t sum = 0;
    for (transload::msgpack::Reader reader(packer.bytes()); !reader.done();) {
      auto const token = reader.next();
      if (token.type == transload::msgpack::Type::integer) sum += token.integer;
    }
    benchmark::DoNotOptimize(sum);
  }
  count(state, packer.size());
}
BENCHMARK(read)->Name("msgpack: read 60 000 values");

/// Adds up the integers, as the loop over ours does; the rest of what a visitor is told it passes over.
struct Sum : theirs::null_visitor {
  std::int64_t sum = 0;
  bool visit_positive_integer(std::uint64_t value) {
    sum += static_cast<std::int64_t>(value);
    return true;
  }
  bool visit_negative_integer(std::int64_t value) {
    sum += value;
    return true;
  }
};

void read_theirs(benchmark::State& state) {
  auto const packer = packed();
  for (auto _ : state) {
    Sum visitor;
    bool const parsed = theirs::parse(reinterpret_cast<char const*>(packer.bytes().data()), packer.size(), visitor);
    if (!parsed) state.SkipWithError("msgpack-cxx does not read it");
    benchmark::DoNotOptimize(visitor.sum);
  }
  count(state, packer.size());
}
BENCHMARK(read_theirs)->Name("msgpack: read 60 000 values, msgpack-cxx");

void skip(benchmark::State& state) {
  auto const packer = packed();
  for (auto _ : state) {
    transload::msgpack::Reader reader(packer.bytes());
    reader.skip();
    benchmark::DoNotOptimize(reader.offset());
  }
  count(state, packer.size());
}
BENCHMARK(skip)->Name("msgpack: pass over 60 000 values");

void skip_theirs(benchmark::State& state) {
  auto const packer = packed();
  for (auto _ : state) {
    theirs::null_visitor visitor;
    bool const parsed = theirs::parse(reinterpret_cast<char const*>(packer.bytes().data()), packer.size(), visitor);
    benchmark::DoNotOptimize(parsed);
  }
  count(state, packer.size());
}
BENCHMARK(skip_theirs)->Name("msgpack: pass over 60 000 values, msgpack-cxx");

}  // namespace
}  // namespace transload::bench
