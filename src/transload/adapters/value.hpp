#pragma once
/// The value tree: any object of a message as data, without Python. docs/format.md, "Nodes".

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "transload/adapters/ndarray.hpp"
#include "transload/base/error.hpp"
#include "transload/message/container.hpp"
#include "transload/message/message.hpp"
#include "transload/message/op.hpp"

namespace transload {

class ArrowView;  // adapters/arrow_view.hpp

/// What a value is. The names are Python's.
enum class ValueKind : std::uint8_t {
  none,
  boolean,
  integer,       ///< in 64 bits, signed or unsigned
  bigint,        ///< outside 64 bits
  real,
  complex,
  str,           ///< valid UTF-8
  text,          ///< str with lone surrogates
  bytes,
  bytearray,
  memoryview,
  list,
  tuple,
  set,
  frozenset,
  dict,          ///< keys are any values, in order
  object,        ///< an instance: class name and named attributes
  name,          ///< a class or function
  reduce,        ///< what calling a function or class gives, with state, items and pairs
  instance,      ///< an instance made by `__new__` with arguments, with state, items and pairs
  device,        ///< bytes of a GPU's memory, here in host memory
  adapted,       ///< what a registered adapter makes of the value inside
  slice,
  range,
  array,         ///< n-dimensional, raw items; also a list of floats, which says `is_floats()`
  object_array,  ///< n-dimensional, each item a value
  scalar,        ///< one item of an array
  dtype,
  arrow,
  pickle,        ///< bytes that only Python's pickle reads
  error,         ///< what the sender could not encode, and why
};

[[nodiscard]] std::string_view to_string(ValueKind kind) noexcept;

namespace detail {
class Document;
}

/// One value of a message: a handle that shares the message, cheap to copy. Two handles are equal when they are the same
/// object of one message, so shared references and cycles can be seen. Reading is thread-safe.
class Value {
 public:
  /// None, of no message.
  Value();

  /// Reads `message`, which the values keep alive: header and tree are checked whole, frames are checked against the
  /// header and (meta `xxh3`) their checksums; bytes of arrays are used where they lie.
  ///
  /// Compressed frames are opened into blocks of `resource`; more than `most_nbytes` of them together (nothing: the memory
  /// of this machine) are refused before the first is.
  ///
  /// @throws Error{malformed} with field and byte offset; Error{unsupported} for kinds of memory not known here;
  /// Error{exhausted} beyond `most_nbytes`.
  [[nodiscard]] static Value open(Message message, Resource& resource = default_resource(), std::optional<std::uint64_t> most_nbytes = {});
  /// Reads the container's message. A frame's checksum is compared when it is used for the first time; that of a compressed
  /// one now, before it is opened.
  [[nodiscard]] static Value open(Container container, Resource& resource = default_resource(), std::optional<std::uint64_t> most_nbytes = {});

  [[nodiscard]] ValueKind kind() const noexcept;
  [[nodiscard]] bool is_none() const noexcept { return kind() == ValueKind::none; }
  [[nodiscard]] bool is_floats() const noexcept;  ///< an array that was a list of floats

  /// A number of this value: unique in its message. Values with the same number are one object.
  [[nodiscard]] std::uint32_t id() const noexcept { return node_; }
  /// Whether the message refers to this value a second time.
  [[nodiscard]] bool is_shared() const noexcept;
  friend bool operator==(Value const&, Value const&) noexcept = default;

  /// The value as T: bool, an integer (range-checked), float (from int too), std::complex<double>, std::string,
  /// std::string_view and std::span<std::byte const> (both live as long as the message). NumPy scalars count as their Python
  /// fellows. For everything else: `decode<T>(value)`.
  ///
  /// @throws Error{malformed} when the value is something else.
  template <class T>
  [[nodiscard]] T as() const;

  /// The decimal digits of an int of any size.
  [[nodiscard]] std::string integer_text() const;

