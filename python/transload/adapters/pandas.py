"""pandas: block managers, indexes and arrays, each looked at before an object holds it, for compiled code relies on codes, masks and placements.

Arrays travel as arrays, so they are frames without a copy on either side. Which blocks share memory (copy on write) is kept inside a
message. Classes are met under their names in pandas 2 (``pandas.core…``) and 3 (``pandas.…``). Nothing here imports pandas before an object needs it.
"""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Callable
from typing import Any

from .. import _tables
from .._registry import register_named
from ._checks import in_memory, integer, ndarray, need, within


def _pandas() -> Any:
    return importlib.import_module("pandas")


# ── Frames and series ────────────────────────────────────────────────────────────────────────────────────────


def _encode_container(container: Any) -> dict[str, Any]:
    return container.__getstate__()


def _container_decoder(name: str, manager: str) -> Callable[[Any], Any]:
    def decode(state: Any) -> Any:
        managers = importlib.import_module("pandas.core.internals.managers")
        need(type(state) is dict, "the state is no dict")
        need(type(state.get("_mgr")) is getattr(managers, manager), f"a {name} without a {manager}")
        need(state.get("_typ") == name.lower(), f"_typ of a {name}")
        cls = getattr(_pandas(), name)
        container = cls.__new__(cls)
        container.__setstate__(state)
        return container

    return decode


register_named(["pandas:DataFrame", "pandas.core.frame:DataFrame"], "pandas.DataFrame", _encode_container, _container_decoder("DataFrame", "BlockManager"))
register_named(["pandas:Series", "pandas.core.series:Series"], "pandas.Series", _encode_container, _container_decoder("Series", "SingleBlockManager"))


def _references(block: Any) -> Any:
    """The note of who shares the block's memory, where somebody does: the same object for all of them."""
    references = getattr(block, "refs", None)
    return references if references is not None and references.has_reference() else None


def _encode_manager(manager: Any) -> tuple[Any, ...]:
    return list(manager.axes), [(block.values, block.mgr_locs.indexer, _references(block)) for block in manager.blocks]


def _values(values: Any) -> Any:
    import numpy as np

    need(type(values) is np.ndarray or isinstance(values, _pandas().api.extensions.ExtensionArray), f"a block of a {type(values).__qualname__}")
    return values


def _placed(placement: Any, ncolumns: int, seen: Any) -> int:
    """Marks the columns of a block in `seen`; returns how many."""
    if type(placement) is slice:
        start, stop, step = placement.start, placement.stop, 1 if placement.step is None else placement.step
        integer(start, "the start of a placement", 0, ncolumns)
        integer(step, "the step of a placement", -ncolumns - 1, ncolumns + 1)
        need(step != 0 and (stop is None or type(stop) is int), f"placement {placement}")
        n = len(range(*placement.indices(ncolumns)))
        stop = stop if stop is not None else -1
        need(n == len(range(start, stop, step)), f"placement {placement} of {ncolumns} columns")
    else:
        within(ndarray(placement, "a placement", 1, "i"), 0, ncolumns, "a placement")
        n = len(placement)
    seen[placement] += 1
    return n


_MOST_COLUMNS = 1 << 26  # each is marked once; a range of them costs the sender nothing


def _decode_manager(value: Any) -> Any:
    import numpy as np

    pd = _pandas()
    managers = importlib.import_module("pandas.core.internals.managers")
    axes, parts = value
    need(type(axes) is list and len(axes) == 2 and all(isinstance(axis, pd.Index) for axis in axes), "two axes are needed")
    ncolumns, nrows = len(axes[0]), len(axes[1])
    need(ncolumns <= _MOST_COLUMNS, f"{ncolumns} columns")
    seen = np.zeros(ncolumns, np.int8)
    blocks = []
    for values, placement, references in parts:
        n = _placed(placement, ncolumns, seen)
        need(_values(values).shape == ((nrows,) if _is_flat(values.dtype) else (n, nrows)), f"a block of shape {values.shape} for {n} of {nrows} rows")
        need(n == 1 or not _is_flat(values.dtype), f"a block of {values.dtype} for {n} columns")
        blocks.append(_block(values, placement, 2, references))
    need(bool((seen == 1).all()), "the blocks do not give each column once")
    return managers.BlockManager(tuple(blocks), axes, verify_integrity=False)


