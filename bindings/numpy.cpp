#include "numpy.hpp"

#include <algorithm>

#include "transload/adapters/ndarray.hpp"
#include "transload/base/error.hpp"
#include "transload/base/limits.hpp"

namespace transload::py {

namespace {

Numpy loaded;

void load() {
  Ref const module = import("numpy");
  loaded.generic = attr(module.get(), "generic").release();
  loaded.dtype = attr(module.get(), "dtype").release();
  loaded.empty = attr(module.get(), "empty").release();
  loaded.object_dtype = take(PyObject_CallFunction(loaded.dtype, "s", "O")).release();
  loaded.ndarray = attr(module.get(), "ndarray").release();
}

long attr_long(PyObject* object, char const* name) {
  Ref const value = attr(object, name);
  long const number = PyLong_AsLong(value.get());
  if (number == -1 && PyErr_Occurred() != nullptr) throw Raised{};
  return number;
}

/// A dtype that the core has read and checked, as NumPy's: NumPy's own parser knows far more than the format does.
Ref build(DType const& dtype) {
  Numpy const& np = numpy();
  switch (dtype.form) {
    case DType::Form::plain:
    case DType::Form::object: {
      Ref const text = str(dtype.text());
      return take(PyObject_CallFunctionObjArgs(np.dtype, text.get(), nullptr));
    }
    case DType::Form::subarray: {
      Ref const base = build(*dtype.base);
      Ref const shape = take(PyTuple_New(static_cast<Py_ssize_t>(dtype.shape.size())));
      for (std::size_t i = 0; i < dtype.shape.size(); ++i) {
        check(PyTuple_SetItem(shape.get(), static_cast<Py_ssize_t>(i), PyLong_FromUnsignedLongLong(dtype.shape[i])));
      }
      Ref const pair = take(PyTuple_Pack(2, base.get(), shape.get()));
      return take(PyObject_CallFunctionObjArgs(np.dtype, pair.get(), nullptr));
    }
    case DType::Form::structured: break;
  }
  Ref const names = take(PyList_New(0));
  Ref const formats = take(PyList_New(0));
  Ref const offsets = take(PyList_New(0));
  Ref const titles = take(PyList_New(0));
  for (DTypeField const& field : dtype.fields) {
    check(PyList_Append(names.get(), str(field.name).get()));
    check(PyList_Append(formats.get(), build(field.dtype).get()));
    check(PyList_Append(offsets.get(), take(PyLong_FromUnsignedLongLong(field.offset)).get()));
    check(PyList_Append(titles.get(), field.has_title ? str(field.title).get() : Py_None));
  }
  Ref const spec = take(Py_BuildValue("{sOsOsOsOsK}", "names", names.get(), "formats", formats.get(), "offsets", offsets.get(), "titles",
                                      titles.get(), "itemsize", static_cast<unsigned long long>(dtype.itemsize)));
  return take(PyObject_CallFunctionObjArgs(np.dtype, spec.get(), dtype.aligned ? Py_True : Py_False, nullptr));
}

std::optional<std::string> pack(msgpack::Packer& out, PyObject* dtype, int depth) {
  if (depth > 32) return "a dtype nested deeper than 32";
  Ref const metadata = attr(dtype, "metadata");
  if (metadata.get() != Py_None) return "a dtype with metadata";
  Ref const subdtype = attr(dtype, "subdtype");
  if (subdtype.get() != Py_None) {
    PyObject* const base = PyTuple_GetItem(subdtype.get(), 0);
    PyObject* const shape = PyTuple_GetItem(subdtype.get(), 1);
    out.array(3);
    out.str("sub");
    if (auto why = pack(out, base, depth + 1)) return why;
    Py_ssize_t const n = PyTuple_Size(shape);
    out.array(static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) out.integer(PyLong_AsLongLong(PyTuple_GetItem(shape, i)));
    return std::nullopt;
  }
  Ref const names = attr(dtype, "names");
  if (names.get() != Py_None) {
    static constinit Once plain;
    if (attr(dtype, "type").get() != plain([] { return attr(import("numpy").get(), "void"); })) return "a dtype with a scalar class of its own";
    Ref const fields = attr(dtype, "fields");
    Ref const aligned = attr(dtype, "isalignedstruct");
    Py_ssize_t const n = PyTuple_Size(names.get());
    out.array(4);
    out.str("struct");
    out.integer(attr_long(dtype, "itemsize"));
    out.boolean(aligned.get() == Py_True);
    out.array(static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const name = PyTuple_GetItem(names.get(), i);
      Ref const field = take(PyObject_GetItem(fields.get(), name));  // (dtype, offset[, title])
      Py_ssize_t const parts = PyTuple_Size(field.get());
      PyObject* const title = parts > 2 ? PyTuple_GetItem(field.get(), 2) : nullptr;
      bool const titled = title != nullptr && title != Py_None;
      if (titled && !PyUnicode_Check(title)) return "a field title that is no str";
      out.array(titled ? 4 : 3);
      out.str(utf8(name));
      out.integer(PyLong_AsLongLong(PyTuple_GetItem(field.get(), 1)));
      if (auto why = pack(out, PyTuple_GetItem(field.get(), 0), depth + 1)) return why;
      if (titled) out.str(utf8(title));
    }
    return std::nullopt;
  }
  long const builtin = attr_long(dtype, "isbuiltin");
  if (builtin == 2) return "a user-defined dtype";
  Ref const kind = attr(dtype, "kind");
  std::string_view const letter = utf8(kind.get());
  if (letter == "T") return "StringDType";
  if (letter.size() != 1 || std::string_view("biufcSUVmMO").find(letter) == std::string_view::npos) return cat("dtype kind ", letter);
  Ref const text = attr(dtype, "str");
  out.str(utf8(text.get()));
  return std::nullopt;
}

}  // namespace

Numpy const* numpy_if_loaded() {
  if (loaded.ndarray != nullptr) return &loaded;
  static PyObject* const name = intern("numpy");
  static constinit Once modules;
  PyObject* const module = dict_get(modules([] { return attr(import("sys").get(), "modules"); }), name);
  if (module == nullptr) return nullptr;
  // Half imported (an object met while NumPy imports itself): not yet.
  Ref const spec = try_attr(module, "__spec__");
  if (spec) {
    Ref const initializing = try_attr(spec.get(), "_initializing");
    if (initializing && initializing.get() == Py_True) return nullptr;
  }
  load();
  return &loaded;
}

Numpy const& numpy() {
  if (loaded.ndarray == nullptr) load();
  return loaded;
}

std::optional<std::string> pack_dtype(msgpack::Packer& out, PyObject* dtype) {
  msgpack::Packer part;
  if (auto why = pack(part, dtype, 0)) return why;
  out.raw(part.bytes());
  return std::nullopt;
}

Ref unpack_dtype(msgpack::Reader& reader, bool objects) { return build(DType::parse(reader, objects)); }

}  // namespace transload::py
