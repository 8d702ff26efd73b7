/// DeviceMemory in transload._core, and where it comes from.
#include "device.hpp"

#include <memory>
#include <optional>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include "bindings.hpp"
#include "frames.hpp"
#include "guard.hpp"
#include "process.hpp"
#include "transload/base/error.hpp"
#include "transload/memory/cuda.hpp"
#include "transload/memory/ipc.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

/// Python's half: `allocate(nbytes, device)` gives (pointer, owner, stream), `memory_of(object)` a DeviceMemory or None.
struct Hooks {
  PyObject* allocate = nullptr;
  PyObject* memory_of = nullptr;
};

Hooks& hooks() {
  static Hooks instance{};
  return instance;
}

int memory_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<DeviceMemory>(self)->owner.get());
  return 0;
}

int memory_clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<DeviceMemory>(self)->owner = Ref();
  return 0;
}

PyType_Slot memory_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(memory_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(memory_clear)},
                              {0, nullptr}};

nb::object interface(DeviceMemory const& self) {
  return guarded([&] {
    expects(self.device != host_twin, ErrorKind::unsupported, "this is host memory that stands in for a GPU's");
    Ref const shape = take(Py_BuildValue("(K)", static_cast<unsigned long long>(self.nbytes)));
    Ref const data = take(Py_BuildValue("(KO)", static_cast<unsigned long long>(self.pointer), self.readonly ? Py_True : Py_False));
    Ref const stream = self.stream == 0 ? Ref::borrow(Py_None) : take(PyLong_FromUnsignedLongLong(self.stream));
    return take(Py_BuildValue("{sOsssOsisOsO}", "shape", shape.get(), "typestr", "|u1", "data", data.get(), "version", 3, "strides", Py_None, "stream", stream.get()));
  });
}

nb::object to_host(DeviceMemory const& self) {
  return guarded([&] {
    std::byte* data = nullptr;
    auto keeper = std::make_shared<Keeper>(Keeper::allocate(self.nbytes, data));
    Copy const copy{.to = data, .from = self.data(), .nbytes = self.nbytes};
    {
      Released const released;
      copy_to_host({&copy, 1}, self.device, self.stream == 0 ? std::span<StreamHandle const>() : std::span(&self.stream, 1));
    }
    return make_view(std::move(keeper), data, self.nbytes, false);
  });
}

nb::object host_view(nb::handle self) {
  return guarded([&] {
    DeviceMemory const& memory = *nb::inst_ptr<DeviceMemory>(self);
    expects(memory.device == host_twin, ErrorKind::unsupported, [&] { return cat("memory of device ", memory.device, " cannot be seen from the host"); });
    auto keeper = std::make_shared<Keeper>();
    keeper->object = Ref::borrow(self.ptr());
    static std::byte const nothing[1] = {};
    auto const* const data = static_cast<std::byte const*>(memory.data());
    return make_view(std::move(keeper), data != nullptr ? data : nothing, memory.nbytes, memory.readonly);
  });
}

template <class Each>
void for_each(nb::handle iterable, Each each) {
  Ref const rows = take(PySequence_Tuple(iterable.ptr()));
  for (Py_ssize_t i = 0; i < PyTuple_Size(rows.get()); ++i) each(PyTuple_GetItem(rows.get(), i));
}

/// `arrays`: tuples (pointer, n, itemsize, ordered).
nb::object integer_bounds(nb::handle arrays, int device, std::uint64_t stream) {
  return guarded([&] {
    std::vector<Integers> asked;
    for_each(arrays, [&](PyObject* row) {
      unsigned long long pointer = 0;
      unsigned long long n = 0;
      unsigned itemsize = 0;
      int ordered = 0;
      if (PyArg_ParseTuple(row, "KKIp", &pointer, &n, &itemsize, &ordered) == 0) throw Raised{};
      asked.push_back({reinterpret_cast<void const*>(pointer), static_cast<std::size_t>(n), itemsize, ordered != 0});
    });
    std::vector<IntegerBounds> found;
    {
      Released const released;
      StreamHandle const producer = stream;
      found = bounds_of(asked, device, {&producer, 1});
    }
    Ref list = take(PyList_New(0));
    for (IntegerBounds const& bounds : found) {
      Ref const row = take(Py_BuildValue("(LLO)", static_cast<long long>(bounds.least), static_cast<long long>(bounds.most), bounds.ascending ? Py_True : Py_False));
      check(PyList_Append(list.get(), row.get()));
    }
    return list;
  });
}

