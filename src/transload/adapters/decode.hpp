#pragma once
/// C++ objects from values and back: what Python saved from a dataclass, read into an aggregate, and the other way round.
///
/// | C++ | reads | writes |
/// |---|---|---|
/// | bool, integers, floats, complex | bool, int, float, complex, NumPy scalars; ranges are checked | the same |
/// | enum | int; a Python Enum member by its value | int |
/// | std::string, string_view | str | str |
/// | std::vector<std::byte>, span<byte const> | bytes, bytearray, memoryview | bytes |
/// | std::optional<T>, std::unique_ptr<T> | None or T | None or T |
/// | std::vector<number> | 1-d array or list; a wider number takes a narrower one, an integer is range-checked | 1-d array |
/// | std::vector<T>, list, deque, std::array<T, N> | list, tuple, set, object array; of std::string also an array of U or S | list |
/// | std::set<T>, unordered_set | set, frozenset, list | set |
/// | std::pair, std::tuple | tuple, list | tuple |
/// | std::map, unordered_map | dict | dict |
/// | NdView, NdSpan<T>, Value | the value itself, borrowed from the message | NdView: array |
/// | Tree | | itself |
/// | a class with fields (reflect/fields.hpp) | object, dict, instance by its state; every field must be there unless it is optional, others are ignored | object of `python_class<T>`, or dict |

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "transload/adapters/encode.hpp"
#include "transload/adapters/ndarray.hpp"
#include "transload/adapters/value.hpp"
#include "transload/base/error.hpp"
#include "transload/reflect/fields.hpp"

namespace transload {

namespace detail {

/// What the objects of one decode may still take. C++ values have no sharing: a list that names another one twice, which names …,
/// has exponentially many elements when it is copied out.
struct Budget {
  std::uint64_t left = 0;

  void take(std::uint64_t n, std::uint64_t nbytes_each = 1) {
    expects(n <= left / nbytes_each, ErrorKind::exhausted, "the message refers to its parts so often that C++ objects, which share nothing, take too much memory");
    left -= n * nbytes_each;
  }
};

/// Where in the object a decoder is; on the stack, spelled out only when an error needs it.
struct Path {
  Path const* up = nullptr;
  std::string_view name;
  std::size_t index = 0;
  std::size_t depth = 0;
  Budget* budget = nullptr;

  [[nodiscard]] Path field(std::string_view field_name) const { return deeper({this, field_name, 0, depth + 1, budget}); }
  [[nodiscard]] Path element(std::size_t i) const { return deeper({this, {}, i, depth + 1, budget}); }
  [[nodiscard]] std::string text() const {
    if (up == nullptr) return "root";
    return name.empty() ? cat(up->text(), "[", index, "]") : cat(up->text(), ".", name);
  }

