#pragma once
/// Resources for tests.

#include <algorithm>
#include <cstddef>
#include <span>

#include "transload/memory/resource.hpp"

namespace transload::test {

/// Host memory that counts what is taken from it. Not thread-safe.
class CountingResource final : public Resource {
 public:
  std::span<std::byte> allocate(std::size_t nbytes) override {
    auto const block = host_.allocate(nbytes);
    ++nblocks_;
    held_nbytes_ += nbytes;
    peak_nbytes_ = std::max(peak_nbytes_, held_nbytes_);
    return block;
  }
  void deallocate(std::span<std::byte> block) noexcept override {
    --nblocks_;
    held_nbytes_ -= block.size();
    host_.deallocate(block);
  }
  [[nodiscard]] MemoryKind kind() const noexcept override { return MemoryKind::host; }

  [[nodiscard]] int nblocks() const noexcept { return nblocks_; }
  [[nodiscard]] std::size_t held_nbytes() const noexcept { return held_nbytes_; }
  [[nodiscard]] std::size_t peak_nbytes() const noexcept { return peak_nbytes_; }

 private:
  HostResource host_;
  int nblocks_ = 0;
  std::size_t held_nbytes_ = 0;
  std::size_t peak_nbytes_ = 0;
};

}  // namespace transload::test
