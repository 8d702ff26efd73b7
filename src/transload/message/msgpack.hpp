#pragma once
/// msgpack as the header uses it: an appending writer and a bounds-checked pull reader.
///
/// Both are in the hot path of every message (one call a value), which is why they are ours: msgpack-cxx parses by
/// visitor only, and a walk that builds Python objects wants to pull. tests/unit/msgpack_test.cpp holds them against
/// msgpack-cxx. Ext types, float 32 and invalid lengths are refused (docs/format.md, "Nodes").

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "transload/base/error.hpp"

namespace transload::msgpack {

namespace detail {

template <class T>
[[nodiscard]] inline T to_big_endian(T value) noexcept {
  static_assert(std::endian::native == std::endian::little, "transload runs on little-endian machines");
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(value)));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
}

}  // namespace detail

/// Appends msgpack values to one growing buffer. Integers and lengths take their shortest form.
class Packer {
 public:
  Packer() = default;
  Packer(Packer&& other) noexcept { swap(other); }
  Packer& operator=(Packer&& other) noexcept {
    swap(other);
    return *this;
  }
  Packer(Packer const&) = delete;
  Packer& operator=(Packer const&) = delete;
  ~Packer() { std::free(data_); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return {data_, size_}; }
  void clear() noexcept { size_ = 0; }
  void reserve(std::size_t nbytes) {
    if (nbytes > capacity_) grow(nbytes - size_);
  }

  void nil() { put(0xc0); }
  void boolean(bool value) { put(value ? 0xc3 : 0xc2); }

  void integer(std::int64_t value) {
    if (value >= 0) {
      unsigned_integer(static_cast<std::uint64_t>(value));
    } else if (value >= -32) {
      put(static_cast<std::uint8_t>(value));
    } else if (value >= INT8_MIN) {
      put(0xd0, static_cast<std::uint8_t>(value));
    } else if (value >= INT16_MIN) {
      put(0xd1, static_cast<std::uint16_t>(value));
    } else if (value >= INT32_MIN) {
      put(0xd2, static_cast<std::uint32_t>(value));
    } else {
      put(0xd3, static_cast<std::uint64_t>(value));
    }
  }

  void unsigned_integer(std::uint64_t value) {
    if (value < 0x80) {
      put(static_cast<std::uint8_t>(value));
    } else if (value <= UINT8_MAX) {
      put(0xcc, static_cast<std::uint8_t>(value));
    } else if (value <= UINT16_MAX) {
      put(0xcd, static_cast<std::uint16_t>(value));
    } else if (value <= UINT32_MAX) {
      put(0xce, static_cast<std::uint32_t>(value));
    } else {
      put(0xcf, value);
    }
  }

  void real(double value) { put(0xcb, std::bit_cast<std::uint64_t>(value)); }

  /// `text` must be valid UTF-8; the writer does not check it.
  void str(std::string_view text) {
    std::size_t const n = text.size();
    if (n < 32) {
      put(static_cast<std::uint8_t>(0xa0 | n));
    } else if (n <= UINT8_MAX) {
      put(0xd9, static_cast<std::uint8_t>(n));
    } else if (n <= UINT16_MAX) {
      put(0xda, static_cast<std::uint16_t>(n));
    } else {
      put(0xdb, length32(n));
    }
    append(text.data(), n);
  }

  void bin(std::span<std::byte const> bytes) {
    std::size_t const n = bytes.size();
    if (n <= UINT8_MAX) {
      put(0xc4, static_cast<std::uint8_t>(n));
    } else if (n <= UINT16_MAX) {
      put(0xc5, static_cast<std::uint16_t>(n));
    } else {
      put(0xc6, length32(n));
    }
    append(bytes.data(), n);
  }

  void array(std::size_t count) {
    if (count < 16) {
      put(static_cast<std::uint8_t>(0x90 | count));
    } else if (count <= UINT16_MAX) {
      put(0xdc, static_cast<std::uint16_t>(count));
    } else {
      put(0xdd, length32(count));
    }
  }

