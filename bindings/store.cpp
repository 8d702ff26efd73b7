/// How frames are stored, in transload._core: docs/format.md, "meta" and "Compressed frames".
#include "transload/message/store.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <optional>
#include <vector>

#include "bindings.hpp"
#include "frames.hpp"
#include "guard.hpp"
#include "process.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

nb::object store_frames(nb::handle header, nb::handle frames, std::optional<std::string_view> compression, std::optional<int> level, bool checksum) {
  return guarded([&] {
    StoreOptions options{.checksum = checksum};
    if (compression) options.compression = compression_called(*compression);
    if (level) options.level = *level;
    Ref const sequence = take(PySequence_Tuple(frames.ptr()));
    std::vector<BufferView> views;
    Message message = borrowed_message(header.ptr(), sequence.get(), views);
    std::vector<StoredFrame> stored;
    {
      Released const released;
      message = store(std::move(message), options, default_resource(), &stored);
    }
    auto const header_bytes = message.header.bytes();
    Ref const new_header =
        take(PyBytes_FromStringAndSize(reinterpret_cast<char const*>(header_bytes.data()), static_cast<Py_ssize_t>(header_bytes.size())));
    auto const n = static_cast<Py_ssize_t>(stored.size());
    Ref const new_frames = take(PyList_New(n));
    Ref const report = take(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      auto const at = static_cast<std::size_t>(i);
      StoredFrame const& frame = stored[at];
      Buffer& buffer = message.frames[at];
      bool const untouched = buffer.data() == views[at].bytes().data();
      if (untouched) {
        check(PyList_SetItem(new_frames.get(), i, Ref::borrow(PyTuple_GetItem(sequence.get(), i)).release()));
      } else {
        auto const bytes = buffer.bytes();
        auto keeper = std::make_shared<Keeper>();
        keeper->block = std::move(buffer);
        check(PyList_SetItem(new_frames.get(), i, make_view(std::move(keeper), bytes.data(), bytes.size(), true).release()));
      }
      Ref const codec = frame.codec.empty() ? Ref::borrow(Py_None) : str(frame.codec);
      check(PyList_SetItem(report.get(), i,
                           take(Py_BuildValue("(OKKs)", codec.get(), static_cast<unsigned long long>(frame.raw_nbytes),
                                              static_cast<unsigned long long>(frame.nbytes), frame.reason.c_str()))
                               .release()));
    }
    return take(PyTuple_Pack(3, new_header.get(), new_frames.get(), report.get()));
  });
}

}  // namespace

void bind_store(nb::module_& module) {
  module.def("store", &store_frames, nb::arg("header"), nb::arg("frames"), nb::arg("compression").none(), nb::arg("level").none(), nb::arg("checksum"),
             nb::sig("def store(header: object, frames: object, compression: str | None, level: int | None, checksum: bool) "
                     "-> tuple[bytes, list[memoryview], list[tuple[str | None, int, int, str]]]"),
             "Compresses frames where that pays and sums them up: (header, frames, [(codec, bytes before, bytes stored, why not)]). Other threads run meanwhile.");
  module.attr("LEAST_COMPRESSED_NBYTES") = least_compressed_nbytes;
}

}  // namespace transload::py
