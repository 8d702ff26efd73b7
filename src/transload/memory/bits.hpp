#pragma once
/// Which bits of a word belong to a range of bits; for hosts and GPUs.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define TRANSLOAD_ANYWHERE __host__ __device__
#else
#define TRANSLOAD_ANYWHERE
#endif

namespace transload {

/// The bits of word `word` that lie from bit `first` to before bit `end`; the range touches the word.
TRANSLOAD_ANYWHERE constexpr std::uint32_t bits_in_word(std::size_t first, std::size_t end, std::size_t word) noexcept {
  std::uint32_t bits = ~std::uint32_t{0};
  if (word == first / 32) bits &= ~std::uint32_t{0} << (first % 32);
  if (word == end / 32) bits &= (std::uint32_t{1} << (end % 32)) - 1;
  return bits;
}

/// Words that `n` bits from `first` on touch.
TRANSLOAD_ANYWHERE constexpr std::size_t bits_nwords(std::size_t first, std::size_t n) noexcept {
  return n == 0 ? 0 : (first + n - 1) / 32 - first / 32 + 1;
}

}  // namespace transload

#undef TRANSLOAD_ANYWHERE