/// `masks`: tuples (pointer, first bit, n).
nb::object set_bits(nb::handle masks, int device, std::uint64_t stream) {
  return guarded([&] {
    std::vector<Bits> asked;
    for_each(masks, [&](PyObject* row) {
      unsigned long long pointer = 0;
      unsigned long long first = 0;
      unsigned long long n = 0;
      if (PyArg_ParseTuple(row, "KKK", &pointer, &first, &n) == 0) throw Raised{};
      asked.push_back({reinterpret_cast<void const*>(pointer), static_cast<std::size_t>(first), static_cast<std::size_t>(n)});
    });
    std::vector<std::uint64_t> found;
    {
      Released const released;
      StreamHandle const producer = stream;
      found = set_bits_of(asked, device, {&producer, 1});
    }
    Ref list = take(PyList_New(0));
    for (std::uint64_t const nset : found) check(PyList_Append(list.get(), take(PyLong_FromUnsignedLongLong(nset)).get()));
    return list;
  });
}

nb::object window(DeviceMemory const& self, std::uint64_t offset, std::uint64_t nbytes) {
  return guarded([&] {
    expects(offset <= self.nbytes && nbytes <= self.nbytes - offset, ErrorKind::malformed,
            [&] { return cat("bytes ", offset, " + ", nbytes, " of memory of ", self.nbytes); });
    return to_python({.pointer = self.pointer + offset, .nbytes = nbytes, .device = self.device, .stream = self.stream, .readonly = self.readonly, .owner = Ref::borrow(self.owner.get())});
  });
}

}  // namespace

PyTypeObject* device_memory_type() { return reinterpret_cast<PyTypeObject*>(nb::type<DeviceMemory>().ptr()); }

DeviceMemory const* as_device_memory(PyObject* object) {
  static PyTypeObject* const type = device_memory_type();
  return Py_TYPE(object) == type && nb::inst_ready(object) ? nb::inst_ptr<DeviceMemory>(object) : nullptr;
}

Ref to_python(DeviceMemory memory) { return Ref(nb::cast(new DeviceMemory(std::move(memory)), nb::rv_policy::take_ownership).release().ptr()); }

Ref exported_device_memory(PyObject* object) {
  if (as_device_memory(object) != nullptr) return Ref::borrow(object);
  if (hooks().memory_of == nullptr) return {};
  Ref memory = take(PyObject_CallFunctionObjArgs(hooks().memory_of, object, nullptr));
  return as_device_memory(memory.get()) != nullptr ? std::move(memory) : Ref();
}

std::optional<DeviceArray> contiguous_device_array(PyObject* object) {
  static PyObject* const contiguous = intern("_c_contiguous");
  static PyObject* const data_name = intern("data");
  static PyObject* const ptr = intern("ptr");
  static PyObject* const device_id = intern("device_id");
  static PyObject* const nbytes = intern("nbytes");
  static PyObject* const dtype = intern("dtype");
  static PyObject* const shape = intern("shape");
  try {
    if (attr(object, contiguous).get() != Py_True) return {};
    Ref const data = attr(object, data_name);
    DeviceArray array;
    array.pointer = static_cast<std::uintptr_t>(PyLong_AsUnsignedLongLong(attr(data.get(), ptr).get()));
    array.nbytes = PyLong_AsUnsignedLongLong(attr(object, nbytes).get());
    long const device = PyLong_AsLong(attr(data.get(), device_id).get());
    if (PyErr_Occurred() != nullptr) throw Raised{};
    array.device = static_cast<int>(device);
    array.dtype = attr(object, dtype);
    array.shape = attr(object, shape);
    bool const whole = array.pointer != 0 && array.nbytes != 0 && array.pointer + array.nbytes > array.pointer && device >= 0 && device == array.device;
    if (!whole || PyTuple_CheckExact(array.shape.get()) == 0) return {};
    return array;
  } catch (Raised const&) {  // the adapter says what is wrong with it
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw;
    PyErr_Clear();
    return {};
  }
}