 private:
  static Path deeper(Path path) {
    // A class that contains itself would follow a cycle forever.
    expects(path.depth <= 500, ErrorKind::malformed, "root: nested deeper than 500 C++ objects");
    path.budget->take(32);  // about what the smallest element and its place take
    return path;
  }
};

template <class Act>
decltype(auto) with_path(Path const& path, Act&& act) {
  try {
    return act();
  } catch (Error const& error) {
    raise(error.kind(), cat(path.text(), ": ", error.what()));
  }
}

template <class T>
struct is_vector : std::false_type {};
template <class T, class A>
struct is_vector<std::vector<T, A>> : std::true_type {};
template <class T>
struct is_array : std::false_type {};
template <class T, std::size_t N>
struct is_array<std::array<T, N>> : std::true_type {};
template <class T>
struct is_unique : std::false_type {};
template <class T>
struct is_unique<std::unique_ptr<T>> : std::true_type {};
template <class T>
struct is_nd_span : std::false_type {};
template <class T>
struct is_nd_span<NdSpan<T>> : std::true_type {
  using item = T;
};
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; } && !is_array<T>::value;
template <class T>
concept SetLike = Sequence<T> && requires { typename T::key_type; };
template <class T>
concept ArrayItem = std::is_arithmetic_v<T> || is_complex<T>::value;

/// Appends the items of `array`, of type From, as T, unless one does not fit.
template <class T, class From>
void append_items(std::vector<T>& out, NdView const& array) {
  array.as<From>().for_each([&](From item) {
    if constexpr (std::is_integral_v<T>) {
      expects(std::in_range<T>(item), ErrorKind::malformed, [&] { return cat("item ", out.size(), ": ", item, " does not fit"); });
    }
    out.push_back(static_cast<T>(item));
  });
}

template <class T>
std::vector<T> items_of(NdView const& array, Budget& budget) {
  expects(array.ndim() == 1, ErrorKind::malformed, [&] { return cat("an array of ", array.ndim(), " dimensions where 1 is needed"); });
  DType const& dtype = array.dtype();
  budget.take(array.size(), sizeof(T));
  if constexpr (!std::same_as<T, bool>) {
    if (dtype_fits(dtype, dtype_kind<T>(), sizeof(T))) return array.as<T>().to_vector();
  }
  std::vector<T> out;
  expects(array.size() <= std::max<std::uint64_t>(array.bytes().size(), std::uint64_t{1} << 20), ErrorKind::exhausted,
          [&] { return cat("a copy of ", array.size(), " items that lie in ", array.bytes().size(), " bytes"); });
  if constexpr (std::same_as<T, bool>) {
    array.as<bool>().for_each([&](bool item) { out.push_back(item); });
    return out;
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (dtype.form == DType::Form::plain && dtype.order != '>') {
      if constexpr (std::is_floating_point_v<T>) {
        if (dtype.kind == 'f' && dtype.itemsize == 4 && sizeof(T) > 4) return append_items<T, float>(out, array), out;
        if (dtype.kind == 'f' && dtype.itemsize == 8 && sizeof(T) > 8) return append_items<T, double>(out, array), out;
      }
      if (dtype.kind == 'i') {
        switch (dtype.itemsize) {
          case 1: return append_items<T, std::int8_t>(out, array), out;
          case 2: return append_items<T, std::int16_t>(out, array), out;
          case 4: return append_items<T, std::int32_t>(out, array), out;
          default: return append_items<T, std::int64_t>(out, array), out;
        }
      }
      if (dtype.kind == 'u') {
        switch (dtype.itemsize) {
          case 1: return append_items<T, std::uint8_t>(out, array), out;
          case 2: return append_items<T, std::uint16_t>(out, array), out;
          case 4: return append_items<T, std::uint32_t>(out, array), out;
          default: return append_items<T, std::uint64_t>(out, array), out;
        }
      }
    }
  }
  raise(ErrorKind::malformed, cat("an array of ", dtype.text(), " where ", kind_name(dtype_kind<T>()), " of ", sizeof(T), " bytes is needed"));
}

template <class T>
T read(Value const& value, Path const& path);

/// The elements of a sequence, one by one.
template <class Each>
void for_each_element(Value const& value, Path const& path, Each&& each) {
  switch (value.kind()) {
    case ValueKind::list:
    case ValueKind::tuple:
    case ValueKind::set:
    case ValueKind::frozenset:
    case ValueKind::object_array: break;
    default: raise(ErrorKind::malformed, cat(path.text(), ": ", to_string(value.kind()), " where a list is needed"));
  }
  for (std::size_t i = 0; i < value.size(); ++i) each(value[i], i);
}

template <class T, std::size_t... I>
T read_tuple(Value const& value, Path const& path, std::index_sequence<I...>) {
  expects((value.kind() == ValueKind::tuple || value.kind() == ValueKind::list) && value.size() == sizeof...(I), ErrorKind::malformed, [&] {
    return cat(path.text(), ": ", to_string(value.kind()), " of ", value.size(), " where a tuple of ", sizeof...(I), " is needed");
  });
  return T{read<std::remove_cvref_t<std::tuple_element_t<I, T>>>(value[I], path.element(I))...};
}

template <class T>
void read_fields(T& object, Value const& value, Path const& path) {
  switch (value.kind()) {
    case ValueKind::dict:
    case ValueKind::object:
    case ValueKind::instance:
    case ValueKind::reduce: break;
    default: raise(ErrorKind::malformed, cat(path.text(), ": ", to_string(value.kind()), " where an object or dict is needed"));
  }
  for_each_field(object, [&]<class F>(std::string_view name, F& field) {
    auto const found = value.get(name);
    if (!found) {
      if constexpr (Optional<F>) {
        field.reset();
        return;
      } else {
        raise(ErrorKind::malformed, cat(path.text(), ".", name, ": the field is missing"));
      }
    }
    field = read<F>(*found, path.field(name));
  });
}

template <class T>
T read(Value const& value, Path const& path) {
  if constexpr (std::same_as<T, Value>) {
    return value;
  } else if constexpr (std::same_as<T, NdView>) {
    return with_path(path, [&] { return value.array(); });
  } else if constexpr (is_nd_span<T>::value) {
    return with_path(path, [&] { return value.as_array<typename is_nd_span<T>::item>(); });
  } else if constexpr (std::is_enum_v<T>) {
    if (value.kind() == ValueKind::reduce && value.args().size() == 1) return read<T>(value.args()[0], path);
    return static_cast<T>(read<std::underlying_type_t<T>>(value, path));
  } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::complex<double>> || std::same_as<T, std::string> ||
                       std::same_as<T, std::string_view> || std::same_as<T, std::span<std::byte const>>) {
    return with_path(path, [&] {
      if constexpr (std::same_as<T, std::string>) path.budget->take(value.as<std::string_view>().size());
      return value.as<T>();
    });
  } else if constexpr (Optional<T>) {
    if (value.is_none()) return std::nullopt;
    return read<typename T::value_type>(value, path);
  } else if constexpr (is_unique<T>::value) {
    if (value.is_none()) return nullptr;
    return std::make_unique<typename T::element_type>(read<typename T::element_type>(value, path.element(0)));
  } else if constexpr (std::same_as<T, std::vector<std::byte>>) {
    auto const bytes = with_path(path, [&] {
      auto const found = value.as<std::span<std::byte const>>();
      path.budget->take(found.size());
      return found;
    });
    return T(bytes.begin(), bytes.end());
  } else if constexpr (is_array<T>::value) {
    using Item = typename T::value_type;
    T out{};
    auto const check = [&](std::size_t n) {
      expects(n == out.size(), ErrorKind::malformed, [&] { return cat(path.text(), ": ", n, " elements where ", out.size(), " are needed"); });
    };
    if constexpr (ArrayItem<Item>) {
      if (value.kind() == ValueKind::array) {
        auto const items = with_path(path, [&] { return items_of<Item>(value.array(), *path.budget); });
        check(items.size());
        std::copy(items.begin(), items.end(), out.begin());
        return out;
      }
    }
    check(value.size());
    for_each_element(value, path, [&](Value const& element, std::size_t i) { out[i] = read<Item>(element, path.element(i)); });
    return out;
  } else if constexpr (TupleLike<T>) {
    return read_tuple<T>(value, path, std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (Mapping<T>) {
    if (value.kind() != ValueKind::dict && value.kind() != ValueKind::object) {
      raise(ErrorKind::malformed, cat(path.text(), ": ", to_string(value.kind()), " where a dict is needed"));
    }
    T out;
    for (std::size_t i = 0; i < value.size(); ++i) {
      auto const [key, mapped] = value.pair(i);
      std::string_view const text = value.key(i);
      Path const at = text.empty() ? path.element(i) : path.field(text);
      out.insert_or_assign(read<typename T::key_type>(key, at), read<typename T::mapped_type>(mapped, at));
    }
    return out;
  } else if constexpr (Sequence<T>) {
    using Item = typename T::value_type;
    if constexpr (is_vector<T>::value && ArrayItem<Item>) {
      if (value.kind() == ValueKind::array) return with_path(path, [&] { return items_of<Item>(value.array(), *path.budget); });
    }
    T out;
    if constexpr (std::same_as<Item, std::string>) {
      if (value.kind() == ValueKind::array) {
        with_path(path, [&] {
          NdView const array = value.array();
          expects(array.ndim() == 1, ErrorKind::malformed, [&] { return cat("an array of ", array.ndim(), " dimensions where 1 is needed"); });
          array.for_each_item([&](std::span<std::byte const> item) {
            path.budget->take(sizeof(std::string) + item.size());
            out.insert(out.end(), text_of(array.dtype(), item));
            return true;
          });
        });
        return out;
      }
    }
    for_each_element(value, path, [&](Value const& element, std::size_t i) {
      if constexpr (SetLike<T>) {
        out.insert(read<Item>(element, path.element(i)));
      } else {
        out.push_back(read<Item>(element, path.element(i)));
      }
    });
    return out;
  } else if constexpr (Reflected<T>) {
    T out{};
    read_fields(out, value, path);
    return out;
  } else {
    static_assert(Reflected<T>, "this type cannot be decoded: make it an aggregate or list its fields with TRANSLOAD_FIELDS");
  }
}

template <class T>
void write(Encoder& encoder, T const& object) {
  if constexpr (std::same_as<T, std::nullptr_t>) {
    encoder.none();
  } else if constexpr (std::same_as<T, Tree>) {
    encoder.tree(object);
  } else if constexpr (std::same_as<T, NdView>) {
    encoder.array(object);
  } else if constexpr (std::same_as<T, bool>) {
    encoder.boolean(object);
  } else if constexpr (std::is_enum_v<T>) {
    write(encoder, static_cast<std::underlying_type_t<T>>(object));
  } else if constexpr (std::is_floating_point_v<T>) {
    encoder.real(static_cast<double>(object));
  } else if constexpr (std::signed_integral<T>) {
    encoder.integer(object);
  } else if constexpr (std::unsigned_integral<T>) {
    encoder.unsigned_integer(object);
  } else if constexpr (is_complex<T>::value) {
    encoder.complex(object);
  } else if constexpr (std::is_convertible_v<T const&, std::string_view>) {
    encoder.str(object);
  } else if constexpr (std::is_convertible_v<T const&, std::span<std::byte const>>) {
    encoder.bytes(object);
  } else if constexpr (Optional<T> || is_unique<T>::value) {
    if (object) {
      write(encoder, *object);
    } else {
      encoder.none();
    }
  } else if constexpr (TupleLike<T>) {
    encoder.begin(Op::tuple, std::tuple_size_v<T>);
    std::apply([&](auto const&... parts) { (write(encoder, parts), ...); }, object);
  } else if constexpr (Mapping<T>) {
    encoder.begin_dict(object.size());
    for (auto const& [key, value] : object) {
      write(encoder, key);
      write(encoder, value);
    }
  } else if constexpr (Sequence<T>) {
    using Item = typename T::value_type;
    if constexpr (is_vector<T>::value && ArrayItem<Item> && !std::same_as<Item, bool>) {
      encoder.array(NdView::of(std::span<Item const>(object)));
    } else if constexpr (is_array<T>::value && ArrayItem<Item>) {
      encoder.array(NdView::of(std::span<Item const>(object)));
    } else {
      std::size_t n = 0;
      for (auto at = object.begin(); at != object.end(); ++at) ++n;
      encoder.begin(SetLike<T> ? Op::set : Op::list, n);
      for (auto const& item : object) write(encoder, static_cast<Item const&>(item));
    }
  } else if constexpr (Reflected<T>) {
    static constexpr auto names = field_names<T>();
    if constexpr (python_class<T>.empty()) {
      encoder.begin_record(names);
    } else {
      encoder.begin_object(python_class<T>, names);
    }
    for_each_field(object, [&](std::string_view, auto const& field) { write(encoder, field); });
  } else {
    static_assert(Reflected<T>, "this type cannot be encoded: make it an aggregate or list its fields with TRANSLOAD_FIELDS");
  }
}

}  // namespace detail

/// Reads `value` into a T; see the table at the top.
///
/// @throws Error{malformed} with the path of the field that does not fit, what came and what was needed; Error{exhausted} where
/// parts that are referred to again and again would take more than a gigabyte and 64 times the bytes of the message.
template <class T>
[[nodiscard]] T decode(Value const& value) {
  // What is referred to often may be copied often, up to a gigabyte and 64 times the message.
  detail::Budget budget{(std::uint64_t{1} << 30) + 64 * value.message_nbytes()};
  return detail::read<T>(value, detail::Path{.up = nullptr, .name = {}, .index = 0, .depth = 0, .budget = &budget});
}

/// Writes `object` as the next node of `encoder`. Arrays and bytes are borrowed from it.
template <class T>
void encode(Encoder& encoder, T const& object) {
  detail::write(encoder, object);
}

}  // namespace transload
