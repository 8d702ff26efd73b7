#pragma once
/// What each file of bindings/ adds to the module transload._core.

#include <nanobind/nanobind.h>

namespace transload::py {

void bind_container(nanobind::module_& module);
void bind_graph(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_trees(nanobind::module_& module);

}  // namespace transload::py
