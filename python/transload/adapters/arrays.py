"""Arrays of any library that exports DLPack or CUDA's array interface, as `transload.register_array` takes them.

An array is (name, array): an ndarray where it lies in host memory, the parts that `_device.checked` knows where it lies
on a GPU. The name is that of a dtype that NumPy has not, whose items then go as unsigned integers of the same size, or
empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._errors import Unsupported
from .._gpu import LEGACY_STREAM, allocate, span_of
from ._checks import LARGE, need
from ._device import checked, on_host, parts_of, shows_little

# Devices of DLPack (dlpack.h, DLDeviceType).
CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

# Type codes of DLPack (DLDataTypeCode), by NumPy's kinds and by the names that ml_dtypes gives.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_NAMES = {
    "bfloat16": (4, 16),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
}
_NAME_OF = {form: name for name, form in _NAMES.items()}
_BITS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "c": (64, 128), "b": (8,)}


# ── to the walk ──────────────────────────────────────────────────────────────────────────────────────────────


def encoder(takes: Callable[[Any], bool] | None) -> Callable[[Any], tuple[str, Any]]:
    """Return the function that writes arrays which `takes` takes."""

    def encode(array: Any) -> tuple[str, Any]:
        if takes is not None and not takes(array):
            raise NotImplementedError("its registration does not take it")
        if hasattr(array, "__dlpack__"):
            try:
                return _by_dlpack(array)
            except (
                BufferError,
                RuntimeError,
                TypeError,
                ValueError,
            ) as error:  # producers who cannot should raise the first, and JAX raises the second
                reason = f"DLPack: {error}"
        else:
            reason = "it exports neither DLPack nor CUDA's array interface"
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is None:
            raise NotImplementedError(reason)
        return _by_interface(array, interface)

    return encode


def _by_dlpack(array: Any) -> tuple[str, Any]:
    kind = int(array.__dlpack_device__()[0])
    if kind not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise BufferError(f"memory of device type {kind}")
    gpu = kind in (CUDA, CUDA_MANAGED)
    # The producer lets this stream wait for what still writes the array; copies wait for the stream.
    stream = LEGACY_STREAM if gpu else None
    try:
        capsule = array.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # of before DLPack 1.0
        capsule = array.__dlpack__(stream=stream)
    pointer, (_, device), form, shape, strides, readonly = _core.dlpack_tensor(capsule)
    name, dtype = _dtype_of(*form)
    itemsize = dtype.itemsize
    if strides is not None:
        strides = tuple(n * itemsize for n in strides)
        if 0 in shape or _in_c_order(shape, strides, itemsize):
            strides = None
    low, high = span_of(itemsize, shape, strides)
    _look_at_size(shape, itemsize, high - low, NotImplementedError)
    memory = (
        _core.DeviceMemory(pointer + low, high - low, device if gpu else _core.HOST_TWIN, capsule, stream, readonly)
        if high > low
        else _nothing(capsule)
    )
    if not gpu:
        return name, np.ndarray(shape, dtype, memory.host_view(), -low, strides)
    if shows_little(low, high, shape, itemsize):
        raise BufferError(f"a view of {math.prod(shape)} items in {high - low} bytes")
    return name, (memory, dtype, shape) if strides is None else (memory, dtype, shape, strides, -low)


def _nothing(owner: object) -> _core.DeviceMemory:
    return _core.DeviceMemory(0, 0, _core.HOST_TWIN, owner)


def _in_c_order(shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _dtype_of(code: int, bits: int, lanes: int) -> tuple[str, np.dtype[Any]]:
    name = _NAME_OF.get((code, bits), "")
    if lanes == 1 and name:
        return name, np.dtype(f"u{bits // 8}")
    kind = _KINDS.get(code, "")
    if lanes != 1 or bits not in _BITS.get(kind, ()):
        raise BufferError(f"items of type code {code}, {bits} bits and {lanes} lanes")
    return "", np.dtype(f"{'?' if kind == 'b' else kind}{'' if kind == 'b' else bits // 8}")


def _by_interface(array: Any, interface: dict[str, Any]) -> tuple[str, Any]:
    dtype = np.dtype(interface["typestr"])
    if not _is_plain(dtype) or interface.get("mask") is not None:
        masked = "" if interface.get("mask") is None else " and a mask"
        raise NotImplementedError(f"CUDA's array interface with items of {interface['typestr']}{masked}")
    shape, pointer = tuple(interface["shape"]), interface["data"][0]
    if 0 in shape:
        return "", (_nothing(array), dtype, shape)

    def leave(_: Any) -> Any:
        raise NotImplementedError("a view that shows little of its memory")

    parts = parts_of(array, dtype, interface, _core.device_of(pointer), leave)
    _look_at_size(shape, dtype.itemsize, parts[0].nbytes, NotImplementedError)
    return "", parts


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in _BITS and dtype.itemsize * 8 in _BITS[dtype.kind] and dtype.isnative


def _look_at_size(shape: tuple[int, ...], itemsize: int, nbytes: int, error: type[Exception]) -> None:
    """A few bytes can show one item 2**60 times over, and the library that gets them may copy it as often."""
    shown = math.prod(shape) * itemsize
    if shown > LARGE and shown > nbytes:
        raise error(f"an array that shows {shown} bytes of {nbytes}")


# ── from the walk ────────────────────────────────────────────────────────────────────────────────────────────


def decoder(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function that makes arrays by `decode`."""

    def rebuild(value: Any) -> Any:
        need(type(value) is tuple and len(value) == 2, "an array has a name and parts")
        name, parts = value
        need(type(name) is str and (name == "" or name in _NAMES), "an array has no such dtype")
        in_host_memory = type(parts) is np.ndarray
        if in_host_memory:
            owner, pointer, dtype, shape, strides, readonly = (
                parts,
                parts.ctypes.data,
                parts.dtype,
                parts.shape,
                parts.strides,
                not parts.flags.writeable,
            )
            low, high = span_of(dtype.itemsize, shape, strides)
            nbytes = high - low
        else:
            owner, dtype, shape, strides, offset = checked(parts)
            if owner.nbytes == 0 and not on_host(owner):  # libraries tell the device by the address, which must be one
                address, keeper, stream = allocate(1, owner.device)
                owner, offset = _core.DeviceMemory(address, 0, owner.device, keeper, stream), 0
            pointer, nbytes, readonly = owner.pointer + offset, owner.nbytes, owner.readonly
        need(
            _is_plain(dtype) and (name == "" or (dtype.kind == "u" and dtype.itemsize * 8 == _NAMES[name][1])),
            "an array has no such dtype",
        )
        _look_at_size(shape, dtype.itemsize, nbytes, ValueError)
        if not in_host_memory and on_host(owner):
            return np.ndarray(shape, _in_numpy(name) if name else dtype, owner.host_view(), offset, strides)
        array = decode(Exported(owner, pointer, name, dtype, shape, strides, readonly))
        got = getattr(array, "dtype", None)
        if isinstance(got, np.dtype) and str(got) != (name or str(dtype)):
            raise Unsupported(f"an array of {name or dtype} became one of {got} here")
        return array

    return rebuild


