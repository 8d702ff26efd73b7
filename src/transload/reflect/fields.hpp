#pragma once
/// The fields of a C++ class by name, read at compile time. An aggregate needs no declaration:
///
///   struct Order { std::int64_t id; std::string customer; std::vector<double> prices; };
///   static_assert(transload::field_names<Order>()[1] == "customer");
///
/// A class with constructors or private members lists its fields in one line inside it: `TRANSLOAD_FIELDS(id_, customer_)`.
/// A field's name is the member's, without underscores at its end. Aggregates have at most 48 members, no base classes and
/// no C arrays (std::array is fine). g++ 12 and clang 14 at least.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace transload {

/// The Python class that objects of T are on the wire, `module:Class`: specialise it, or give T a
/// `static constexpr std::string_view transload_class`. Empty: T is written as a dict.
template <class T>
inline constexpr std::string_view python_class = [] {
  if constexpr (requires { T::transload_class; }) {
    return std::string_view(T::transload_class);
  } else {
    return std::string_view();
  }
}();

namespace detail {

inline constexpr std::size_t most_fields = 48;

/// Converts to anything but T, so that a copy of T does not count as its first member.
template <class T>
struct AnyBut {
  template <class U>
    requires(!std::is_same_v<std::remove_cvref_t<U>, T>)
  operator U() const noexcept {  // NOLINT: only named, never called
    __builtin_unreachable();
  }
};

template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyBut<T>{})...}; };
}

/// How many members an aggregate has: the most initialisers that it takes.
template <class T, std::size_t N = most_fields + 1>
consteval std::size_t count_members() {
  if constexpr (takes<T>(std::make_index_sequence<N>{})) {
    return N;
  } else if constexpr (N == 0) {
    return 0;
  } else {
    return count_members<T, N - 1>();
  }
}

/// References to the members of an aggregate, in order.
// clang-format off
template <class T>
constexpr auto tie_members(T& object) {
  constexpr std::size_t count = count_members<std::remove_const_t<T>>();
  static_assert(count <= most_fields, "this aggregate has more members than reflect/fields.hpp counts; list them with TRANSLOAD_FIELDS");
  if constexpr (count == 0) { return std::tuple<>(); }
  else if constexpr (count == 1) { auto& [f0] = object; return std::tie(f0); }
  else if constexpr (count == 2) { auto& [f0, f1] = object; return std::tie(f0, f1); }
  else if constexpr (count == 3) { auto& [f0, f1, f2] = object; return std::tie(f0, f1, f2); }
  else if constexpr (count == 4) { auto& [f0, f1, f2, f3] = object; return std::tie(f0, f1, f2, f3); }
  else if constexpr (count == 5) { auto& [f0, f1, f2, f3, f4] = object; return std::tie(f0, f1, f2, f3, f4); }
  else if constexpr (count == 6) { auto& [f0, f1, f2, f3, f4, f5] = object; return std::tie(f0, f1, f2, f3, f4, f5); }
  else if constexpr (count == 7) { auto& [f0, f1, f2, f3, f4, f5, f6] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6); }
  else if constexpr (count == 8) { auto& [f0, f1, f2, f3, f4, f5, f6, f7] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7); }
  else if constexpr (count == 9) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8); }
  else if constexpr (count == 10) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9); }
  else if constexpr (count == 11) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10); }
  else if constexpr (count == 12) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11); }
  else if constexpr (count == 13) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12); }
  else if constexpr (count == 14) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13); }
  else if constexpr (count == 15) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14); }
  else if constexpr (count == 16) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15); }
  else if constexpr (count == 17) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16); }
  else if constexpr (count == 18) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17); }
  else if constexpr (count == 19) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18); }
  else if constexpr (count == 20) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19); }
  else if constexpr (count == 21) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20); }
  else if constexpr (count == 22) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21); }
  else if constexpr (count == 23) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22); }
  else if constexpr (count == 24) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23); }
  else if constexpr (count == 25) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24); }
  else if constexpr (count == 26) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25); }
  else if constexpr (count == 27) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26); }
  else if constexpr (count == 28) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27); }
  else if constexpr (count == 29) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28); }
  else if constexpr (count == 30) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29); }
  else if constexpr (count == 31) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30); }
  else if constexpr (count == 32) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31); }
  else if constexpr (count == 33) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32); }
  else if constexpr (count == 34) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33); }
  else if constexpr (count == 35) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34); }
  else if constexpr (count == 36) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35); }
  else if constexpr (count == 37) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36); }
  else if constexpr (count == 38) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37); }
  else if constexpr (count == 39) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38); }
  else if constexpr (count == 40) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39); }
  else if constexpr (count == 41) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40); }
  else if constexpr (count == 42) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41); }
  else if constexpr (count == 43) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42); }
  else if constexpr (count == 44) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43); }
  else if constexpr (count == 45) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44); }
  else if constexpr (count == 46) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45); }
  else if constexpr (count == 47) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46); }
  else if constexpr (count == 48) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47); }
}
// clang-format on

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-internal"
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
/// An object that is never made: its members' addresses are names at compile time.
template <class T>
struct Nowhere {
  T const object;
  static Nowhere<T> const instance;
};

template <class P>
struct Pointer {
  P value;
};
template <class P>
Pointer(P) -> Pointer<P>;

