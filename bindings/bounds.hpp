#pragma once
/// What a message from a stranger may cost, and which attributes it may set. The decoder asks before it acts.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "py.hpp"

namespace transload::py {

/// Parts of an object, each as often as it is referred to; sums stay below 2^63.
inline constexpr std::uint64_t most_parts = std::uint64_t{1} << 62;

/// References let a few bytes name the same parts again and again, and what copies, hashes or prints those pays each time: exponentially,
/// where tuples name tuples. A unit is one part, or 16 bytes of a buffer; either takes about 10 ns.
class Allowance {
 public:
  /// 64 units a byte of header, one a byte of frames, and 2^24 for whoever sends little.
  Allowance(std::uint64_t header_nbytes, std::uint64_t frames_nbytes, bool unlimited) noexcept
      : left_(unlimited ? UINT64_MAX : (std::uint64_t{1} << 24) + 64 * header_nbytes + frames_nbytes), unlimited_(unlimited) {}

  [[nodiscard]] bool unlimited() const noexcept { return unlimited_; }

  /// @throws Error{malformed} when `units` are not left; `what` takes them, at byte `at` of the header.
  void spend(std::uint64_t units, std::size_t at, std::string_view what) {
    if (unlimited_) return;
    if (units > left_) refuse(at, what);
    left_ -= units;
  }

 private:
  [[noreturn]] static void refuse(std::size_t at, std::string_view what);

  std::uint64_t left_;
  bool unlimited_;
};

/// What copying or looking through an object takes, in units of `Allowance`: the elements of containers, `levels` deep, and the bytes of buffers
/// and texts. An array that shows one item many times counts as what it lies in.
[[nodiscard]] std::uint64_t weight(PyObject* object, int levels);

/// The hashes of one container's keys, as far as a sender can choose them (ints beyond 64 bits, tuples, objects with a hash of their own): each key
/// is compared with all before it that have its hash.
class KeyHashes {
 public:
  void add(Py_hash_t hash, Allowance& allowance, std::size_t at);

 private:
  static constexpr std::size_t first_look = 256;  // so many comparisons each cost less than the sender paid for them

  std::vector<Py_hash_t> hashes_;
};

/// Why an attribute in a state is no data of an instance of `cls`, or nothing: a name with two underscores on both sides has a meaning to the
/// interpreter or to a library (NumPy reads memory wherever an `__array_interface__` points), and a method's name would put another callable
/// in the method's place. Keys that are no str are let through. Remembers the methods of each class, for good: ask for classes of libraries alone.
[[nodiscard]] std::optional<std::string> why_no_attribute(PyTypeObject* cls, PyObject* key);
/// Likewise for each key of a dict.
[[nodiscard]] std::optional<std::string> why_no_attributes(PyTypeObject* cls, PyObject* dict);

}  // namespace transload::py