  void map(std::size_t count) {
    if (count < 16) {
      put(static_cast<std::uint8_t>(0x80 | count));
    } else if (count <= UINT16_MAX) {
      put(0xde, static_cast<std::uint16_t>(count));
    } else {
      put(0xdf, length32(count));
    }
  }

  /// Bytes that are msgpack already.
  void raw(std::span<std::byte const> bytes) { append(bytes.data(), bytes.size()); }

  /// Puts `bytes` (msgpack already) before what was written from `at` on.
  void insert(std::size_t at, std::span<std::byte const> bytes) {
    expects(at <= size_, ErrorKind::failed, "Packer::insert behind the end");
    need(bytes.size());
    std::memmove(data_ + at + bytes.size(), data_ + at, size_ - at);
    std::memcpy(data_ + at, bytes.data(), bytes.size());
    size_ += bytes.size();
  }

 private:
  void put(std::uint8_t first) {
    need(1);
    data_[size_++] = static_cast<std::byte>(first);
  }

  template <class T>
  void put(std::uint8_t first, T value) {
    need(1 + sizeof(T));
    data_[size_] = static_cast<std::byte>(first);
    T const big = detail::to_big_endian(value);
    std::memcpy(data_ + size_ + 1, &big, sizeof(T));
    size_ += 1 + sizeof(T);
  }

  void append(void const* bytes, std::size_t n) {
    if (n == 0) return;
    need(n);
    std::memcpy(data_ + size_, bytes, n);
    size_ += n;
  }

  static std::uint32_t length32(std::size_t n) {
    expects(n <= UINT32_MAX, ErrorKind::unsupported, [&] { return cat("a msgpack value of ", n, " bytes or elements; 4294967295 are the most"); });
    return static_cast<std::uint32_t>(n);
  }

  void need(std::size_t n) {
    if (capacity_ - size_ < n) [[unlikely]] grow(n);
  }

  void grow(std::size_t n) {
    std::size_t wanted = capacity_ == 0 ? 512 : capacity_ * 2;
    if (wanted < size_ + n) wanted = size_ + n;
    void* const bigger = std::realloc(data_, wanted);
    if (bigger == nullptr) throw std::bad_alloc{};
    data_ = static_cast<std::byte*>(bigger);
    capacity_ = wanted;
  }

  void swap(Packer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

enum class Type : std::uint8_t { nil, boolean, integer, big_unsigned, real, str, bin, array, map };

[[nodiscard]] constexpr std::string_view to_string(Type type) noexcept {
  switch (type) {
    case Type::nil: return "nil";
    case Type::boolean: return "bool";
    case Type::integer:
    case Type::big_unsigned: return "int";
    case Type::real: return "float";
    case Type::str: return "str";
    case Type::bin: return "bin";
    case Type::array: return "array";
    case Type::map: return "map";
  }
  return "?";
}

/// One value, or the head of an array or map whose elements follow.
struct Token {
  Type type;
  union {
    bool boolean;
    std::int64_t integer;        ///< Type::integer
    std::uint64_t big_unsigned;  ///< Type::big_unsigned: above INT64_MAX
    double real;
    std::size_t size;  ///< str, bin: bytes; array: elements; map: pairs
  };
  std::byte const* data;  ///< str, bin: the bytes, inside the reader's span

  [[nodiscard]] std::string_view text() const noexcept { return {reinterpret_cast<char const*>(data), size}; }
  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return {data, size}; }
};

/// Reads one value after the other. Borrows the bytes. Every length is checked against what is left before it is
/// returned, so an array's count never exceeds the bytes that could hold its elements.
///
/// @throws Error{malformed} with the byte offset.
class Reader {
 public:
  explicit Reader(std::span<std::byte const> bytes) noexcept
      : begin_(bytes.data()), at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] std::size_t offset() const noexcept { return static_cast<std::size_t>(at_ - begin_); }
  [[nodiscard]] std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  [[nodiscard]] bool done() const noexcept { return at_ == end_; }
  void seek(std::size_t offset) noexcept { at_ = begin_ + offset; }
  [[nodiscard]] std::span<std::byte const> since(std::size_t offset) const noexcept { return {begin_ + offset, at_}; }

