/// Connections in transload._core, for an event loop: whatever may take time is told to a future by way of a bell.
///
/// The engine's threads never run Python and never wait for the GIL: they put a call into a bell's queue and ring it
/// (an eventfd that the event loop watches); the loop then makes all calls of the queue at once. What Python lent is
/// put aside by them and let go by the next call that has the GIL.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "device.hpp"
#include "frames.hpp"
#include "globals.hpp"
#include "guard.hpp"
#include "process.hpp"
#include "transload/transport/engine.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

/// Messages up to so many bytes are copied and sent by the calling thread, GIL held: giving it up and taking it back
/// costs up to the interpreter's switch interval (5 ms) where a task computes, sending them a few microseconds.
constexpr std::size_t copied_nbytes = std::size_t{64} << 10;
/// As long a reader waits for memory of a GPU that is being read: a loop does nothing else meanwhile.
constexpr std::chrono::microseconds device_patience{2000};
/// Frames below this arrive as `bytes`.
constexpr std::size_t small_nbytes = 4096;

// ── what Python lent ─────────────────────────────────────────────────────────────────────────────────────

struct Lent {
  Py_buffer view{};
  PyObject* object = nullptr;  ///< a DeviceMemory, in place of the view
  Lent* next = nullptr;
};

std::atomic<Lent*> returned{nullptr};

void give_back(Lent* lent) noexcept {
  lent->next = returned.load(std::memory_order_relaxed);
  while (!returned.compare_exchange_weak(lent->next, lent, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

// ── bells ────────────────────────────────────────────────────────────────────────────────────────────────

/// What was raised where nobody can be told.
void unraisable() {
  if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
}

/// The exception that was raised, which is not raised any more.
Ref fetched_exception() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref(value);
}

/// Rung by the engine's threads, answered by an event loop. Connections and listeners hold it; it holds none of them.
class Bell : public std::enable_shared_from_this<Bell> {
 public:
  using Calling = std::function<void(std::shared_ptr<Bell> const&)>;

  Bell() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    expects(fd_ >= 0, ErrorKind::exhausted, "no descriptor for an eventfd");
  }
  Bell(Bell const&) = delete;
  ~Bell() { ::close(fd_); }

  [[nodiscard]] int descriptor() const noexcept { return fd_; }

  /// From any thread; `call` is made with the GIL. One that is never made is dropped without it: it owns no Python
  /// object, and no bell.
  void ring(Calling call) {
    std::lock_guard const lock(mutex_);
    if (silent_) return;
    if (call) calls_.push_back(std::move(call));
    if (rung_) return;
    rung_ = true;
    std::uint64_t const one = 1;
    (void)!::write(fd_, &one, sizeof one);
  }

  /// With the GIL.
  ///
  /// @throws Raised for a KeyboardInterrupt or its like that came up in one of the calls, when all were made.
  void answer() {
    std::uint64_t count;
    (void)!::read(fd_, &count, sizeof count);
    std::vector<Calling> calls;
    {
      std::lock_guard const lock(mutex_);
      rung_ = false;
      calls.swap(calls_);
    }
    auto const self = shared_from_this();
    Ref interrupt;
    for (auto const& call : calls) {
      try {
        call(self);
      } catch (Raised const&) {
        if (!interrupt && PyErr_ExceptionMatches(PyExc_Exception) == 0) {
          interrupt = fetched_exception();
        } else {
          unraisable();
        }
      } catch (nb::python_error& error) {
        error.restore();
        unraisable();
      } catch (std::exception const& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        unraisable();
      }
    }
    if (!interrupt) return;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(interrupt.get())), interrupt.get());
    throw Raised{};
  }

  /// The loop is closed, nobody answers any more: what waits is dropped, and what still comes. With the GIL.
  void silence() {
    std::vector<Calling> calls;
    {
      std::lock_guard const lock(mutex_);
      silent_ = true;
      calls.swap(calls_);
    }
    auto const futures = std::exchange(waiting_, {});
    for (auto const& [number, future] : futures) Py_DECREF(future);
  }

  // Futures that a call will tell, which must not own them. With the GIL.
  [[nodiscard]] std::uint64_t keep(PyObject* future) {
    waiting_.emplace(++nkept_, future);
    Py_INCREF(future);
    return nkept_;
  }
  /// The future, owned by the caller now; null where it was let go.
  [[nodiscard]] PyObject* take_back(std::uint64_t number) {
    auto const node = waiting_.extract(number);
    return node.empty() ? nullptr : node.mapped();
  }
  [[nodiscard]] std::map<std::uint64_t, PyObject*> const& waiting() const noexcept { return waiting_; }

 private:
  int fd_;
  std::mutex mutex_;
  std::vector<Calling> calls_;
  bool rung_ = false;
  bool silent_ = false;
  std::map<std::uint64_t, PyObject*> waiting_;
  std::uint64_t nkept_ = 0;
};

