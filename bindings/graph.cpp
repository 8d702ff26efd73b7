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

struct Families {
  bool cuda = false;
  bool host = false;
  bool names = false;   ///< names that are not trusted, no pickles: what may be in messages of Dask's own, also under forbid_pickle
  bool pickle = false;  ///< and not forbidden
};

Families families_of(PyObject* listed) {
  Ref const names = take(PySequence_Tuple(listed));
  Families families;
  for (Py_ssize_t i = 0; i < PyTuple_Size(names.get()); ++i) {
    PyObject* const name = PyTuple_GetItem(names.get(), i);
    std::string_view const text = PyUnicode_Check(name) ? utf8(name) : std::string_view();
    if (text == "host") {
      families.host = true;
    } else if (text == "pickle") {
      families.pickle = !globals().pickle_forbidden;
    } else if (text == "names") {
      families.names = true;
    } else if (text == "cuda") {
      families.cuda = true;
    } else if (text != "error") {
      PyErr_Format(PyExc_ValueError, "family %R is none of cuda, host, pickle, error", name);
      throw Raised{};
    }
  }
  return families;
}

nb::object encode_object(nb::handle object, nb::handle listed, std::optional<std::uint64_t> pack_limit, nb::handle record, std::uint64_t device_least, std::uint64_t device_pack) {
  return guarded([&] {
    Families const families = families_of(listed.ptr());
    EncodeOptions const options{.host = families.host || families.cuda,
                                .cuda = families.cuda,
                                .device_least = device_least,
                                .device_pack = device_pack,
                                .names = families.names || families.pickle,
                                .pickle = families.pickle,
                                .limits = pack_limit ? std::optional(LayoutLimits{.pack_limit = *pack_limit}) : std::nullopt,
                                .record = record.is_none() ? nullptr : record.ptr()};
    Encoded const encoded = encode(object.ptr(), options);
    return take(PyTuple_Pack(3, encoded.header.get(), encoded.frames.get(), encoded.families.get()));
  });
}

nb::object decode_object(nb::handle header, nb::handle frames, nb::handle listed, std::optional<std::uint64_t> most_nbytes, std::optional<int> device) {
  return guarded([&] {
    Families const families = families_of(listed.ptr());
    // Another thread, or another process where it lies in shared memory, could change the header between a check and its use; bytes cannot change.
    BufferView const view(header.ptr(), PyBUF_SIMPLE);
    std::vector<std::byte> copy;
    if (PyBytes_CheckExact(header.ptr()) == 0) copy.assign(view.bytes().begin(), view.bytes().end());
    return decode(copy.empty() ? view.bytes() : std::span<std::byte const>(copy), frames.ptr(), {.host = families.host || families.cuda, .names = families.names || families.pickle, .pickle = families.pickle, .device = device, .most_nbytes = most_nbytes});
  });
}

void set_tables(nb::dict trusted, nb::dict overrides, nb::dict state_checks, nb::dict adapters_by_type, nb::dict adapters_by_name, nb::dict lazy,
                nb::dict errors, nb::callable goes_by_value, nb::callable by_value, nb::callable from_value) {
  Globals& g = globals();
  g.trusted = trusted.inc_ref().ptr();
  g.overrides = overrides.inc_ref().ptr();
  g.state_checks = state_checks.inc_ref().ptr();
  g.adapters_by_type = adapters_by_type.inc_ref().ptr();
  g.adapters_by_name = adapters_by_name.inc_ref().ptr();
  g.lazy = lazy.inc_ref().ptr();
  g.errors = errors.inc_ref().ptr();
  g.goes_by_value = goes_by_value.inc_ref().ptr();
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
    Ref const codecs = take(PyTuple_New(static_cast<Py_ssize_t>(parsed.frame_codec.size())));
    for (std::size_t i = 0; i < parsed.frame_codec.size(); ++i) {
      std::string_view const codec = parsed.frame_codec[i];
      check(PyTuple_SetItem(codecs.get(), static_cast<Py_ssize_t>(i), (codec.empty() ? Ref::borrow(Py_None) : str(codec)).release()));
    }
    Ref const checksums = take(PyTuple_New(static_cast<Py_ssize_t>(parsed.frame_xxh3.size())));
    for (std::size_t i = 0; i < parsed.frame_xxh3.size(); ++i) {
      check(PyTuple_SetItem(checksums.get(), static_cast<Py_ssize_t>(i), take(PyLong_FromUnsignedLongLong(parsed.frame_xxh3[i])).release()));
    }
    return take(Py_BuildValue("{sOsOsOsOsOsnsnsn}", "codecs", codecs.get(), "checksums", checksums.get(), "names", names.get(), "families", families.get(), "frames", frames.get(), "payloads",
                              static_cast<Py_ssize_t>(parsed.sizes.size()), "shapes", static_cast<Py_ssize_t>(parsed.shapes.size()), "root_nbytes",
                              static_cast<Py_ssize_t>(view.bytes().size() - parsed.root_offset)));
  });
}

}  // namespace

