#pragma once

#include <cstddef>
#include <string>

#include "transload/adapters/value.hpp"

namespace transload {

/// How much of a value `inspect` shows.
struct InspectOptions {
  std::size_t max_depth = 8;
  std::size_t max_items = 10;   ///< elements of a container, items of an array
  std::size_t max_text = 80;    ///< bytes of a str or of bytes
  std::size_t max_lines = 1000; ///< then the rest is left out
};

/// The value as text for people: indented, a line a leaf, class names before attributes, arrays with dtype, shape and first
/// items. A shared object is shown once, with a number, and referred to by it then; cycles end there.
[[nodiscard]] std::string inspect(Value const& value, InspectOptions options = {});

}  // namespace transload