Ref make_exception(ErrorKind kind, std::string const& what) {
  set_python_error(name(kind), what.c_str());
  return fetched_exception();
}

bool is_done(PyObject* future) {
  Ref const done = take(PyObject_CallMethod(future, "done", nullptr));
  return PyObject_IsTrue(done.get()) != 0;
}

/// Ends the wait for a future that still waits. Takes the reference; `value` or, where there is one, `exception` is
/// borrowed.
void tell(PyObject* future, PyObject* value, PyObject* exception = nullptr) {
  if (future == nullptr) return;
  Ref const owned(future);
  Ref const done(PyObject_CallMethod(future, "done", nullptr));
  if (done && PyObject_IsTrue(done.get()) == 0) {
    Ref const told(exception != nullptr ? PyObject_CallMethod(future, "set_exception", "O", exception)
                                        : PyObject_CallMethod(future, "set_result", "O", value));
  }
  unraisable();
}

// ── connections ──────────────────────────────────────────────────────────────────────────────────────────

/// A connection and who waits for it. The futures are owned and only touched with the GIL.
struct End {
  Connection connection;
  std::shared_ptr<Bell> bell;
  std::optional<int> device;  ///< for device frames; none: the current one of the reader's thread
  PyObject* reader = nullptr;
  std::vector<PyObject*> writers;
  PyObject* closer = nullptr;
  unsigned unsettled = 0;  ///< sends that are not done
  std::optional<Error> write_error;
};

/// The Python object.
struct PyConnection {
  std::shared_ptr<End> end;

  PyConnection(PyConnection const&) = delete;
  PyConnection(PyConnection&&) = delete;
  explicit PyConnection(std::shared_ptr<End> end) : end(std::move(end)) {}
  ~PyConnection() { clear(); }
  void clear() const {
    Py_CLEAR(end->reader);
    Py_CLEAR(end->closer);
    for (PyObject* const writer : std::exchange(end->writers, {})) Py_DECREF(writer);
  }
};

int connection_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  End const& end = *nb::inst_ptr<PyConnection>(self)->end;
  Py_VISIT(end.reader);
  Py_VISIT(end.closer);
  for (PyObject* const writer : end.writers) Py_VISIT(writer);
  return 0;
}

int connection_clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PyConnection>(self)->clear();
  return 0;
}

PyType_Slot connection_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(connection_traverse)},
                                  {Py_tp_clear, reinterpret_cast<void*>(connection_clear)},
                                  {0, nullptr}};

/// Lets go of what was lent, from any thread: it is put aside, and whoever answers the bell lets go of it.
struct GiveBack {
  std::shared_ptr<Bell> bell;
  PyObject* whole;  ///< the `bytes` or DeviceMemory that the memory is all of, held by what is lent; null: none

  void operator()(Lent* lent) const {
    give_back(lent);
    bell->ring({});
  }
};

/// The memory that `view` shows, for the engine.
Buffer lend(BufferView view, PyObject* whole, std::shared_ptr<Bell> const& bell, bool writable) {
  auto* const lent = new Lent;
  lent->view = view.give_away();
  std::span const bytes{static_cast<std::byte*>(lent->view.buf), static_cast<std::size_t>(lent->view.len)};
  std::shared_ptr<void const> keeper(lent, GiveBack{bell, whole});
  return writable ? Buffer::borrow_writable(bytes, std::move(keeper)) : Buffer::borrow(bytes, std::move(keeper));
}

