#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace transload {

/// XXH3-64, seed 0, of `bytes`.
[[nodiscard]] std::uint64_t xxh3(std::span<std::byte const> bytes) noexcept;

/// XXH3-64, seed 0, of the parts as if they lay one behind the other.
[[nodiscard]] std::uint64_t xxh3(std::initializer_list<std::span<std::byte const>> parts);

}  // namespace transload
