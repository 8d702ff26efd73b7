/// Documents of Dask's wire (frame 0 of a message, and the sub-headers): msgpack as msgpack-python writes and reads it.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "bindings.hpp"
#include "graph.hpp"
#include "guard.hpp"
#include "numpy.hpp"
#include "py.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"
#include "transload/message/msgpack.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

using msgpack::Packer;
using msgpack::Reader;
using msgpack::Token;
using msgpack::Type;

/// msgpack's own classes for what plain documents do not have; set once.
PyObject* ext_type = nullptr;
PyObject* timestamp_type = nullptr;

/// A value that only msgpack-python writes or reads (ext types, 32-bit floats): the caller hands it the whole document.
[[noreturn]] void leave_to_msgpack() {
  PyErr_SetString(PyExc_NotImplementedError, "an ext type or a 32-bit float");
  throw Raised{};
}

/// One level of nesting, for as long as it lives.
class Level {
 public:
  Level(std::size_t& depth, StackGuard const& stack) : depth_(depth) {
    if (depth_ >= limits::depth || !stack.room()) {
      PyErr_SetString(PyExc_ValueError, "recursion limit exceeded");
      throw Raised{};
    }
    ++depth_;
  }
  Level(Level const&) = delete;
  Level& operator=(Level const&) = delete;
  ~Level() { --depth_; }

 private:
  std::size_t& depth_;
};

class DocumentPacker {
 public:
  explicit DocumentPacker(PyObject* fallback) : fallback_(fallback) {}

  void value(PyObject* o) {
    if (PyUnicode_Check(o) != 0) return out_.str(utf8(o));
    if (o == Py_None) return out_.nil();
    if (o == Py_True || o == Py_False) return out_.boolean(o == Py_True);
    if (PyLong_Check(o) != 0) return integer(o);
    if (PyFloat_Check(o) != 0) return out_.real(PyFloat_AsDouble(o));
    if (PyBytes_Check(o) != 0) return out_.bin(bytes_of(PyBytes_AsString(o), PyBytes_Size(o)));
    if (PyByteArray_Check(o) != 0) return out_.bin(bytes_of(PyByteArray_AsString(o), PyByteArray_Size(o)));
    if (PyDict_Check(o) != 0) return dict(o);
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(o));
    if (type == ext_type || type == timestamp_type) leave_to_msgpack();
    if (PyTuple_Check(o) != 0) return tuple(o);
    if (PyList_Check(o) != 0) return list(o);
    if (PyMemoryView_Check(o) != 0) {
      BufferView const view(o, PyBUF_SIMPLE);
      return out_.bin(view.bytes());
    }
    other(o);
  }

  [[nodiscard]] Packer const& out() const noexcept { return out_; }

 private:
  static std::span<std::byte const> bytes_of(char const* data, Py_ssize_t n) {
    return {reinterpret_cast<std::byte const*>(data), static_cast<std::size_t>(n)};
  }

  void integer(PyObject* o) {
    int overflow = 0;
    long long const value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (value == -1 && PyErr_Occurred() != nullptr) throw Raised{};
    if (overflow == 0) return out_.integer(value);
    if (overflow > 0) {
      unsigned long long const big = PyLong_AsUnsignedLongLong(o);
      if (PyErr_Occurred() == nullptr) return out_.unsigned_integer(big);
      PyErr_Clear();
    }
    if (converting_) {
      PyErr_SetString(PyExc_OverflowError, "Integer value out of range");
      throw Raised{};
    }
    other(o);
  }

  void dict(PyObject* o) {
    Level const level(depth_, stack_);
    Py_ssize_t const n = PyDict_Size(o);
    out_.map(static_cast<std::size_t>(n));
    Py_ssize_t position = 0;
    Py_ssize_t written = 0;
    PyObject *key = nullptr, *item = nullptr;
    while (PyDict_Next(o, &position, &key, &item) != 0) {
      // What the fallback runs may drop them.
      Ref const hold_key = Ref::borrow(key), hold_item = Ref::borrow(item);
      if (++written > n || PyDict_Size(o) != n) break;
      plain(key);
      plain(item);
    }
    if (written != n || PyDict_Size(o) != n) {
      PyErr_SetString(PyExc_RuntimeError, "dictionary changed size during iteration");
      throw Raised{};
    }
  }

  void tuple(PyObject* o) {
    Level const level(depth_, stack_);
    Py_ssize_t const n = PyTuple_Size(o);
    out_.array(static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) plain(PyTuple_GetItem(o, i));
  }

  void list(PyObject* o) {
    Level const level(depth_, stack_);
    Py_ssize_t const n = PyList_Size(o);
    out_.array(static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      Ref const item = Ref::borrow(PyList_GetItem(o, i));
      if (!item) throw Raised{};
      plain(item.get());
    }
    if (PyList_Size(o) != n) {
      PyErr_SetString(PyExc_RuntimeError, "list changed size during iteration");
      throw Raised{};
    }
  }

  /// A value inside another, which may be converted whether or not the one around it was.
  void plain(PyObject* o) {
    bool const around = std::exchange(converting_, false);
    value(o);
    converting_ = around;
  }

  /// What msgpack does not know: the fallback makes something of it, once.
  void other(PyObject* o) {
    if (converting_ || fallback_ == nullptr) cannot(o);
    Ref const converted = take(PyObject_CallFunctionObjArgs(fallback_, o, nullptr));
    converting_ = true;
    value(converted.get());
    converting_ = false;
  }

  [[noreturn]] static void cannot(PyObject* o) {
    PyErr_Format(PyExc_TypeError, "can not serialize '%s' object", full_name(o).c_str());
    throw Raised{};
  }

  static std::string full_name(PyObject* o) {
    auto* const cls = reinterpret_cast<PyObject*>(Py_TYPE(o));
    Ref const module = try_attr(cls, globals().dunder_module);
    bool const named = module && PyUnicode_Check(module.get()) != 0;
    std::string const prefix = named ? lossy_utf8(module.get()) + "." : "";
    return (prefix == "builtins." ? "" : prefix) + type_name(o);
  }

  PyObject* fallback_;
  Packer out_;
  StackGuard stack_;
  std::size_t depth_ = 0;
  bool converting_ = false;
};

