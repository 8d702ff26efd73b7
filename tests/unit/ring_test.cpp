// The staging ring, over the host twin: bytes in their order, in pieces of any size, from and to many runs.
#include "transload/memory/ring.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/messages.hpp"
#include "transload/memory/cuda.hpp"
#include "transload/memory/device.hpp"

namespace transload {
namespace {

std::vector<std::byte> noise(std::size_t nbytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(nbytes);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// Runs of these lengths that cover `memory`.
std::vector<std::size_t> lengths(std::size_t nbytes, std::mt19937& random) {
  std::vector<std::size_t> found;
  while (nbytes > 0) {
    std::size_t const n = std::min<std::size_t>(nbytes, random() % 3 == 0 ? random() % 300 : random() % 3'000'000);
    found.push_back(n);  // 0 is one, too
    nbytes -= n;
  }
  return found;
}

TEST(StagingRing, BringsEveryByteOutAndInAgain) {
  std::mt19937 random(3);
  for (std::size_t const nbytes : {std::size_t{1}, std::size_t{1000}, StagingRing::slot_nbytes, StagingRing::slot_nbytes + 1, 9 * StagingRing::slot_nbytes + 17}) {
    auto const there = noise(nbytes, 5);
    std::vector<std::byte> back(nbytes);
    StagingRing out(host_twin, true);
    StagingRing in(host_twin, false);
    std::size_t at = 0;
    for (std::size_t const n : lengths(nbytes, random)) {
      out.add(const_cast<std::byte*>(there.data()) + at, n);
      at += n;
    }
    at = 0;
    for (std::size_t const n : lengths(nbytes, random)) {
      in.add(back.data() + at, n);
      at += n;
    }
    EXPECT_EQ(out.nbytes(), nbytes);
    while (!out.done()) {
      auto const from = out.next();
      auto const to = in.next();
      ASSERT_FALSE(from.empty());
      ASSERT_FALSE(to.empty());
      std::size_t const n = std::min({from.size(), to.size(), static_cast<std::size_t>(1 + random() % 700'000)});
      std::memcpy(to.data(), from.data(), n);
      out.advance(n);
      in.advance(n);
    }
    EXPECT_TRUE(in.done());
    EXPECT_TRUE(back == there) << nbytes;
  }
}

TEST(StagingRing, WithoutRunsIsDone) {
  StagingRing ring(host_twin, true);
  EXPECT_TRUE(ring.done());
  ring.add(nullptr, 0);
  EXPECT_TRUE(ring.done());
}

TEST(StagingRing, TenThousandShortRuns) {
  auto const there = noise(10'000 * 100, 6);
  std::vector<std::byte> back(there.size());
  StagingRing out(host_twin, true);
  StagingRing in(host_twin, false);
  for (std::size_t i = 0; i < 10'000; ++i) {
    std::size_t const j = 9'999 - i;
    out.add(const_cast<std::byte*>(there.data()) + j * 100, 100);
    in.add(back.data() + j * 100, 100);
  }
  while (!out.done()) {
    auto const from = out.next();
    auto const to = in.next();
    std::size_t const n = std::min(from.size(), to.size());
    std::memcpy(to.data(), from.data(), n);
    out.advance(n);
    in.advance(n);
  }
  EXPECT_TRUE(back == there);
}

TEST(StagingRing, WithoutCudaIsUnsupported) {
  if (device_count() > 0) GTEST_SKIP() << "a GPU is here";
  (void)test::error_of([] { StagingRing const ring(0, true); }, ErrorKind::unsupported);
}

}  // namespace
}  // namespace transload
