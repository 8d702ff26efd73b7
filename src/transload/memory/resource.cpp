#include "transload/memory/resource.hpp"

#include <unistd.h>

#include <bit>
#include <new>
#include <pthread.h>

#include "staging.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"

namespace transload {

std::string_view to_string(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::host: return "host";
    case MemoryKind::pinned: return "pinned";
    case MemoryKind::device: return "device";
  }
  return "?";
}

std::span<std::byte> HostResource::allocate(std::size_t nbytes) {
  if (nbytes == 0) return {};
  void* const block = ::operator new(nbytes, std::align_val_t{alignment}, std::nothrow);
  expects(block != nullptr, ErrorKind::exhausted, [&] { return cat("host memory: no room for ", nbytes, " bytes"); });
  return {static_cast<std::byte*>(block), nbytes};
}

void HostResource::deallocate(std::span<std::byte> block) noexcept {
  if (!block.empty()) ::operator delete(block.data(), std::align_val_t{alignment});
}

struct PoolResource::Idle {
  Idle* previous_in_class;
  Idle* next_in_class;
  Idle* older;
  Idle* newer;
  std::size_t size_class;
};

namespace {

// Class c holds blocks of (4 + c % 4) << (4 + c / 4) bytes: 64, 80, 96, 112, 128, 160, …
constexpr std::size_t class_nbytes(std::size_t c) noexcept { return (4 + c % 4) << (4 + c / 4); }

constexpr std::size_t class_of(std::size_t nbytes) noexcept {
  if (nbytes <= 64) return 0;
  auto const doubling = static_cast<std::size_t>(std::bit_width(nbytes - 1)) - 1;  // 2^doubling <= nbytes - 1
  std::size_t const quarter = ((nbytes - 1) >> (doubling - 2)) - 4;
  return 4 * (doubling - 6) + quarter + 1;
}

static_assert(class_of(64) == 0 && class_of(65) == 1 && class_of(80) == 1 && class_of(81) == 2 && class_of(128) == 4);
static_assert(class_nbytes(class_of(std::size_t{1} << 40)) == std::size_t{1} << 40);
static_assert(class_nbytes(class_of((std::size_t{1} << 40) + 1)) == std::size_t{5} << 38);

constexpr std::size_t largest_pooled = std::size_t{1} << 60;

PoolResource* pool_of_process = nullptr;

PoolResource* make_pool_of_process() {
  static auto* const host = new HostResource;
  pool_of_process = new PoolResource(*host);
  ::pthread_atfork([] { pool_of_process->lock(); }, [] { pool_of_process->unlock(); }, [] { pool_of_process->unlock(); });
  return pool_of_process;
}

}  // namespace

PoolResource::PoolResource(Resource& upstream, std::size_t keep_nbytes) : upstream_(upstream), keep_nbytes_(keep_nbytes) {
  // What lies idle is listed in the blocks themselves.
  expects(upstream.kind() != MemoryKind::device, ErrorKind::unsupported, "PoolResource: device memory, which the host cannot write a list into");
  static_assert(sizeof(Idle) <= class_nbytes(0));
}

PoolResource::~PoolResource() { release(); }

std::span<std::byte> PoolResource::allocate(std::size_t nbytes) {
  if (nbytes == 0) return {};
  expects(nbytes <= largest_pooled, ErrorKind::exhausted, [&] { return cat("host memory: no room for ", nbytes, " bytes"); });
  std::size_t const c = class_of(nbytes);
  {
    std::lock_guard const lock(mutex_);
    if (Idle* const block = by_class_[c]) {
      unlink(block);
      return {reinterpret_cast<std::byte*>(block), nbytes};
    }
  }
  // A block that will never be kept need not be rounded up.
  return upstream_.allocate(class_nbytes(c) <= largest_kept_nbytes ? class_nbytes(c) : nbytes).first(nbytes);
}

void PoolResource::deallocate(std::span<std::byte> block) noexcept {
  if (block.empty()) return;
  std::size_t const c = class_of(block.size());
  std::size_t const rounded = class_nbytes(c);
  if (rounded > largest_kept_nbytes) {
    upstream_.deallocate(block);
    return;
  }
  std::lock_guard const lock(mutex_);
  if (rounded > keep_nbytes_) {
    upstream_.deallocate({block.data(), rounded});
    return;
  }
  while (idle_nbytes_ + rounded > keep_nbytes_) release_oldest();
  auto* const idle = ::new (block.data()) Idle{nullptr, by_class_[c], newest_, nullptr, c};
  if (idle->next_in_class != nullptr) idle->next_in_class->previous_in_class = idle;
  by_class_[c] = idle;
  (newest_ != nullptr ? newest_->newer : oldest_) = idle;
  newest_ = idle;
  idle_nbytes_ += rounded;
}

void PoolResource::unlink(Idle* block) noexcept {
  (block->previous_in_class != nullptr ? block->previous_in_class->next_in_class : by_class_[block->size_class]) = block->next_in_class;
  if (block->next_in_class != nullptr) block->next_in_class->previous_in_class = block->previous_in_class;
  (block->older != nullptr ? block->older->newer : oldest_) = block->newer;
  (block->newer != nullptr ? block->newer->older : newest_) = block->older;
  idle_nbytes_ -= class_nbytes(block->size_class);
}

void PoolResource::release_oldest() noexcept {
  Idle* const block = oldest_;
  std::size_t const nbytes = class_nbytes(block->size_class);
  unlink(block);
  upstream_.deallocate({reinterpret_cast<std::byte*>(block), nbytes});
}

void PoolResource::keep(std::size_t nbytes) noexcept {
  std::lock_guard const lock(mutex_);
  keep_nbytes_ = nbytes;
  while (idle_nbytes_ > nbytes) release_oldest();
}

void PoolResource::release() noexcept {
  std::lock_guard const lock(mutex_);
  while (oldest_ != nullptr) release_oldest();
}

std::size_t PoolResource::idle_nbytes() const noexcept {
  std::lock_guard const lock(mutex_);
  return idle_nbytes_;
}

std::uint64_t physical_nbytes() noexcept {
  static std::uint64_t const nbytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return nbytes;
}

Resource& default_resource(MemoryKind kind) {
  if (kind != MemoryKind::host) {
    expects(built_with_cuda() && device_count() > 0, ErrorKind::unsupported, [&] {
      return cat(to_string(kind), " memory: ", built_with_cuda() ? "no GPU can be used here" : "this library was built without CUDA");
    });
    return staging::resource(kind);
  }
  // Never destroyed: buffers of other statics and of a Python that shuts down may be given back later.
  static auto* const pool = make_pool_of_process();
  return *pool;
}

namespace {

// Made while the library is loaded: a fork in the midst of the first use would leave the child a pool that nobody goes on making, and a wait for it.
[[maybe_unused]] Resource const& made_at_load = default_resource();

}  // namespace

}  // namespace transload
