#pragma once
/// Bitmaps and unaligned items, for the Arrow adapter's own use.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace transload::arrow_bits {

/// Item `i` of a buffer that may begin at any address.
template <class T>
[[nodiscard]] inline T load(void const* items, std::int64_t i) noexcept {
  T value;
  std::memcpy(&value, static_cast<std::byte const*>(items) + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
inline void store(void* items, std::int64_t i, T value) noexcept {
  std::memcpy(static_cast<std::byte*>(items) + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}

/// Bit `i`, least significant first.
[[nodiscard]] inline bool bit(void const* bitmap, std::int64_t i) noexcept {
  return ((static_cast<std::uint8_t const*>(bitmap)[i >> 3] >> (i & 7)) & 1) != 0;
}

[[nodiscard]] constexpr std::int64_t bitmap_nbytes(std::int64_t nbits) noexcept { return nbits / 8 + (nbits % 8 != 0 ? 1 : 0); }

/// How many of the bits `from` … `from + n` are set.
[[nodiscard]] inline std::int64_t count_set(void const* bitmap, std::int64_t from, std::int64_t n) noexcept {
  std::int64_t count = 0;
  std::int64_t i = from;
  std::int64_t const end = from + n;
  for (; i < end && (i & 7) != 0; ++i) count += bit(bitmap, i) ? 1 : 0;
  auto const* bytes = static_cast<std::byte const*>(bitmap) + (i >> 3);
  for (; end - i >= 64; i += 64, bytes += 8) count += std::popcount(load<std::uint64_t>(bytes, 0));
  for (; i < end; ++i) count += bit(bitmap, i) ? 1 : 0;
  return count;
}

/// Bits `from` … `from + n` of `bitmap` to the beginning of `out`, which has bitmap_nbytes(n) bytes; the rest of the last is 0.
inline void copy_bits(void const* bitmap, std::int64_t from, std::int64_t n, std::byte* out) noexcept {
  if (n == 0) return;
  auto const* const in = static_cast<std::uint8_t const*>(bitmap) + (from >> 3);
  unsigned const shift = static_cast<unsigned>(from & 7);
  std::int64_t const nbytes = bitmap_nbytes(n);
  std::int64_t const in_nbytes = bitmap_nbytes(static_cast<std::int64_t>(shift) + n);
  for (std::int64_t i = 0; i < nbytes; ++i) {
    unsigned const high = i + 1 < in_nbytes ? in[i + 1] : 0U;
    out[i] = static_cast<std::byte>(((in[i] | (high << 8)) >> shift) & 0xffU);
  }
  if (n % 8 != 0) out[nbytes - 1] &= static_cast<std::byte>((1U << (n % 8)) - 1U);
}

}  // namespace transload::arrow_bits
