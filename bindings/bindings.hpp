#pragma once
/// What each file of bindings/ adds to the module transload._core.

#include <nanobind/nanobind.h>

namespace transload::py {

void bind_checks(nanobind::module_& module);
void bind_bounds(nanobind::module_& module);
void bind_container(nanobind::module_& module);
void bind_dask_codec(nanobind::module_& module);
void bind_device(nanobind::module_& module);
void bind_dlpack(nanobind::module_& module);
void bind_graph(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_process(nanobind::module_& module);
void bind_store(nanobind::module_& module);
void bind_transport(nanobind::module_& module);
void bind_trees(nanobind::module_& module);
void bind_forest(nanobind::module_& module);

}  // namespace transload::py
