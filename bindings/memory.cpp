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
      BufferView const source(PyTuple_GetItem(sequence.get(), i), PyBUF_SIMPLE);
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

}  // namespace

void bind_memory(nb::module_& module) {
  (void)pool();  // made before anybody can fork
  module.def("allocate", &allocate, nb::arg("nbytes"), nb::sig("def allocate(nbytes: int) -> memoryview"),
             "Writable bytes from the process's pool, 64-byte aligned and not initialised; they go back when the last view of them dies.");
  module.def("copied", &copied, nb::arg("buffers"), nb::sig("def copied(buffers: typing.Iterable[typing.Any]) -> list[memoryview]"),
             "Copies of these bytes, each as `allocate` gives them.");
  module.def("release_pool", [] { pool().release(); }, "Gives the pool's idle memory back to the system.");
  module.def("keep_in_pool", [](std::size_t nbytes) { pool().keep(nbytes); }, nb::arg("nbytes"),
             "Lets so many bytes lie idle in the pool, from now on.");
  module.def("pool_idle_nbytes", [] { return pool().idle_nbytes(); }, "Bytes that lie idle in the pool.");
}

}  // namespace transload::py
