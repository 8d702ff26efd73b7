#pragma once
/// What the slots of staging rings take. Internal to the room.

#include <cstddef>
#include <cstdint>

namespace transload::staging {

struct SlotsStats {
  std::size_t pinned_nbytes = 0;
  std::uint64_t unpinned = 0;  ///< rings that got ordinary memory
};
[[nodiscard]] SlotsStats slots_stats() noexcept;

}  // namespace transload::staging
