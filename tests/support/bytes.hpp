#pragma once
/// Bytes for tests.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace transload::test {

/// Bytes that no codec makes smaller; the same for the same seed.
inline std::vector<std::byte> random_bytes(std::size_t nbytes, unsigned seed = 1) {
  std::vector<std::byte> bytes(nbytes);
  for (std::byte& b : bytes) b = static_cast<std::byte>((seed = seed * 1664525U + 1013904223U) >> 24);
  return bytes;
}

/// Slowly rising bytes: codecs make them much smaller, and no two stretches are alike.
inline std::vector<std::byte> stairs(std::size_t nbytes) {
  std::vector<std::byte> bytes(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(i / 100 + i % 7 * (i / 25'600));
  return bytes;
}

inline bool same(std::span<std::byte const> a, std::span<std::byte const> b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace transload::test
