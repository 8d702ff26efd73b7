#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "support/resources.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/buffer.hpp"
#include "transload/memory/cuda.hpp"
#include "transload/memory/fresh.hpp"
#include "transload/memory/resource.hpp"

namespace transload {
namespace {

using test::CountingResource;

bool aligned(std::span<std::byte const> bytes) { return reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 == 0; }

TEST(HostResource, AlignsEachBlockTo64Bytes) {
  HostResource host;
  for (std::size_t nbytes : {1, 7, 64, 65, 4097}) {
    auto const block = host.allocate(nbytes);
    EXPECT_TRUE(aligned(block));
    EXPECT_EQ(block.size(), nbytes);
    host.deallocate(block);
  }
}

TEST(HostResource, SaysExhaustedWhenThereIsNoRoom) {
  HostResource host;
  try {
    (void)host.allocate(std::size_t{1} << 61);
    FAIL();
  } catch (Error const& error) {
    EXPECT_EQ(error.kind(), ErrorKind::exhausted);
  }
}

TEST(PoolResource, GivesAReturnedBlockToTheNextCallerOfItsClass) {
  HostResource host;
  PoolResource pool(host);
  auto const block = pool.allocate(1000);
  auto* const where = block.data();
  pool.deallocate(block);
  EXPECT_EQ(pool.idle_nbytes(), 1024U);
  auto const again = pool.allocate(1010);
  EXPECT_EQ(again.data(), where);
  EXPECT_EQ(pool.idle_nbytes(), 0U);
  pool.deallocate(again);
}

TEST(PoolResource, BlocksHoldTheirSizeAndAreAligned) {
  HostResource host;
  PoolResource pool(host);
  for (std::size_t nbytes = 1; nbytes < 5000; nbytes += 7) {
    auto const block = pool.allocate(nbytes);
    ASSERT_TRUE(aligned(block));
    std::memset(block.data(), 0xff, block.size());  // the address sanitizer sees a class that is too small
    pool.deallocate(block);
  }
}

TEST(PoolResource, KeepsAtMostItsBoundAndLetsTheOldestGoFirst) {
  CountingResource host;
  {
    PoolResource pool(host, 4096);
    std::vector<std::span<std::byte>> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(pool.allocate(1024));
    auto* const last = blocks.back().data();
    for (auto block : blocks) pool.deallocate(block);
    EXPECT_EQ(pool.idle_nbytes(), 4096U);
    EXPECT_EQ(host.nblocks(), 4);
    auto const again = pool.allocate(1024);
    EXPECT_EQ(again.data(), last);
    pool.deallocate(again);
    auto const large = pool.allocate(8192);
    pool.deallocate(large);
    EXPECT_EQ(pool.idle_nbytes(), 4096U) << "a block above the bound is never kept";
  }
  EXPECT_EQ(host.nblocks(), 0);
}

TEST(PoolResource, MayKeepMoreOrLessLater) {
  CountingResource host;
  PoolResource pool(host, 1 << 20);
  auto const before = pool.allocate(5'000'000);  // more than is kept now: it is none the smaller for that
  pool.keep(8 << 20);
  pool.deallocate(before);
  EXPECT_EQ(pool.idle_nbytes(), 5U << 20);
  auto const again = pool.allocate(5 << 20);
  std::memset(again.data(), 1, again.size());
  pool.keep(1000);
  pool.deallocate(again);
  EXPECT_EQ(pool.idle_nbytes(), 0U);
  EXPECT_EQ(host.nblocks(), 0);
  pool.keep(8 << 20);
  pool.deallocate(pool.allocate(5'000'000));
  pool.keep(0);
  EXPECT_EQ(host.nblocks(), 0);
}

TEST(Fresh, MakesPagesPresentAndLeavesWhatLiesThere) {
  std::size_t const n = (std::size_t{3} << 20) + 123;
  auto* const block = static_cast<std::byte*>(::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(block, MAP_FAILED);
  block[5000] = std::byte{7};
  make_present({block + 1, n - 1});
  EXPECT_EQ(block[5000], std::byte{7});
  std::vector<unsigned char> present((n + 4095) / 4096);
  ASSERT_EQ(::mincore(block, n, present.data()), 0);
  auto const npresent = std::count_if(present.begin(), present.end(), [](unsigned char page) { return (page & 1) != 0; });
  bool const kernel_can = npresent > 1;  // since 5.14
  EXPECT_GE(npresent, kernel_can ? static_cast<long>(present.size()) - 2 : 1);
  ::munmap(block, n);
}

TEST(Fresh, CopiesOfEverySizeAreWhole) {
  for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{65'536}, (std::size_t{4} << 20) - 1, (std::size_t{4} << 20) + 1, (std::size_t{33} << 20) + 5}) {
    std::vector<std::byte> from(n);
    for (std::size_t i = 0; i < n; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 1000);
    std::vector<std::byte> to(n);
    copy_to_fresh(to, from);
    EXPECT_EQ(to, from) << n;
  }
}

TEST(PoolResource, ServesManyThreads) {
  HostResource host;
  PoolResource pool(host, 1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 2000; ++i) {
        auto const block = pool.allocate(64 + 37 * static_cast<std::size_t>(i % 50));
        std::memset(block.data(), t, block.size());
        for (std::byte b : block) ASSERT_EQ(b, static_cast<std::byte>(t));
        pool.deallocate(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(DefaultResource, NamesWhyPinnedAndDeviceMemoryAreNotThere) {
  EXPECT_EQ(default_resource().kind(), MemoryKind::host);
  for (MemoryKind kind : {MemoryKind::pinned, MemoryKind::device}) {
    if (device_count() > 0) {
      EXPECT_EQ(default_resource(kind).kind(), kind);
      continue;
    }
    try {
      (void)default_resource(kind);
      FAIL();
    } catch (Error const& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      if (built_with_cuda()) continue;
      EXPECT_EQ(std::string(error.what()), cat(to_string(kind), " memory: this library was built without CUDA"));
    }
  }
}

TEST(Buffer, GivesItsBlockBackOnce) {
  CountingResource host;
  {
    Buffer buffer = Buffer::allocate(100, host);
    Buffer other = std::move(buffer);
    EXPECT_EQ(host.nblocks(), 1);
    EXPECT_EQ(other.nbytes(), 100U);
    EXPECT_TRUE(other.owned());
    other = Buffer::allocate(10, host);
    EXPECT_EQ(host.nblocks(), 1);
  }
  EXPECT_EQ(host.nblocks(), 0);
}

TEST(DefaultResource, IsFreeInTheChildOfAForkWhileOtherThreadsUseIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no thread beside a fork";
#endif
  std::atomic<bool> end = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!end) (void)Buffer::allocate(4096, default_resource());
    });
  }
  int bad = 0;
  for (int i = 0; i < 300; ++i) {
    pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(20);  // ends a child that waits for a lock whose owner it has not
      (void)Buffer::allocate(4096, default_resource());
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    bad += status != 0 ? 1 : 0;
    if (bad != 0) break;
  }
  end = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
}

TEST(Buffer, KeepsTheKeeperWhileItLives) {
  auto keeper = std::make_shared<std::vector<std::byte>>(16);
  std::weak_ptr<std::vector<std::byte>> const seen = keeper;
  Buffer buffer = Buffer::borrow(*keeper, keeper);
  keeper.reset();
  EXPECT_FALSE(seen.expired());
  EXPECT_TRUE(buffer.readonly());
  EXPECT_THROW((void)buffer.writable(), Error);
  buffer.reset();
  EXPECT_TRUE(seen.expired());
}

TEST(Buffer, ASharedBlockLivesUntilTheLastBufferGoes) {
  CountingResource host;
  Buffer second;
  {
    Buffer first = Buffer::allocate(64, host);
    first.writable()[0] = std::byte{42};
    second = first.share();
    EXPECT_EQ(first.data(), second.data());
  }
  EXPECT_EQ(host.nblocks(), 1);
  EXPECT_EQ(second.bytes()[0], std::byte{42});
  second.reset();
  EXPECT_EQ(host.nblocks(), 0);
}

}  // namespace
}  // namespace transload