DeviceArrays::DeviceArrays(PyObject* classes) {
  if (PyTuple_Check(classes) == 0 || PyTuple_Size(classes) != 3) throw nb::type_error("the classes of a GPU's arrays are three");
  array_ = Ref::borrow(PyTuple_GetItem(classes, 0));
  unowned_ = Ref::borrow(PyTuple_GetItem(classes, 1));
  pointer_ = Ref::borrow(PyTuple_GetItem(classes, 2));
}

Ref DeviceArrays::make(PyObject* shape, PyObject* dtype, PyObject* owner, std::uint64_t offset) {
  if (owner != owner_.get()) {
    DeviceMemory const& whole = *as_device_memory(owner);
    Ref const address = take(PyLong_FromUnsignedLongLong(whole.pointer));
    Ref const nbytes = take(PyLong_FromUnsignedLongLong(whole.nbytes));
    Ref const device = take(PyLong_FromLong(whole.device));
    memory_ = Ref(PyObject_CallFunctionObjArgs(unowned_.get(), address.get(), nbytes.get(), owner, device.get(), nullptr));
    owner_ = memory_ ? Ref::borrow(owner) : Ref();
    if (!memory_) return {};
  }
  Ref const start = take(PyLong_FromUnsignedLongLong(offset));
  Ref const pointer(PyObject_CallFunctionObjArgs(pointer_.get(), memory_.get(), start.get(), nullptr));
  if (!pointer) return {};
  return Ref(PyObject_CallFunctionObjArgs(array_.get(), shape, dtype, pointer.get(), nullptr));
}

DeviceMemory allocate_on_device(std::uint64_t nbytes, int device) {
  expects(hooks().allocate != nullptr, ErrorKind::failed, "no allocator of device memory was set");
  Ref const given = take(PyObject_CallFunction(hooks().allocate, "Ki", static_cast<unsigned long long>(nbytes), device));
  unsigned long long pointer = 0;
  unsigned long long stream = 0;
  PyObject* owner = nullptr;
  if (PyArg_ParseTuple(given.get(), "KOK", &pointer, &owner, &stream) == 0) throw Raised{};
  return {.pointer = static_cast<std::uintptr_t>(pointer), .nbytes = nbytes, .device = device, .stream = static_cast<StreamHandle>(stream), .readonly = false, .owner = Ref::borrow(owner)};
}

