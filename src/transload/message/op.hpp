#pragma once
/// The ops of the graph's wire form: the first element of every array node. docs/format.md, "Nodes", has their forms.

#include <cstdint>
#include <string_view>

namespace transload {

enum class Op : std::uint8_t {
  ref = 0,
  value = 1,
  list = 2,
  tuple = 3,
  set = 4,
  frozenset = 5,
  record = 6,
  object = 7,
  name = 8,
  reduce = 9,
  new_ = 10,
  new_kw = 11,
  adapted = 12,
  bigint = 13,
  complex = 14,
  text = 15,
  bytes = 16,
  bytearray = 17,
  memoryview = 18,
  slice = 19,
  range = 20,
  floats = 21,
  array = 22,
  object_array = 23,
  scalar = 24,
  dtype = 25,
  arrow = 26,
  pickle = 27,
  error = 28,
  last = 29,
  device = 30,
};

/// An op with this bit set takes the next memo number.
inline constexpr std::uint8_t mark = 0x40;
inline constexpr std::uint8_t last_op = 30;

/// Flags of ARRAY and OBJECT_ARRAY.
namespace array_flags {
inline constexpr unsigned readonly = 1;
inline constexpr unsigned fortran = 2;
}  // namespace array_flags

[[nodiscard]] constexpr std::string_view to_string(Op op) noexcept {
  constexpr std::string_view names[] = {
      "REF",    "VALUE",      "LIST",   "TUPLE", "SET",   "FROZENSET", "RECORD", "OBJECT",       "NAME",   "REDUCE", "NEW",
      "NEW_KW", "ADAPTED",    "BIGINT", "COMPLEX", "TEXT", "BYTES",    "BYTEARRAY", "MEMORYVIEW", "SLICE", "RANGE",  "FLOATS",
      "ARRAY",  "OBJECT_ARRAY", "SCALAR", "DTYPE", "ARROW", "PICKLE",  "ERROR", "LAST", "DEVICE"};
  auto const i = static_cast<std::size_t>(op);
  return i < sizeof(names) / sizeof(names[0]) ? names[i] : "?";
}

}  // namespace transload