/// The memory of a GPU, for the engine, which waits for what is under way there.
Buffer lend_device(PyObject* object, std::shared_ptr<Bell> const& bell) {
  DeviceMemory const& memory = *as_device_memory(object);
  Fence fence;
  if (memory.nbytes != 0 && memory.stream != 0) fence = fence_after(memory.device, {&memory.stream, 1});
  auto* const lent = new Lent;
  lent->object = object;
  Py_INCREF(object);
  std::shared_ptr<void const> keeper(lent, GiveBack{bell, object});
  return Buffer::borrow_device({static_cast<std::byte*>(memory.data()), memory.nbytes}, std::move(keeper), memory.device, std::move(fence), memory.readonly);
}

/// Fresh memory of `device` (none: the current one) for device frames; where there is none, host memory: whoever decodes the message meets the reason.
///
/// @throws Raised for what is no failure of the allocator, as a KeyboardInterrupt.
Frames land_on_device(Announced const& announced, std::optional<int> device, std::shared_ptr<Bell> const& bell) {
  Frames frames;
  try {
    int const where = device ? *device : current_device();
    for (std::uint64_t const nbytes : announced.sizes) {
      Ref const memory = to_python(allocate_on_device(nbytes, where));
      frames.push_back(lend_device(memory.get(), bell));
    }
    return frames;
  } catch (Raised const&) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw;  // a KeyboardInterrupt
    PyErr_Clear();
  } catch (Error const&) {
  }
  frames.clear();
  return make_landing(announced.sizes, default_resource());
}

/// Memory for a message that was announced: its frames that are `bytes` at the sender land in new `bytes` objects, all of them.
Frames land_in_bytes(Announced const& announced, std::shared_ptr<Bell> const& bell) {
  auto const lands = [&](std::size_t i) { return announced.kinds[i] == FrameKind::object && announced.sizes[i] >= small_nbytes; };
  std::vector<std::uint64_t> others = announced.sizes;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (lands(i)) others[i] = 0;
  }
  Frames frames = make_landing(others, default_resource());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!lands(i)) continue;
    Ref const object(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(announced.sizes[i])));
    if (!object) {
      PyErr_Clear();
      raise(ErrorKind::exhausted, cat("no memory for a bytes object of ", announced.sizes[i], " bytes"));
    }
    frames[i] = lend(BufferView(object.get(), PyBUF_SIMPLE), object.get(), bell, true);
  }
  return frames;
}

Ref to_list(Frames frames) {
  Ref list = take(PyList_New(static_cast<Py_ssize_t>(frames.size())));
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Buffer& frame = frames[i];
    Ref item;
    auto const* const lent = std::get_deleter<GiveBack>(frame.keeper());
    if (lent != nullptr && lent->whole != nullptr) {
      item = Ref::borrow(lent->whole);
    } else if (frame.kind() == MemoryKind::device) {  // of a peer in this process that is no Python code
      DeviceMemory memory{.pointer = reinterpret_cast<std::uintptr_t>(frame.data()), .nbytes = frame.nbytes(), .device = frame.device(), .stream = legacy_stream, .readonly = frame.readonly()};
      auto* const kept = new Buffer(std::move(frame));
      memory.owner = take(PyCapsule_New(kept, nullptr, [](PyObject* capsule) { delete static_cast<Buffer*>(PyCapsule_GetPointer(capsule, nullptr)); }));
      item = to_python(std::move(memory));
    } else if (frame.nbytes() < small_nbytes) {
      auto const* const text = reinterpret_cast<char const*>(frame.data());
      item = take(PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(frame.nbytes())));
    } else {
      auto keeper = std::make_shared<Keeper>();
      std::byte const* const data = frame.data();
      std::size_t const nbytes = frame.nbytes();
      keeper->readonly = frame.readonly();
      keeper->memory = std::make_shared<Buffer>(std::move(frame));
      bool const readonly = keeper->readonly;
      item = make_view(std::move(keeper), data, nbytes, readonly);
    }
    check(PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), item.release()));
  }
  return list;
}

