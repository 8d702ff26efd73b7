#include "bounds.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "globals.hpp"
#include "transload/base/error.hpp"
#include "transload/message/msgpack.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

using msgpack::Reader;

constexpr std::uint64_t nbytes_per_unit = 16;

/// Bytes from the first to the last item of a buffer; 0 for what does not show one.
std::uint64_t buffer_nbytes(PyObject* object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_STRIDED_RO) < 0) {
    PyErr_Clear();
    return 0;
  }
  auto nbytes = static_cast<std::uint64_t>(view.len);
  if (view.shape != nullptr && view.strides != nullptr) {  // NumPy's datetime64 gives neither
    auto span = static_cast<std::uint64_t>(view.itemsize);
    for (int d = 0; d < view.ndim && view.len > 0; ++d) {
      span += static_cast<std::uint64_t>(view.shape[d] - 1) * static_cast<std::uint64_t>(std::abs(view.strides[d]));
    }
    nbytes = std::min(nbytes, span);
  }
  PyBuffer_Release(&view);
  return nbytes;
}

/// Names between underscores that instances carry as data.
constexpr std::array<std::string_view, 9> known_dunders{"__annotations__", "__doc__",      "__module__",      "__name__",   "__notes__",
                                                        "__orig_class__",  "__qualname__", "__type_params__", "__wrapped__"};

bool has_a_meaning(std::string_view name) {
  if (name == "_as_parameter_") return true;  // ctypes passes it on as it is
  if (name.size() <= 4 || !name.starts_with("__") || !name.ends_with("__")) return false;
  return std::find(known_dunders.begin(), known_dunders.end(), name) == known_dunders.end();
}

/// Functions and what wraps them; a cached property's value lies in the instance under the property's name.
bool is_method(PyObject* value) {
  PyTypeObject* const type = Py_TYPE(value);
  if (PyType_Check(value) != 0 || PyType_GetSlot(type, Py_tp_descr_get) == nullptr || PyType_GetSlot(type, Py_tp_descr_set) != nullptr) return false;
  static constinit Once cached_property;
  PyObject* const cached = cached_property([] { return attr(import("functools").get(), "cached_property"); });
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(cached)) == 0;
}

/// What is known of a class.
struct Known {
  Ref cls;  ///< so that no other class gets its address
  Ref methods;  ///< a set of their names
  std::vector<Ref> allowed;  ///< the keys of the first state without fault: a forest's trees all have the same, by the same objects
};

constexpr std::size_t most_allowed = 64;  ///< keys that are remembered, of so many bytes each

Known& known_of(PyTypeObject* cls) {
  static auto& known = *new std::unordered_map<PyTypeObject*, Known>;  // lives as long as the interpreter, and is not taken down after it
  if (auto const at = known.find(cls); at != known.end()) return at->second;
  Globals const& g = globals();
  Ref names = take(PySet_New(nullptr));
  Ref const mro = attr(reinterpret_cast<PyObject*>(cls), g.dunder_mro);
  for (Py_ssize_t i = 0; i < PyTuple_Size(mro.get()); ++i) {
    Ref const dict = attr(PyTuple_GetItem(mro.get(), i), g.dunder_dict);
    Ref const items = take(PyMapping_Items(dict.get()));
    for (Py_ssize_t k = 0; k < PyList_Size(items.get()); ++k) {
      PyObject* const pair = PyList_GetItem(items.get(), k);
      if (is_method(PyTuple_GetItem(pair, 1))) check(PySet_Add(names.get(), PyTuple_GetItem(pair, 0)));
    }
  }
  // Another thread may have been quicker, and its set be in use.
  return known.try_emplace(cls, Known{.cls = Ref::borrow(reinterpret_cast<PyObject*>(cls)), .methods = std::move(names), .allowed = {}}).first->second;
}

}  // namespace

void Allowance::refuse(std::size_t at, std::string_view what) {
  Reader::fail_at(at, cat(what, ": parts that are referred to again and again cost more than a message of this size may"));
}

