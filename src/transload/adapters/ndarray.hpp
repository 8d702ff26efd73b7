#pragma once
/// n-dimensional arrays: dtype, shape, strides, and typed access. docs/format.md, "Arrays".

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "transload/base/error.hpp"
#include "transload/message/msgpack.hpp"

namespace transload {

struct DTypeField;

/// What the items of an array are.
struct DType {
  enum class Form : std::uint8_t {
    plain,       ///< order, kind, itemsize, unit
    object,      ///< Python objects; never raw bytes
    structured,  ///< fields
    subarray,    ///< base, shape
  };

  Form form = Form::plain;
  char order = '|';             ///< '<', '>' or '|'
  char kind = 'V';              ///< as NumPy's: b i u f c S U V m M O
  std::uint64_t itemsize = 0;   ///< bytes; of U four a character
  std::string unit;             ///< of m and M, without brackets: "ns", "25s", "" for none
  bool aligned = false;         ///< structured
  std::vector<DTypeField> fields;
  std::shared_ptr<DType const> base;
  std::vector<std::uint64_t> shape;  ///< subarray

  /// Reads a dtype as the header has it. Items are at most 2^31 − 1 bytes, nesting at most 32; a field lies inside its item.
  ///
  /// @throws Error{malformed} with the byte offset.
  [[nodiscard]] static DType parse(msgpack::Reader& reader, bool objects = false);
  /// Parses NumPy's `dtype.str`.
  ///
  /// @throws Error{malformed}.
  [[nodiscard]] static DType parse(std::string_view text, bool objects = false);
  /// The dtype of a C++ type: bool, integers, floats, complex; `|V<size>` for any other trivially copyable type.
  template <class T>
  [[nodiscard]] static DType of();

  /// Writes it as the header has it.
  void pack(msgpack::Packer& out) const;
  /// As NumPy prints it: `<f8`, `{'x': <i4, 'y': <f8}`, `(2,3)<f4`.
  [[nodiscard]] std::string text() const;
  /// Whether raw bytes can hold such items.
  [[nodiscard]] bool raw() const noexcept;
};

struct DTypeField {
  std::string name;
  std::uint64_t offset = 0;
  DType dtype;
  std::string title;
  bool has_title = false;
};

namespace detail {

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::true_type {};

/// The kind letter of a C++ type; 'V' for any other.
template <class T>
[[nodiscard]] constexpr char dtype_kind() noexcept {
  if constexpr (std::same_as<T, bool>) return 'b';
  else if constexpr (std::is_enum_v<T> && !std::same_as<T, std::byte>) return dtype_kind<std::underlying_type_t<T>>();
  else if constexpr (std::same_as<T, std::byte>) return 'u';
  else if constexpr (std::is_floating_point_v<T>) return 'f';
  else if constexpr (std::is_integral_v<T>) return std::is_signed_v<T> ? 'i' : 'u';
  else if constexpr (is_complex<T>::value) return 'c';
  else return 'V';
}

/// Whether items of `dtype` are what a T of kind `kind` and `size` bytes is in memory here.
[[nodiscard]] bool dtype_fits(DType const& dtype, char kind, std::size_t size) noexcept;

[[nodiscard]] constexpr std::string_view kind_name(char kind) noexcept {
  switch (kind) {
    case 'b': return "bool";
    case 'i': return "int";
    case 'u': return "unsigned int";
    case 'f': return "float";
    case 'c': return "complex";
    default: return "record";
  }
}

}  // namespace detail

/// Typed read access to an array's items by index; borrows from the NdView that made it.
template <class T>
class NdSpan {
 public:
  /// `first` is item (0, …, 0) of an array whose items lie in `nbytes` bytes. Made by `NdView::as`, which has checked that.
  NdSpan(std::byte const* first, std::uint64_t nbytes, std::vector<std::uint64_t> shape, std::vector<std::int64_t> strides,
         std::shared_ptr<void const> keeper)
      : first_(first), nbytes_(nbytes), shape_(std::move(shape)), strides_(std::move(strides)), keeper_(std::move(keeper)) {}

  [[nodiscard]] std::span<std::uint64_t const> shape() const noexcept { return shape_; }
  [[nodiscard]] std::size_t ndim() const noexcept { return shape_.size(); }
  [[nodiscard]] std::uint64_t size() const noexcept {
    std::uint64_t n = 1;
    for (std::uint64_t d : shape_) n *= d;
    return n;
  }