void bind_graph(nb::module_& module) {
  init_globals();
  init_frames();
  module.attr("FORMAT_VERSION") = format_version;
  module.def("set_tables", &set_tables, nb::arg("trusted"), nb::arg("overrides"), nb::arg("state_checks"), nb::arg("adapters_by_type"),
             nb::arg("adapters_by_name"), nb::arg("lazy"), nb::arg("errors"), nb::arg("goes_by_value"), nb::arg("by_value"), nb::arg("from_value"),
             nb::sig("def set_tables(trusted: dict[str, int], overrides: dict[str, object], state_checks: dict[str, typing.Any], adapters_by_type: dict[typing.Any, typing.Any], "
                     "adapters_by_name: dict[str, typing.Any], lazy: dict[str, typing.Any], errors: dict[str, type[Exception]], "
                     "goes_by_value: typing.Any, by_value: typing.Any, from_value: typing.Any) -> None"),
             "Hands over the tables that the walk looks into; it keeps and reads these very dicts.");
  module.def("encode", &encode_object, nb::arg("object").none(), nb::arg("families"), nb::arg("pack_limit") = nb::none(),
             nb::arg("record") = nb::none(), nb::arg("device_least") = 0, nb::arg("device_pack") = 0,
             nb::sig("def encode(object: object, families: typing.Iterable[str], pack_limit: int | None = None, "
                     "record: list[list[object]] | None = None, device_least: int = 0, device_pack: int = 0) -> tuple[bytes, list[typing.Any], tuple[str, ...]]"),
             "Encodes an object: (header, frames, families used). A GPU's memory comes to host memory where there are fewer than `device_least` bytes of it; "
             "pieces of up to `device_pack` bytes that stay on the device are gathered there.");
  module.def("forbid_pickle", [](bool on) { globals().pickle_forbidden = on; }, nb::arg("on"), nb::sig("def forbid_pickle(on: bool) -> None"),
             "Whether family pickle is refused from now on, whatever a call lists.");
  module.def("pickle_is_forbidden", [] { return globals().pickle_forbidden; }, nb::sig("def pickle_is_forbidden() -> bool"), "What forbid_pickle said last.");
  module.def("encode_error", [](std::string_view text) { return guarded([&] { return encode_error(text); }); }, nb::arg("text"),
             nb::sig("def encode_error(text: str) -> bytes"), "The header of a message that makes its receiver raise.");
  module.def("decode", &decode_object, nb::arg("header"), nb::arg("frames"), nb::arg("families"), nb::arg("most_nbytes") = nb::none(), nb::arg("device") = nb::none(),
             nb::sig("def decode(header: object, frames: object, families: typing.Iterable[str], most_nbytes: int | None = None, device: int | None = None) -> object"),
             "Rebuilds the object of a message; more than `most_nbytes` of compressed frames are refused. A GPU's memory goes to `device`: None for the current one, HOST_TWIN for none.");
  module.def("charge", [](std::uint64_t nbytes) { (void)guarded([&] { charge_copy(nbytes); return Ref::borrow(Py_None); }); }, nb::arg("nbytes"),
             nb::sig("def charge(nbytes: int) -> None"),
             "Counts bytes or items that a stand-in or an adapter copies out of its arguments; raises Malformed when a decode copies more than its message has.");
  module.def("charge_keys", [](nb::handle keys) { (void)guarded([&] { charge_keys(keys.ptr()); return Ref::borrow(Py_None); }); }, nb::arg("keys"),
             nb::sig("def charge_keys(keys: typing.Iterable[object]) -> None"),
             "In a stand-in: the elements of this container become keys; many of one hash are refused.");
  module.def("inspect", &inspect, nb::arg("header"), nb::sig("def inspect(header: object) -> dict[str, typing.Any]"),
             "The tables of a header: names, families, frames (bytes each, as opened), their codecs and checksums (empty where the header has none), counts. Builds nothing.");
}

}  // namespace transload::py
