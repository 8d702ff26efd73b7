"""Memory of GPUs: where fresh memory comes from, and what objects export theirs.

Fresh memory is the user's: rmm's current resource where he has set one, else CuPy's allocator (its pool), for which CuPy is imported.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from . import _core
from ._errors import Exhausted, Unsupported

__all__ = ["allocate", "memory_of", "span_of"]

LEGACY_STREAM = 1
"""The legacy default stream, as CUDA's array interface names it."""


def allocate(nbytes: int, device: int) -> tuple[int, object, int]:
    """Return (pointer, owner, stream) of so many bytes of a device; the stream's work so far may still use them.

    On the host twin, for tests, they are host memory.
    """
    if device == _core.HOST_TWIN:
        import ctypes

        memory = ctypes.create_string_buffer(max(nbytes, 1))
        return ctypes.addressof(memory), memory, 0
    try:
        return _allocate(nbytes, device)
    except MemoryError as error:
        raise Exhausted(f"memory of device {device}: no room for {nbytes} bytes: {error}") from error
    except Exception as error:
        if "OutOfMemory" in type(error).__name__:
            raise Exhausted(f"memory of device {device}: no room for {nbytes} bytes: {error}") from error
        raise


def _allocate(nbytes: int, device: int) -> tuple[int, object, int]:
    rmm = sys.modules.get("rmm")
    if rmm is not None and _current_device() == device and _is_set(rmm):
        return _of_rmm(rmm, nbytes)
    try:
        import cupy
    except ImportError:
        if rmm is not None and _current_device() == device:
            return _of_rmm(rmm, nbytes)
        raise Unsupported("a GPU's memory arrives, and neither rmm nor CuPy, which would allocate it, is here") from None
    if cupy.cuda.runtime.getDevice() != device:
        with cupy.cuda.Device(device):
            return _of_cupy(cupy, nbytes)
    return _of_cupy(cupy, nbytes)


def _is_set(rmm: Any) -> bool:
    """Tell whether somebody uses rmm: others import it, and without a resource of his own it is cudaMalloc and cudaFree, which wait for the device each time."""
    current = getattr(rmm.mr, "get_current_device_resource", None)
    return current is not None and type(current()).__name__ != "CudaMemoryResource"


def _of_rmm(rmm: Any, nbytes: int) -> tuple[int, object, int]:
    buffer = rmm.DeviceBuffer(size=nbytes)  # on the legacy default stream
    return buffer.ptr, buffer, LEGACY_STREAM


def _of_cupy(cupy: Any, nbytes: int) -> tuple[int, object, int]:
    pointer = cupy.cuda.alloc(nbytes)
    return pointer.ptr, pointer, cupy.cuda.get_current_stream().ptr or LEGACY_STREAM


def _current_device() -> int:
    device: int = _core.current_device()
    return device


def memory_of(obj: object) -> _core.DeviceMemory | None:
    """Return the memory that `obj` exports by ``__cuda_array_interface__``, which lies in one piece; None where it exports none."""
    interface = getattr(obj, "__cuda_array_interface__", None)
    if interface is None:
        return None
    itemsize, shape = int(interface["typestr"][2:]), interface["shape"]
    nbytes = math.prod(shape) * itemsize
    if span_of(itemsize, shape, interface.get("strides")) != (0, nbytes):
        raise ValueError(f"the memory of a {type(obj).__qualname__} is not contiguous")
    if nbytes == 0:
        return _core.DeviceMemory(0, 0, _current_device(), obj)
    pointer, readonly = interface["data"]
    return _core.DeviceMemory(pointer, nbytes, _core.device_of(pointer), obj, stream_of(interface), bool(readonly))


def stream_of(interface: dict[str, Any]) -> int:
    """Return the stream that `interface` asks its users to wait for; 0 where it asks for nothing."""
    if interface.get("version", 0) < 3:
        return LEGACY_STREAM
    stream = interface.get("stream")
    return 0 if stream is None else int(stream)


def span_of(itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> tuple[int, int]:
    """Return where the bytes of an array begin and end, relative to its pointer; without strides it is in C order."""
    if strides is None or 0 in shape:
        return 0, math.prod(shape) * itemsize
    low, high = 0, itemsize
    for n, stride in zip(shape, strides, strict=True):
        reach = (n - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


_core.set_device_hooks(allocate, memory_of)
