#include "transload/memory/device.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/messages.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"
#include "transload/memory/ipc.hpp"
#include "transload/memory/kept.hpp"
#include "transload/memory/pieces.hpp"
#include "transload/memory/resource.hpp"
#include "transload/memory/ring.hpp"
#include "transload/memory/staging.hpp"

namespace transload {
namespace {

using test::error_of;

std::vector<std::byte> content(std::size_t nbytes, unsigned seed = 0) {
  std::vector<std::byte> bytes(nbytes);
  std::uint32_t state = seed * 2654435761u + 1;
  for (auto& b : bytes) b = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

TEST(Device, TheHostTwinIsMemcpy) {
  auto const from = content(1000);
  std::vector<std::byte> to(1000);
  Copy const copies[] = {{to.data(), from.data(), 400}, {nullptr, nullptr, 0}, {to.data() + 400, from.data() + 400, 600}};
  copy_to_host(copies, host_twin);
  EXPECT_EQ(to, from);
  std::memset(to.data(), 0, to.size());
  copy_to_device(copies, host_twin);
  EXPECT_EQ(to, from);
  std::memset(to.data(), 0, to.size());
  copy_on_device(copies, host_twin);
  EXPECT_EQ(to, from);
}

// ── bounds of integers ───────────────────────────────────────────────────────────────────────────────────

/// Arrays of integers and what is to be found in them.
template <class T>
void expect_bounds(int device, std::function<void(void* to, void const* from, std::size_t nbytes)> const& put, std::function<void*(std::size_t)> const& memory) {
  std::vector<std::vector<T>> arrays{{}, {5}, {-3, -3, 7}, {1, 0}, {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()}};
  for (std::size_t const n : {1000, 70'001, 3'000'017}) {
    arrays.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) arrays.back()[i] = static_cast<T>(i * 3);
    arrays.push_back(arrays.back());
    arrays.back()[n - 1] = -9;  // the last one is out of order
    arrays.push_back(arrays[arrays.size() - 2]);
    arrays.back()[n / 2] = std::numeric_limits<T>::max();
  }
  std::vector<Integers> asked;
  for (auto const& array : arrays) {
    void* const there = memory(array.size() * sizeof(T) + 1);
    put(there, array.data(), array.size() * sizeof(T));
    asked.push_back({there, array.size(), sizeof(T), true});
  }
  auto const found = bounds_of(asked, device);
  ASSERT_EQ(found.size(), arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    auto const& array = arrays[i];
    EXPECT_EQ(found[i].least, array.empty() ? 0 : *std::min_element(array.begin(), array.end())) << i;
    EXPECT_EQ(found[i].most, array.empty() ? -1 : *std::max_element(array.begin(), array.end())) << i;
    EXPECT_EQ(found[i].ascending, std::is_sorted(array.begin(), array.end())) << i;
  }
  asked.resize(4);
  asked[3].ordered = false;
  EXPECT_TRUE(bounds_of(asked, device)[3].ascending);  // was not asked
  asked[1].values = static_cast<std::byte const*>(asked[1].values) + 1;
  error_of([&] { (void)bounds_of(asked, device); }, ErrorKind::malformed);
}

template <class T>
void expect_bounds_here() {
  std::vector<std::vector<std::byte>> blocks;
  expect_bounds<T>(
      host_twin, [](void* to, void const* from, std::size_t n) { if (n > 0) std::memcpy(to, from, n); }, [&](std::size_t n) { return blocks.emplace_back(n).data(); });
}

TEST(Device, BoundsOfIntegersOnTheHostTwin) {
  expect_bounds_here<std::int32_t>();
  expect_bounds_here<std::int64_t>();
}

// ── bits that are set ────────────────────────────────────────────────────────────────────────────────────

/// Masks of many lengths and first bits, against a count bit by bit.
void expect_set_bits(int device, std::function<void(void* to, void const* from, std::size_t nbytes)> const& put, std::function<void*(std::size_t)> const& memory) {
  std::vector<Bits> asked;
  std::vector<std::uint64_t> wanted;
  std::uint32_t seed = 1;
  for (std::size_t const n : {0, 1, 31, 32, 33, 64, 1000, 70'001, 5'000'011}) {
    for (std::size_t const first : {0, 1, 31, 32, 45}) {
      std::vector<std::uint32_t> words((first + n + 31) / 32);
      for (auto& word : words) word = seed = seed * 1664525 + 1013904223;
      std::uint64_t nset = 0;
      for (std::size_t i = first; i < first + n; ++i) nset += words[i / 32] >> (i % 32) & 1;
      void* const there = memory(words.size() * 4 + 4);
      put(there, words.data(), words.size() * 4);
      asked.push_back({there, first, n});
      wanted.push_back(nset);
    }
  }
  EXPECT_EQ(set_bits_of(asked, device), wanted);
  asked[0].words = static_cast<std::byte const*>(asked[0].words) + 2;
  error_of([&] { (void)set_bits_of(asked, device); }, ErrorKind::malformed);
}

TEST(Device, SetBitsOnTheHostTwin) {
  std::vector<std::vector<std::byte>> blocks;
  expect_set_bits(
      host_twin, [](void* to, void const* from, std::size_t n) { if (n > 0) std::memcpy(to, from, n); }, [&](std::size_t n) { return blocks.emplace_back(n).data(); });
}

TEST(Device, WithoutCudaTheReasonIsTold) {
  if (device_count() > 0) GTEST_SKIP() << "a GPU is here";
  std::byte b{};
  Copy const copy{&b, &b, 1};
  auto const kind = ErrorKind::unsupported;
  EXPECT_NE(error_of([&] { copy_to_host({&copy, 1}, 0); }, kind), "");
  EXPECT_NE(error_of([&] { copy_to_device({&copy, 1}, 0); }, kind), "");
  EXPECT_NE(error_of([&] { copy_on_device({&copy, 1}, 0); }, kind), "");
  EXPECT_EQ(staging_stats().pinned_nbytes, 0u);
}

// ── with a GPU ───────────────────────────────────────────────────────────────────────────────────────────

TEST(Device, EachDeviceHasAQuotaOfItsOwn) {
  staging::Quota quota(2);  // a process with two GPUs had half as many pinned rings for each
  EXPECT_TRUE(quota.take(0) && quota.take(0) && quota.take(1));
  EXPECT_FALSE(quota.take(0));
  EXPECT_TRUE(quota.take(1));
  quota.give_back(0);
  EXPECT_TRUE(quota.take(0));
  EXPECT_FALSE(quota.take(0) || quota.take(1));
}

TEST(Device, ArgumentsOfAGatherTakeNoMoreThanTheirPieces) {
  alignas(void*) std::byte memory[staging::Pieces::nbytes(3)];  // 72 of what was 96 KiB
  staging::Pieces const pieces(memory, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    pieces.from()[i] = memory + i;
    pieces.to()[i] = memory + 10 + i;
    pieces.sizes()[i] = 20 + i;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pieces.from()[i], memory + i);
    EXPECT_EQ(pieces.to()[i], memory + 10 + i);
    EXPECT_EQ(pieces.sizes()[i], 20 + i);
  }
  EXPECT_EQ(reinterpret_cast<std::byte*>(pieces.sizes() + 3), memory + sizeof(memory));
}

TEST(Device, TheRoomOfAGatherIsAnErrorWhereItCannotBeTold) {
  for (int i = 0; i < 2; ++i) {  // the first failure was taken for 0 bytes, and kept
    if (device_count() > 0) {
      EXPECT_GT(staging::gather_room(), 0u);
    } else {
      EXPECT_THROW((void)staging::gather_room(), Error);
    }
  }
}

class DeviceGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

struct Block {
  std::span<std::byte> bytes;
  explicit Block(std::size_t nbytes) : bytes(default_resource(MemoryKind::device).allocate(nbytes)) {}
  Block(Block const&) = delete;
  ~Block() { default_resource(MemoryKind::device).deallocate(bytes); }
};

/// Sizes and places in one block, some of them off any alignment.
std::vector<std::pair<std::size_t, std::size_t>> pieces(std::vector<std::size_t> const& sizes, std::size_t gap) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  std::size_t at = gap;
  for (std::size_t const n : sizes) {
    places.emplace_back(at, n);
    at += n + gap;
  }
  places.emplace_back(at, 0);
  return places;
}

void there_and_back(std::vector<std::size_t> const& sizes, std::size_t gap) {
  auto const places = pieces(sizes, gap);
  std::size_t const whole = places.back().first;
  auto const from = content(whole, static_cast<unsigned>(gap));
  std::vector<std::byte> to(whole);
  Block const there(whole);
  Block const moved(whole);
  std::vector<Copy> in;
  std::vector<Copy> across;
  std::vector<Copy> out;
  for (auto const& [at, n] : places) {
    in.push_back({there.bytes.data() + at, from.data() + at, n});
    across.push_back({moved.bytes.data() + at, there.bytes.data() + at, n});
    out.push_back({to.data() + at, moved.bytes.data() + at, n});
  }
  copy_to_device(in, 0);
  copy_on_device(across, 0);
  copy_to_host(out, 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto const [at, n] = places[i];
    ASSERT_EQ(std::memcmp(to.data() + at, from.data() + at, n), 0) << "piece " << i << " of " << n << " bytes";
  }
}

TEST_F(DeviceGpu, CopiesOfEverySizeAndPlace) {
  there_and_back({1, 3, 0, 17, 4096, 65'537, 262'144, 262'145, 5'000'000, 1, 70'000'001}, 1);
  there_and_back(std::vector<std::size_t>(1000, 80'000), 0);
  there_and_back(std::vector<std::size_t>(20'000, 33), 7);
  there_and_back({std::size_t{300} << 20}, 0);
  auto const stats = staging_stats();
  EXPECT_GT(stats.pinned_nbytes, 0u);
  EXPECT_LE(stats.pinned_nbytes, std::size_t{80} << 20);
  EXPECT_LE(stats.device_nbytes, std::size_t{90} << 20);
}

TEST_F(DeviceGpu, ManyThreadsShareTheStagingMemory) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 24; ++i) threads.emplace_back([i] { there_and_back({1'000 + i, 9'000'000 + i, 12}, 5); });
  for (auto& thread : threads) thread.join();
  EXPECT_LE(staging_stats().pinned_nbytes, std::size_t{80} << 20);
}

TEST_F(DeviceGpu, ErrorsAreToldAndTheNextCopyIsGood) {
  std::vector<std::byte> host(100);
  Block const there(100);
  Copy const copy{host.data(), there.bytes.data(), 100};
  EXPECT_NE(error_of([&] { copy_to_host({&copy, 1}, 4711); }, ErrorKind::failed), "");
  error_of([] { (void)default_resource(MemoryKind::device).allocate(std::size_t{1} << 46); }, ErrorKind::exhausted);
  there_and_back({1, 2, 3}, 0);
}

template <class T>
void expect_bounds_on_device() {
  std::vector<std::unique_ptr<Block>> blocks;
  expect_bounds<T>(
      0,
      [](void* to, void const* from, std::size_t n) {
        Copy const copy{to, from, n};
        copy_to_device({&copy, 1}, 0);
      },
      [&](std::size_t n) { return blocks.emplace_back(std::make_unique<Block>(n))->bytes.data(); });
}

TEST_F(DeviceGpu, SetBits) {
  std::vector<std::unique_ptr<Block>> blocks;
  expect_set_bits(
      0,
      [](void* to, void const* from, std::size_t n) {
        Copy const copy{to, from, n};
        copy_to_device({&copy, 1}, 0);
      },
      [&](std::size_t n) { return blocks.emplace_back(std::make_unique<Block>(n))->bytes.data(); });
}

TEST_F(DeviceGpu, BoundsOfIntegers) {
  expect_bounds_on_device<std::int32_t>();
  expect_bounds_on_device<std::int64_t>();
}

TEST_F(DeviceGpu, StagingRingsMoveBytesBothWaysAtOnce) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 40; ++t) {  // more than there are pinned rings
    threads.emplace_back([t] {
      std::size_t const nbytes = 9 * StagingRing::slot_nbytes + 1000 * t + 7;
      auto const from = content(nbytes, t);
      std::vector<std::byte> back(nbytes);
      Block const there(nbytes);
      Block const moved(nbytes);
      Copy const in{there.bytes.data(), from.data(), nbytes};
      copy_to_device({&in, 1}, 0);
      {
        StagingRing out_ring(0, true);
        StagingRing in_ring(0, false);
        for (std::size_t at = 0, n = 1; at < nbytes; at += n, n = std::min(nbytes - at, 3 * n)) out_ring.add(there.bytes.data() + at, std::min(n, nbytes - at));
        in_ring.add(moved.bytes.data(), nbytes);
        while (!out_ring.done()) {
          auto const source = out_ring.next();
          auto const target = in_ring.next();
          std::size_t const n = std::min(source.size(), target.size());
          std::memcpy(target.data(), source.data(), n);
          out_ring.advance(n);
          in_ring.advance(n);
        }
      }
      Copy const out{back.data(), moved.bytes.data(), nbytes};
      copy_to_host({&out, 1}, 0);
      EXPECT_TRUE(back == from) << t;
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(DeviceGpu, FencesPassWhenTheWorkIsDone) {
  Block const there(std::size_t{64} << 20);
  Fence const fence = fence_after(0);
  while (fence && !fence()) std::this_thread::yield();
  EXPECT_FALSE(fence_after(0) && !fence_after(0)());
}

TEST_F(DeviceGpu, MemoryOfAPoolIsNotExportedAndTheReasonIsTold) {
  Block const there(1000);
  std::string why_not;
  EXPECT_FALSE(export_memory(there.bytes, 0, why_not));
  EXPECT_NE(why_not.find("cudaMallocAsync"), std::string::npos) << why_not;
}

TEST_F(DeviceGpu, WhatAPeerExportsMayBeAnything) {
  Block const there(1000);
  void* const to = there.bytes.data();
  ExportedMemory memory{.nbytes = 1000};
  for (unsigned seed = 0; seed < 50; ++seed) {
    auto const bytes = content(64, seed);
    std::copy(bytes.begin(), bytes.end(), memory.handle.begin());
    error_of([&] { (void)pull({&memory, 1}, {&to, 1}, 0, {}); }, ErrorKind::unsupported);
  }
  there_and_back({1, 2, 3}, 0);
}

TEST_F(DeviceGpu, PointersAreToldApart) {
  Block const there(100);
  std::byte here{};
  EXPECT_EQ(device_of(there.bytes.data()), 0);
  EXPECT_EQ(device_of(&here), -1);
  EXPECT_EQ(current_device(), 0);
}

TEST_F(DeviceGpu, PinnedMemoryIsPooled) {
  Resource& pinned = default_resource(MemoryKind::pinned);
  auto const block = pinned.allocate(1 << 20);
  auto* const where = block.data();
  pinned.deallocate(block);
  auto const again = pinned.allocate(1 << 20);
  EXPECT_EQ(again.data(), where);
  pinned.deallocate(again);
}

}  // namespace
}  // namespace transload