def _is_flat(dtype: Any) -> bool:
    return bool(importlib.import_module("pandas.core.dtypes.common").is_1d_only_ea_dtype(dtype))


def _block(values: Any, placement: Any, ndim: int, references: Any) -> Any:
    blocks = importlib.import_module("pandas.core.internals.blocks")
    internals = importlib.import_module("pandas._libs.internals")
    need(references is None or type(references) is internals.BlockValuesRefs, "references that are none")
    return blocks.new_block(blocks.maybe_coerce_values(values), internals.BlockPlacement(placement), ndim=ndim, refs=references)


def _encode_single_manager(manager: Any) -> tuple[Any, ...]:
    (block,) = manager.blocks
    return manager.axes[0], block.values, _references(block)


def _decode_single_manager(value: Any) -> Any:
    managers = importlib.import_module("pandas.core.internals.managers")
    axis, values, references = value
    need(isinstance(axis, _pandas().Index), "the axis is no index")
    need(_values(values).shape == (len(axis),), f"a block of shape {values.shape} for {len(axis)} rows")
    return managers.SingleBlockManager(_block(values, slice(0, len(axis), 1), 1, references), axis)


def _decode_references(value: Any) -> Any:
    need(value is None, "references with a value")
    return importlib.import_module("pandas._libs.internals").BlockValuesRefs()


register_named(["pandas.core.internals.managers:BlockManager"], "pandas.blocks", _encode_manager, _decode_manager)
register_named(["pandas.core.internals.managers:SingleBlockManager"], "pandas.block", _encode_single_manager, _decode_single_manager)
register_named(["pandas._libs.internals:BlockValuesRefs"], "pandas.references", lambda references: None, _decode_references)


# ── Indexes ──────────────────────────────────────────────────────────────────────────────────────────────────

_INDEXES = {
    "Index": "pandas.core.indexes.base", "RangeIndex": "pandas.core.indexes.range", "DatetimeIndex": "pandas.core.indexes.datetimes",
    "TimedeltaIndex": "pandas.core.indexes.timedeltas", "PeriodIndex": "pandas.core.indexes.period", "IntervalIndex": "pandas.core.indexes.interval",
    "CategoricalIndex": "pandas.core.indexes.category", "MultiIndex": "pandas.core.indexes.multi",
}
_INDEX_PARTS = {
    "RangeIndex": {"name", "start", "stop", "step"}, "IntervalIndex": {"left", "right", "closed", "name"}, "MultiIndex": {"levels", "codes", "sortorder", "names"},
}
_INDEX_DATA = {"DatetimeIndex": "DatetimeArray", "TimedeltaIndex": "TimedeltaArray", "PeriodIndex": "PeriodArray", "CategoricalIndex": "Categorical"}


def _encode_index(index: Any) -> tuple[Any, ...]:
    _, (cls, parts), *_ = index.__reduce__()
    references = getattr(index, "_references", None)
    if "data" in parts and references is not None and references.has_reference():
        parts = {**parts, "data": parts["data"].copy()}  # a column has this memory too, and may be written to
    return cls.__name__, parts


_MOST_OF_RANGE = 1 << 24


def _listed(*parts: Any) -> None:
    """Parts that pandas makes arrays of: none of them may be far longer than its bytes."""
    pd = _pandas()
    for part in parts:
        need(isinstance(part, (pd.Index, pd.api.extensions.ExtensionArray)) or hasattr(part, "strides"), f"values of a {type(part).__qualname__}")
        need(not isinstance(part, pd.RangeIndex) or len(part) <= _MOST_OF_RANGE, "a range that is too long for an array")
        if hasattr(part, "strides") and hasattr(part, "nbytes"):
            in_memory(part, "the values")


