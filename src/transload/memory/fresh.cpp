#include "transload/memory/fresh.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace transload {

namespace {

constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which older headers lack
constexpr std::size_t worth_a_call = std::size_t{64} << 10;
constexpr std::size_t worth_a_thread = std::size_t{8} << 20;
constexpr unsigned threads_most = 8;

std::atomic<bool> kernel_cannot{false};

std::size_t page_nbytes() noexcept {
  static auto const nbytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return nbytes;
}

}  // namespace

void make_present(std::span<std::byte> memory) noexcept {
  if (memory.size() < worth_a_call || kernel_cannot.load(std::memory_order_relaxed)) return;
  auto const begin = reinterpret_cast<std::uintptr_t>(memory.data());
  std::uintptr_t const first = (begin + page_nbytes() - 1) / page_nbytes() * page_nbytes();
  std::uintptr_t const last = (begin + memory.size()) / page_nbytes() * page_nbytes();
  if (first >= last) return;
  int const before = errno;
  if (::madvise(reinterpret_cast<void*>(first), last - first, populate_write) != 0 && errno == EINVAL) kernel_cannot = true;
  errno = before;  // what could not be made present now is, or fails, when it is touched
}

void Ahead::reach(std::span<std::byte> rest) noexcept {
  auto const window = rest.first(std::min(rest.size(), window_nbytes));
  make_present(window);
  begin_ = window.data();
  end_ = window.data() + window.size();
}

void copy_to_fresh(std::span<std::byte> to, std::span<std::byte const> from) noexcept {
  if (from.empty()) return;
  std::atomic<std::size_t> next{0};
  auto const copy = [&] {
    for (;;) {
      std::size_t const at = next.fetch_add(Ahead::window_nbytes, std::memory_order_relaxed);
      if (at >= from.size()) return;
      std::size_t const n = std::min(from.size() - at, Ahead::window_nbytes);
      make_present(to.subspan(at, n));
      std::memcpy(to.data() + at, from.data() + at, n);
    }
  };
  std::size_t const useful = std::min<std::size_t>({from.size() / worth_a_thread, std::thread::hardware_concurrency(), threads_most});
  std::vector<std::jthread> others;
  try {
    for (std::size_t i = 1; i < useful; ++i) others.emplace_back(copy);
  } catch (std::system_error const&) {  // no more threads: those that are there do it
  } catch (std::bad_alloc const&) {
  }
  copy();
}

}  // namespace transload
