#pragma once

#include <concepts>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace transload {

/// What the reader of an error does next.
enum class ErrorKind {
  unsupported,   ///< try the next family or path
  malformed,     ///< drop the message: the bytes are not what their format says
  exhausted,     ///< spill or retry: memory, descriptors or a limit ran out
  disconnected,  ///< close: the other side is gone
  failed,        ///< report: nothing else is known to help
};

/// The kind's own name, as in the enumeration.
[[nodiscard]] std::string_view name(ErrorKind kind) noexcept;

/// The one exception of this library. `what()` says which field, what came and what was needed, without the kind.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string const& message) : std::runtime_error(message), kind_(kind) {}

  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws `Error{kind, message}`; out of line, so that a check costs its caller one compare and one jump.
[[noreturn]] void raise(ErrorKind kind, std::string const& message);

namespace detail {

template <class T>
void append(std::string& out, T const& part) {
  if constexpr (std::same_as<T, bool>) {
    out += part ? "true" : "false";
  } else if constexpr (std::same_as<T, char>) {
    out += part;
  } else if constexpr (std::is_convertible_v<T const&, std::string_view>) {
    out += std::string_view(part);
  } else if constexpr (std::integral<T>) {
    out += std::to_string(part);  // also std::byte-sized integers, which a stream would print as letters
  } else if constexpr (std::is_enum_v<T>) {
    out += std::to_string(static_cast<std::underlying_type_t<T>>(part));
  } else {
    std::ostringstream text;
    text << part;
    out += text.str();
  }
}

}  // namespace detail

/// The parts, one after the other, as text: strings as they are, integers in decimal (also 8-bit ones), booleans as
/// `true` and `false`, enumerators as their number, anything else through `operator<<`.
template <class... Parts>
[[nodiscard]] std::string cat(Parts const&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

/// Throws `Error{kind, message}` unless `condition` holds.
///
/// `message` is a text, or a callable that returns one: on a hot path pass a callable, so that the text is only put
/// together when it is needed. `cat(...)` in an argument is evaluated at each call.
template <class Message>
void expects(bool condition, ErrorKind kind, Message&& message) {
  if (condition) [[likely]] {
    return;
  }
  if constexpr (std::is_invocable_v<Message>) {
    raise(kind, std::string(message()));
  } else {
    raise(kind, std::string(message));
  }
}

}  // namespace transload
