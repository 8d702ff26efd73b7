#pragma once
/// Which names the bytes of a message may pick, and for what. docs/format.md, "Names and trust".

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace transload {

/// What may be done with a name; a set of them is their bits.
enum class Role : std::uint8_t {
  make = 1,     ///< make an instance of the class (`cls.__new__`) and set its state
  call = 2,     ///< call the function or class with arguments from the message
  hand_on = 4,  ///< give the class or function itself to the user, as a value
};

/// A set of roles.
class Roles {
 public:
  constexpr Roles() noexcept = default;
  constexpr Roles(Role role) noexcept : bits_(static_cast<std::uint8_t>(role)) {}  // NOLINT: a role is a set of one

  [[nodiscard]] constexpr bool has(Role role) const noexcept { return (bits_ & static_cast<std::uint8_t>(role)) != 0; }
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return bits_; }
  constexpr Roles& operator|=(Roles other) noexcept {
    bits_ = static_cast<std::uint8_t>(bits_ | other.bits_);
    return *this;
  }
  friend constexpr Roles operator|(Roles a, Roles b) noexcept { return a |= b; }
  friend constexpr bool operator==(Roles, Roles) noexcept = default;

 private:
  std::uint8_t bits_ = 0;
};

[[nodiscard]] constexpr Roles operator|(Role a, Role b) noexcept { return Roles(a) | Roles(b); }

/// The role's words, as errors say them: "make an instance of", "call", "hand on".
[[nodiscard]] std::string_view to_string(Role role) noexcept;

namespace detail {

/// Lets a map from std::string be asked with a string_view.
struct TextHash {
  using is_transparent = void;
  [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

}  // namespace detail

/// Exact names (`module:qualified.name`) with their roles. Empty at first: nothing is trusted. No patterns, no prefixes:
/// trusting a package would trust its functions. Thread-safe.
class Trust {
 public:
  /// Adds roles to a name.
  ///
  /// @throws Error{unsupported} for a name that is not `module:qualified.name`.
  void add(std::string_view name, Roles roles);
  /// Takes all roles from a name.
  void remove(std::string_view name);

  [[nodiscard]] Roles roles(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;  ///< sorted

  /// Throws unless `name` has `role`; `where` is the place in the object.
  ///
  /// @throws Error{unsupported} with name, place and what may be done with the name instead.
  void check(std::string_view name, Role role, std::string_view where) const;

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, Roles, detail::TextHash, std::equal_to<>> names_;
};

}  // namespace transload
