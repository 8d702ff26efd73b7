#include "arrow.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "globals.hpp"
#include "transload/adapters/arrow_decode.hpp"
#include "transload/adapters/arrow_encode.hpp"
#include "transload/base/error.hpp"
#include "transload/message/op.hpp"

namespace transload::py {

namespace {

/// What an object exported over the C data interface; released when nobody borrows its buffers any more.
struct Exported {
  ArrowSchema schema{};
  std::deque<ArrowArray> arrays;

  Exported() = default;
  Exported(Exported const&) = delete;
  Exported& operator=(Exported const&) = delete;
  ~Exported() {
    for (ArrowArray& array : arrays) {
      if (array.release != nullptr) array.release(&array);
    }
    if (schema.release != nullptr) schema.release(&schema);
  }
};

/// Moves the C struct out of its capsule: the capsule's destructor then has nothing left to release.
template <class T>
T take_struct(PyObject* capsule, char const* name) {
  auto* const inside = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (inside == nullptr) throw Raised{};
  T taken = *inside;
  inside->release = nullptr;
  return taken;
}

/// Calls a method of the PyCapsule protocol. An object that cannot export itself says so with one of two exceptions.
Ref call_export(PyObject* object, char const* method) {
  Ref const bound = attr(object, method);
  PyObject* const result = PyObject_CallNoArgs(bound.get());
  if (result != nullptr) return Ref(result);
  if (!PyErr_ExceptionMatches(PyExc_NotImplementedError) && !PyErr_ExceptionMatches(PyExc_ValueError)) throw Raised{};
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  Ref const held_type(type), held_value(value), held_trace(trace);
  Ref const text(value == nullptr ? nullptr : PyObject_Str(value));
  PyErr_Clear();
  throw Error(ErrorKind::unsupported, cat(method, ": ", text ? std::string(utf8(text.get())) : std::string("no reason given")));
}

struct Stream {
  ArrowArrayStream stream;
  ~Stream() {
    if (stream.release != nullptr) stream.release(&stream);
  }
  void check(int status) {
    if (status == 0) return;
    char const* const text = stream.get_last_error(&stream);
    throw Error(ErrorKind::unsupported, cat("Arrow stream: ", text == nullptr ? "error without a text" : text));
  }
};

/// A table's stream leaves out chunks of no rows; where there are no others, one of them is kept, so that columns have a chunk as before.
void empty_chunk(PyObject* table, Exported& out) {
  Ref const columns = attr(table, "columns");
  if (PyObject_Size(columns.get()) < 1) return;
  Ref const first = take(PySequence_GetItem(columns.get(), 0));
  Ref const nchunks = attr(first.get(), "num_chunks");
  if (PyLong_AsSsize_t(nchunks.get()) < 1) return;
  Ref const rows = take(PyList_New(0));
  Ref const batch_class = attr(import("pyarrow").get(), "RecordBatch");
  Ref const batch(PyObject_CallMethod(batch_class.get(), "from_pylist", "OO", rows.get(), attr(table, "schema").get()));
  if (!batch) return PyErr_Clear();  // a type that pyarrow makes no array of
  Ref const pair = call_export(batch.get(), "__arrow_c_array__");
  out.arrays.push_back(take_struct<ArrowArray>(PyTuple_GetItem(pair.get(), 1), "arrow_array"));
}

std::shared_ptr<Exported> export_object(PyObject* object, ArrowKind kind) {
  auto out = std::make_shared<Exported>();
  switch (kind) {
    case ArrowKind::schema: {
      Ref const capsule = call_export(object, "__arrow_c_schema__");
      out->schema = take_struct<ArrowSchema>(capsule.get(), "arrow_schema");
      break;
    }
    case ArrowKind::array:
    case ArrowKind::batch: {
      Ref const pair = call_export(object, "__arrow_c_array__");
      if (!PyTuple_Check(pair.get()) || PyTuple_Size(pair.get()) != 2) throw Error(ErrorKind::unsupported, "__arrow_c_array__ returned no pair");
      out->schema = take_struct<ArrowSchema>(PyTuple_GetItem(pair.get(), 0), "arrow_schema");
      out->arrays.push_back(take_struct<ArrowArray>(PyTuple_GetItem(pair.get(), 1), "arrow_array"));
      break;
    }
    case ArrowKind::chunked:
    case ArrowKind::table: {
      Ref const capsule = call_export(object, "__arrow_c_stream__");
      Stream in{take_struct<ArrowArrayStream>(capsule.get(), "arrow_array_stream")};
      in.check(in.stream.get_schema(&in.stream, &out->schema));
      for (;;) {
        ArrowArray array{};
        in.check(in.stream.get_next(&in.stream, &array));
        if (array.release == nullptr) break;
        out->arrays.push_back(array);
      }
      if (out->arrays.empty() && kind == ArrowKind::table) empty_chunk(object, *out);
      break;
    }
  }
  return out;
}

/// Whether rows of this type may show places anywhere in a child: the core cuts children to a range, so that a few rows could bring along all.
bool may_scatter(ArrowSchema const& schema) {
  std::string_view const format = schema.format;
  if (format.starts_with("+vl") || format.starts_with("+vL") || format.starts_with("+ud")) return true;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    if (may_scatter(*schema.children[i])) return true;
  }
  return schema.dictionary != nullptr && may_scatter(*schema.dictionary);
}

/// What `object` is exported as: itself, or where its rows are scattered over large children, its rows with what they show alone.
std::shared_ptr<Exported> export_rows(PyObject* object, ArrowKind kind) {
  std::shared_ptr<Exported> exported = export_object(object, kind);
  if (kind == ArrowKind::schema || !may_scatter(exported->schema)) return exported;
  Ref const gather = attr(import("transload.adapters.pyarrow").get(), "gathered");
  Ref const gathered = take(PyObject_CallFunctionObjArgs(gather.get(), object, nullptr));
  return gathered.get() == object ? exported : export_object(gathered.get(), kind);
}

/// The frames that decoded buffers lie in, held through their own exports. pyarrow drops it from any thread.
struct Held {
  std::vector<Ref> views;
  std::set<PyObject*> seen;