  /// Elements: of list, tuple, set, frozenset, object array; pairs of a dict; attributes of an object; the three parts of a slice or range.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Element `i` of list, tuple, set, frozenset, object array (in its order), slice, range.
  ///
  /// @throws Error{malformed} when there is none.
  [[nodiscard]] Value operator[](std::size_t i) const;
  [[nodiscard]] Value operator[](int i) const { return (*this)[static_cast<std::size_t>(i)]; }
  /// The value under a str key of a dict, or an attribute: of an object, or of the state of reduce and instance.
  ///
  /// @throws Error{malformed} when there is none.
  [[nodiscard]] Value operator[](std::string_view key) const;
  [[nodiscard]] Value operator[](char const* key) const { return (*this)[std::string_view(key)]; }
  [[nodiscard]] std::optional<Value> get(std::string_view key) const;
  /// Pair `i` of a dict, or attribute `i` of an object with its name as key.
  [[nodiscard]] std::pair<Value, Value> pair(std::size_t i) const;
  /// The str key of pair `i`; empty when the key is no str.
  [[nodiscard]] std::string_view key(std::size_t i) const;

  /// `module:qualified.name` of the class of an object or instance, of a name, of what reduce calls; the wire name of adapted.
  [[nodiscard]] std::string_view name() const;
  /// The bytes of a class or function by value (cloudpickle), where `name()` has none.
  [[nodiscard]] std::span<std::byte const> name_by_value() const;

  [[nodiscard]] Value args() const;           ///< reduce, instance: a tuple
  [[nodiscard]] Value kwargs() const;         ///< instance: a dict, or None
  [[nodiscard]] Value state() const;          ///< reduce, instance: None where there is none
  [[nodiscard]] Value list_items() const;     ///< reduce, instance: a list to append, or None
  [[nodiscard]] Value dict_items() const;     ///< reduce, instance: a dict of items to set, or None
  [[nodiscard]] Value state_setter() const;   ///< reduce, instance: a name, or None
  [[nodiscard]] Value inner() const;          ///< adapted: the value inside

  /// An array, scalar (no dimension), memoryview or list of floats (one dimension).
  ///
  /// @throws Error{malformed} for anything else.
  [[nodiscard]] NdView array() const;
  /// `array().as<T>()`.
  template <class T>
  [[nodiscard]] NdSpan<T> as_array() const {
    return array().as<T>();
  }
  /// The dtype of array, scalar, object array or dtype.
  [[nodiscard]] DType const& dtype() const;
  /// The shape of array, object array, memoryview.
  [[nodiscard]] std::span<std::uint64_t const> shape() const;
  [[nodiscard]] bool readonly() const noexcept;
  /// The struct-module format of a memoryview.
  [[nodiscard]] std::string_view format() const;

  /// Bytes of header and frames of the message that this value is part of.
  [[nodiscard]] std::uint64_t message_nbytes() const noexcept;

  /// Arrow data. Include adapters/arrow_view.hpp.
  [[nodiscard]] ArrowView arrow() const;

 private:
  friend class detail::Document;
  Value(std::shared_ptr<detail::Document const> document, std::uint32_t node) noexcept : document_(std::move(document)), node_(node) {}

  [[nodiscard]] Value at(std::uint32_t node) const noexcept { return {document_, node}; }
  [[nodiscard]] Value part(std::size_t i, std::string_view what) const;
  [[noreturn]] void wrong(std::string_view wanted) const;
  [[nodiscard]] bool get_bool() const;
  [[nodiscard]] std::int64_t get_signed(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] std::uint64_t get_unsigned(std::uint64_t most) const;
  [[nodiscard]] double get_real() const;
  [[nodiscard]] std::complex<double> get_complex() const;
  [[nodiscard]] std::string_view get_text() const;
  [[nodiscard]] std::span<std::byte const> get_bytes() const;

  std::shared_ptr<detail::Document const> document_;
  std::uint32_t node_ = 0;
};

template <class T>
T Value::as() const {
  if constexpr (std::same_as<T, bool>) {
    return get_bool();
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(as<std::underlying_type_t<T>>());
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return static_cast<T>(get_signed(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(get_unsigned(std::numeric_limits<T>::max()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(get_real());
  } else if constexpr (std::same_as<T, std::complex<double>>) {
    return get_complex();
  } else if constexpr (std::same_as<T, std::string>) {
    return std::string(get_text());
  } else if constexpr (std::same_as<T, std::string_view>) {
    return get_text();
  } else {
    static_assert(std::same_as<T, std::span<std::byte const>>, "as<T>() reads plain values; decode<T>(value) reads the others");
    return get_bytes();
  }
}

}  // namespace transload