def _decode_index(value: Any) -> Any:
    name, parts = value
    need(name in _INDEXES and type(parts) is dict, f"{name!r} is no index")
    need(set(parts) == _INDEX_PARTS.get(name, {"data", "name"}), f"parts {list(parts)} of a {name}")
    cls = getattr(_pandas(), name)
    if name == "IntervalIndex":
        _listed(parts["left"], parts["right"])
        return cls.from_arrays(**parts)
    if name == "MultiIndex":
        _check_codes(parts)
    elif name != "RangeIndex":
        data = _values(parts["data"])
        need(data.ndim == 1, f"{data.ndim} dimensions in an index")
        _listed(data)
        need(name not in _INDEX_DATA or type(data).__name__ == _INDEX_DATA[name], f"a {name} of a {type(data).__qualname__}")
    if name == "DatetimeIndex":
        return importlib.import_module("pandas.core.indexes.datetimes")._new_DatetimeIndex(cls, dict(parts))
    return importlib.import_module("pandas.core.indexes.base")._new_Index(cls, dict(parts))


def _check_codes(parts: dict[str, Any]) -> None:
    levels, codes = parts["levels"], parts["codes"]
    need(type(levels) is list and type(codes) is list and len(levels) == len(codes) > 0, "levels and codes do not fit")
    for level, code in zip(levels, codes, strict=True):
        need(isinstance(level, _pandas().Index), "a level is no index")
        need(len(ndarray(code, "codes", 1, "i")) == len(codes[0]), "codes of unequal length")
        within(code, -1, len(level), "codes")
    need(parts["sortorder"] is None or 0 <= integer(parts["sortorder"], "sortorder", 0, len(levels)), "sortorder")


register_named([f"{module}:{name}" for name, home in _INDEXES.items() for module in ("pandas", home)], "pandas.index", _encode_index, _decode_index)


# ── Arrays ───────────────────────────────────────────────────────────────────────────────────────────────────


def _array_class(name: str, homes: dict[str, str]) -> Any:
    need(name in homes, f"{name!r} is no array of pandas")
    return getattr(importlib.import_module(homes[name]), name)


def _array_names(homes: dict[str, str]) -> list[str]:
    return [f"{module}:{name}" for name, home in homes.items() for module in ("pandas", "pandas.arrays", home)]


def _extras(array: Any) -> dict[str, Any] | None:
    """The attributes beside data and dtype that an array was given; caches are not."""
    given = getattr(array, "__dict__", None) or {}
    return {name: given[name] for name in ("_readonly", "_freq") if name in given} or None


def _with_extras(array: Any, extras: Any) -> Any:
    if extras is not None:
        need(type(extras) is dict and set(extras) <= {"_readonly", "_freq"}, "attributes that an array does not have")
        freq = extras.get("_freq")
        need(freq is None or isinstance(freq, _pandas().offsets.BaseOffset), "freq is none")
        array.__dict__.update(extras)
    return array


_BACKED = {
    "Categorical": "pandas.core.arrays.categorical", "DatetimeArray": "pandas.core.arrays.datetimes", "TimedeltaArray": "pandas.core.arrays.timedeltas",
    "PeriodArray": "pandas.core.arrays.period", "StringArray": "pandas.core.arrays.string_", "NumpyExtensionArray": "pandas.core.arrays.numpy_",
    "StringArrayNumpySemantics": "pandas.core.arrays.string_",
}


def _encode_backed(array: Any) -> tuple[Any, ...]:
    return type(array).__name__, array.dtype, array._ndarray, _extras(array)


def _decode_backed(value: Any) -> Any:
    import numpy as np

    pd = _pandas()
    name, dtype, values, extras = value
    cls = _array_class(name, _BACKED)
    need(type(values) is np.ndarray, f"{name} of a {type(values).__qualname__}")
    kind = values.dtype.kind
    if name == "Categorical":
        in_memory(values, "codes")
        need(type(dtype) is pd.CategoricalDtype and isinstance(dtype.categories, pd.Index) and kind == "i", "a Categorical without categories or codes")
        within(values, -1, len(dtype.categories), "codes")
    elif name in ("DatetimeArray", "TimedeltaArray"):
        need(kind == ("M" if name == "DatetimeArray" else "m") and np.datetime_data(values.dtype) in _UNITS, f"{name} of {values.dtype}")
        if isinstance(dtype, pd.DatetimeTZDtype):
            need(name == "DatetimeArray" and np.datetime_data(values.dtype)[0] == dtype.unit, f"{name} of {values.dtype} as {dtype}")
        else:
            need(dtype == values.dtype, f"{name} of {values.dtype} as {dtype}")
    elif name == "PeriodArray":
        need(type(dtype) is pd.PeriodDtype and values.dtype == np.int64, f"PeriodArray of {values.dtype}")
    elif name == "NumpyExtensionArray":
        need(getattr(dtype, "numpy_dtype", None) == values.dtype, f"NumpyExtensionArray of {values.dtype} as {dtype!r}")
    else:
        need(type(dtype) is pd.StringDtype and kind == "O", f"{name} of {values.dtype}")
        need(importlib.import_module("pandas._libs.lib").is_string_array(values.ravel("K"), skipna=True), "a text is none")
    return _with_extras(importlib.import_module("pandas._libs.arrays").NDArrayBacked._simple_new.__func__(cls, values, dtype), extras)