nb::object receive(PyConnection const& self) {
  return guarded([&]() -> Ref {
    Frames frames;
    End& end = *self.end;
    auto const land = [&](Announced const& announced) { return land_on_device(announced, end.device, end.bell); };
    bool there = end.connection.try_receive(frames, land);
    if (!there && end.connection.reads_device()) {
      bool waited;
      {
        Released const released;
        waited = end.connection.wait_device(device_patience);
      }
      there = waited && end.connection.try_receive(frames, land);
    }
    Ref list = there ? to_list(std::move(frames)) : Ref::borrow(Py_None);
    let_go_of_returned();
    return list;
  });
}

nb::object when_readable(PyConnection const& self, nb::handle future) {
  return guarded([&] {
    End& end = *self.end;
    expects(end.reader == nullptr || is_done(end.reader), ErrorKind::failed, "somebody reads here already");
    Py_XDECREF(std::exchange(end.reader, future.inc_ref().ptr()));
    // Weak: the connection keeps this call, and must not keep itself by it.
    end.connection.when_readable([weak = std::weak_ptr(self.end), bell = end.bell] {
      bell->ring([weak](auto const&) {
        if (auto const end = weak.lock()) tell(std::exchange(end->reader, nullptr), Py_None);
      });
    });
    return Ref::borrow(Py_None);
  });
}

/// How far a send is: whoever of the two comes second, the caller that returns or the engine that is done, acts.
struct Sent {
  std::atomic<int> first{0};
  std::optional<Error> error;
};

nb::object send(PyConnection const& self, nb::handle frames) {
  return guarded([&] {
    let_go_of_returned();
    End& end = *self.end;
    Ref const sequence = take(PySequence_Tuple(frames.ptr()));
    auto const n = PyTuple_Size(sequence.get());
    std::vector<BufferView> views;
    std::vector<Ref> memories(static_cast<std::size_t>(n));  // of a GPU
    views.reserve(static_cast<std::size_t>(n));
    std::size_t total = 0;
    bool device = false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const frame = PyTuple_GetItem(sequence.get(), i);
      bool const host = PyBytes_Check(frame) != 0 || PyMemoryView_Check(frame) != 0 || PyByteArray_Check(frame) != 0;
      if (!host) {  // frames of Dask's family "cuda" are arrays of any library
        if (Ref memory = exported_device_memory(frame)) {
          memories[static_cast<std::size_t>(i)] = std::move(memory);
          device = true;
          views.emplace_back();
          continue;
        }
      }
      expects(PyObject_CheckBuffer(frame) != 0, ErrorKind::unsupported,
              [&] { return cat("frame ", i, ": a ", type_name(frame), " is no buffer of host memory"); });
      views.emplace_back(frame, PyBUF_SIMPLE);
      total += views.back().bytes().size();
    }
    auto const sent = std::make_shared<Sent>();
    auto const done = [sent, weak = std::weak_ptr(self.end), bell = end.bell](Error const* error) {
      if (error != nullptr) sent->error = *error;
      if (sent->first.exchange(1) == 0) return;
      bell->ring([sent, weak](auto const&) {
        auto const end = weak.lock();
        if (end == nullptr) return;
        --end->unsettled;
        if (sent->error) end->write_error = sent->error;
        if (end->unsettled > 0) return;
        for (PyObject* const writer : std::exchange(end->writers, {})) tell(writer, Py_None);
      });
    };
    if (total <= copied_nbytes && !device) {
      std::vector<std::span<std::byte const>> spans;
      spans.reserve(views.size());
      for (BufferView const& view : views) spans.push_back(view.bytes());
      end.connection.send_copy(spans, done);
    } else {
      Frames lent;
      std::vector<FrameKind> kinds;
      for (std::size_t i = 0; i < views.size(); ++i) {
        BufferView& view = views[i];
        PyObject* const frame = PyTuple_GetItem(sequence.get(), static_cast<Py_ssize_t>(i));
        if (memories[i]) {
          kinds.push_back(FrameKind::device);
          lent.push_back(lend_device(memories[i].get(), end.bell));
          continue;
        }
        PyObject* const whole = view.bytes().size() >= small_nbytes ? whole_bytes(frame, view.bytes()) : nullptr;
        kinds.push_back(whole != nullptr ? FrameKind::object : FrameKind::plain);
        bool const writable = view->readonly == 0;
        lent.push_back(lend(std::move(view), whole, end.bell, writable));
      }
      end.connection.send(std::move(lent), done, kinds);
    }
    if (sent->first.exchange(1) == 0) {
      ++end.unsettled;
      return Ref::borrow(Py_False);
    }
    if (sent->error) throw Error(*sent->error);
    return Ref::borrow(Py_True);
  });
}