class DocumentReader {
 public:
  DocumentReader(std::span<std::byte const> bytes, PyObject* hook) : reader_(bytes), hook_(hook) {}

  Ref run() {
    Ref value = node();
    if (!reader_.done()) reader_.fail_here(cat(reader_.remaining(), " bytes behind the document"));
    return value;
  }

 private:
  Ref node() {
    std::uint8_t const first = reader_.peek();
    // fixext, ext and float 32
    if (first == 0xca || (first >= 0xc7 && first <= 0xc9) || (first >= 0xd4 && first <= 0xd8)) leave_to_msgpack();
    std::size_t const at = reader_.offset();
    Token const token = reader_.next();
    switch (token.type) {
      case Type::nil: return Ref::borrow(Py_None);
      case Type::boolean: return Ref::borrow(token.boolean ? Py_True : Py_False);
      case Type::integer: return take(PyLong_FromLongLong(token.integer));
      case Type::big_unsigned: return take(PyLong_FromUnsignedLongLong(token.big_unsigned));
      case Type::real: return take(PyFloat_FromDouble(token.real));
      case Type::str: return text(token, at);
      case Type::bin: return take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(token.data), static_cast<Py_ssize_t>(token.size)));
      case Type::array: return array(token.size);
      case Type::map: return map(token.size);
    }
    Reader::fail_at(at, "a value of no type");
  }

  static Ref text(Token const& token, std::size_t at) {
    PyObject* const object = PyUnicode_DecodeUTF8(reinterpret_cast<char const*>(token.data), static_cast<Py_ssize_t>(token.size), "strict");
    if (object == nullptr) {
      if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) == 0) throw Raised{};
      PyErr_Clear();
      Reader::fail_at(at, "str: invalid UTF-8");
    }
    return Ref(object);
  }

  Ref array(std::size_t n) {
    Level const level(depth_, stack_);
    Ref tuple = take(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (std::size_t i = 0; i < n; ++i) check(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), node().release()));
    return tuple;
  }

  Ref map(std::size_t n) {
    Level const level(depth_, stack_);
    Ref dict = take(PyDict_New());
    bool special = false;
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const at = reader_.offset();
      special |= next_is_special();
      Ref const key = node();
      Ref const item = node();
      if (PyDict_SetItem(dict.get(), key.get(), item.get()) < 0) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw Raised{};
        PyErr_Clear();
        Reader::fail_at(at, "a key that cannot be hashed");
      }
    }
    if (!special) return dict;
    return take(PyObject_CallFunctionObjArgs(hook_, dict.get(), nullptr));
  }

  /// Whether the key that comes is one of Dask's own: only maps with such a key mean more than themselves.
  bool next_is_special() {
    if (!reader_.next_is_str()) return false;
    Reader ahead = reader_;
    std::string_view const key = ahead.str("key");
    return key == "__Serialized__" || key == "__Pickled__" || key == "__Set__" || key == "__Enum__";
  }

  Reader reader_;
  PyObject* hook_;
  StackGuard stack_;
  std::size_t depth_ = 0;
};

/// What a message holds, as far as that is told quickly: plain values, buffers and arrays of numbers.
class QuickSize {
 public:
  /// `wrappers`: Dask's classes around a value, which is their attribute `data`. `device`: what exports a GPU's memory counts, too.
  QuickSize(PyObject* wrappers, bool device) : wrappers_(wrappers), device_(device) {}

