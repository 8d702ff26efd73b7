#pragma once
/// Memory of GPUs at the border to Python.

#include <cstdint>
#include <optional>
#include <vector>

#include "py.hpp"
#include "transload/memory/device.hpp"

namespace transload::py {

/// Bytes of a GPU's memory with whoever keeps them alive: what adapters give to the walk and get from it. docs/device.md.
struct DeviceMemory {
  std::uintptr_t pointer = 0;
  std::uint64_t nbytes = 0;
  int device = host_twin;
  StreamHandle stream = 0;  ///< whose work so far writes it; 0: all is done
  bool readonly = false;
  Ref owner;

  [[nodiscard]] void* data() const noexcept { return reinterpret_cast<void*>(pointer); }
};

/// The type of the Python object.
[[nodiscard]] PyTypeObject* device_memory_type();
/// What the object holds, or null for an object of another type. Borrowed.
[[nodiscard]] DeviceMemory const* as_device_memory(PyObject* object);
[[nodiscard]] Ref to_python(DeviceMemory memory);

/// The memory that `object` exports by `__cuda_array_interface__`, in one piece; null where it exports none.
[[nodiscard]] Ref exported_device_memory(PyObject* object);

/// An array as CuPy's are: its attributes `_c_contiguous`, `data` (with `ptr` and `device_id`), `nbytes`, `dtype` and `shape`.
struct DeviceArray {
  std::uintptr_t pointer = 0;
  std::uint64_t nbytes = 0;
  int device = 0;
  Ref dtype;
  Ref shape;
};
/// The parts of an array whose items lie one behind the other in C order; nothing where it has none, or is another kind of object.
[[nodiscard]] std::optional<DeviceArray> contiguous_device_array(PyObject* object);

/// Makes arrays of a library over memory of a GPU: `array(shape, dtype, pointer(unowned(address, nbytes, owner, device), offset))`, as CuPy's classes take it.
class DeviceArrays {
 public:
  /// `classes`: the tuple (array, unowned, pointer).
  explicit DeviceArrays(PyObject* classes);
  /// Null, with the error set, where a class raises. Arrays of one `owner`'s memory, which is a DeviceMemory, share an `unowned`.
  [[nodiscard]] Ref make(PyObject* shape, PyObject* dtype, PyObject* owner, std::uint64_t offset);

 private:
  Ref array_, unowned_, pointer_;
  Ref owner_;   ///< of the array before
  Ref memory_;  ///< its `unowned`
};

/// Fresh memory of a device from the user's allocator.
///
/// @throws Raised what the allocator raises.
[[nodiscard]] DeviceMemory allocate_on_device(std::uint64_t nbytes, int device);

}  // namespace transload::py