nb::object when_sent(PyConnection const& self, nb::handle future) {
  return guarded([&] {
    End& end = *self.end;
    PyObject* const writer = future.inc_ref().ptr();
    if (end.unsettled == 0) {
      tell(writer, Py_None);
    } else {
      end.writers.push_back(writer);
    }
    return Ref::borrow(Py_None);
  });
}

nb::object check_sent(PyConnection const& self) {
  return guarded([&] {
    if (self.end->write_error) throw Error(*self.end->write_error);
    return Ref::borrow(Py_None);
  });
}

nb::object close(PyConnection const& self, nb::handle future) {
  return guarded([&] {
    End& end = *self.end;
    Py_XDECREF(std::exchange(end.closer, future.inc_ref().ptr()));
    end.connection.close([weak = std::weak_ptr(self.end), bell = end.bell](Error const*) {
      bell->ring([weak](auto const&) {
        if (auto const end = weak.lock()) tell(std::exchange(end->closer, nullptr), Py_None);
      });
    });
    return Ref::borrow(Py_None);
  });
}

Ref to_pair(Address const& address) {
  return take(PyTuple_Pack(2, str(address.host).get(), take(PyLong_FromLong(address.port)).get()));
}

nb::object stats(PyConnection const& self) {
  return guarded([&] {
    ConnectionStats const stats = self.end->connection.stats();
    Ref decisions = take(PyList_New(0));
    for (Decision const& decision : stats.decisions) {
      Ref const taken = Ref::borrow(decision.taken ? Py_True : Py_False);
      Ref const row = take(PyTuple_Pack(4, str(decision.place).get(), str(decision.choice).get(),
                                        lossy_str(decision.reason).get(), taken.get()));
      check(PyList_Append(decisions.get(), row.get()));
    }
    using Number = unsigned long long;
    return take(Py_BuildValue("{sKsKsKsKsKsKsKsdsdsssssOsIsO}",                                      //
                              "messages_sent", static_cast<Number>(stats.messages_sent),          //
                              "messages_received", static_cast<Number>(stats.messages_received),  //
                              "nbytes_sent", static_cast<Number>(stats.nbytes_sent),              //
                              "nbytes_received", static_cast<Number>(stats.nbytes_received),      //
                              "nbytes_waiting", static_cast<Number>(stats.nbytes_waiting),        //
                              "nbytes_ready", static_cast<Number>(stats.nbytes_ready),            //
                              "nbytes_copied", static_cast<Number>(stats.nbytes_copied),          //
                              "seconds_sending", stats.seconds_sending,                           //
                              "seconds_receiving", stats.seconds_receiving,                       //
                              "path", stats.path.c_str(),                                         //
                              "device_path", stats.device_path.c_str(),                           //
                              "takes_device", stats.peer_takes_device ? Py_True : Py_False,       //
                              "streams", stats.streams,                                           //
                              "decisions", decisions.get()));
  });
}

nb::object make_connection(Connection connection, std::shared_ptr<Bell> const& bell, std::optional<int> device) {
  auto end = std::make_shared<End>();
  end->device = device;
  end->connection = std::move(connection);
  end->bell = bell;
  return nb::cast(new PyConnection(std::move(end)), nb::rv_policy::take_ownership);
}

// ── beginning ────────────────────────────────────────────────────────────────────────────────────────────

/// The Python object of a bell. `log` takes a line; it is a function of a module, and never let go of, as a line may
/// come at any time.
struct PyBell {
  std::shared_ptr<Bell> bell = std::make_shared<Bell>();
  PyObject* log;