void bind_device(nb::module_& module) {
  if (nb::type<DeviceMemory>().is_valid()) {
    module.attr("DeviceMemory") = nb::type<DeviceMemory>();
  } else {
    nb::class_<DeviceMemory>(module, "DeviceMemory", nb::type_slots(memory_slots),
                             "Bytes of a GPU's memory, with the object that keeps them alive. Adapters give it to the walk, and get it from there.")
        .def(
            "__init__",
            [](DeviceMemory* self, std::uint64_t pointer, std::uint64_t nbytes, int device, nb::handle owner, std::optional<std::uint64_t> stream, bool readonly) {
              if (pointer == 0 && nbytes != 0) throw nb::value_error("bytes at address 0");
              if (pointer + nbytes < pointer) throw nb::value_error("bytes that pass the end of all memory");
              new (self) DeviceMemory{.pointer = static_cast<std::uintptr_t>(pointer), .nbytes = nbytes, .device = device, .stream = static_cast<StreamHandle>(stream.value_or(0)), .readonly = readonly, .owner = Ref::borrow(owner.ptr())};
            },
            nb::arg("pointer"), nb::arg("nbytes"), nb::arg("device"), nb::arg("owner").none(), nb::arg("stream").none() = nb::none(), nb::arg("readonly") = false,
            nb::sig("def __init__(self, pointer: int, nbytes: int, device: int, owner: object, stream: int | None = None, readonly: bool = False) -> None"))
        .def_prop_ro("pointer", [](DeviceMemory const& self) { return static_cast<std::uint64_t>(self.pointer); })
        .def_prop_ro("nbytes", [](DeviceMemory const& self) { return self.nbytes; })
        .def_prop_ro("device", [](DeviceMemory const& self) { return self.device; }, "The device's number; -1 for host memory that stands in for a GPU's.")
        .def_prop_ro("stream", [](DeviceMemory const& self) { return static_cast<std::uint64_t>(self.stream); }, "The stream whose work so far writes it; 0: none.")
        .def_prop_ro("readonly", [](DeviceMemory const& self) { return self.readonly; })
        .def_prop_ro("owner", [](DeviceMemory const& self) { return nb::borrow(self.owner ? self.owner.get() : Py_None); }, nb::sig("def owner(self) -> object"))
        .def_prop_ro("__cuda_array_interface__", &interface, nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"))
        .def("window", &window, nb::arg("offset"), nb::arg("nbytes"), nb::sig("def window(self, offset: int, nbytes: int) -> DeviceMemory"), "Some of the bytes.")
        .def("host_view", &host_view, nb::sig("def host_view(self) -> memoryview"), "The bytes themselves, where they are in host memory.")
        .def("to_host", &to_host, nb::sig("def to_host(self) -> memoryview"), "A copy in host memory.");
  }
  module.attr("HOST_TWIN") = host_twin;
  module.def(
      "set_device_hooks",
      [](nb::callable allocate, nb::callable memory_of) {
        hooks().allocate = allocate.inc_ref().ptr();
        hooks().memory_of = memory_of.inc_ref().ptr();
      },
      nb::arg("allocate"), nb::arg("memory_of"), nb::sig("def set_device_hooks(allocate: typing.Any, memory_of: typing.Any) -> None"),
      "Hands over Python's half: `allocate(nbytes, device)` and `memory_of(object)`.");
  module.def("device_of", [](std::uint64_t pointer) { return guarded([&] { return take(PyLong_FromLong(device_of(reinterpret_cast<void const*>(pointer)))); }); }, nb::arg("pointer"),
             nb::sig("def device_of(pointer: int) -> int"), "The device of this address; -1 for host memory.");
  module.def("integer_bounds", &integer_bounds, nb::arg("arrays"), nb::arg("device"), nb::arg("stream") = 0,
             nb::sig("def integer_bounds(arrays: collections.abc.Iterable[tuple[int, int, int, bool]], device: int, stream: int = 0) -> list[tuple[int, int, bool]]"),
             "Least, greatest and whether they ascend (where that is asked) of signed integers in memory of a device: (pointer, n, itemsize, ordered) each.");
  module.def("set_bits", &set_bits, nb::arg("masks"), nb::arg("device"), nb::arg("stream") = 0,
             nb::sig("def set_bits(masks: collections.abc.Iterable[tuple[int, int, int]], device: int, stream: int = 0) -> list[int]"),
             "How many bits are set in masks in memory of a device: (pointer, first bit, n) each.");
  module.def("current_device", [] { return guarded([&] { return take(PyLong_FromLong(current_device())); }); }, nb::sig("def current_device() -> int"), "The thread's current device.");
  module.def("nimported", [] { return nimported(); }, "Allocations of other processes that are open here (CUDA IPC).");
  module.def(
      "staging_stats",
      [] {
        return guarded([&] {
          StagingStats const stats = staging_stats();
          using Number = unsigned long long;
          return take(Py_BuildValue("{sKsKsKsK}", "pinned_nbytes", static_cast<Number>(stats.pinned_nbytes), "device_nbytes", static_cast<Number>(stats.device_nbytes), "waits",
                                    static_cast<Number>(stats.waits), "unpinned", static_cast<Number>(stats.unpinned)));
        });
      },
      nb::sig("def staging_stats() -> dict[str, int]"), "Bytes of pinned and device memory that copies between host and GPUs keep, and how often one waited for it.");
}

}  // namespace transload::py