  /// Item (i, j, …); one index a dimension.
  ///
  /// @throws Error{malformed} for a wrong number of indices or one outside its dimension.
  template <std::integral... Indices>
  [[nodiscard]] T operator()(Indices... indices) const {
    return at(std::array<std::uint64_t, sizeof...(Indices)>{static_cast<std::uint64_t>(indices)...});
  }
  [[nodiscard]] T at(std::span<std::uint64_t const> indices) const {
    expects(indices.size() == shape_.size(), ErrorKind::malformed,
            [&] { return cat("array: ", indices.size(), " indices, it has ", shape_.size(), " dimensions"); });
    std::byte const* item = first_;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      expects(indices[d] < shape_[d], ErrorKind::malformed,
              [&] { return cat("array: index ", indices[d], " of dimension ", d, ", which has ", shape_[d]); });
      item += static_cast<std::int64_t>(indices[d]) * strides_[d];
    }
    return load(item);
  }

  /// Calls `each(item)` in C order.
  template <class Each>
  void for_each(Each&& each) const {
    if (size() == 0) return;
    std::vector<std::uint64_t> index(shape_.size(), 0);
    std::byte const* item = first_;
    for (;;) {
      each(load(item));
      std::size_t d = shape_.size();
      for (;; --d) {
        if (d == 0) return;
        if (++index[d - 1] < shape_[d - 1]) {
          item += strides_[d - 1];
          break;
        }
        item -= static_cast<std::int64_t>(shape_[d - 1] - 1) * strides_[d - 1];
        index[d - 1] = 0;
      }
    }
  }

  /// Whether the items lie in C order without gaps, aligned for T.
  [[nodiscard]] bool is_contiguous() const noexcept {
    if (reinterpret_cast<std::uintptr_t>(first_) % alignof(T) != 0) return false;
    std::int64_t step = sizeof(T);
    for (std::size_t d = shape_.size(); d-- > 0;) {
      if (shape_[d] == 0) return true;
      if (shape_[d] != 1 && strides_[d] != step) return false;
      step *= static_cast<std::int64_t>(shape_[d]);
    }
    return true;
  }
  /// The items as they lie.
  ///
  /// @throws Error{unsupported} unless `is_contiguous()`.
  [[nodiscard]] std::span<T const> contiguous() const {
    expects(is_contiguous(), ErrorKind::unsupported, "array: its items are not contiguous in C order; to_vector() copies them");
    return {reinterpret_cast<T const*>(first_), static_cast<std::size_t>(size())};
  }

  /// A copy in C order. An array that shows its bytes many times (strides of 0, windows) is not blown up beyond 64 MiB.
  ///
  /// @throws Error{exhausted} for such an array.
  [[nodiscard]] std::vector<T> to_vector() const {
    std::uint64_t const n = size();
    std::uint64_t const most = nbytes_ > (std::uint64_t{64} << 20) ? nbytes_ : std::uint64_t{64} << 20;
    expects(n <= most / sizeof(T), ErrorKind::exhausted, [&] { return cat("array: a copy of ", n, " items that lie in ", nbytes_, " bytes"); });
    std::vector<T> out;
    out.reserve(n);
    if (is_contiguous() && n > 0) {
      auto const items = contiguous();
      out.assign(items.begin(), items.end());
    } else {
      for_each([&](T item) { out.push_back(item); });
    }
    return out;
  }

 private:
  static T load(std::byte const* item) noexcept {
    if constexpr (std::same_as<T, bool>) {
      return *item != std::byte{0};  // any other byte in a C++ bool is undefined
    } else {
      T value;
      std::memcpy(&value, item, sizeof(T));  // an item may lie anywhere in a structured array
      return value;
    }
  }

  std::byte const* first_;
  std::uint64_t nbytes_;
  std::vector<std::uint64_t> shape_;
  std::vector<std::int64_t> strides_;  // bytes
  std::shared_ptr<void const> keeper_;
};

/// An array over bytes that it keeps alive: every item that shape and strides can reach was checked to lie inside them.
/// Copies share the bytes.
class NdView {
 public:
  NdView() = default;

  /// An array in C order (Fortran order when `fortran`) over exactly `bytes`.
  ///
  /// @throws Error{malformed} when shape and item size do not give that many bytes, or overflow.
  NdView(std::shared_ptr<DType const> dtype, std::span<std::byte const> bytes, std::vector<std::uint64_t> shape, bool fortran = false,
         std::shared_ptr<void const> keeper = {});
  /// An array whose item (0, …, 0) lies `offset` bytes into `bytes`, with strides in bytes.
  ///
  /// @throws Error{malformed} when an item lies outside.
  [[nodiscard]] static NdView strided(std::shared_ptr<DType const> dtype, std::span<std::byte const> bytes, std::vector<std::uint64_t> shape,
                                      std::vector<std::int64_t> strides, std::uint64_t offset, std::shared_ptr<void const> keeper = {});
  /// A C++ array, borrowed: `items` has the product of `shape` items in C order; without a shape it has one dimension.
  template <class T>
  [[nodiscard]] static NdView of(std::span<T const> items, std::vector<std::uint64_t> shape = {}, std::shared_ptr<void const> keeper = {}) {
    if (shape.empty()) shape.push_back(items.size());
    return NdView(std::make_shared<DType const>(DType::of<T>()), std::as_bytes(items), std::move(shape), false, std::move(keeper));
  }