  explicit PyBell(PyObject* log) : log(log) {
    Py_INCREF(log);
    serve_to_the_end();
  }
  PyBell(PyBell const&) = delete;
  PyBell(PyBell&&) = delete;
  ~PyBell() { bell->silence(); }
};

int bell_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (auto const& [number, future] : nb::inst_ptr<PyBell>(self)->bell->waiting()) Py_VISIT(future);
  return 0;
}

int bell_clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<PyBell>(self)->bell->silence();
  return 0;
}

PyType_Slot bell_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(bell_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(bell_clear)},
                            {0, nullptr}};

Address to_address(std::string const& host, int port) {
  expects(port >= 0 && port <= 65535, ErrorKind::failed, [&] { return cat("port ", port, " of ", host); });
  return {host, static_cast<std::uint16_t>(port)};
}

/// `device`: for device frames; none: the current one of the thread that reads.
TransportOptions to_options(nb::dict const& given, PyBell const& bell, std::optional<int>& device) {
  TransportOptions options;
  options.lands_when_received = true;
  for (auto const [key, value] : given) {
    std::string_view const name = utf8(key.ptr());
    double const number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred() != nullptr) throw Raised{};
    // What the configuration says is a number of any size.
    auto const milliseconds = std::chrono::milliseconds(static_cast<long>(std::clamp(number, 0.0, 1e9) * 1000));
    auto const count = static_cast<int>(std::clamp(number, -1.0, 1e9));
    if (name == "window") {
      options.window_nbytes = static_cast<std::size_t>(number);
    } else if (name == "send_bound") {
      options.send_bound_nbytes = static_cast<std::size_t>(number);
    } else if (name == "message_most") {
      options.message_nbytes_most = static_cast<std::uint64_t>(number);
    } else if (name == "streams") {
      options.streams = count;
    } else if (name == "local_streams") {
      options.local_streams = count;
    } else if (name == "same_process") {
      options.same_process = number != 0;
    } else if (name == "hello_timeout") {
      options.hello_timeout = milliseconds;
    } else if (name == "stall_timeout") {
      options.stall_timeout = milliseconds;
    } else if (name == "close_timeout") {
      options.close_timeout = milliseconds;
    } else if (name == "backlog") {
      options.backlog = count;
    } else if (name == "device") {
      options.landing_on_device = true;
      device = count;
    } else if (name == "device_of_thread") {
      options.landing_on_device = number != 0;
    } else if (name == "exports") {
      options.exports = number != 0;
    } else {
      raise(ErrorKind::unsupported, cat("no option of a connection is called ", name));
    }
  }
  options.landing = [bell = bell.bell, device](Announced announced, Received landed) {
    bell->ring([announced = std::move(announced), landed = std::move(landed), device](std::shared_ptr<Bell> const& bell) {
      Frames frames;
      try {
        bool const on_device = std::find(announced.kinds.begin(), announced.kinds.end(), FrameKind::device) != announced.kinds.end();
        frames = on_device ? land_on_device(announced, device, bell) : land_in_bytes(announced, bell);
      } catch (Error const& error) {
        return landed({}, &error);
      } catch (std::bad_alloc const&) {
        Error const error(ErrorKind::exhausted, "no memory for the next message");
        return landed({}, &error);
      } catch (Raised const&) {
        Error const error(ErrorKind::failed, "interrupted while memory was made for a message");
        landed({}, &error);
        throw;
      }
      landed(std::move(frames), nullptr);
    });
  };
  options.log = [bell = bell.bell, log = bell.log](std::string const& line) {
    bell->ring([line, log](auto const&) {
      Ref const called = take(PyObject_CallFunctionObjArgs(log, lossy_str(line).get(), nullptr));
    });
  };
  return options;
}

