#pragma once
/// Messages for tests, put together by hand.

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "transload/base/error.hpp"
#include "transload/message/header.hpp"
#include "transload/message/message.hpp"

namespace transload::test {

/// The message whose root, names, shapes and payloads `fill` writes.
inline Message message(std::function<void(HeaderWriter&)> const& fill, LayoutLimits limits = {}) {
  HeaderWriter writer;
  fill(writer);
  return make_message(writer, limits, default_resource());
}

/// A message with the header `bytes` as they are.
inline Message raw_message(std::vector<unsigned char> bytes, std::vector<Buffer> frames = {}) {
  auto keeper = std::make_shared<std::vector<unsigned char>>(std::move(bytes));
  Message message;
  message.header = Buffer::borrow(std::as_bytes(std::span(*keeper)), keeper);
  message.frames = std::move(frames);
  return message;
}

/// The text of the error of kind `kind` that `act` throws.
template <class Act>
std::string error_of(Act&& act, ErrorKind kind = ErrorKind::malformed) {
  try {
    act();
  } catch (Error const& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// A copy of `bytes` in memory of exactly that size, so that the address sanitizer sees a step behind it.
inline Buffer tight_copy(std::span<std::byte const> bytes) {
  auto keeper = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  keeper->shrink_to_fit();
  return Buffer::borrow(*keeper, keeper);
}

}  // namespace transload::test
