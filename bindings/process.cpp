/// Threads, forks and the end of the interpreter in transload._core.
#include "process.hpp"

#include <chrono>
#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "transload/base/error.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

/// Guarded by the GIL, all of it.
struct Process {
  long calls = 0;   ///< under way, of all threads
  long pauses = 0;  ///< of the collector, by those that found it enabled
  bool ending = false;
  pthread_t ends{};  ///< the thread that ends the interpreter
};
constinit Process process;

/// This thread's share of the same.
struct Thread {
  long calls = 0;
  long pauses = 0;
  bool serves_to_the_end = false;
};
constinit thread_local Thread thread;

/// From now on only this thread may call; waits until the calls of the others are done, at most so long.
bool end_calls(double seconds) {
  process.ending = true;
  process.ends = ::pthread_self();
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (process.calls > thread.calls && std::chrono::steady_clock::now() < deadline) {
    Released const released;
    ::usleep(500);
  }
  return process.calls <= thread.calls;
}

/// In the child of a fork this thread is the only one: what the others had begun does not go on, and is not waited for.
void forked() {
  if (process.pauses > thread.pauses && thread.pauses == 0) PyGC_Enable();
  process = {.calls = thread.calls, .pauses = thread.pauses};
}

}  // namespace

void stay() noexcept {
  for (;;) ::pause();
}

Call::Call() {
  bool const may = !process.ending || thread.serves_to_the_end || ::pthread_equal(process.ends, ::pthread_self()) != 0;
  expects(may, ErrorKind::failed,
          "the interpreter ends; only the thread that ends it can still call transload");
  ++process.calls;
  ++thread.calls;
}

void serve_to_the_end() noexcept { thread.serves_to_the_end = true; }

Call::~Call() {
  --process.calls;
  --thread.calls;
}

Released::~Released() {
  try {
    PyEval_RestoreThread(thread_);
  } catch (abi::__forced_unwind const&) {
    stay();
  }
}

CollectorPaused::CollectorPaused() : was_enabled_(PyGC_Disable() != 0) {
  if (!was_enabled_) return;
  ++process.pauses;
  ++thread.pauses;
}

CollectorPaused::~CollectorPaused() {
  if (!was_enabled_) return;
  --process.pauses;
  --thread.pauses;
  PyGC_Enable();
}

void bind_process(nb::module_& module) {
  module.def("end_calls", &end_calls, nb::arg("seconds"),
             "Waits for the calls of other threads, at most so long, and refuses new ones; whether all are done. For the end of the interpreter.");
  module.def("forked", &forked, "Forgets what other threads had begun. For the child of a fork.");
}

}  // namespace transload::py