  Held() = default;
  Held(Held const&) = delete;
  Held& operator=(Held const&) = delete;
  ~Held() {
    if (Py_IsInitialized() == 0) {  // nobody is left to give them back to
      for (Ref& view : views) (void)view.release();
      return;
    }
    PyGILState_STATE const gil = PyGILState_Ensure();
    views.clear();
    PyGILState_Release(gil);
  }

  void hold(PyObject* exporter) {
    if (!seen.insert(exporter).second) return;
    views.push_back(take(PyMemoryView_FromObject(exporter)));
  }
};

/// pyarrow said no to what was checked here: a type that its version lacks, or extension metadata that its class refuses.
/// Becomes the error of that kind, with pyarrow's own as the cause.
[[noreturn]] void refused() {
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(PyExc_Warning)) throw Raised{};
  bool const lacks = PyErr_ExceptionMatches(PyExc_NotImplementedError) != 0;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) PyException_SetTraceback(value, trace);
  Ref const held_type(type), held_trace(trace);
  Ref cause(value);
  Ref const said(PyObject_Str(cause.get()));
  if (!said) PyErr_Clear();
  std::string const text = cat("ARROW: ", type_name(cause.get()), ": ", said ? lossy_utf8(said.get()) : std::string("?"));
  PyObject* const cls = PyDict_GetItemString(globals().errors, lacks ? "unsupported" : "malformed");
  Ref const error = take(PyObject_CallFunctionObjArgs(cls, lossy_str(text).get(), nullptr));
  PyException_SetCause(error.get(), cause.release());
  PyErr_SetObject(cls, error.get());
  throw Raised{};
}

Ref address(void const* pointer) { return take(PyLong_FromVoidPtr(const_cast<void*>(pointer))); }

/// `class_._import_from_c(pointer…)`; the struct is released where pyarrow did not take it.
template <class T>
Ref import_from_c(PyObject* pyarrow, char const* class_name, T& given, PyObject* second = nullptr) {
  Ref const cls = attr(pyarrow, class_name);
  Ref const pointer = address(&given);
  static PyObject* const import_from_c = intern("_import_from_c");
  PyObject* const result = PyObject_CallMethodObjArgs(cls.get(), import_from_c, pointer.get(), second, nullptr);
  if (given.release != nullptr) given.release(&given);
  if (result == nullptr) refused();
  return Ref(result);
}

