#pragma once
/// From C++ exceptions to Python's, at the door of every function of transload._core.

#include <nanobind/nanobind.h>

#include <cxxabi.h>
#include <new>
#include <string>

#include "globals.hpp"
#include "graph.hpp"
#include "process.hpp"
#include "py.hpp"
#include "transload/base/error.hpp"

namespace transload::py {

/// Sets the class of transload._errors that goes by `kind`.
inline void set_python_error(std::string_view kind, char const* text) {
  PyObject* const cls = globals().errors == nullptr ? nullptr : PyDict_GetItemString(globals().errors, std::string(kind).c_str());
  PyErr_SetObject(cls != nullptr ? cls : PyExc_RuntimeError, lossy_str(text).get());
}

/// Runs `body`, which returns a Ref, and turns what it throws into the Python error that nanobind then raises.
template <class Body>
nanobind::object guarded(Body&& body) {
  try {
    Call const call;
    return nanobind::steal(body().release());
  } catch (Raised const&) {
  } catch (UntrustedName const& error) {
    set_python_error("untrusted", error.what());
  } catch (Error const& error) {
    set_python_error(name(error.kind()), error.what());
  } catch (std::bad_alloc const&) {
    PyErr_NoMemory();
  } catch (abi::__forced_unwind const&) {
    stay();
  }
  throw nanobind::python_error();
}

}  // namespace transload::py