_UNITS = (("s", 1), ("ms", 1), ("us", 1), ("ns", 1))
register_named(_array_names(_BACKED), "pandas.array", _encode_backed, _decode_backed)


_MASKED = {"IntegerArray": "pandas.core.arrays.integer", "FloatingArray": "pandas.core.arrays.floating", "BooleanArray": "pandas.core.arrays.boolean"}


def _decode_masked(value: Any) -> Any:
    import numpy as np

    name, data, mask, extras = value
    cls = _array_class(name, _MASKED)
    kinds = {"IntegerArray": "iu", "FloatingArray": "f", "BooleanArray": "b"}[name]
    need(type(data) is np.ndarray and data.dtype.kind in kinds, f"{name} of a {type(data).__qualname__}")
    need(type(mask) is np.ndarray and mask.dtype == np.bool_ and mask.shape == data.shape, "the mask does not fit the data")
    return _with_extras(cls(data, mask, copy=False), extras)


register_named(_array_names(_MASKED), "pandas.masked", lambda array: (type(array).__name__, array._data, array._mask, _extras(array)), _decode_masked)


_INTERVAL = {"IntervalArray": "pandas.core.arrays.interval"}


def _decode_interval(value: Any) -> Any:
    left, right, closed, extras = value
    _listed(left, right)
    return _with_extras(_array_class("IntervalArray", _INTERVAL).from_arrays(left, right, closed=closed, copy=False), extras)


register_named(_array_names(_INTERVAL), "pandas.interval", lambda array: (array._left, array._right, array.closed, _extras(array)), _decode_interval)


_SPARSE = {"SparseArray": "pandas.core.arrays.sparse.array"}


def _decode_sparse(value: Any) -> Any:
    pd = _pandas()
    values, index, dtype, extras = value
    need(isinstance(index, importlib.import_module("pandas._libs.sparse").SparseIndex), "the index of a SparseArray is none")
    need(len(ndarray(values, "the values of a SparseArray", 1)) == index.npoints, "the values of a SparseArray do not fit its index")
    need(type(dtype) is pd.SparseDtype and dtype.subtype == values.dtype, f"a SparseArray of {values.dtype} as {dtype!r}")
    return _with_extras(_array_class("SparseArray", _SPARSE)._simple_new(values, index, dtype), extras)


def _encode_sparse_index(index: Any) -> tuple[Any, ...]:
    return (type(index).__name__, *index.__reduce__()[1])


def _decode_sparse_index(value: Any) -> Any:
    need(type(value) is tuple, "an index of a SparseArray is a tuple")
    name, length, *arrays = value
    need(type(name) is str and name in ("IntIndex", "BlockIndex") and len(arrays) == (1 if name == "IntIndex" else 2), f"{name!r} is no index of a SparseArray")
    integer(length, "the length of a SparseArray", 0, (1 << 31) - 1)
    for array in arrays:
        need(ndarray(array, "the index of a SparseArray", 1, "i").itemsize == 4, "the index of a SparseArray is not of int32")
    within(arrays[0], 0, max(length, 1), "the index of a SparseArray")
    if name == "BlockIndex":
        within(arrays[1], 1, length + 1, "the blocks of a SparseArray")
    return getattr(importlib.import_module("pandas._libs.sparse"), name)(length, *arrays)


