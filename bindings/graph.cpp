/// The walk's functions in transload._core.
#include "graph.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include "bindings.hpp"
#include "frames.hpp"
#include "globals.hpp"
#include "guard.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

nb::object encode_object(nb::handle object, bool host, bool pickle, std::optional<std::uint64_t> pack_limit, nb::handle record) {
  return guarded([&] {
    EncodeOptions const options{.host = host,
                                .pickle = pickle,
                                .limits = pack_limit ? std::optional(LayoutLimits{.pack_limit = *pack_limit}) : std::nullopt,
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

/// The tables of a header, for those who only look: names, shapes, frames. Builds nothing.
nb::object inspect(nb::handle header) {
  return guarded([&] {
    BufferView const view(header.ptr(), PyBUF_SIMPLE);
    Header const parsed = Header::parse(view.bytes());
    Ref const names = take(PyList_New(0));
    for (NameEntry const& entry : parsed.names) {
      check(PyList_Append(names.get(), str(entry.by_value ? cat("(by value, ", entry.bytes.size(), " bytes of pickle)") : std::string(entry.text)).get()));
    }
    Ref const families = take(PyList_New(0));
    for (std::string_view family : parsed.families) check(PyList_Append(families.get(), str(family).get()));
    if (parsed.families.empty()) check(PyList_Append(families.get(), str("host").get()));
    Ref const frames = take(PyList_New(0));
    for (std::uint64_t n : parsed.layout.frame_nbytes) check(PyList_Append(frames.get(), take(PyLong_FromUnsignedLongLong(n)).get()));
    return take(Py_BuildValue("{sOsOsOsnsnsn}", "names", names.get(), "families", families.get(), "frames", frames.get(), "payloads",
                              static_cast<Py_ssize_t>(parsed.sizes.size()), "shapes", static_cast<Py_ssize_t>(parsed.shapes.size()), "root_nbytes",
                              static_cast<Py_ssize_t>(view.bytes().size() - parsed.root_offset)));
  });
}

}  // namespace

void bind_graph(nb::module_& module) {
  init_globals();
  init_frames();
  module.attr("FORMAT_VERSION") = format_version;
  module.def("set_tables", &set_tables, nb::arg("trusted"), nb::arg("overrides"), nb::arg("adapters_by_type"), nb::arg("adapters_by_name"),
             nb::arg("lazy"), nb::arg("errors"), nb::arg("by_value"), nb::arg("from_value"),
             nb::sig("def set_tables(trusted: dict[str, int], overrides: dict[str, object], adapters_by_type: dict[typing.Any, typing.Any], "
                     "adapters_by_name: dict[str, typing.Any], lazy: dict[str, typing.Any], errors: dict[str, type[Exception]], "
                     "by_value: typing.Any, from_value: typing.Any) -> None"),
             "Hands over the tables that the walk looks into; it keeps and reads these very dicts.");
  module.def("encode", &encode_object, nb::arg("object").none(), nb::arg("host"), nb::arg("pickle"), nb::arg("pack_limit") = nb::none(),
             nb::arg("record") = nb::none(),
             nb::sig("def encode(object: object, host: bool, pickle: bool, pack_limit: int | None = None, "
                     "record: list[list[object]] | None = None) -> tuple[bytes, list[memoryview], tuple[str, ...]]"),
             "Encodes an object: (header, frames, families used).");
  module.def("encode_error", [](std::string_view text) { return guarded([&] { return encode_error(text); }); }, nb::arg("text"),
             nb::sig("def encode_error(text: str) -> bytes"), "The header of a message that makes its receiver raise.");
  module.def("decode", &decode_object, nb::arg("header"), nb::arg("frames"), nb::arg("pickle"),
             nb::sig("def decode(header: object, frames: object, pickle: bool) -> object"), "Rebuilds the object of a message.");
  module.def("inspect", &inspect, nb::arg("header"), nb::sig("def inspect(header: object) -> dict[str, typing.Any]"),
             "The tables of a header: names, families, frames (bytes each), counts. Builds nothing.");
}

}  // namespace transload::py