  [[nodiscard]] Token next() {
    if (at_ == end_) fail_here("ends in the middle of a value");
    auto const first = static_cast<std::uint8_t>(*at_++);
    if (first < 0x80) return integer(first);
    if (first >= 0xe0) return integer(static_cast<std::int8_t>(first));
    if (first < 0x90) return map(first & 0x0f);
    if (first < 0xa0) return array(first & 0x0f);
    if (first < 0xc0) return sized(Type::str, first & 0x1f);
    switch (first) {
      case 0xc0: return Token{.type = Type::nil, .integer = 0, .data = nullptr};
      case 0xc2: return Token{.type = Type::boolean, .boolean = false, .data = nullptr};
      case 0xc3: return Token{.type = Type::boolean, .boolean = true, .data = nullptr};
      case 0xc4: return sized(Type::bin, take<std::uint8_t>());
      case 0xc5: return sized(Type::bin, take<std::uint16_t>());
      case 0xc6: return sized(Type::bin, take<std::uint32_t>());
      case 0xcb: return Token{.type = Type::real, .real = std::bit_cast<double>(take<std::uint64_t>()), .data = nullptr};
      case 0xcc: return integer(take<std::uint8_t>());
      case 0xcd: return integer(take<std::uint16_t>());
      case 0xce: return integer(take<std::uint32_t>());
      case 0xcf: {
        auto const value = take<std::uint64_t>();
        if (value > INT64_MAX) return Token{.type = Type::big_unsigned, .big_unsigned = value, .data = nullptr};
        return integer(static_cast<std::int64_t>(value));
      }
      case 0xd0: return integer(static_cast<std::int8_t>(take<std::uint8_t>()));
      case 0xd1: return integer(static_cast<std::int16_t>(take<std::uint16_t>()));
      case 0xd2: return integer(static_cast<std::int32_t>(take<std::uint32_t>()));
      case 0xd3: return integer(static_cast<std::int64_t>(take<std::uint64_t>()));
      case 0xd9: return sized(Type::str, take<std::uint8_t>());
      case 0xda: return sized(Type::str, take<std::uint16_t>());
      case 0xdb: return sized(Type::str, take<std::uint32_t>());
      case 0xdc: return array(take<std::uint16_t>());
      case 0xdd: return array(take<std::uint32_t>());
      case 0xde: return map(take<std::uint16_t>());
      case 0xdf: return map(take<std::uint32_t>());
      default: --at_; fail_here(cat("msgpack type byte ", static_cast<int>(first), " has no meaning here"));
    }
  }

  /// The next value's type byte without reading it.
  [[nodiscard]] std::uint8_t peek() const {
    if (at_ == end_) fail_here("ends in the middle of a value");
    return static_cast<std::uint8_t>(*at_);
  }
  [[nodiscard]] bool next_is_array() const { return is_array(peek()); }
  [[nodiscard]] bool next_is_map() const {
    auto const b = peek();
    return (b & 0xf0) == 0x80 || b == 0xde || b == 0xdf;
  }
  [[nodiscard]] bool next_is_str() const { return is_str(peek()); }
  [[nodiscard]] static constexpr bool is_str(std::uint8_t b) noexcept { return (b & 0xe0) == 0xa0 || (b >= 0xd9 && b <= 0xdb); }
  [[nodiscard]] static constexpr bool is_array(std::uint8_t b) noexcept { return (b & 0xf0) == 0x90 || b == 0xdc || b == 0xdd; }

