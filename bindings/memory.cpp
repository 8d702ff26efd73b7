/// The process's pool of host memory in transload._core.
#include "transload/memory/resource.hpp"

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "frames.hpp"
#include "guard.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

PoolResource& pool() { return static_cast<PoolResource&>(default_resource(MemoryKind::host)); }

nb::object allocate(std::size_t nbytes) {
  return guarded([&] {
    std::byte* data = nullptr;
    auto keeper = std::make_shared<Keeper>(Keeper::allocate(nbytes, data));
    return make_view(std::move(keeper), data, nbytes, false);
  });
}

}  // namespace

void bind_memory(nb::module_& module) {
  (void)pool();  // made before anybody can fork
  module.def("allocate", &allocate, nb::arg("nbytes"), nb::sig("def allocate(nbytes: int) -> memoryview"),
             "Writable bytes from the process's pool, 64-byte aligned and not initialised; they go back when the last view of them dies.");
  module.def("release_pool", [] { pool().release(); }, "Gives the pool's idle memory back to the system.");
  module.def("pool_idle_nbytes", [] { return pool().idle_nbytes(); }, "Bytes that lie idle in the pool.");
}

}  // namespace transload::py
