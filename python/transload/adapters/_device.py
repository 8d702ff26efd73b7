"""What the adapters of GPU libraries share: an array is (memory, dtype, shape, strides, offset), and comes back where its memory is."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._errors import Unsupported
from .._gpu import span_of, stream_of

Layout = tuple[Any, ...]

MOST = 1 << 62
MOST_DIMENSIONS = 64


def library(module: str) -> Any:
    """Return a library that makes objects of a GPU's memory."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unsupported(f'{error}; device="host" asks for host memory, which needs none of it') from error


class Shaped:
    """An array by CUDA's interface, over memory that `owner` keeps."""

    def __init__(self, memory: _core.DeviceMemory, typestr: str, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int) -> None:
        self.owner = memory
        self.__cuda_array_interface__ = {
            "version": 3,
            "typestr": typestr,
            "shape": shape,
            "strides": strides,
            "data": (memory.pointer + offset, memory.readonly),
            "stream": memory.stream or None,
        }


def parts_of(obj: object, dtype: np.dtype[Any], interface: dict[str, Any], device: int, compact: Callable[[Any], Any]) -> Layout:
    """Return the parts of an array of `dtype` that exports `interface`: its memory from the first byte that it shows to the last.

    A view that shows little of that is made compact before, by `compact(obj)`.
    """
    shape = tuple(interface["shape"])
    low, high = span_of(dtype.itemsize, shape, interface.get("strides"))
    if shows_little(low, high, shape, dtype.itemsize):
        obj = compact(obj)
        interface = obj.__cuda_array_interface__  # type: ignore[attr-defined]
        low, high = span_of(dtype.itemsize, shape, interface.get("strides"))
    strides = interface.get("strides")
    pointer, readonly = interface["data"]
    memory = _core.DeviceMemory((pointer or 0) + low, high - low, device, obj, stream_of(interface), bool(readonly))
    return (memory, dtype, shape) if strides is None else (memory, dtype, shape, tuple(strides), -low)


def shows_little(low: int, high: int, shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether a view shows less than half of the memory between its first byte and its last."""
    return high - low > 2 * math.prod(shape) * itemsize + 4096


def rebuilt(value: Any, on_device: Callable[..., Any]) -> Any:
    """Return the array of these parts: NumPy's in host memory, else what `on_device` makes of them, memory first."""
    parts = checked(value)
    memory, dtype, shape, strides, offset = parts
    return np.ndarray(shape, dtype, memory.host_view(), offset, strides) if on_host(memory) else on_device(*parts)


def checked(value: Any) -> tuple[_core.DeviceMemory, np.dtype[Any], tuple[int, ...], tuple[int, ...] | None, int]:
    """Return the parts of an array, which lies in its memory."""
    if type(value) is tuple and len(value) == 3:  # nearly all arrays: of one dimension, without strides
        memory, dtype, shape = value
        one = type(shape) is tuple and len(shape) == 1 and type(shape[0]) is int and 0 <= shape[0] < MOST
        if type(memory) is _core.DeviceMemory and isinstance(dtype, np.dtype) and not dtype.hasobject and one and shape[0] * dtype.itemsize <= memory.nbytes:
            return memory, dtype, shape, None, 0
    if type(value) is not tuple or len(value) not in (3, 5):
        raise ValueError("an array of a GPU has 3 or 5 parts")
    memory, dtype, shape, *more = value
    strides, offset = more or (None, 0)
    if type(memory) is not _core.DeviceMemory:
        raise ValueError("the memory of an array is no memory of a GPU")  # noqa: TRY004  the bytes are wrong
    if not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise ValueError("an array of a GPU has no such dtype")
    if type(shape) is not tuple or len(shape) > MOST_DIMENSIONS:
        raise ValueError("the shape of an array is no tuple of lengths")
    count = 1
    for n in shape:
        if type(n) is not int or not 0 <= n < MOST:
            raise ValueError("the shape of an array is no tuple of lengths")
        count *= n
    if strides is None:
        low, high = 0, count * dtype.itemsize
    else:
        if type(strides) is not tuple or len(strides) != len(shape) or not all(type(n) is int and abs(n) < MOST for n in strides):
            raise ValueError("the strides of an array do not fit its shape")
        low, high = span_of(dtype.itemsize, shape, strides)
    if type(offset) is not int or not 0 <= offset <= memory.nbytes or offset + low < 0 or offset + high > memory.nbytes:
        raise ValueError(f"an array of shape {shape} does not fit into {memory.nbytes} bytes")
    return memory, dtype, shape, strides, offset


def device_place() -> _core.DeviceMemory:
    """No bytes of the current device: by them an object without buffers is known, on arrival, to belong on a device, or in host memory where that was asked for."""
    return _core.DeviceMemory(0, 0, _core.current_device(), None)


def on_host(memory: _core.DeviceMemory) -> bool:
    """Whether the receiver asked for host memory in place of a GPU's."""
    return memory.device == _core.HOST_TWIN
