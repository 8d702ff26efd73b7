/// Containers on disk in transload._core: docs/format.md, "The container".
#include "transload/message/container.hpp"

#include <nanobind/nanobind.h>

#include <filesystem>
#include <string>

#include "bindings.hpp"
#include "frames.hpp"
#include "guard.hpp"
#include "process.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

std::filesystem::path path_of(nb::bytes const& path) { return std::string(path.c_str(), path.size()); }

nb::object save(nb::bytes const& path, nb::handle header, nb::handle frames, bool sync) {
  return guarded([&] {
    Ref const sequence = take(PySequence_Tuple(frames.ptr()));
    std::vector<BufferView> views;
    Message const message = borrowed_message(header.ptr(), sequence.get(), views);
    {
      std::filesystem::path const where = path_of(path);
      Released const released;
      save_container(where, message, {.sync = sync});
    }
    return Ref::borrow(Py_None);
  });
}

nb::object open(nb::bytes const& path, bool compare) {
  return guarded([&] {
    std::filesystem::path const where = path_of(path);
    Message message = [&] {
      Released const released;
      return Container::open(where).message(compare ? Check::all : Check::lazy);
    }();
    auto const view_of = [](Buffer buffer) {
      auto keeper = std::make_shared<Keeper>();
      keeper->readonly = buffer.readonly();
      auto const bytes = buffer.bytes();
      keeper->block = std::move(buffer);
      return make_view(keeper, bytes.data(), bytes.size(), keeper->readonly);
    };
    auto const header = message.header.bytes();
    Ref const header_bytes = take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(header.data()), static_cast<Py_ssize_t>(header.size())));
    Ref const frames = take(PyList_New(0));
    for (Buffer& frame : message.frames) check(PyList_Append(frames.get(), view_of(std::move(frame)).get()));
    return take(PyTuple_Pack(2, header_bytes.get(), frames.get()));
  });
}

}  // namespace

void bind_container(nb::module_& module) {
  module.def("save", &save, nb::arg("path"), nb::arg("header"), nb::arg("frames"), nb::arg("sync"),
             nb::sig("def save(path: bytes, header: object, frames: object, sync: bool) -> None"),
             "Writes a container: into a temporary beside `path`, which then takes its name.");
  module.def("open", &open, nb::arg("path"), nb::arg("check"), nb::sig("def open(path: bytes, check: bool) -> tuple[bytes, list[memoryview]]"),
             "Maps a container: (header, frames). Frames are private to this process; with `check` their checksums were compared.");
}

}  // namespace transload::py
