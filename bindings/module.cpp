// The module transload._core; each other file of this folder binds one room.
#include "bindings.hpp"
#include "transload/memory/cuda.hpp"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "The compiled half of transload.";
  module.attr("__version__") = TRANSLOAD_VERSION;
  module.def("built_with_cuda", &transload::built_with_cuda, "Whether this build can use a GPU where there is one.");
  module.def("device_count", &transload::device_count,
             "How many GPUs this process can use; 0 without CUDA in the build, a driver or a device.");
  transload::py::bind_graph(module);
  transload::py::bind_container(module);
  transload::py::bind_memory(module);
  transload::py::bind_trees(module);
}
