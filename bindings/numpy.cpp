#include "numpy.hpp"

#include <algorithm>

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

/// `dtype.str` of a kind that has one, checked by hand: NumPy's own parser knows far more than the format does.
void check_dtype_text(std::string_view text, std::size_t offset, bool objects) {
  auto const bad = [&](std::string_view why) { msgpack::Reader::fail_at(offset, cat("dtype ", text, ": ", why)); };
  if (text.size() > 64) msgpack::Reader::fail_at(offset, "dtype: too long");
  if (text == "|O") {
    if (!objects) bad("objects cannot come from raw bytes");
    return;
  }
  if (text.size() < 3) bad("not byte order, kind and size");
  if (text[0] != '<' && text[0] != '>' && text[0] != '|') bad("unknown byte order");
  char const kind = text[1];
  if (std::string_view("biufcSUVmM").find(kind) == std::string_view::npos) bad("unknown kind");
  std::size_t i = 2;
  std::uint64_t size = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    size = size * 10 + static_cast<std::uint64_t>(text[i] - '0');
    if (size > INT32_MAX) bad("item size is too large");
  }
  if (i == 2) bad("no item size");
  auto const one_of = [&](std::initializer_list<std::uint64_t> sizes) {
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) bad("no such item size");
  };
  switch (kind) {
    case 'b': one_of({1}); break;
    case 'i':
    case 'u': one_of({1, 2, 4, 8}); break;
    case 'f': one_of({2, 4, 8, 16}); break;
    case 'c': one_of({8, 16, 32}); break;
    case 'm':
    case 'M': one_of({8}); break;
    case 'U':
      if (size > INT32_MAX / 4) bad("item size is too large");
      break;
    default: break;
  }
  if (i == text.size()) return;
  if (kind != 'm' && kind != 'M') bad("text behind the item size");
  if (text[i] != '[' || text.back() != ']') bad("the unit is not in brackets");
  for (char const c : text.substr(i + 1, text.size() - i - 2)) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) bad("the unit has other signs than letters and digits");
  }
}

Ref unpack(msgpack::Reader& reader, bool objects, int depth) {
  std::size_t const at = reader.offset();
  if (depth > 32) msgpack::Reader::fail_at(at, "dtype: nested deeper than 32");
  Numpy const& np = numpy();
  if (!reader.next_is_array()) {
    std::string_view const text = reader.str("dtype");
    check_dtype_text(text, at, objects);
    Ref const name = str(text);
    return take(PyObject_CallFunctionObjArgs(np.dtype, name.get(), nullptr));
  }
  std::size_t const parts = reader.array("dtype");
  if (parts == 0) msgpack::Reader::fail_at(at, "dtype: an empty array");
  std::string_view const form = reader.str("dtype form");
  if (form == "sub") {
    if (parts != 3) msgpack::Reader::fail_at(at, "dtype sub: three elements are needed");
    Ref const base = unpack(reader, objects, depth + 1);
    std::size_t const n = reader.array("dtype sub shape");
    if (n == 0 || n > limits::ndim) msgpack::Reader::fail_at(at, cat("dtype sub shape: ", n, " dimensions"));
    Ref const shape = take(PyTuple_New(static_cast<Py_ssize_t>(n)));
    std::uint64_t total = static_cast<std::uint64_t>(attr_long(base.get(), "itemsize"));
    for (std::size_t i = 0; i < n; ++i) {
      auto const d = reader.count("dtype sub shape", INT32_MAX);
      if (d != 0 && total > INT32_MAX / d) msgpack::Reader::fail_at(at, "dtype sub: item size is too large");
      total *= d;
      check(PyTuple_SetItem(shape.get(), static_cast<Py_ssize_t>(i), PyLong_FromUnsignedLongLong(d)));
    }
    Ref const pair = take(PyTuple_Pack(2, base.get(), shape.get()));
    return take(PyObject_CallFunctionObjArgs(np.dtype, pair.get(), nullptr));
  }
  if (form != "struct") msgpack::Reader::fail_at(at, cat("dtype form ", form, " is not known"));
  if (parts != 4) msgpack::Reader::fail_at(at, "dtype struct: four elements are needed");
  auto const itemsize = reader.count("dtype struct itemsize", INT32_MAX);
  bool const aligned = reader.boolean("dtype struct aligned");
  std::size_t const nfields = reader.array("dtype struct fields");
  Ref const names = take(PyList_New(0));
  Ref const formats = take(PyList_New(0));
  Ref const offsets = take(PyList_New(0));
  Ref const titles = take(PyList_New(0));
  for (std::size_t i = 0; i < nfields; ++i) {
    std::size_t const field_at = reader.offset();
    std::size_t const n = reader.array("dtype struct field");
    if (n != 3 && n != 4) msgpack::Reader::fail_at(field_at, "dtype struct field: name, offset, dtype and perhaps a title are needed");
    Ref const name = str(reader.str("dtype struct field name"));
    auto const offset = reader.count("dtype struct field offset", itemsize);
    Ref const format = unpack(reader, objects, depth + 1);
    if (static_cast<std::uint64_t>(attr_long(format.get(), "itemsize")) > itemsize - offset) {
      msgpack::Reader::fail_at(field_at, "dtype struct field: passes the item's end");
    }
    Ref const title = n == 4 ? str(reader.str("dtype struct field title")) : Ref::borrow(Py_None);
    Ref const offset_object = take(PyLong_FromUnsignedLongLong(offset));
    check(PyList_Append(names.get(), name.get()));
    check(PyList_Append(formats.get(), format.get()));
    check(PyList_Append(offsets.get(), offset_object.get()));
    check(PyList_Append(titles.get(), title.get()));
  }
  Ref const spec = take(Py_BuildValue("{sOsOsOsOsK}", "names", names.get(), "formats", formats.get(), "offsets", offsets.get(), "titles",
                                      titles.get(), "itemsize", static_cast<unsigned long long>(itemsize)));
  Ref const align = Ref::borrow(aligned ? Py_True : Py_False);
  return take(PyObject_CallFunctionObjArgs(np.dtype, spec.get(), align.get(), nullptr));
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
    static PyObject* const plain = attr(import("numpy").get(), "void").release();
    if (attr(dtype, "type").get() != plain) return "a dtype with a scalar class of its own";
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
  static PyObject* const modules = take(PyObject_GetAttrString(import("sys").get(), "modules")).release();
  PyObject* const module = dict_get(modules, name);
  if (module == nullptr) return nullptr;
  // Half imported (an object met while NumPy imports itself): not yet.
  Ref const spec = try_attr(module, intern("__spec__"));
  if (spec) {
    Ref const initializing = try_attr(spec.get(), intern("_initializing"));
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

Ref unpack_dtype(msgpack::Reader& reader, bool objects) { return unpack(reader, objects, 0); }

}  // namespace transload::py