nb::object connect(PyBell const& bell, std::string const& host, int port, nb::dict const& options, nb::handle future) {
  return guarded([&] {
    std::optional<int> device;
    TransportOptions const connecting = to_options(options, bell, device);
    auto const number = bell.bell->keep(future.ptr());
    auto const told = [bell = bell.bell, number, device](Connection connection, Error const* error) {
      auto const made = std::make_shared<Connection>(std::move(connection));
      auto const why = error != nullptr ? std::make_shared<Error>(*error) : nullptr;
      bell->ring([number, made, why, device](std::shared_ptr<Bell> const& bell) {
        Ref waiting(bell->take_back(number));
        if (!waiting) return;
        Ref const exception = why != nullptr ? make_exception(why->kind(), why->what()) : Ref();
        nb::object connected;
        if (why == nullptr) connected = make_connection(std::move(*made), bell, device);
        tell(waiting.release(), connected.ptr(), exception.get());
      });
    };
    std::function<void()> give_up;
    try {
      give_up = Engine::process().connect(to_address(host, port), connecting, told);
    } catch (...) {
      Ref const dropped(bell.bell->take_back(number));
      throw;
    }
    return Ref(nb::cpp_function(std::move(give_up)).release().ptr());
  });
}

/// Whom a listener tells of connections; with the GIL.
struct Doorkeeper {
  PyObject* accepted = nullptr;
};

struct PyListener {
  Listener listener;
  std::shared_ptr<Doorkeeper> keeper;

  PyListener(Listener listener, std::shared_ptr<Doorkeeper> keeper)
      : listener(std::move(listener)), keeper(std::move(keeper)) {}
  PyListener(PyListener const&) = delete;
  PyListener(PyListener&&) = delete;
  ~PyListener() { stop(); }
  void stop() {
    listener.stop();
    Py_CLEAR(keeper->accepted);
  }
};

int listener_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<PyListener>(self)->keeper->accepted);
  return 0;
}

int listener_clear(PyObject* self) {
  if (nb::inst_ready(self)) Py_CLEAR(nb::inst_ptr<PyListener>(self)->keeper->accepted);
  return 0;
}

PyType_Slot listener_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(listener_traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(listener_clear)},
                                {0, nullptr}};

nb::object listen(PyBell const& bell, std::string const& host, int port, nb::dict const& options,
                  nb::handle accepted) {
  return guarded([&] {
    std::optional<int> device;
    TransportOptions const given = to_options(options, bell, device);
    auto const keeper = std::make_shared<Doorkeeper>();
    keeper->accepted = accepted.inc_ref().ptr();
    auto const come = [bell = bell.bell, keeper, device](Connection connection) {
      auto const made = std::make_shared<Connection>(std::move(connection));
      bell->ring([keeper, made, device](std::shared_ptr<Bell> const& bell) {
        if (keeper->accepted == nullptr) return;  // stopped; the connection is dropped
        nb::object const connection = make_connection(std::move(*made), bell, device);
        Ref const called = take(PyObject_CallFunctionObjArgs(keeper->accepted, connection.ptr(), nullptr));
      });
    };
    try {
      Address const address = to_address(host, port);
      Listener listener;
      {
        Released const released;  // a host name may have to be looked up
        listener = Engine::process().listen(address, given, come);
      }
      auto* const made = new PyListener(std::move(listener), keeper);
      return Ref(nb::cast(made, nb::rv_policy::take_ownership).release().ptr());
    } catch (...) {
      Py_CLEAR(keeper->accepted);
      throw;
    }
  });
}

}  // namespace

void let_go_of_returned() {
  Lent* lent = returned.exchange(nullptr, std::memory_order_acquire);
  while (lent != nullptr) {
    Lent* const next = lent->next;
    if (lent->object != nullptr) {
      Py_DECREF(lent->object);
    } else {
      PyBuffer_Release(&lent->view);
    }
    delete lent;
    lent = next;
  }
}