Ref schema_of(PyObject* pyarrow, ArrowField const& field, char const* class_name) {
  ArrowSchema schema{};
  field.export_to(&schema);
  return import_from_c(pyarrow, class_name, schema);
}

/// The value under `key` in metadata of the C interface (checked before): int32 count, then int32 length and bytes of each text.
std::string_view metadata_value(std::string_view metadata, std::string_view key) {
  std::size_t at = 0;
  auto const int32 = [&] {
    std::int32_t value = 0;
    std::memcpy(&value, metadata.data() + at, sizeof(value));
    at += sizeof(value);
    return static_cast<std::size_t>(value);
  };
  auto const text = [&] {
    std::size_t const nbytes = int32();
    at += nbytes;
    return metadata.substr(at - nbytes, nbytes);
  };
  if (metadata.empty()) return {};
  for (std::size_t pairs = int32(); pairs > 0; --pairs) {
    std::string_view const found = text();
    std::string_view const value = text();
    if (found == key) return value;
  }
  return {};
}

/// The type of arrays. A field keeps the name of an extension type that nobody registered here in its metadata; a bare
/// type has no place for it and would quietly become its storage.
Ref type_of(PyObject* pyarrow, ArrowField const& root) {
  Ref type = schema_of(pyarrow, root, "DataType");
  Ref const extension = attr(pyarrow, "BaseExtensionType");
  Ref part = Ref::borrow(type.get());
  for (ArrowField const* field = &root;;) {
    std::string_view const name = metadata_value(field->metadata, "ARROW:extension:name");
    int const is = PyObject_IsInstance(part.get(), extension.get());
    check(is);
    if (!name.empty() && is == 0) {
      throw Error(ErrorKind::unsupported, cat("ARROW: the extension type '", name, "' is not registered here (pyarrow.register_extension_type)"));
    }
    if (is != 0) part = attr(part.get(), "storage_type");
    if (field->dictionary == nullptr) return type;
    field = field->dictionary.get();
    part = attr(part.get(), "value_type");
  }
}

/// The values of a dictionary have no field of their own that could keep the name of an extension type: where nobody registered it here, it
/// would quietly become its storage, wherever it sits.
void check_dictionaries(PyObject* pyarrow, ArrowField const& field) {
  for (ArrowField const& child : field.children) check_dictionaries(pyarrow, child);
  if (field.dictionary == nullptr) return;
  check_dictionaries(pyarrow, *field.dictionary);
  std::string_view const name = metadata_value(field.dictionary->metadata, "ARROW:extension:name");
  if (name.empty()) return;
  Ref const type = schema_of(pyarrow, *field.dictionary, "DataType");
  int const is = PyObject_IsInstance(type.get(), attr(pyarrow, "BaseExtensionType").get());
  check(is);
  if (is == 0) {
    throw Error(ErrorKind::unsupported, cat("ARROW: the extension type '", name, "' of a dictionary is not registered here (pyarrow.register_extension_type)"));
  }
}

Ref chunk_of(PyObject* pyarrow, ArrowData const& data, std::size_t i, char const* class_name, PyObject* type) {
  ArrowArray array{};
  data.export_chunk(i, &array);
  return import_from_c(pyarrow, class_name, array, type);
}

Ref chunks_of(PyObject* pyarrow, ArrowData const& data, char const* class_name, PyObject* type) {
  Ref list = take(PyList_New(0));
  for (std::size_t i = 0; i < data.chunks.size(); ++i) {
    Ref const chunk = chunk_of(pyarrow, data, i, class_name, type);
    check(PyList_Append(list.get(), chunk.get()));
  }
  return list;
}

/// Metadata as an exporter hands it over: without its length.
std::string_view metadata_of(char const* metadata) {
  if (metadata == nullptr) return {};
  std::size_t nbytes = 0;
  auto const int32 = [&] {
    std::int32_t value = 0;
    std::memcpy(&value, metadata + nbytes, sizeof(value));
    nbytes += sizeof(value);
    return static_cast<std::size_t>(value);
  };
  for (std::size_t texts = 2 * int32(); texts > 0; --texts) nbytes += int32();
  return {metadata, nbytes};
}

