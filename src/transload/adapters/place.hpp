#pragma once
/// From a byte in a header to words: where in the object is it? Errors ask this after the fact, so that decoding keeps no path.

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "transload/message/header.hpp"

namespace transload {

/// The place of the node at `offset` (a byte of the header), as `obj['model'].trees[3]`; the place of the node around it when
/// none begins there. Stops at what it cannot read, so it answers for malformed headers too.
[[nodiscard]] std::string place_in_object(std::span<std::byte const> bytes, Header const& header, std::size_t offset);

/// The byte offset of the first node that uses entry `name` of names; nothing when none does (or the root is malformed before it).
[[nodiscard]] std::optional<std::size_t> first_use_of_name(std::span<std::byte const> bytes, Header const& header, std::size_t name);

}  // namespace transload