template <class T, std::size_t I>
consteval auto member_pointer() {
  return Pointer{&std::get<I>(tie_members(Nowhere<T>::instance.object))};
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// The member's name out of the compiler's own text for a template argument that points to it:
/// g++ `… P = …Pointer<…>{(& Nowhere<A>::instance.….A::name)}; …`, clang `… [P = {&instance.object.name}]`.
template <auto P>
consteval std::string_view pointed_name() {
  std::string_view text = __PRETTY_FUNCTION__;
#if defined(__clang__)
  text = text.substr(0, text.rfind("}]"));
#else
  text = text.substr(0, text.rfind(")}"));
#endif
  return text.substr(text.find_last_of(":.") + 1);
}

constexpr std::string_view without_underscores(std::string_view name) {
  while (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  return name;
}

template <class T>
concept HasFieldList = requires { T::transload_field_list(); };

template <std::size_t N>
consteval std::array<std::string_view, N> split_names(std::string_view list) {
  std::array<std::string_view, N> names{};
  for (std::size_t i = 0; i < N; ++i) {
    std::size_t const comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    names[i] = without_underscores(name);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return names;
}

template <class T, std::size_t... I>
consteval auto aggregate_names(std::index_sequence<I...>) {
  return std::array<std::string_view, sizeof...(I)>{without_underscores(pointed_name<member_pointer<T, I>()>())...};
}

}  // namespace detail

/// Lists the fields of a class that is no aggregate; stands inside the class, in its public part.
#define TRANSLOAD_FIELDS(...)                                                                 \
  static constexpr std::string_view transload_field_list() { return #__VA_ARGS__; }           \
  auto transload_tie() { return std::tie(__VA_ARGS__); }                                      \
  auto transload_tie() const { return std::tie(__VA_ARGS__); }                                \
  static_assert(true, "so that a semicolon may stand behind it")

/// A class whose fields are known: an aggregate, or one with TRANSLOAD_FIELDS.
template <class T>
concept Reflected = std::is_class_v<T> && (detail::HasFieldList<T> || (std::is_aggregate_v<T> && !requires { std::tuple_size<T>::value; }));

/// References to the fields of `object`, in order.
template <class T>
  requires Reflected<std::remove_const_t<T>>
constexpr auto tie_fields(T& object) {
  if constexpr (detail::HasFieldList<std::remove_const_t<T>>) {
    return object.transload_tie();
  } else {
    return detail::tie_members(object);
  }
}

template <Reflected T>
inline constexpr std::size_t nfields = std::tuple_size_v<decltype(tie_fields(std::declval<T&>()))>;

/// The names of the fields, in order.
template <Reflected T>
consteval std::array<std::string_view, nfields<T>> field_names() {
  if constexpr (detail::HasFieldList<T>) {
    return detail::split_names<nfields<T>>(T::transload_field_list());
  } else {
    return detail::aggregate_names<T>(std::make_index_sequence<nfields<T>>{});
  }
}

/// Calls `each(name, field)` for every field, in order.
template <class T, class Each>
  requires Reflected<std::remove_const_t<T>>
constexpr void for_each_field(T& object, Each&& each) {
  constexpr auto names = field_names<std::remove_const_t<T>>();
  std::apply([&](auto&... fields) { std::size_t i = 0; (each(names[i++], fields), ...); }, tie_fields(object));
}

namespace detail {

template <class T>
concept Mapping = requires { typename T::key_type; typename T::mapped_type; };
template <class T>
concept Sequence = requires(T t) { typename T::value_type; t.begin(); t.end(); } && !Mapping<T>;
template <class T>
concept Optional = requires(T t) { typename T::value_type; t.has_value(); t.reset(); };

constexpr std::uint64_t fnv(std::string_view text, std::uint64_t hash) noexcept {
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

/// Hashes names and kinds of fields, not the spelling of types: int and std::int32_t are one.
template <class T>
constexpr std::uint64_t hash_schema(std::uint64_t hash) {
  if constexpr (std::is_same_v<T, bool>) {
    return fnv("bool;", hash);
  } else if constexpr (std::is_enum_v<T>) {
    return hash_schema<std::underlying_type_t<T>>(fnv("enum ", hash));
  } else if constexpr (std::is_arithmetic_v<T>) {
    char const text[] = {std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u', static_cast<char>('0' + sizeof(T)), ';'};
    return fnv({text, 3}, hash);
  } else if constexpr (std::is_convertible_v<T const&, std::string_view>) {
    return fnv("str;", hash);
  } else if constexpr (Optional<T>) {
    return hash_schema<typename T::value_type>(fnv("optional ", hash));
  } else if constexpr (Mapping<T>) {
    return hash_schema<typename T::mapped_type>(hash_schema<typename T::key_type>(fnv("map ", hash)));
  } else if constexpr (Sequence<T>) {
    return hash_schema<typename T::value_type>(fnv("list ", hash));
  } else if constexpr (Reflected<T>) {
    hash = fnv("{", hash);
    constexpr auto names = field_names<T>();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((hash = hash_schema<std::remove_cvref_t<std::tuple_element_t<I, decltype(tie_fields(std::declval<T&>()))>>>(fnv(":", fnv(names[I], hash)))), ...);
    }(std::make_index_sequence<nfields<T>>{});
    return fnv("}", hash);
  } else {
    return fnv("other;", hash);
  }
}

}  // namespace detail

/// 64 bits that differ, as good as surely, when names, order or kinds of fields differ, nested ones included. Not for
/// classes that contain themselves.
template <Reflected T>
constexpr std::uint64_t schema_hash() {
  return detail::hash_schema<T>(0xcbf29ce484222325U);
}

}  // namespace transload
