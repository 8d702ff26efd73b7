#pragma once
/// Other threads, forks and the end of the interpreter, as every function of transload._core meets them. docs/processes.md.

#include "py.hpp"

namespace transload::py {

/// Stays here for good without the GIL: what a thread does that the ending interpreter has given up on. Until CPython 3.14 it unwinds such a
/// thread instead, and destructors on the way would drop references without the GIL.
[[noreturn]] void stay() noexcept;

/// A call that may run Python, begun by `guarded`; the end of the interpreter waits for those of other threads.
class Call {
 public:
  /// @throws Error{failed} while the interpreter ends, unless this thread ends it or serves to the end.
  Call();
  Call(Call const&) = delete;
  Call& operator=(Call const&) = delete;
  ~Call();
};

/// Lets this thread call to the very end: an event loop closes its connections while `atexit` functions wait for it. A
/// call that is under way when they are done is not waited for.
void serve_to_the_end() noexcept;

/// Lets other threads have the GIL while it lives.
class Released {
 public:
  Released() noexcept : thread_(PyEval_SaveThread()) {}
  Released(Released const&) = delete;
  Released& operator=(Released const&) = delete;
  ~Released();

 private:
  PyThreadState* thread_;
};

/// Collection passes over half-built objects cost more than the building; they wait until the message is read. Before CPython 3.12 a pass may
/// also run at any allocation, and with it foreign code.
class CollectorPaused {
 public:
  CollectorPaused();
  CollectorPaused(CollectorPaused const&) = delete;
  CollectorPaused& operator=(CollectorPaused const&) = delete;
  ~CollectorPaused();

 private:
  bool was_enabled_;
};

}  // namespace transload::py