def _in_numpy(name: str) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported(f"NumPy has no {name} without ml_dtypes: an array of it cannot come to host memory") from None
    return np.dtype(getattr(ml_dtypes, name))


class Exported:
    """An array that arrived, as its library takes it: by DLPack, or, on a GPU, by CUDA's array interface.

    Attributes
    ----------
    dtype : str
        As NumPy or ml_dtypes names it.
    shape : tuple of int
        Its lengths.
    strides : tuple of int
        In bytes.
    """

    def __init__(
        self,
        owner: Any,
        pointer: int,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        readonly: bool,
    ) -> None:
        if strides is None:
            strides = tuple(math.prod(shape[i + 1 :]) * dtype.itemsize for i in range(len(shape)))
        self.dtype, self.shape, self.strides = name or str(dtype), shape, strides
        self._owner, self._pointer, self._readonly = owner, pointer, readonly
        self._form = (*(_NAMES[name] if name else (_CODES[dtype.kind], dtype.itemsize * 8)), 1)
        self._itemsize = dtype.itemsize
        if isinstance(owner, _core.DeviceMemory):
            self._device = CUDA, owner.device
            self._stream = owner.stream
            if not name:
                self.__cuda_array_interface__ = {
                    "version": 3,
                    "typestr": dtype.str,
                    "shape": shape,
                    "strides": strides,
                    "data": (pointer, readonly),
                    "stream": self._stream or None,
                }
        else:
            self._device = CPU, 0
            self._stream = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device type, and the device."""
        return self._device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule over the memory, as the array API's standard has it."""
        if copy or (dl_device is not None and tuple(map(int, dl_device)) != self._device):
            raise BufferError("this array is exported where it lies, and not copied")
        versioned = max_version is not None and max_version[0] >= 1
        if self._readonly and not versioned:
            raise BufferError("this array is read-only, which DLPack before 1.0 cannot say")
        steps = []
        for n, stride in zip(self.shape, self.strides, strict=True):
            if n > 1 and stride % self._itemsize:
                raise BufferError("strides that are no multiples of the items' size")
            steps.append(stride // self._itemsize)
        if self._stream and stream not in (-1, self._stream):
            self._owner.window(0, min(self._owner.nbytes, 1)).to_host()  # waits for the stream that writes it
        return _core.dlpack_capsule(
            self._owner, self._pointer, self._device, self._form, self.shape, tuple(steps), self._readonly, versioned
        )
