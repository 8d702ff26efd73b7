#pragma once
/// Memory that was never touched: a fault for each of its pages costs several times what copying into it does.

#include <cstddef>
#include <span>

namespace transload {

/// Makes the pages of `memory` present in one call, where the kernel can (Linux 5.14); those that are present already stay as they
/// are. What lies in it stays as it is.
void make_present(std::span<std::byte> memory) noexcept;

/// Makes pages present a window ahead of whoever fills memory front to back in small steps.
class Ahead {
 public:
  static constexpr std::size_t window_nbytes = std::size_t{4} << 20;

  /// The next bytes go to the front of `rest`, and on to its end.
  void filling(std::span<std::byte> rest) noexcept {
    if (rest.data() >= begin_ && rest.data() < end_) return;
    reach(rest);
  }

 private:
  void reach(std::span<std::byte> rest) noexcept;

  std::byte const* begin_ = nullptr;
  std::byte const* end_ = nullptr;
};

/// Copies `from` to memory of the same size that is probably fresh, by several threads where it is large.
void copy_to_fresh(std::span<std::byte> to, std::span<std::byte const> from) noexcept;

}  // namespace transload
