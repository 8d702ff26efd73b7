/* One Python call under callgrind: its instructions and nothing else's. benchmarks/instructions.py loads this by ctypes. */
#include <Python.h>

#include <valgrind/callgrind.h>

/* Calls `callable` with callgrind watching, and has it write what it counted under `name`. */
PyObject* measured(PyObject* callable, char const* name) {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  PyObject* const result = PyObject_CallNoArgs(callable);
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(name);
  return result;
}
