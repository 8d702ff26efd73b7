#pragma once
/// Looks at integers that compiled code would index with.

#include <cstddef>
#include <cstdint>

namespace transload::py {

/// Whether each of `n` values lies in [0, end).
[[nodiscard]] bool all_indices_of(std::int64_t const* values, std::size_t n, std::int64_t end) noexcept;

}  // namespace transload::py
