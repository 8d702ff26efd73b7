"""CuPy: arrays, and the sparse matrices of cupyx. Their memory travels as frames of family cuda, or in host memory.

A receiver that asked for host memory gets NumPy arrays and SciPy matrices. Neither CuPy nor cupyx is imported before an object of theirs is met.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from .. import _core
from .._gpu import LEGACY_STREAM
from .._registry import register_named
from ._checks import charge, need
from ._device import library, parts_of, rebuilt

# ── arrays ───────────────────────────────────────────────────────────────────────────────────────────────────


# Contiguous arrays are written, and arrays without strides made, in C++ by what `stream_of_message` and `classes` say; the others come here.


def _encode_array(a: Any) -> tuple[Any, ...]:
    interface = {"shape": a.shape, "strides": a.strides, "data": (a.data.ptr, False), "version": 3, "stream": _stream()}
    if a.flags.c_contiguous:
        del interface["strides"]
    return parts_of(a, a.dtype, interface, a.data.device_id, lambda array: array.copy(order="C"))


def _stream() -> int:
    stream: int = sys.modules["cupy"].cuda.get_current_stream().ptr
    return stream or LEGACY_STREAM


def _decode_array(value: Any) -> Any:
    return rebuilt(value, _on_device)


def _on_device(memory: _core.DeviceMemory, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int) -> Any:
    array, unowned, pointer = _classes()
    nbytes = memory.nbytes
    if nbytes == 0:
        return library("cupy").empty(shape, dtype)
    return array(shape, dtype, pointer(unowned(memory.pointer, nbytes, memory, memory.device), offset), strides)


@functools.cache
def _classes() -> tuple[Any, Any, Any]:
    cupy = library("cupy")
    return cupy.ndarray, cupy.cuda.UnownedMemory, cupy.cuda.MemoryPointer


_encode_array.stream_of_message = _stream  # type: ignore[attr-defined]
_decode_array.classes = _classes  # type: ignore[attr-defined]
register_named(["cupy:ndarray", "cupy._core.core:ndarray"], "cupy.ndarray", _encode_array, _decode_array)


# ── sparse matrices ──────────────────────────────────────────────────────────────────────────────────────────

_ARRAYS = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col"), "dia": ("data", "offsets")}
_CLASSES = tuple(f"{form}_{kind}" for form in _ARRAYS for kind in ("matrix", "array"))
_FLAGS = ("_has_canonical_format", "_has_sorted_indices", "has_canonical_format")
_NOT_SENT = ("_descr",)  # a handle of cuSPARSE, made anew


def _encode_sparse(matrix: Any) -> tuple[Any, ...]:
    arrays = _ARRAYS[matrix.format]
    own = vars(matrix)
    others = set(own) - {*arrays, *_FLAGS, *_NOT_SENT, "_shape", "maxprint"}
    if others or not all(name in own for name in arrays):
        raise NotImplementedError(f"a {type(matrix).__qualname__} with attributes {', '.join(sorted(own))}")
    flags: dict[str, int] = {name: bool(own[name]) for name in _FLAGS if name in own}
    if "maxprint" in own:
        flags["maxprint"] = int(own["maxprint"])
    contiguous = sys.modules["cupy"].ascontiguousarray  # as the receiver needs them; the arrays themselves where they are
    return type(matrix).__name__, tuple(map(int, matrix.shape)), tuple(contiguous(own[name]) for name in arrays), flags


def _decode_sparse(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 4, "a sparse matrix has 4 parts")
    name, shape, arrays, flags = value
    need(type(name) is str and name in _CLASSES, "no class of sparse matrices")
    form = name[:3]
    need(type(shape) is tuple and len(shape) == 2 and all(type(n) is int and 0 <= n < 1 << 62 for n in shape), "the shape of a sparse matrix")
    need(type(arrays) is tuple and len(arrays) == len(_ARRAYS[form]), "the arrays of a sparse matrix")
    for flag, setting in flags.items() if type(flags) is dict else ((None, None),):
        need((flag in _FLAGS and type(setting) is bool) or (flag == "maxprint" and type(setting) is int), "the flags of a sparse matrix")
    on_gpu = type(arrays[0]) is not np.ndarray
    if on_gpu:
        need(type(arrays[0]).__module__.partition(".")[0] == "cupy", "the arrays of a sparse matrix are no arrays")
        import cupy as xp
        import cupyx.scipy.sparse as sparse
    else:
        import scipy.sparse as sparse

        xp = np
    need(all(type(array) is xp.ndarray for array in arrays), "the arrays of a sparse matrix do not lie in one kind of memory")
    _look_at(form, shape, arrays, arrays[0].data.device_id if on_gpu else _core.HOST_TWIN)
    cls = getattr(sparse, name)
    if not on_gpu:
        charge(sum(array.nbytes for array in arrays[1:] if array.itemsize > 4))  # SciPy makes shorter ones of them
        return cls((arrays[0], (arrays[1], arrays[2])) if form == "coo" else arrays, shape=shape)
    matrix = cls.__new__(cls)
    vars(matrix).update(zip(_ARRAYS[form], arrays, strict=True))
    matrix._shape = shape
    if form in ("csr", "csc"):
        from cupyx import cusparse

        matrix._descr = cusparse.MatDescriptor.create()
    vars(matrix).update(flags)
    return matrix


def _look_at(form: str, shape: tuple[int, int], arrays: tuple[Any, ...], device: int) -> None:
    """Refuse indices that point outside of the matrix: the kernels follow them as they are, and know neither strides nor bytes in another order."""
    data, *rest = arrays
    need(all(array.flags.c_contiguous for array in arrays), "an array of a sparse matrix is not contiguous")
    need(data.dtype.kind in "biufc", f"the data of a sparse matrix are of {data.dtype}")
    need(all(array.dtype in (np.dtype("i4"), np.dtype("i8")) and array.ndim == 1 for array in rest), "indices are no integers of 4 or 8 bytes in one dimension")
    if form == "dia":
        (offsets,) = rest
        need(data.ndim == 2 and len(data) == len(offsets), "diagonals and offsets do not fit")
        reach = min(sum(shape) + 1, np.iinfo(offsets.dtype).max)
        ((least, most, _),) = _bounds([offsets], device)
        need(len(offsets) == 0 or -reach <= least <= most <= reach, "a diagonal far outside of the matrix")
        return
    need(data.ndim == 1, "the data of a sparse matrix have one dimension")
    if form == "coo":
        row, col = rest
        need(len(data) == len(row) == len(col), "data and indices do not fit")
        found = _bounds([row, col], device)
        limits: tuple[int, ...] = shape
    else:
        indices, indptr = rest
        major, minor = shape if form == "csr" else shape[::-1]
        need(len(data) == len(indices) and len(indptr) == major + 1 and indices.dtype == indptr.dtype, "data and indices do not fit")
        *found, (first, last, ascending) = _bounds([indices, indptr], device, ordered=indptr)
        need(ascending and first == 0 and last == len(indices), "the index pointers of a sparse matrix")
        limits = (minor,)
    for (least, most, _), length in zip(found, limits, strict=True):
        need(most < least or (least >= 0 and most < length), "an index outside of the matrix")


def _bounds(arrays: list[Any], device: int, ordered: Any = None) -> list[tuple[int, int, bool]]:
    """Return least, greatest and whether they ascend (asked of `ordered`) of arrays of integers, in one pass over a GPU's memory."""
    on_host = device == _core.HOST_TWIN
    runs = [(a.ctypes.data if on_host else a.data.ptr, len(a), a.itemsize, a is ordered) for a in arrays]
    return _core.integer_bounds(runs, device, 0 if on_host else sys.modules["cupy"].cuda.get_current_stream().ptr)


register_named([f"cupyx.scipy.sparse._{name[:3]}:{name}" for name in _CLASSES], "cupyx.sparse", _encode_sparse, _decode_sparse)