namespace {

void bind_classes(nb::module_& module) {
  nb::class_<PyBell>(module, "Bell", nb::type_slots(bell_slots),
                     "What the engine rings when there is something to tell; an event loop watches it and answers.")
      .def(
          "__init__",
          [](PyBell* self, nb::handle log) {
            (void)guarded([&] {
              new (self) PyBell(log.ptr());
              return Ref::borrow(Py_None);
            });
          },
          nb::arg("log"),
          nb::sig("def __init__(self, log: collections.abc.Callable[[str], None]) -> None"))
      .def("fileno", [](PyBell const& self) { return self.bell->descriptor(); })
      .def(
          "answer",
          [](PyBell const& self) {
            serve_to_the_end();
            return guarded([&] {
              self.bell->answer();
              let_go_of_returned();
              return Ref::borrow(Py_None);
            });
          },
          nb::sig("def answer(self) -> None"), "Tells what there is to be told.")
      .def("silence", [](PyBell const& self) { self.bell->silence(); },
           "Drops what waits to be told, and what still comes: the loop is closed.");
  nb::class_<PyConnection>(module, "Connection", nb::type_slots(connection_slots),
                           "One end of a connection; docs/transport.md.")
      .def("receive", &receive, nb::sig("def receive(self) -> list[bytes | memoryview] | None"),
           "The next message, or None when none is there now.")
      .def("when_readable", &when_readable, nb::arg("future"),
           nb::sig("def when_readable(self, future: asyncio.Future[None]) -> None"),
           "Tells `future` once `receive` would not return None.")
      .def("send", &send, nb::arg("frames"),
           nb::sig("def send(self, frames: collections.abc.Iterable[typing.Any]) -> bool"),
           "Hands a message over. False: more than the bound waits; `when_sent` tells when less does.")
      .def("when_sent", &when_sent, nb::arg("future"),
           nb::sig("def when_sent(self, future: asyncio.Future[None]) -> None"))
      .def("check_sent", &check_sent, nb::sig("def check_sent(self) -> None"), "Raises what a send was told late.")
      .def("close", &close, nb::arg("future"), nb::sig("def close(self, future: asyncio.Future[None]) -> None"),
           "Ends the connection and tells `future` when what was sent was handed on.")
      .def("abort", [](PyConnection const& self) { self.end->connection.abort(); }, "Ends the connection at once.")
      .def("closed", [](PyConnection const& self) { return self.end->connection.closed(); })
      .def("stats", &stats, nb::sig("def stats(self) -> dict[str, typing.Any]"),
           "What went over it, and by which path.")
      .def(
          "local_address",
          [](PyConnection const& self) {
            return guarded([&] { return to_pair(self.end->connection.local_address()); });
          },
          nb::sig("def local_address(self) -> tuple[str, int]"))
      .def(
          "peer_address",
          [](PyConnection const& self) {
            return guarded([&] { return to_pair(self.end->connection.peer_address()); });
          },
          nb::sig("def peer_address(self) -> tuple[str, int]"));
  nb::class_<PyListener>(module, "Listener", nb::type_slots(listener_slots), "Listens until it is stopped or dropped.")
      .def("stop", &PyListener::stop)
      .def(
          "addresses",
          [](PyListener const& self) {
            return guarded([&] {
              Ref list = take(PyList_New(0));
              for (Address const& address : self.listener.addresses()) {
                check(PyList_Append(list.get(), to_pair(address).get()));
              }
              return list;
            });
          },
          nb::sig("def addresses(self) -> list[tuple[str, int]]"));
}

}  // namespace

void bind_transport(nb::module_& module) {
  // nanobind keeps its classes once a process; a module that is imported again has the same ones.
  if (nb::type<PyBell>().is_valid()) {
    module.attr("Bell") = nb::type<PyBell>();
    module.attr("Connection") = nb::type<PyConnection>();
    module.attr("Listener") = nb::type<PyListener>();
  } else {
    bind_classes(module);
  }
  module.def("connect", &connect, nb::arg("bell"), nb::arg("host"), nb::arg("port"), nb::arg("options"),
             nb::arg("future"),
             nb::sig("def connect(bell: Bell, host: str, port: int, options: dict[str, float], "
                     "future: asyncio.Future[Connection]) -> collections.abc.Callable[[], None]"),
             "Connects, and tells `future` the connection or the error. What is returned gives the attempt up.");
  module.def("listen", &listen, nb::arg("bell"), nb::arg("host"), nb::arg("port"), nb::arg("options"),
             nb::arg("accepted"),
             nb::sig("def listen(bell: Bell, host: str, port: int, options: dict[str, float], "
                     "accepted: collections.abc.Callable[[Connection], None]) -> Listener"),
             "Listens; `accepted` is called for each connection when the bell is answered.");
}

}  // namespace transload::py