std::uint64_t weight(PyObject* object, int levels) {
  std::uint64_t total = 1;
  auto const add = [&](PyObject* part) {
    if (levels > 0 && total < most_parts) total += weight(part, levels - 1);
  };
  if (PyList_Check(object)) {
    Py_ssize_t const n = PyList_Size(object);
    total += static_cast<std::uint64_t>(n);
    for (Py_ssize_t i = 0; i < n; ++i) add(PyList_GetItem(object, i));
  } else if (PyTuple_Check(object)) {
    Py_ssize_t const n = PyTuple_Size(object);
    total += static_cast<std::uint64_t>(n);
    for (Py_ssize_t i = 0; i < n; ++i) add(PyTuple_GetItem(object, i));
  } else if (PyDict_Check(object)) {
    total += 2 * static_cast<std::uint64_t>(PyDict_Size(object));
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value) != 0) add(value);
  } else if (PyAnySet_Check(object)) {
    total += 2 * static_cast<std::uint64_t>(PySet_Size(object));
  } else if (PyUnicode_Check(object)) {
    total += static_cast<std::uint64_t>(PyUnicode_GetLength(object)) / nbytes_per_unit;
  } else if (PyObject_CheckBuffer(object)) {
    total += buffer_nbytes(object) / nbytes_per_unit;
  }
  return std::min(total, most_parts);
}

void KeyHashes::add(Py_hash_t hash, Allowance& allowance, std::size_t at) {
  hashes_.push_back(hash);
  std::size_t const n = hashes_.size();
  if (n < first_look || (n & (n - 1)) != 0) return;
  std::vector<Py_hash_t> sorted(hashes_);
  std::sort(sorted.begin(), sorted.end());
  std::uint64_t comparisons = 0;
  std::uint64_t equal = 0;
  for (std::size_t i = 1; i < n; ++i) {
    equal = sorted[i] == sorted[i - 1] ? equal + 1 : 0;
    comparisons += equal;
  }
  allowance.spend(comparisons, at, "keys of one hash");
}

std::optional<std::string> why_no_attribute(PyTypeObject* cls, PyObject* key) {
  if (PyUnicode_Check(key) == 0 || !is_utf8(key)) return {};
  std::string_view const name = utf8(key);
  if (name.ends_with("_array_interface__") || name == "__array_struct__") return cat("state: an attribute ", name, ", which says where memory is");
  if (has_a_meaning(name)) return cat("state: ", name, " is no attribute that bytes may set");
  if (name == "args" && PyType_IsSubtype(cls, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0) {
    return "state: args, which an exception gets when it is made";  // setting them lists any iterable
  }
  int const taken = PySet_Contains(known_of(cls).methods.get(), key);
  check(taken);
  if (taken == 0) return {};
  Ref const owner = attr(reinterpret_cast<PyObject*>(cls), globals().dunder_qualname);
  return cat("state: ", name, " is a method of ", lossy_utf8(owner.get()), ", which bytes do not replace");
}

std::optional<std::string> why_no_attributes(PyTypeObject* cls, PyObject* dict) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  auto const n = static_cast<std::size_t>(PyDict_Size(dict));
  Known& known = known_of(cls);
  if (n == known.allowed.size()) {
    std::size_t same = 0;
    while (PyDict_Next(dict, &position, &key, &value) != 0 && key == known.allowed[same].get()) {
      if (++same == n) return {};
    }
    position = 0;
  }
  std::vector<Ref> allowed;
  bool remember = known.allowed.empty() && n <= most_allowed;
  while (PyDict_Next(dict, &position, &key, &value) != 0) {
    if (auto why = why_no_attribute(cls, key)) return why;
    if (remember) allowed.push_back(Ref::borrow(key));
    remember = remember && Py_TYPE(key) == &PyUnicode_Type && is_utf8(key) && utf8(key).size() <= most_allowed;
  }
  if (remember) std::swap(known.allowed, allowed);
  return {};
}

void bind_bounds(nb::module_& module) {
  module.def(
      "check_attributes",
      [](nb::handle cls, nb::handle state) {
        if (PyType_Check(cls.ptr()) == 0 || PyDict_Check(state.ptr()) == 0) throw nb::type_error("check_attributes: a class and a dict are needed");
        try {
          if (auto const why = why_no_attributes(reinterpret_cast<PyTypeObject*>(cls.ptr()), state.ptr())) throw nb::value_error(why->c_str());
        } catch (Raised const&) {
          throw nb::python_error();
        }
      },
      nb::arg("cls"), nb::arg("state"), nb::sig("def check_attributes(cls: type, state: dict[typing.Any, typing.Any]) -> None"),
      "Raises ValueError for a key that is no data of an instance of a library's class: a name like __array_interface__, or that of a method.");
}

}  // namespace transload::py
