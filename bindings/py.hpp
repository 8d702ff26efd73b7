#pragma once
/// The CPython API as the walk uses it (limited API of 3.11): owned references, errors as C++ exceptions.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "transload needs a CPython with the GIL (docs/processes.md)"
#endif

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace transload::py {

/// Thrown when the interpreter's error indicator is set; whoever catches it returns to the interpreter.
struct Raised {};

/// One owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) noexcept : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(Ref const&) = delete;
  Ref& operator=(Ref const&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  /// A new reference to a borrowed object.
  [[nodiscard]] static Ref borrow(PyObject* object) noexcept {
    Py_XINCREF(object);
    return Ref(object);
  }

  [[nodiscard]] PyObject* get() const noexcept { return object_; }
  [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// An object that is made by running Python at its first use, and then never freed.
///
/// No C++ static: while a thread makes it Python may hand the GIL to another, and that one would wait for the static's guard without letting go
/// of the GIL. Here both make one, and the first is kept.
class Once {
 public:
  constexpr Once() = default;

  template <class Make>
  [[nodiscard]] PyObject* operator()(Make const& make) {
    if (object_ == nullptr) [[unlikely]] {
      Ref fresh = make();
      if (object_ == nullptr) object_ = fresh.release();
    }
    return object_;
  }

 private:
  PyObject* object_ = nullptr;
};

/// Takes what an API call returned: a new reference, or null with an error set.
[[nodiscard]] inline Ref take(PyObject* result) {
  if (result == nullptr) [[unlikely]] throw Raised{};
  return Ref(result);
}

inline void check(int status) {
  if (status < 0) [[unlikely]] throw Raised{};
}

[[nodiscard]] inline Ref attr(PyObject* object, PyObject* name) { return take(PyObject_GetAttr(object, name)); }
/// The name is interned: the interpreter's cache of attributes goes by the address of names, and would keep a fresh one each time.
[[nodiscard]] inline Ref attr(PyObject* object, char const* name) {
  Ref const interned = take(PyUnicode_InternFromString(name));
  return attr(object, interned.get());
}

/// `object.name(arguments…)`.
template <class... Arguments>
[[nodiscard]] Ref call_method(PyObject* object, char const* name, Arguments... arguments) {
  Ref const interned = take(PyUnicode_InternFromString(name));
  return take(PyObject_CallMethodObjArgs(object, interned.get(), arguments..., nullptr));
}

/// sys.modules.
[[nodiscard]] inline Ref loaded_modules() {
  PyObject* const modules = PySys_GetObject("modules");
  if (modules == nullptr) return attr(take(PyImport_ImportModule("sys")).get(), "modules");  // which says what is wrong
  return Ref::borrow(modules);
}

/// The attribute, or nothing when AttributeError says so.
[[nodiscard]] inline Ref try_attr(PyObject* object, PyObject* name) {
  PyObject* const value = PyObject_GetAttr(object, name);
  if (value == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw Raised{};
    PyErr_Clear();
  }
  return Ref(value);
}

[[nodiscard]] inline Ref try_attr(PyObject* object, char const* name) {
  Ref const interned = take(PyUnicode_InternFromString(name));
  return try_attr(object, interned.get());
}

/// The value under `key`, borrowed, or null.
[[nodiscard]] inline PyObject* dict_get(PyObject* dict, PyObject* key) {
  PyObject* const value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred() != nullptr) throw Raised{};
  return value;
}

/// The UTF-8 of a str without lone surrogates; it lives as long as the object.
[[nodiscard]] inline std::string_view utf8(PyObject* text) {
  Py_ssize_t n = 0;
  char const* const data = PyUnicode_AsUTF8AndSize(text, &n);
  if (data == nullptr) throw Raised{};
  return {data, static_cast<std::size_t>(n)};
}

/// Whether a str can be written as UTF-8: it has no lone surrogates.
[[nodiscard]] inline bool is_utf8(PyObject* text) {
  Py_ssize_t n = 0;
  if (PyUnicode_AsUTF8AndSize(text, &n) != nullptr) return true;
  PyErr_Clear();
  return false;
}

/// Text for an error that may quote bytes from outside: what is no UTF-8 shows as escapes.
[[nodiscard]] inline Ref lossy_str(std::string_view text) {
  return take(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

/// The other way: lone surrogates show as escapes.
[[nodiscard]] inline std::string lossy_utf8(PyObject* text) {
  Ref const bytes = take(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  return {PyBytes_AsString(bytes.get()), static_cast<std::size_t>(PyBytes_Size(bytes.get()))};
}

[[nodiscard]] inline Ref str(std::string_view text) {
  return take(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
}

/// An interned str, never freed: for statics of names used at every call.
[[nodiscard]] inline PyObject* intern(char const* text) {
  PyObject* const name = PyUnicode_InternFromString(text);
  if (name == nullptr) throw Raised{};
  return name;
}

[[nodiscard]] inline Ref import(char const* module) { return take(PyImport_ImportModule(module)); }

[[nodiscard]] inline std::string type_name(PyObject* object) {
  try {
    Ref const name = attr(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__qualname__");
    if (PyUnicode_Check(name.get())) return lossy_utf8(name.get());
  } catch (Raised const&) {
    PyErr_Clear();
  }
  return "?";
}

/// An exported buffer, released when this dies.
class BufferView {
 public:
  BufferView() = default;
  BufferView(PyObject* object, int flags) { check(PyObject_GetBuffer(object, &view_, flags)); }
  BufferView(BufferView&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  BufferView& operator=(BufferView&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  BufferView(BufferView const&) = delete;
  BufferView& operator=(BufferView const&) = delete;
  ~BufferView() { release(); }

  void release() noexcept {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
    view_.obj = nullptr;
  }
  [[nodiscard]] Py_buffer const* operator->() const noexcept { return &view_; }
  /// The view, to be released by whoever takes it.
  [[nodiscard]] Py_buffer give_away() noexcept { return std::exchange(view_, Py_buffer{}); }
  [[nodiscard]] bool held() const noexcept { return view_.obj != nullptr; }
  [[nodiscard]] std::span<std::byte const> bytes() const noexcept {
    return {static_cast<std::byte const*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace transload::py
