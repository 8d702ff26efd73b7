#pragma once
/// A message whose header is a fuzz target's input: the frames have the sizes that the header asks for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transload/message/header.hpp"
#include "transload/message/message.hpp"

namespace transload::testing {

/// Nothing where the header asks for more bytes than an input should cost. Each frame lies in memory of exactly its size,
/// so that the sanitizer sees a step outside it. Borrows `input`.
///
/// @throws Error{malformed} when the header is.
inline std::optional<Message> message_of(std::span<std::byte const> input) {
  constexpr std::uint64_t most_frame_nbytes = 1 << 16;
  Header const header = Header::parse(input);
  std::uint64_t total = 0;
  for (std::uint64_t const nbytes : header.layout.frame_nbytes) {
    if (nbytes > most_frame_nbytes || (total += nbytes) > 16 * most_frame_nbytes) return std::nullopt;
  }
  Message message;
  message.header = Buffer::borrow(input);
  for (std::uint64_t const nbytes : header.layout.frame_nbytes) {
    auto bytes = std::make_shared<std::vector<std::byte>>(nbytes);
    for (std::size_t i = 0; i < nbytes; ++i) (*bytes)[i] = static_cast<std::byte>(i * 37);
    message.frames.push_back(Buffer::borrow(*bytes, bytes));
  }
  return message;
}

}  // namespace transload::testing