  /// False: not to be told quickly.
  [[nodiscard]] bool add(PyObject* o, unsigned depth) {
    if (++nobjects_ > objects_most || depth > depth_most) return false;
    PyTypeObject* const type = Py_TYPE(o);
    nbytes_ += object_nbytes;
    if (o == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type) return true;
    if (type == &PyUnicode_Type) return added(PyUnicode_GetLength(o));
    if (type == &PyBytes_Type || type == &PyByteArray_Type) return added(PyObject_Size(o));
    if (type == &PyDict_Type) {
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value) != 0;) {
        if (!add(key, depth + 1) || !add(value, depth + 1)) return false;
      }
      return true;
    }
    if (type == &PyList_Type || type == &PyTuple_Type) {
      bool const list = type == &PyList_Type;
      Py_ssize_t const n = PyObject_Size(o);
      for (Py_ssize_t i = 0; i < n; ++i) {
        if (!add(list ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i), depth + 1)) return false;
      }
      return true;
    }
    if (Numpy const* const numpy = numpy_if_loaded(); numpy != nullptr && type == as_type(numpy->ndarray)) {
      if (attr(attr(o, "dtype").get(), "hasobject").get() != Py_False) return false;
      return added(PyLong_AsSsize_t(attr(o, "nbytes").get()));
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(wrappers_); ++i) {
      if (type == as_type(PyTuple_GetItem(wrappers_, i))) return add(attr(o, "data").get(), depth + 1);
    }
    if (device_ || !is_of_a_gpu(type)) return false;
    --nobjects_;  // a thread of Dask's would have nothing to do for it
    return true;
  }
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }

 private:
  // Beyond these Dask's sizeof, which looks at samples, is quicker, and encoding takes long anyway.
  static constexpr std::size_t objects_most = 500;
  static constexpr unsigned depth_most = 20;
  static constexpr std::size_t object_nbytes = 32;

  static PyTypeObject* as_type(PyObject* type) noexcept { return reinterpret_cast<PyTypeObject*>(type); }
  /// Arrays that export their memory, and RAPIDS' objects.
  static bool is_of_a_gpu(PyTypeObject* type) {
    auto* const cls = reinterpret_cast<PyObject*>(type);
    if (PyObject_HasAttrString(cls, "__cuda_array_interface__") != 0) return true;
    Ref const module = try_attr(cls, globals().dunder_module);
    if (!module || PyUnicode_Check(module.get()) == 0) return false;
    std::string const name = lossy_utf8(module.get());
    return name.starts_with("cudf.") || name.starts_with("cuml.") || name.starts_with("pylibcudf.");
  }
  bool added(Py_ssize_t n) noexcept {
    nbytes_ += static_cast<std::size_t>(n);
    return true;
  }

  PyObject* wrappers_;
  bool device_;
  std::size_t nobjects_ = 0;
  std::size_t nbytes_ = 0;
};

}  // namespace

void bind_dask_codec(nb::module_& module) {
  module.def(
      "set_msgpack_types",
      [](nb::handle ext, nb::handle timestamp) {
        ext_type = ext.inc_ref().ptr();
        timestamp_type = timestamp.inc_ref().ptr();
      },
      nb::arg("ext_type"), nb::arg("timestamp"), "Hands over msgpack's own classes, which `pack_document` leaves to msgpack.");
  module.def(
      "pack_document",
      [](nb::handle value, nb::handle fallback) {
        return guarded([&] {
          DocumentPacker packer(fallback.is_none() ? nullptr : fallback.ptr());
          packer.value(value.ptr());
          auto const bytes = packer.out().bytes();
          return take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(bytes.data()), static_cast<Py_ssize_t>(bytes.size())));
        });
      },
      nb::arg("value").none(), nb::arg("fallback").none(), nb::sig("def pack_document(value: object, fallback: typing.Any) -> bytes"),
      "As ``msgpack.packb(value, default=fallback)``; NotImplementedError for what only msgpack writes.");
  module.def(
      "quick_nbytes",
      [](nb::handle message, nb::handle wrappers, bool device) {
        return guarded([&] {
          QuickSize size(wrappers.ptr(), device);
          return size.add(message.ptr(), 0) ? take(PyLong_FromSize_t(size.nbytes())) : Ref::borrow(Py_None);
        });
      },
      nb::arg("message").none(), nb::arg("wrappers"), nb::arg("device") = true,
      nb::sig("def quick_nbytes(message: object, wrappers: tuple[type, ...], device: bool = True) -> int | None"),
      "About how many bytes a message holds; None where that is not told quickly. `wrappers` have a value in `data`. Without `device` what exports a GPU's memory counts nothing.");
  module.def(
      "unpack_document",
      [](nb::handle document, nb::handle hook) {
        return guarded([&] {
          BufferView const view(document.ptr(), PyBUF_SIMPLE);
          return DocumentReader(view.bytes(), hook.ptr()).run();
        });
      },
      nb::arg("document"), nb::arg("hook"), nb::sig("def unpack_document(document: object, hook: typing.Any) -> typing.Any"),
      "As ``msgpack.unpackb(document, object_hook=hook, use_list=False, strict_map_key=False)``, with `hook` called for maps that have one "
      "of Dask's own keys only; NotImplementedError for what only msgpack reads, Malformed with the offset for what nobody does.");
}

}  // namespace transload::py
