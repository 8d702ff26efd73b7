/// DLPack in transload._core: what a producer's capsule shows, and capsules over memory of ours.
///
/// Source: DLPack 1.1, `dlpack.h` (the structures), and its Python specification (names of capsules, who calls a deleter).
#include <cstdint>
#include <cxxabi.h>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "guard.hpp"
#include "process.hpp"
#include "py.hpp"
#include "transload/base/limits.hpp"

namespace nb = nanobind;

namespace transload::py {

namespace {

struct DLTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in items; null: C order
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor tensor;
};

constexpr char const* plain_name = "dltensor";
constexpr char const* versioned_name = "dltensor_versioned";
constexpr std::uint64_t flag_readonly = 1;

[[noreturn]] void cannot_export(std::string const& text) {
  PyErr_SetString(PyExc_BufferError, text.c_str());
  throw Raised{};
}

Ref lengths(std::int64_t const* values, std::int32_t n) {
  Ref tuple = take(PyTuple_New(n));
  for (std::int32_t i = 0; i < n; ++i) check(PyTuple_SetItem(tuple.get(), i, PyLong_FromLongLong(values[i])));
  return tuple;
}

/// The capsule is left as it is: it stays the owner, and its own destructor calls the deleter once, with the GIL, when the last reference goes.
nb::object look(nb::handle capsule) {
  return guarded([&] {
    DLTensor const* tensor = nullptr;
    bool readonly = false;
    if (PyCapsule_IsValid(capsule.ptr(), versioned_name) != 0) {
      auto const* const managed = static_cast<DLManagedTensorVersioned const*>(PyCapsule_GetPointer(capsule.ptr(), versioned_name));
      if (managed->major != 1) cannot_export(cat("DLPack of version ", managed->major));
      readonly = (managed->flags & flag_readonly) != 0;
      tensor = &managed->tensor;
    } else if (PyCapsule_IsValid(capsule.ptr(), plain_name) != 0) {
      tensor = &static_cast<DLManagedTensor const*>(PyCapsule_GetPointer(capsule.ptr(), plain_name))->tensor;
    } else {
      cannot_export("no capsule of DLPack, or one that was used");
    }
    if (tensor->ndim < 0 || static_cast<std::size_t>(tensor->ndim) > limits::ndim) cannot_export(cat(tensor->ndim, " dimensions"));
    Ref const shape = lengths(tensor->shape, tensor->ndim);
    Ref const strides = tensor->strides == nullptr ? Ref::borrow(Py_None) : lengths(tensor->strides, tensor->ndim);
    auto const pointer = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(tensor->data) + tensor->byte_offset);
    return take(Py_BuildValue("(K(ii)(iii)OOO)", tensor->data == nullptr ? 0ULL : pointer, static_cast<int>(tensor->device_type), static_cast<int>(tensor->device_id),
                              static_cast<int>(tensor->code), static_cast<int>(tensor->bits), static_cast<int>(tensor->lanes), shape.get(), strides.get(),
                              readonly ? Py_True : Py_False));
  });
}

/// A tensor of ours, as both kinds of capsule hold it.
template <class Managed>
struct Exported {
  Managed managed{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  Ref owner;

  /// Consumers call it on any thread, with the GIL or without. Once the interpreter is gone the owner stays.
  static void free(Managed* managed) {
    if (Py_IsInitialized() == 0) return;
    try {
      PyGILState_STATE const state = PyGILState_Ensure();
      delete static_cast<Exported*>(managed->context);
      PyGILState_Release(state);
    } catch (abi::__forced_unwind const&) {
      stay();
    }
  }

  /// Of a capsule that nobody used: who does, gives it another name.
  static void destroy(PyObject* capsule) {
    char const* const name = PyCapsule_GetName(capsule);
    if (name == nullptr || (std::string_view(name) != plain_name && std::string_view(name) != versioned_name)) return;
    auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    if (managed != nullptr) managed->deleter(managed);
  }
};

std::vector<std::int64_t> numbers(nb::handle tuple) {
  std::vector<std::int64_t> values;
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple.ptr()); ++i) {
    values.push_back(PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), i)));
    if (PyErr_Occurred() != nullptr) throw Raised{};
  }
  return values;
}

template <class Managed>
Ref make(DLTensor const& tensor, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, Ref owner, bool readonly) {
  constexpr bool versioned = std::is_same_v<Managed, DLManagedTensorVersioned>;
  auto exported = std::make_unique<Exported<Managed>>();
  exported->shape = std::move(shape);
  exported->strides = std::move(strides);
  exported->owner = std::move(owner);
  Managed& managed = exported->managed;
  managed.tensor = tensor;
  managed.tensor.ndim = static_cast<std::int32_t>(exported->shape.size());
  managed.tensor.shape = exported->shape.data();
  managed.tensor.strides = exported->strides.data();
  managed.context = exported.get();
  managed.deleter = Exported<Managed>::free;
  if constexpr (versioned) {
    managed.major = 1;
    managed.flags = readonly ? flag_readonly : 0;
  }
  Ref capsule = take(PyCapsule_New(&managed, versioned ? versioned_name : plain_name, Exported<Managed>::destroy));
  (void)exported.release();
  return capsule;
}

nb::object capsule_of(nb::handle owner, std::uint64_t pointer, nb::tuple device, nb::tuple dtype, nb::tuple shape, nb::tuple strides, bool readonly, bool versioned) {
  return guarded([&] {
    std::vector<std::int64_t> const place = numbers(device);
    std::vector<std::int64_t> const type = numbers(dtype);
    std::vector<std::int64_t> nitems = numbers(shape);
    std::vector<std::int64_t> steps = numbers(strides);
    if (place.size() != 2 || type.size() != 3 || nitems.size() != steps.size()) cannot_export("the parts of a DLPack tensor do not fit");
    DLTensor const tensor{.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer)),
                          .device_type = static_cast<std::int32_t>(place[0]),
                          .device_id = static_cast<std::int32_t>(place[1]),
                          .ndim = 0,
                          .code = static_cast<std::uint8_t>(type[0]),
                          .bits = static_cast<std::uint8_t>(type[1]),
                          .lanes = static_cast<std::uint16_t>(type[2]),
                          .shape = nullptr,
                          .strides = nullptr,
                          .byte_offset = 0};
    Ref keeper = Ref::borrow(owner.ptr());
    return versioned ? make<DLManagedTensorVersioned>(tensor, std::move(nitems), std::move(steps), std::move(keeper), readonly)
                     : make<DLManagedTensor>(tensor, std::move(nitems), std::move(steps), std::move(keeper), readonly);
  });
}

}  // namespace

void bind_dlpack(nb::module_& module) {
  module.def("dlpack_tensor", &look, nb::arg("capsule").none(),
             nb::sig("def dlpack_tensor(capsule: object) -> tuple[int, tuple[int, int], tuple[int, int, int], tuple[int, ...], tuple[int, ...] | None, bool]"),
             "What an unused capsule shows: pointer, (device type, device), (code, bits, lanes), shape, strides in items, readonly. It stays the owner of the memory.");
  module.def("dlpack_capsule", &capsule_of, nb::arg("owner").none(), nb::arg("pointer"), nb::arg("device"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"),
             nb::arg("readonly"), nb::arg("versioned"),
             nb::sig("def dlpack_capsule(owner: object, pointer: int, device: tuple[int, int], dtype: tuple[int, int, int], shape: tuple[int, ...], strides: tuple[int, ...], "
                     "readonly: bool, versioned: bool) -> object"),
             "A capsule over memory that `owner` keeps, until whoever uses the capsule is done.");
}

}  // namespace transload::py
