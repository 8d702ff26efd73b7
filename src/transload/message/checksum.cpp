#include "transload/message/checksum.hpp"

#include <memory>
#include <new>

#include <xxhash.h>

namespace transload {

std::uint64_t xxh3(std::span<std::byte const> bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

std::uint64_t xxh3(std::initializer_list<std::span<std::byte const>> parts) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> const state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc{};
  XXH3_64bits_reset(state.get());
  for (auto const part : parts) {
    if (!part.empty()) XXH3_64bits_update(state.get(), part.data(), part.size());
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace transload