register_named(_array_names(_SPARSE), "pandas.sparse", lambda array: (array._sparse_values, array._sparse_index, array.dtype, _extras(array)), _decode_sparse)
register_named(["pandas._libs.sparse:IntIndex", "pandas._libs.sparse:BlockIndex"], "pandas.sparse_index", _encode_sparse_index, _decode_sparse_index)


_ARROW = {
    "ArrowExtensionArray": "pandas.core.arrays.arrow.array", "ArrowStringArray": "pandas.core.arrays.string_arrow",
    "ArrowStringArrayNumpySemantics": "pandas.core.arrays.string_arrow",
}


def _encode_arrow(array: Any) -> tuple[Any, ...]:
    return type(array).__name__, array._pa_array, array.dtype if type(array).__name__ == "ArrowStringArray" else None, _extras(array)


def _decode_arrow(value: Any) -> Any:
    import pyarrow as pa

    name, chunked, dtype, extras = value
    cls = _array_class(name, _ARROW)
    need(isinstance(chunked, pa.ChunkedArray), f"{name} of a {type(chunked).__qualname__}")
    array = cls(chunked)
    if dtype is not None:
        need(name == "ArrowStringArray" and type(dtype) is _pandas().StringDtype and dtype.storage == "pyarrow", f"{name} as {dtype!r}")
        array._dtype = dtype
    return _with_extras(array, extras)


register_named([*_array_names(_ARROW), "pandas.api.extensions:ArrowExtensionArray"], "pandas.arrow", _encode_arrow, _decode_arrow)


# ── Dtypes and scalars ───────────────────────────────────────────────────────────────────────────────────────


def _decode_arrow_dtype(value: Any) -> Any:
    import pyarrow as pa

    need(isinstance(value, pa.DataType), "an ArrowDtype of no type")
    return _pandas().ArrowDtype(value)


register_named(["pandas:ArrowDtype", "pandas.core.dtypes.dtypes:ArrowDtype"], "pandas.ArrowDtype", lambda dtype: dtype.pyarrow_dtype, _decode_arrow_dtype)


def timestamp(value: Any, freq: Any, tz: Any, reso: Any = 10) -> Any:
    """Stand in for ``_unpickle_timestamp``: the resolution is one of the four that there are."""
    integer(reso, "the resolution of a Timestamp", 7, 10)
    integer(value, "the value of a Timestamp", -(1 << 63) + 1, (1 << 63) - 1)
    return importlib.import_module("pandas._libs.tslibs.timestamps")._unpickle_timestamp(value, None, tz, reso)


def timedelta(value: Any, reso: Any) -> Any:
    """Stand in for ``_timedelta_unpickle``, likewise."""
    integer(reso, "the resolution of a Timedelta", 7, 10)
    integer(value, "the value of a Timedelta", -(1 << 63) + 1, (1 << 63) - 1)
    return importlib.import_module("pandas._libs.tslibs.timedeltas")._timedelta_unpickle(value, reso)


def frozen_list(values: Any) -> Any:
    """Stand in for ``FrozenList``, which takes any iterable, a range of 2**62 as well."""
    need(type(values) in (list, tuple), "a FrozenList of no list")
    return importlib.import_module("pandas.core.indexes.frozen").FrozenList(values)


def _offset(name: str) -> Any:
    def make(*arguments: Any) -> Any:
        for argument in arguments:  # holidays and hours are taken from any iterable
            need(argument is None or type(argument) in (bool, int, str, list, tuple, datetime.time, datetime.timedelta), f"{name} of a {type(argument).__qualname__}")
        return getattr(importlib.import_module("pandas._libs.tslibs.offsets"), name)(*arguments)

    return make


for _name in ("BusinessHour", "CustomBusinessDay", "CustomBusinessHour", "CustomBusinessMonthBegin", "CustomBusinessMonthEnd"):
    _tables.overrides[f"pandas._libs.tslibs.offsets:{_name}"] = _offset(_name)
_tables.overrides["pandas.core.indexes.frozen:FrozenList"] = frozen_list
_tables.overrides["pandas._libs.tslibs.timestamps:_unpickle_timestamp"] = timestamp
_tables.overrides["pandas._libs.tslibs.timedeltas:_timedelta_unpickle"] = timedelta