  [[nodiscard]] DType const& dtype() const noexcept { return *dtype_; }
  [[nodiscard]] std::size_t ndim() const noexcept { return shape_.size(); }
  [[nodiscard]] std::span<std::uint64_t const> shape() const noexcept { return shape_; }
  [[nodiscard]] std::span<std::int64_t const> strides() const noexcept { return strides_; }  ///< bytes
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }                    ///< of item (0, …, 0) in bytes()
  [[nodiscard]] std::uint64_t size() const noexcept;                                         ///< items
  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return bytes_; }         ///< the whole payload
  [[nodiscard]] bool readonly() const noexcept { return readonly_; }
  void set_readonly(bool readonly) noexcept { readonly_ = readonly; }
  [[nodiscard]] bool c_contiguous() const noexcept;
  [[nodiscard]] bool f_contiguous() const noexcept;
  [[nodiscard]] std::shared_ptr<void const> const& keeper() const noexcept { return keeper_; }

  /// Calls `each(bytes of the item)` in C order, until it returns false.
  template <class Each>
  void for_each_item(Each&& each) const {
    if (size() == 0) return;
    std::vector<std::uint64_t> index(shape_.size(), 0);
    std::byte const* item = bytes_.data() + offset_;
    while (each(std::span<std::byte const>(item, dtype_->itemsize))) {
      std::size_t d = shape_.size();
      for (;; --d) {
        if (d == 0) return;
        if (++index[d - 1] < shape_[d - 1]) {
          item += strides_[d - 1];
          break;
        }
        item -= static_cast<std::int64_t>(shape_[d - 1] - 1) * strides_[d - 1];
        index[d - 1] = 0;
      }
    }
  }

  /// The items as T, which must be what the dtype says, in this machine's byte order; int64_t also reads m and M, and a
  /// trivially copyable struct reads a structured or V dtype of its size.
  ///
  /// @throws Error{malformed} when the items are something else.
  template <class T>
  [[nodiscard]] NdSpan<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>, "an array holds trivially copyable items");
    constexpr char kind = detail::dtype_kind<T>();
    expects(detail::dtype_fits(*dtype_, kind, sizeof(T)), ErrorKind::malformed,
            [&] { return cat("array of ", dtype_->text(), " where ", detail::kind_name(kind), " of ", sizeof(T), " bytes is needed"); });
    return NdSpan<T>(bytes_.data() + offset_, bytes_.size(), shape_, strides_, keeper_);
  }

 private:
  std::shared_ptr<DType const> dtype_ = std::make_shared<DType const>();
  std::span<std::byte const> bytes_;
  std::vector<std::uint64_t> shape_;
  std::vector<std::int64_t> strides_;
  std::uint64_t offset_ = 0;
  bool readonly_ = false;
  std::shared_ptr<void const> keeper_;
};

/// The text of one item of kind U (as UTF-8; what is no character becomes U+FFFD) or S (as it is), without the zeros at its end.
///
/// @throws Error{malformed} for another kind.
[[nodiscard]] std::string text_of(DType const& dtype, std::span<std::byte const> item);

/// `product(shape) × itemsize`.
///
/// @throws Error{malformed} beyond 2^62, also where a 0 in the shape hides it, or beyond 64 dimensions.
[[nodiscard]] std::uint64_t nd_nbytes(std::span<std::uint64_t const> shape, std::uint64_t itemsize);

/// Strides of an array in C order (Fortran order when `fortran`).
[[nodiscard]] std::vector<std::int64_t> nd_strides(std::span<std::uint64_t const> shape, std::uint64_t itemsize, bool fortran);

/// Throws Error{malformed} unless each item lies inside `nbytes` bytes.
void check_strides(std::span<std::uint64_t const> shape, std::span<std::int64_t const> strides, std::uint64_t itemsize,
                   std::uint64_t offset, std::uint64_t nbytes);

template <class T>
DType DType::of() {
  static_assert(std::is_trivially_copyable_v<T>, "an array holds trivially copyable items");
  DType dtype;
  dtype.kind = detail::dtype_kind<T>();
  dtype.itemsize = sizeof(T);
  dtype.order = sizeof(T) == 1 || dtype.kind == 'V' ? '|' : '<';
  return dtype;
}

}  // namespace transload