  /// Reads a value of the wanted type; `field` names it in the error.
  [[nodiscard]] std::size_t array(std::string_view field) { return expect(Type::array, field).size; }
  [[nodiscard]] std::size_t map(std::string_view field) { return expect(Type::map, field).size; }
  [[nodiscard]] std::string_view str(std::string_view field) { return expect(Type::str, field).text(); }
  [[nodiscard]] std::span<std::byte const> bin(std::string_view field) { return expect(Type::bin, field).bytes(); }
  [[nodiscard]] std::int64_t integer(std::string_view field) { return expect(Type::integer, field).integer; }
  [[nodiscard]] bool boolean(std::string_view field) { return expect(Type::boolean, field).boolean; }
  /// An int in 0 … `most`.
  [[nodiscard]] std::uint64_t count(std::string_view field, std::uint64_t most) {
    std::size_t const at = offset();
    auto const value = integer(field);
    if (value < 0 || static_cast<std::uint64_t>(value) > most) fail_at(at, cat(field, ": ", value, " is not in 0 … ", most));
    return static_cast<std::uint64_t>(value);
  }

  /// Passes over one value with all it contains, without recursion.
  void skip() {
    // Every message is passed over once before its root is read, so the common one-byte heads go without a Token
    // (5.3 ms for a header of 2.1 MB before, 3.2 now).
    std::size_t open = 1;
    while (open > 0) {
      --open;
      if (at_ == end_) fail_here("ends in the middle of a value");
      auto const first = static_cast<std::uint8_t>(*at_);
      if (first < 0x80 || first >= 0xe0 || first == 0xc0 || first == 0xc2 || first == 0xc3) {
        ++at_;
      } else if (first < 0x90) {
        ++at_;
        open += 2 * static_cast<std::size_t>(first & 0x0f);
      } else if (first < 0xa0) {
        ++at_;
        open += first & 0x0f;
      } else if (first < 0xc0 && remaining() > static_cast<std::size_t>(first & 0x1f)) {
        at_ += 1 + (first & 0x1f);
      } else if (first == 0xcb && remaining() > 8) {
        at_ += 9;
      } else {
        Token const token = next();
        if (token.type == Type::array) open += token.size;
        if (token.type == Type::map) open += 2 * token.size;
      }
    }
  }

  [[noreturn]] void fail_here(std::string_view what) const { fail_at(offset(), what); }
  [[noreturn]] static void fail_at(std::size_t offset, std::string_view what) {
    throw Error(ErrorKind::malformed, cat("header byte ", offset, ": ", what));
  }

 private:
  static Token integer(std::int64_t value) noexcept { return Token{.type = Type::integer, .integer = value, .data = nullptr}; }

  Token sized(Type type, std::size_t n) {
    if (remaining() < n) fail_here(cat(to_string(type), " of ", n, " bytes, ", remaining(), " are left"));
    Token const token{.type = type, .size = n, .data = at_};
    at_ += n;
    return token;
  }

  Token array(std::size_t n) {
    if (remaining() < n) fail_here(cat("array of ", n, " elements, ", remaining(), " bytes are left"));
    return Token{.type = Type::array, .size = n, .data = nullptr};
  }

  Token map(std::size_t n) {
    if (remaining() / 2 < n) fail_here(cat("map of ", n, " pairs, ", remaining(), " bytes are left"));
    return Token{.type = Type::map, .size = n, .data = nullptr};
  }

  template <class T>
  T take() {
    if (remaining() < sizeof(T)) fail_here("ends in the middle of a number");
    T value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return detail::to_big_endian(value);
  }

  Token expect(Type type, std::string_view field) {
    std::size_t const at = offset();
    Token const token = next();
    if (token.type != type) fail_at(at, cat(field, ": ", to_string(token.type), " where ", to_string(type), " is needed"));
    return token;
  }

  std::byte const* begin_;
  std::byte const* at_;
  std::byte const* end_;
};

}  // namespace transload::msgpack
