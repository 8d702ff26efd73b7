// The module transload._core; each other file of this folder binds one room.
#include "bindings.hpp"
#include "transload/memory/cuda.hpp"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

// Whatever nanobind and we keep is kept once a process, so a second interpreter would take it from the first. Nothing of either may run there:
// nanobind's own entry gets another name, and the one that Python looks for asks first.
#define PyInit__core nanobind_init_core
NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // listeners and connections of a loop in another thread are alive when the interpreter ends
  module.doc() = "The compiled half of transload.";
  module.attr("__version__") = TRANSLOAD_VERSION;
  module.def("built_with_cuda", &transload::built_with_cuda, "Whether this build can use a GPU where there is one.");
  module.def("may_have_devices", &transload::may_have_devices, "Whether this process may turn out to have GPUs; asks without the CUDA runtime.");
  module.def("device_count", &transload::device_count,
             "How many GPUs this process can use; 0 without CUDA in the build, a driver or a device.");
  transload::py::bind_graph(module);
  transload::py::bind_dask_codec(module);
  transload::py::bind_device(module);
  transload::py::bind_dlpack(module);
  transload::py::bind_checks(module);
  transload::py::bind_container(module);
  transload::py::bind_memory(module);
  transload::py::bind_process(module);
  transload::py::bind_bounds(module);
  transload::py::bind_store(module);
  transload::py::bind_transport(module);
  transload::py::bind_trees(module);
  transload::py::bind_forest(module);
}
#undef PyInit__core

namespace {

bool in_main_interpreter() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return true;
  PyErr_SetString(PyExc_ImportError,
                  "transload runs in the main interpreter only and cannot be imported in a sub-interpreter; under mod_wsgi, "
                  "WSGIApplicationGroup %{GLOBAL} asks for the main one");
  return false;
}

int (*nanobind_exec)(PyObject*) = nullptr;

int exec_in_main_interpreter(PyObject* module) { return in_main_interpreter() ? nanobind_exec(module) : -1; }

}  // namespace

// From CPython 3.13 on the main interpreter calls this for the others, too, which then run the module's exec slot: it asks again.
extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (!in_main_interpreter()) return nullptr;
  PyObject* const made = nanobind_init_core();
  if (made == nullptr || nanobind_exec != nullptr) return made;
  for (PyModuleDef_Slot* slot = reinterpret_cast<PyModuleDef*>(made)->m_slots; slot->slot != 0; ++slot) {
    if (slot->slot != Py_mod_exec) continue;
    nanobind_exec = reinterpret_cast<int (*)(PyObject*)>(slot->value);
    slot->value = reinterpret_cast<void*>(exec_in_main_interpreter);
  }
  return made;
}
