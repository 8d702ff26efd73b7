/// The process's pool of host memory in transload._core.
#include "transload/memory/resource.hpp"

#include <nanobind/nanobind.h>

#include <cstring>
#include <memory>

#include "bindings.hpp"
#include "frames.hpp"
#include "guard.hpp"
#include "process.hpp"
#include "transload/memory/fresh.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

/// From this size on a copy is made without the interpreter's lock.
constexpr std::size_t unlocked_nbytes = std::size_t{256} << 10;

PoolResource& pool() { return static_cast<PoolResource&>(default_resource(MemoryKind::host)); }

nb::object allocate(std::size_t nbytes) {
  return guarded([&] {
    std::byte* data = nullptr;
    auto keeper = std::make_shared<Keeper>(Keeper::allocate(nbytes, data));
    return make_view(std::move(keeper), data, nbytes, false);
  });
}

nb::object copied(nb::handle buffers) {
  return guarded([&] {
    Ref const sequence = take(PySequence_Tuple(buffers.ptr()));
    Ref const copies = take(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyTuple_Size(sequence.get()); ++i) {
      PyObject* const buffer = PyTuple_GetItem(sequence.get(), i);
      if (PyBytes_CheckExact(buffer) != 0) {
        check(PyList_Append(copies.get(), buffer));
        continue;
      }
      BufferView const source(buffer, PyBUF_SIMPLE);
      std::byte* data = nullptr;
      auto keeper = std::make_shared<Keeper>(Keeper::allocate(source.bytes().size(), data));
      if (source.bytes().size() >= unlocked_nbytes) {
        Released const released;
        copy_to_fresh({data, source.bytes().size()}, source.bytes());
      } else if (!source.bytes().empty()) {
        std::memcpy(data, source.bytes().data(), source.bytes().size());
      }
      check(PyList_Append(copies.get(), make_view(std::move(keeper), data, source.bytes().size(), false).get()));
    }
    return Ref::borrow(copies.get());
  });
}

std::uint64_t nbytes_of(PyObject* frame) {
  if (PyBytes_CheckExact(frame) != 0) return static_cast<std::uint64_t>(PyBytes_Size(frame));
  bool const plain = PyMemoryView_Check(frame) != 0 || PyByteArray_CheckExact(frame) != 0;
  Ref const nbytes = plain ? Ref() : try_attr(frame, "nbytes");  // a GPU's array has it, and a buffer that cannot be had
  if (!nbytes) return static_cast<std::uint64_t>(BufferView(frame, PyBUF_FULL_RO)->len);
  std::uint64_t const n = PyLong_AsUnsignedLongLong(nbytes.get());
  if (PyErr_Occurred() != nullptr) throw Raised{};
  return n;
}

nb::object frames_nbytes(nb::handle frames, bool device) {
  return guarded([&] {
    Ref const sequence = take(PySequence_Tuple(frames.ptr()));
    std::uint64_t total = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(sequence.get()); ++i) {
      PyObject* const frame = PyTuple_GetItem(sequence.get(), i);
      if (device || as_device_memory(frame) == nullptr) total += nbytes_of(frame);
    }
    return take(PyLong_FromUnsignedLongLong(total));
  });
}

nb::object bytes_to_fill(std::size_t nbytes) {
  return guarded([&] {
    auto keeper = std::make_shared<Keeper>();
    keeper->object = take(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(nbytes)));
    Ref const object = Ref::borrow(keeper->object.get());
    auto const* const data = reinterpret_cast<std::byte const*>(PyBytes_AsString(object.get()));
    return take(PyTuple_Pack(2, object.get(), make_view(std::move(keeper), data, nbytes, false).get()));
  });
}

}  // namespace

void bind_memory(nb::module_& module) {
  (void)pool();  // made before anybody can fork
  module.def("allocate", &allocate, nb::arg("nbytes"), nb::sig("def allocate(nbytes: int) -> memoryview"),
             "Writable bytes from the process's pool, 64-byte aligned and not initialised; they go back when the last view of them dies.");
  module.def("frames_nbytes", &frames_nbytes, nb::arg("frames"), nb::arg("device") = true,
             nb::sig("def frames_nbytes(frames: typing.Iterable[typing.Any], device: bool = True) -> int"),
             "Bytes of these frames together: buffers, or what has `nbytes`. Without `device` those of GPUs count nothing.");
  module.def("bytes_to_fill", &bytes_to_fill, nb::arg("nbytes"), nb::sig("def bytes_to_fill(nbytes: int) -> tuple[bytes, memoryview]"),
             "A bytes object that is not initialised, and a writable view of its bytes. Nobody may see it before it is filled.");
  module.def(
      "is_whole_bytes",
      [](nb::handle frame) {
        return guarded([&] {
          BufferView const view(frame.ptr(), PyBUF_SIMPLE);
          return Ref::borrow(whole_bytes(frame.ptr(), view.bytes()) != nullptr ? Py_True : Py_False);
        });
      },
      nb::arg("frame"), nb::sig("def is_whole_bytes(frame: typing.Any) -> bool"), "Whether a frame is all of a bytes object.");
  module.def("copied", &copied, nb::arg("buffers"), nb::sig("def copied(buffers: typing.Iterable[typing.Any]) -> list[bytes | memoryview]"),
             "Copies of these bytes, each as `allocate` gives them; of `bytes`, which nobody can change, the objects themselves.");
  module.def("release_pool", [] { pool().release(); }, "Gives the pool's idle memory back to the system.");
  module.def("keep_in_pool", [](std::size_t nbytes) { pool().keep(nbytes); }, nb::arg("nbytes"),
             "Lets so many bytes lie idle in the pool, from now on.");
  module.def("pool_idle_nbytes", [] { return pool().idle_nbytes(); }, "Bytes that lie idle in the pool.");
}

}  // namespace transload::py
