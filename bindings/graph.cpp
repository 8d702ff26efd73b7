/// The walk's functions in transload._core.
#include "graph.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "bindings.hpp"
#include "frames.hpp"
#include "globals.hpp"
#include "transload/base/error.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

/// Sets the Python error that goes with the C++ exception in flight.
void set_python_error(ErrorKind kind, std::string const& text) {
  PyObject* const cls = globals().errors == nullptr ? nullptr : PyDict_GetItemString(globals().errors, std::string(name(kind)).c_str());
  PyErr_SetString(cls != nullptr ? cls : PyExc_RuntimeError, text.c_str());
}

/// Runs `body` and turns what it throws into the Python error that nanobind then raises.
template <class Body>
nb::object guarded(Body&& body) {
  try {
    return nb::steal(body().release());
  } catch (Raised const&) {
  } catch (UntrustedName const& error) {
    PyObject* const cls = PyDict_GetItemString(globals().errors, "untrusted");
    PyErr_SetString(cls != nullptr ? cls : PyExc_ValueError, error.what());
  } catch (Error const& error) {
    set_python_error(error.kind(), error.what());
  } catch (std::bad_alloc const&) {
    PyErr_NoMemory();
  }
  throw nb::python_error();
}

nb::object encode_object(nb::handle object, bool host, bool pickle, std::uint64_t pack_limit, std::uint64_t split_limit, nb::handle record) {
  return guarded([&] {
    EncodeOptions const options{.host = host,
                                .pickle = pickle,
                                .limits = {.pack_limit = pack_limit, .split_limit = split_limit},
                                .record = record.is_none() ? nullptr : record.ptr()};
    Encoded const encoded = encode(object.ptr(), options);
    return take(PyTuple_Pack(3, encoded.header.get(), encoded.frames.get(), encoded.families.get()));
  });
}

nb::object decode_object(nb::handle header, nb::handle frames, bool pickle) {
  return guarded([&] {
    BufferView const view(header.ptr(), PyBUF_SIMPLE);
    return decode(view.bytes(), frames.ptr(), {.pickle = pickle});
  });
}

void set_tables(nb::dict trusted, nb::dict overrides, nb::dict adapters_by_type, nb::dict adapters_by_name, nb::dict lazy, nb::dict errors,
                nb::callable by_value, nb::callable from_value) {
  Globals& g = globals();
  g.trusted = trusted.inc_ref().ptr();
  g.overrides = overrides.inc_ref().ptr();
  g.adapters_by_type = adapters_by_type.inc_ref().ptr();
  g.adapters_by_name = adapters_by_name.inc_ref().ptr();
  g.lazy = lazy.inc_ref().ptr();
  g.errors = errors.inc_ref().ptr();
  g.by_value = by_value.inc_ref().ptr();
  g.from_value = from_value.inc_ref().ptr();
}

}  // namespace

void bind_graph(nb::module_& module) {
  init_globals();
  init_frames();
  LayoutLimits const defaults;
  module.attr("PACK_LIMIT") = defaults.pack_limit;
  module.attr("SPLIT_LIMIT") = defaults.split_limit;
  module.attr("FORMAT_VERSION") = format_version;
  module.def("set_tables", &set_tables, nb::arg("trusted"), nb::arg("overrides"), nb::arg("adapters_by_type"), nb::arg("adapters_by_name"),
             nb::arg("lazy"), nb::arg("errors"), nb::arg("by_value"), nb::arg("from_value"),
             "Hands over the tables that the walk looks into; it keeps and reads these very dicts.");
  module.def("encode", &encode_object, nb::arg("object").none(), nb::arg("host"), nb::arg("pickle"), nb::arg("pack_limit") = defaults.pack_limit,
             nb::arg("split_limit") = defaults.split_limit, nb::arg("record") = nb::none(),
             nb::sig("def encode(object: object, host: bool, pickle: bool, pack_limit: int = ..., split_limit: int = ..., "
                     "record: list[list[object]] | None = None) -> tuple[bytes, list[memoryview], tuple[str, ...]]"),
             "Encodes an object: (header, frames, families used).");
  module.def("encode_error", [](std::string_view text) { return guarded([&] { return encode_error(text); }); }, nb::arg("text"),
             nb::sig("def encode_error(text: str) -> bytes"), "The header of a message that makes its receiver raise.");
  module.def("decode", &decode_object, nb::arg("header"), nb::arg("frames"), nb::arg("pickle"),
             nb::sig("def decode(header: object, frames: object, pickle: bool) -> object"), "Rebuilds the object of a message.");
}

}  // namespace transload::py
