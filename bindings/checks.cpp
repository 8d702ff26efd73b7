/// Looks at arrays of integers that compiled code would index with, each in one pass. python/transload/adapters/_checks.py uses them.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "bindings.hpp"
#include "checks.hpp"
#include "guard.hpp"
#include "numpy.hpp"
#include "py.hpp"

#ifdef __x86_64__
#define TRANSLOAD_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TRANSLOAD_VECTOR_CLONES
#endif

namespace nb = nanobind;

namespace transload::py {

namespace {

/// Whether each of `n` values lies in [low, low + extent], compared in the unsigned type, where what is below wraps to above.
template <class T>
TRANSLOAD_VECTOR_CLONES bool within_span(T const* values, std::size_t n, T low, T extent) {
  T bad = 0;
  for (std::size_t i = 0; i < n; ++i) bad |= static_cast<T>(static_cast<T>(values[i] - low) > extent ? 1 : 0);
  return bad == 0;
}

template <class T>
bool within_strided(std::byte const* at, Py_ssize_t n, Py_ssize_t stride, T low, T extent) {
  bool good = true;
  for (Py_ssize_t i = 0; i < n; ++i, at += stride) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    good &= static_cast<T>(value - low) <= extent;
  }
  return good;
}

template <class T>
TRANSLOAD_VECTOR_CLONES bool ascending_span(T const* values, std::size_t n) {
  T bad = 0;
  for (std::size_t i = 1; i < n; ++i) bad |= static_cast<T>(values[i] < values[i - 1] ? 1 : 0);
  return bad == 0;
}

/// The integer type of a buffer's items in this machine's byte order: its size and whether it has a sign.
struct Integers {
  Py_ssize_t nbytes;
  bool is_signed;
};

std::optional<Integers> integers_of(BufferView const& view) {
  char const* format = view->format != nullptr ? view->format : "B";
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (format[0] == 0 || format[1] != 0) return std::nullopt;
  if (std::strchr("bhilq", *format) != nullptr) return Integers{view->itemsize, true};
  if (std::strchr("BHILQ", *format) != nullptr) return Integers{view->itemsize, false};
  return std::nullopt;
}

/// Calls `body` with a zero of the type of the integers.
template <class Body>
std::optional<bool> with_type(Integers integers, Body&& body) {
  switch (integers.nbytes) {
    case 1: return integers.is_signed ? body(std::int8_t{}) : body(std::uint8_t{});
    case 2: return integers.is_signed ? body(std::int16_t{}) : body(std::uint16_t{});
    case 4: return integers.is_signed ? body(std::int32_t{}) : body(std::uint32_t{});
    case 8: return integers.is_signed ? body(std::int64_t{}) : body(std::uint64_t{});
    default: return std::nullopt;
  }
}

template <class T>
bool aligned(BufferView const& view) {
  return reinterpret_cast<std::uintptr_t>(view->buf) % alignof(T) == 0;
}

/// The buffer of an array, or nothing where it has none that says what its items are.
std::optional<BufferView> view_of(nb::handle values) {
  if (PyObject_CheckBuffer(values.ptr()) == 0) return std::nullopt;
  try {
    return BufferView(values.ptr(), PyBUF_RECORDS_RO);
  } catch (Raised const&) {
    PyErr_Clear();
    return std::nullopt;
  }
}

__extension__ using Wide = __int128;  // holds the bounds of every integer type

std::optional<bool> within(BufferView const& view, Wide low, Wide high) {  // both are allowed
  auto const integers = integers_of(view);
  bool const flat = PyBuffer_IsContiguous(view.operator->(), 'C') != 0;
  if (!integers || (!flat && view->ndim != 1)) return std::nullopt;
  if (view->len == 0) return true;
  return with_type(*integers, [&](auto zero) -> std::optional<bool> {
    using T = decltype(zero);
    using Unsigned = std::make_unsigned_t<T>;
    Wide const least = std::max<Wide>(low, std::numeric_limits<T>::min());
    Wide const most = std::min<Wide>(high, std::numeric_limits<T>::max());
    if (most < least) return false;
    auto const first = static_cast<Unsigned>(least);
    auto const extent = static_cast<Unsigned>(most - least);
    auto const* const bytes = static_cast<std::byte const*>(view->buf);
    if (flat && aligned<T>(view)) {
      return within_span<Unsigned>(reinterpret_cast<Unsigned const*>(bytes), static_cast<std::size_t>(view->len) / sizeof(T), first, extent);
    }
    if (view->ndim != 1) return std::nullopt;
    return within_strided<Unsigned>(bytes, view->shape[0], view->strides[0], first, extent);
  });
}

std::optional<bool> ascending(BufferView const& view) {
  auto const integers = integers_of(view);
  if (!integers || view->ndim != 1 || PyBuffer_IsContiguous(view.operator->(), 'C') == 0) return std::nullopt;
  return with_type(*integers, [&](auto zero) -> std::optional<bool> {
    using T = decltype(zero);
    if (!aligned<T>(view)) return std::nullopt;
    return ascending_span<T>(static_cast<T const*>(view->buf), static_cast<std::size_t>(view->shape[0]));
  });
}

/// A bound as far as any of the types can tell it from others.
Wide bound_of(nb::handle bound) {
  int overflow = 0;
  long long const value = PyLong_AsLongLongAndOverflow(bound.ptr(), &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (overflow == 0) return value;
  if (overflow < 0) return static_cast<Wide>(INT64_MIN) - 1;
  unsigned long long const large = PyLong_AsUnsignedLongLong(bound.ptr());
  if (PyErr_Occurred() == nullptr) return large;
  PyErr_Clear();
  return static_cast<Wide>(UINT64_MAX) + 1;
}

nb::object answer(std::optional<bool> known) { return known ? nb::object(nb::bool_(*known)) : nb::none(); }

/// The sign of v | (end - 1 - v) is set where v is below 0 or not below `end`: half the work of a comparison.
TRANSLOAD_VECTOR_CLONES std::int64_t outside(std::int64_t const* values, std::size_t n, std::int64_t last) {
  std::int64_t bad = 0;
  for (std::size_t i = 0; i < n; ++i) bad |= values[i] | (last - values[i]);
  return bad;
}

}  // namespace

bool all_indices_of(std::int64_t const* values, std::size_t n, std::int64_t end) noexcept { return n == 0 || (end > 0 && outside(values, n, end - 1) >= 0); }

void bind_checks(nb::module_& module) {
  module.def(
      "all_within",
      [](nb::handle values, nb::handle least, nb::handle most) {
        auto const view = view_of(values);
        return answer(view ? within(*view, bound_of(least), bound_of(most)) : std::nullopt);
      },
      nb::arg("values").none(), nb::arg("least"), nb::arg("most"), nb::sig("def all_within(values: object, least: int, most: int) -> bool | None"),
      "Whether least ≤ each of an array of integers ≤ most; None for an array of another kind.");
  module.def(
      "large_arrays",
      [](nb::dict state, Py_ssize_t nbytes) {
        nb::list names;
        Numpy const* const np = numpy_if_loaded();
        if (np == nullptr) return names;
        for (auto const [key, value] : state) {
          if (Py_TYPE(value.ptr()) != reinterpret_cast<PyTypeObject*>(np->ndarray)) continue;
          if (nb::cast<Py_ssize_t>(value.attr("nbytes")) > nbytes) names.append(key);
        }
        return names;
      },
      nb::arg("state"), nb::arg("nbytes"), nb::sig("def large_arrays(state: dict[typing.Any, typing.Any], nbytes: int) -> list[typing.Any]"),
      "The keys of the arrays (of exactly NumPy's class) that show more bytes than this.");
  module.def(
      "ascending",
      [](nb::handle values) {
        auto const view = view_of(values);
        return answer(view ? ascending(*view) : std::nullopt);
      },
      nb::arg("values").none(), nb::sig("def ascending(values: object) -> bool | None"),
      "Whether no value of a 1-D array of integers is below the one before; None for an array of another kind.");
}

}  // namespace transload::py