/// Whether a type in it has the name of an extension that is not Arrow's own. Types nest as pyarrow made them.
bool names_extension(ArrowSchema const& schema) {
  std::string_view const name = metadata_value(metadata_of(schema.metadata), "ARROW:extension:name");
  if (!name.empty() && !name.starts_with("arrow.")) return true;
  if (schema.dictionary != nullptr && names_extension(*schema.dictionary)) return true;
  return std::any_of(schema.children, schema.children + schema.n_children, [](ArrowSchema const* child) { return names_extension(*child); });
}

/// Whether the types of an object come back from the C interface as they are.
bool survives(PyObject* object) {
  Ref const adapters = import("transload.adapters.pyarrow");
  Ref const answer = take(PyObject_CallMethod(adapters.get(), "survives", "O", object));
  return answer.get() == Py_True;
}

}  // namespace

bool encode_arrow(HeaderWriter& writer, Outgoing& outgoing, PyObject* object, std::string_view kind_name, bool marked) {
  auto const kind = try_arrow_kind(kind_name);
  expects(kind.has_value(), ErrorKind::failed, [&] { return cat("Arrow kind ", kind_name); });
  std::shared_ptr<Exported> const exported = export_rows(object, *kind);
  if (names_extension(exported->schema) && !survives(object)) return false;
  std::vector<ArrowArray const*> chunks;
  for (ArrowArray const& array : exported->arrays) chunks.push_back(&array);

  std::shared_ptr<void const> both;
  auto const add = [&](std::span<std::byte const> bytes, std::shared_ptr<void const> const& made) {
    if (both == nullptr) both = std::make_shared<std::pair<std::shared_ptr<Exported>, std::shared_ptr<void const>>>(exported, made);
    Keeper keeper;
    keeper.memory = both;
    return outgoing.add(bytes, std::move(keeper));
  };
  auto const op = static_cast<std::uint8_t>(static_cast<std::uint8_t>(Op::arrow) | (marked ? mark : 0));
  (void)transload::encode_arrow(writer, *kind, exported->schema, chunks, op, add);
  return true;
}

Ref decode_arrow(msgpack::Reader& reader, std::size_t nfields, Header const& header, Incoming& incoming) {
  auto const held = std::make_shared<Held>();
  auto const payload = [&](std::uint32_t p, std::size_t align) -> std::span<std::byte const> {
    Payload const found = incoming.payload(p, false, align);
    if (found.exporter == nullptr) return {};
    held->hold(found.exporter);
    return {found.data, static_cast<std::size_t>(found.nbytes)};
  };
  ArrowData const data = transload::decode_arrow(reader, nfields, header, payload, held);

  Ref const pyarrow = import("pyarrow");
  check_dictionaries(pyarrow.get(), data.schema);
  switch (data.kind) {
    case ArrowKind::schema: return schema_of(pyarrow.get(), data.schema, "Schema");
    case ArrowKind::array: {
      Ref const type = type_of(pyarrow.get(), data.schema);
      return chunk_of(pyarrow.get(), data, 0, "Array", type.get());
    }
    case ArrowKind::chunked: {
      Ref const type = type_of(pyarrow.get(), data.schema);
      Ref const chunks = chunks_of(pyarrow.get(), data, "Array", type.get());
      return call_method(pyarrow.get(), "chunked_array", chunks.get(), type.get());
    }
    case ArrowKind::batch: {
      Ref const schema = schema_of(pyarrow.get(), data.schema, "Schema");
      return chunk_of(pyarrow.get(), data, 0, "RecordBatch", schema.get());
    }
    case ArrowKind::table: {
      Ref const schema = schema_of(pyarrow.get(), data.schema, "Schema");
      Ref const batches = chunks_of(pyarrow.get(), data, "RecordBatch", schema.get());
      Ref const table = attr(pyarrow.get(), "Table");
      return call_method(table.get(), "from_batches", batches.get(), schema.get());
    }
  }
  throw Error(ErrorKind::failed, "Arrow kind");
}

}  // namespace transload::py
