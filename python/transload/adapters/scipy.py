"""SciPy's sparse containers, whose index arrays compiled code reads without looking.

Each container is its attributes, looked at before an object holds them. Nothing here imports SciPy before an object needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._registry import register_named
from ._checks import ascending, integer, ndarray, need, same_parts, within
from ._stand_ins import class_of, of_state


def _shape(state: dict[str, Any], ndims: tuple[int, ...] = (2,)) -> tuple[int, ...]:
    shape = state["_shape"]
    need(type(shape) is tuple and len(shape) in ndims, "shape {}", shape)
    for n in shape:
        integer(n, "a dimension", 0, (1 << 63) - 1)
    return shape


def _index(value: Any, n: int, what: str) -> None:
    """An index below `n`; not int(value), which makes a number of 10**9 digits of a Decimal."""
    import numpy as np

    if isinstance(value, np.integer):
        value = int(value)
    integer(value, what, 0, n - 1)


def _check_compressed(state: dict[str, Any], major: int, minor: int, ndata: int) -> None:
    """The arrays of CSR, CSC and BSR: `major` rows of indices below `minor`, and `ndata` values."""
    indptr = ndarray(state["indptr"], "indptr", 1, "i")
    indices = ndarray(state["indices"], "indices", 1, "i")
    need(len(indptr) == major + 1 and int(indptr[0]) == 0, f"indptr has {len(indptr)} entries for {major} rows, or does not begin with 0")
    ascending(indptr, "indptr")
    end = int(indptr[-1])
    need(end <= len(indices) and end <= ndata, f"indptr ends at {end}, there are {len(indices)} indices and {ndata} values")
    within(indices[:end], 0, minor, "indices")


def _check_csr(state: dict[str, Any]) -> None:
    same_parts(state, ("_shape", "data", "indices", "indptr"), "csr")
    shape = _shape(state, (1, 2))
    _check_compressed(state, shape[0] if len(shape) == 2 else 1, shape[-1], len(ndarray(state["data"], "data", 1)))


def _check_csc(state: dict[str, Any]) -> None:
    same_parts(state, ("_shape", "data", "indices", "indptr"), "csc")
    rows, columns = _shape(state)
    _check_compressed(state, columns, rows, len(ndarray(state["data"], "data", 1)))


def _check_bsr(state: dict[str, Any]) -> None:
    same_parts(state, ("_shape", "data", "indices", "indptr"), "bsr")
    rows, columns = _shape(state)
    nblocks, height, width = ndarray(state["data"], "data", 3).shape
    need(height > 0 and width > 0 and rows % height == 0 and columns % width == 0, f"blocks of {height} × {width} in shape {(rows, columns)}")
    _check_compressed(state, rows // height, columns // width, nblocks)


def _check_coo(state: dict[str, Any]) -> None:
    same_parts(state, ("_shape", "data"), "coo")
    shape = _shape(state, tuple(range(1, 65)))
    data = ndarray(state["data"], "data", 1)
    coords = state["coords"] if "coords" in state else (state["row"], state["col"])
    need(type(coords) is tuple and len(coords) == len(shape), "coords do not fit the shape")
    for axis, n in zip(coords, shape, strict=True):
        need(ndarray(axis, "coords", 1, "i").shape == data.shape, "coords do not fit the data")
        within(axis, 0, n, "coords")


def _check_dia(state: dict[str, Any]) -> None:
    same_parts(state, ("_shape", "data", "offsets"), "dia")
    rows, columns = _shape(state)
    offsets = ndarray(state["offsets"], "offsets", 1, "i")
    need(len(ndarray(state["data"], "data", 2)) == len(offsets), "offsets do not fit the data")
    within(offsets, -rows - columns - 1, rows + columns + 2, "offsets")


def _check_lil(state: dict[str, Any]) -> None:
    same_parts(state, ("_shape", "data", "rows"), "lil")
    nrows, ncolumns = _shape(state)
    rows, data = ndarray(state["rows"], "rows", 1, "O"), ndarray(state["data"], "data", 1, "O")
    need(len(rows) == nrows and len(data) == nrows, "rows do not fit the shape")
    for columns, values in zip(rows, data, strict=True):
        need(type(columns) is list and type(values) is list and len(columns) == len(values), "a row is no pair of lists")
        for column in columns:
            _index(column, ncolumns, "a column")


def _register_format(form: str, check: Callable[[dict[str, Any]], None]) -> None:
    for kind in ("matrix", "array"):
        module, name = f"scipy.sparse._{form}", f"{form}_{kind}"
        register_named([f"{module}:{name}"], f"scipy.{name}", lambda container: dict(container.__dict__), of_state(module, name, check))


_register_format("csr", _check_csr)
_register_format("csc", _check_csc)
_register_format("bsr", _check_bsr)
_register_format("coo", _check_coo)
_register_format("dia", _check_dia)
_register_format("lil", _check_lil)


# ── DOK: a dict, in SciPy beside it or as its base ───────────────────────────────────────────────────────────


def _encode_dok(container: Any) -> tuple[Any, ...]:
    return dict(container.items()), {key: value for key, value in container.__dict__.items() if key != "_dict"}, container.dtype


def _dok_decoder(name: str) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        import numpy as np

        items, state, dtype = value
        need(type(items) is dict and type(state) is dict and isinstance(dtype, np.dtype), "not (items, state, dtype)")
        need(dtype.kind in "biufcO", f"values of {dtype}")
        shape = _shape(state, (1, 2))
        for key in items:
            place = key if type(key) is tuple else (key,)
            need(len(place) == len(shape), "key {}", key)
            for at, n in zip(place, shape, strict=True):
                _index(at, n, "a key")
        cls = class_of("scipy.sparse._dok", name)
        _core.check_attributes(cls, state)
        container = cls(shape, dtype=dtype)
        container.__dict__.update(state)
        if hasattr(container, "_dict"):
            container._dict.update(items)
        else:
            dict.update(container, items)
        return container

    return decode


for _name in ("dok_matrix", "dok_array"):
    register_named([f"scipy.sparse._dok:{_name}"], f"scipy.{_name}", _encode_dok, _dok_decoder(_name))
