"""pandas: block managers, indexes and arrays, each looked at before an object holds it, for compiled code relies on codes, masks and placements.

Arrays travel as arrays, so they are frames without a copy on either side. Which blocks share memory (copy on write) is kept inside a
message. Classes are met under their names in pandas 2 (``pandas.core…``) and 3 (``pandas.…``). Nothing here imports pandas before an object needs it.
"""

from __future__ import annotations

import datetime
import functools
import importlib
from collections.abc import Callable
from typing import Any

from .. import _tables
from .._registry import register_named
from ..trusted import pandas as _trusted
from ._checks import charge, in_memory, integer, label, ndarray, need, within
from ._stand_ins import class_of, stand_in


@functools.cache
def _pandas() -> Any:
    return importlib.import_module("pandas")


class _Internals:
    """What decoding a frame of many columns asks for in every one of them."""

    def __init__(self) -> None:
        import numpy as np

        pd = _pandas()
        blocks = importlib.import_module("pandas.core.internals.blocks")
        managers = importlib.import_module("pandas.core.internals.managers")
        internals = importlib.import_module("pandas._libs.internals")
        self.ndarray: Any = np.ndarray
        self.Index: Any = pd.Index
        self.ExtensionArray: Any = pd.api.extensions.ExtensionArray
        self.BlockManager: Any = managers.BlockManager
        self.SingleBlockManager: Any = managers.SingleBlockManager
        self.BlockPlacement: Any = internals.BlockPlacement
        self.BlockValuesRefs: Any = internals.BlockValuesRefs
        self.new_block: Any = blocks.new_block
        self.maybe_coerce_values: Any = blocks.maybe_coerce_values
        self.is_flat: Any = importlib.import_module("pandas.core.dtypes.common").is_1d_only_ea_dtype
        self.simple_array: Any = importlib.import_module("pandas._libs.arrays").NDArrayBacked._simple_new.__func__


@functools.cache
def _internals() -> _Internals:
    return _Internals()


# ── Frames and series ────────────────────────────────────────────────────────────────────────────────────────


def _encode_container(container: Any) -> dict[str, Any]:
    return container.__getstate__()


def _container_decoder(name: str, manager: str) -> Callable[[Any], Any]:
    def decode(state: Any) -> Any:
        need(type(state) is dict, "the state is no dict")
        need(type(state.get("_mgr")) is getattr(_internals(), manager), f"a {name} without a {manager}")
        need(type(state.get("_typ")) is str and state["_typ"] == name.lower(), f"_typ of a {name}")
        need(set(state) <= {"_mgr", "_typ", "_metadata", "attrs", "_flags", "_name"}, f"parts that a {name} does not have")
        need("_metadata" not in state or (type(state["_metadata"]) is list and state["_metadata"] == getattr(_pandas(), name)._metadata), f"_metadata of a {name}")
        label(state.get("_name"), "the name of a Series")
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
    kinds = _internals()
    if type(values) is not kinds.ndarray and not isinstance(values, kinds.ExtensionArray):
        need(False, f"a block of a {type(values).__qualname__}")
    return values


def _placed(placement: Any, ncolumns: int, seen: Any) -> int:
    """Marks the columns of a block in `seen`; returns how many."""
    if type(placement) is slice:
        start, stop, step = placement.start, placement.stop, 1 if placement.step is None else placement.step
        integer(start, "the start of a placement", 0, ncolumns)
        integer(step, "the step of a placement", -ncolumns - 1, ncolumns + 1)
        need(step != 0 and (stop is None or type(stop) is int), "a placement without a step or stop")
        n = len(range(*placement.indices(ncolumns)))
        stop = stop if stop is not None else -1
        need(n == len(range(start, stop, step)), "a placement behind the columns")
    else:
        within(ndarray(placement, "a placement", 1, "i"), 0, ncolumns, "a placement")
        n = len(placement)
    seen[placement] += 1
    return n


_MOST_COLUMNS = 1 << 26  # each is marked once; a range of them costs the sender nothing


def _decode_manager(value: Any) -> Any:
    import numpy as np

    known = _internals()
    axes, parts = value
    need(type(axes) is list and len(axes) == 2 and all(isinstance(axis, known.Index) for axis in axes), "two axes are needed")
    ncolumns, nrows = len(axes[0]), len(axes[1])
    need(ncolumns <= _MOST_COLUMNS, f"{ncolumns} columns")
    seen = np.zeros(ncolumns, np.int8)
    blocks = []
    need(type(parts) is list, "the blocks are in no list")
    for values, placement, references in parts:
        n = _placed(placement, ncolumns, seen)
        flat = type(_values(values)) is not known.ndarray and known.is_flat(values.dtype)
        if values.shape != ((nrows,) if flat else (n, nrows)):
            need(False, f"a block of shape {values.shape} for {n} of {nrows} rows")
        need(n == 1 or not flat, "a block of one column for more of them")
        blocks.append(_block(values, placement, 2, references))
    need(bool((seen == 1).all()), "the blocks do not give each column once")
    return known.BlockManager(tuple(blocks), axes, verify_integrity=False)


def _block(values: Any, placement: Any, ndim: int, references: Any) -> Any:
    known = _internals()
    need(references is None or type(references) is known.BlockValuesRefs, "references that are none")
    return known.new_block(known.maybe_coerce_values(values), known.BlockPlacement(placement), ndim=ndim, refs=references)


def _encode_single_manager(manager: Any) -> tuple[Any, ...]:
    (block,) = manager.blocks
    return manager.axes[0], block.values, _references(block)


def _decode_single_manager(value: Any) -> Any:
    known = _internals()
    axis, values, references = value
    need(isinstance(axis, known.Index), "the axis is no index")
    need(_values(values).shape == (len(axis),), f"a block of shape {values.shape} for {len(axis)} rows")
    if getattr(values.dtype, "kind", "O") not in "biufcmM":
        need(not _names_memory(axis), "a label says where memory is")
    return known.SingleBlockManager(_block(values, slice(0, len(axis), 1), 1, references), axis)


# A Series hands out its items as attributes, and NumPy reads memory where an attribute of one of these names says.
_MEMORY_NAMES = ("__array_interface__", "__array_struct__", "__cuda_array_interface__")


def _names_memory(axis: Any) -> bool:
    pd = _pandas()
    if isinstance(axis, pd.MultiIndex):
        return any(_names_memory(level) for level in axis.levels)
    if isinstance(axis.dtype, pd.CategoricalDtype):
        return _names_memory(axis.categories)
    if axis.dtype == object:
        return any(isinstance(label, str) and label in _MEMORY_NAMES for label in axis._values)
    if isinstance(axis.dtype, pd.StringDtype) or (isinstance(axis.dtype, pd.ArrowDtype) and axis.dtype.type is str):
        return any(bool((axis._values == name).any()) for name in _MEMORY_NAMES)
    return False


def _decode_references(value: Any) -> Any:
    need(value is None, "references with a value")
    return _internals().BlockValuesRefs()


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
        return cls.__name__, parts, references  # a column or another index has this memory, too
    return cls.__name__, parts


_MOST_OF_RANGE = 1 << 24
_SIDES = ("left", "right", "both", "neither")


def _listed(*parts: Any) -> None:
    """Parts that pandas makes arrays of: none of them may be far longer than its bytes."""
    pd = _pandas()
    for part in parts:
        need(isinstance(part, (pd.Index, pd.api.extensions.ExtensionArray)) or hasattr(part, "strides"), f"values of a {type(part).__qualname__}")
        need(not isinstance(part, pd.RangeIndex) or len(part) <= _MOST_OF_RANGE, "a range that is too long for an array")
        if hasattr(part, "strides") and hasattr(part, "nbytes"):
            in_memory(part, "the values")


def _decode_index(value: Any) -> Any:
    need(type(value) is tuple and len(value) in (2, 3), "an index is a class, parts, and who shares its memory")
    index = _make_index(*value[:2])
    for references in value[2:]:
        # Whoever writes to the column then copies it first, as with the sender.
        need(type(references) is _internals().BlockValuesRefs, "references that are none")
        index._references = references
        references.add_index_reference(index)
    return index


def _make_index(name: Any, parts: Any) -> Any:
    need(type(name) is str and name in _INDEXES and type(parts) is dict, "{} is no index", name)
    need(set(parts) == _INDEX_PARTS.get(name, {"data", "name"}), "parts that a {} does not have", name)
    for one in parts["names"] if name == "MultiIndex" and type(parts["names"]) in (list, tuple) else (parts.get("name"),):
        label(one, "a name")
    need(name != "MultiIndex" or parts["names"] is None or type(parts["names"]) in (list, tuple) or type(parts["names"]).__name__ == "FrozenList", "the names of a MultiIndex")
    cls = getattr(_pandas(), name)
    if name == "RangeIndex":
        for part in ("start", "stop", "step"):
            integer(parts[part], "a part of a RangeIndex", -(1 << 63), (1 << 63) - 1)
        return cls._simple_new(range(parts["start"], parts["stop"], parts["step"]), parts["name"])
    if name == "IntervalIndex":
        _listed(parts["left"], parts["right"])
        need(type(parts["closed"]) is str and parts["closed"] in _SIDES, "intervals closed at no side")
        return cls.from_arrays(**parts)
    if name == "MultiIndex":
        _check_codes(parts)
    else:
        data = _values(parts["data"])
        need(data.ndim == 1, f"{data.ndim} dimensions in an index")
        _listed(data)
        need(name not in _INDEX_DATA or type(data).__name__ == _INDEX_DATA[name], f"a {name} of a {type(data).__qualname__}")
        if name == "Index" and _is_as_index_has_it(data):
            return cls._simple_new(data, parts["name"])
    if name == "DatetimeIndex":
        return _attribute("pandas.core.indexes.datetimes", "_new_DatetimeIndex")(cls, dict(parts))
    return _attribute("pandas.core.indexes.base", "_new_Index")(cls, dict(parts))


def _is_as_index_has_it(data: Any) -> bool:
    """Whether `Index` would take the data as they are: it looks for long before it does."""
    if type(data) is _internals().ndarray:
        return data.dtype.kind in "iufbO" and data.dtype.isnative and data.dtype.itemsize != 2
    return type(data).__name__ in ("ArrowStringArray", "ArrowStringArrayNumpySemantics")


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
    if type(name) is not str or name not in homes:
        need(False, "{} is no array of pandas", name)
    return _attribute(homes[name], name)


@functools.cache
def _attribute(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


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
        need(kind == ("M" if name == "DatetimeArray" else "m") and np.datetime_data(values.dtype) in _UNITS, "{} of {}", name, values.dtype)
        if isinstance(dtype, pd.DatetimeTZDtype):
            need(name == "DatetimeArray" and np.datetime_data(values.dtype)[0] == dtype.unit, "{} of {} as {}", name, values.dtype, dtype)
        else:
            need(dtype == values.dtype, "{} of {} as {}", name, values.dtype, dtype)
    elif name == "PeriodArray":
        need(type(dtype) is pd.PeriodDtype and values.dtype == np.int64, "PeriodArray of {}", values.dtype)
    elif name == "NumpyExtensionArray":
        need(getattr(dtype, "numpy_dtype", None) == values.dtype, "NumpyExtensionArray of {} as {}", values.dtype, dtype)
    else:
        need(type(dtype) is pd.StringDtype and kind == "O", "{} of {}", name, values.dtype)
        # Of an array without items pandas says that it is no array of texts.
        need(values.size == 0 or importlib.import_module("pandas._libs.lib").is_string_array(values.ravel("K"), skipna=True), "a text is none")
    return _with_extras(_internals().simple_array(cls, values, dtype), extras)


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
    need(type(closed) is str and closed in _SIDES, "intervals closed at no side")
    return _with_extras(_array_class("IntervalArray", _INTERVAL).from_arrays(left, right, closed=closed, copy=False), extras)


register_named(_array_names(_INTERVAL), "pandas.interval", lambda array: (array._left, array._right, array.closed, _extras(array)), _decode_interval)


_SPARSE = {"SparseArray": "pandas.core.arrays.sparse.array"}


def _decode_sparse(value: Any) -> Any:
    pd = _pandas()
    values, index, dtype, extras = value
    need(isinstance(index, importlib.import_module("pandas._libs.sparse").SparseIndex), "the index of a SparseArray is none")
    need(len(ndarray(values, "the values of a SparseArray", 1)) == index.npoints, "the values of a SparseArray do not fit its index")
    need(type(dtype) is pd.SparseDtype and dtype.subtype == values.dtype, "a SparseArray of {} as {}", values.dtype, dtype)
    return _with_extras(_array_class("SparseArray", _SPARSE)._simple_new(values, index, dtype), extras)


def _encode_sparse_index(index: Any) -> tuple[Any, ...]:
    return (type(index).__name__, *index.__reduce__()[1])


def _decode_sparse_index(value: Any) -> Any:
    need(type(value) is tuple, "an index of a SparseArray is a tuple")
    name, length, *arrays = value
    need(type(name) is str and name in ("IntIndex", "BlockIndex") and len(arrays) == (1 if name == "IntIndex" else 2), "{} is no index of a SparseArray", name)
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
    name = type(array).__name__
    # Of a StringDtype only the value for what is missing is left to say; earlier writers gave the dtype itself.
    return name, array._pa_array, array.dtype.na_value is not _pandas().NA if name == "ArrowStringArray" else None, _extras(array)


def _decode_arrow(value: Any) -> Any:
    import pyarrow as pa

    name, chunked, dtype, extras = value
    cls = _array_class(name, _ARROW)
    need(type(chunked) is pa.ChunkedArray, f"{name} of a {type(chunked).__qualname__}")
    if dtype is None:
        return _with_extras(cls(chunked), extras)
    need(name == "ArrowStringArray", f"{name} of a given dtype")
    if type(dtype) is bool:
        dtype = _string_dtype(dtype)
    need(type(dtype) is _pandas().StringDtype and dtype.storage == "pyarrow", "{} as {}", name, dtype)
    if not pa.types.is_large_string(chunked.type):
        array = cls(chunked)
    else:
        array = cls.__new__(cls)  # as its constructor would, which makes another dtype first
        array._pa_array = chunked
    array._dtype = dtype
    return _with_extras(array, extras)


@functools.cache
def _string_dtype(missing_is_nan: bool) -> Any:
    return _pandas().StringDtype("pyarrow", float("nan")) if missing_is_nan else _pandas().StringDtype("pyarrow")


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
    return _attribute("pandas._libs.tslibs.timestamps", "_unpickle_timestamp")(value, None, tz, reso)


def timedelta(value: Any, reso: Any) -> Any:
    """Stand in for ``_timedelta_unpickle``, likewise."""
    integer(reso, "the resolution of a Timedelta", 7, 10)
    integer(value, "the value of a Timedelta", -(1 << 63) + 1, (1 << 63) - 1)
    return _attribute("pandas._libs.tslibs.timedeltas", "_timedelta_unpickle")(value, reso)


def frozen_list(values: Any) -> Any:
    """Stand in for ``FrozenList``, which takes any iterable, a range of 2**62 as well."""
    need(type(values) in (list, tuple), "a FrozenList of no list")
    charge(len(values))
    return importlib.import_module("pandas.core.indexes.frozen").FrozenList(values)


_OFFSETS = "pandas._libs.tslibs.offsets"


def _offset(module: str, name: str) -> Any:
    def make(*arguments: Any) -> Any:
        for argument in arguments:  # holidays and hours are taken from any iterable, numbers from a Decimal of 10**9 digits
            known = argument is None or type(argument) in (bool, int, str, list, tuple, datetime.time, datetime.timedelta) or type(argument).__module__ == _OFFSETS
            need(known, f"{name} of a {type(argument).__qualname__}")
        return class_of(module, name)(*arguments)

    return make


def _no_default(value: Any) -> Any:
    need(value == "NO_DEFAULT" if type(value) is str else False, "a member that is none")
    return importlib.import_module("pandas._libs.lib")._NoDefault(value)


# ── Zones of dateutil ────────────────────────────────────────────────────────────────────────────────────────


def offset_zone(name: Any, offset: Any) -> Any:
    """Stand in for ``dateutil.tz.tzoffset``, which takes anything that has seconds."""
    need(type(name) in (str, type(None)) and type(offset) is datetime.timedelta, "a zone is a name and an offset")
    return importlib.import_module("dateutil.tz.tz").tzoffset(name, offset)


def _encode_file_zone(zone: Any) -> tuple[Any, ...]:
    function, arguments = zone.__reduce__()[:2]
    if function.__name__ != "_unpickle" or len(arguments) != 4:
        raise NotImplementedError("a zone of another version of dateutil")
    return tuple(arguments[1:])


def _decode_file_zone(value: Any) -> Any:
    """The file was read by the sender, and is not opened here. pandas looks up the parts by place."""
    need(type(value) is tuple and len(value) == 3, "a zone is two names and what its file said")
    key, filename, data = value
    need(all(type(text) is str and len(text) <= 4096 or text is None for text in (key, filename)), "the names of a zone")
    need(type(data) is tuple and len(data) == 6 and all(type(part) in (list, tuple) for part in data[:5]), "a zone is transitions, offsets and names")
    places, times, offsets, summers, names, rule = data
    charge(sum(map(len, data[:5])))
    need(len(places) == len(times) and len(offsets) == len(summers) == len(names) > 0, "the parts of a zone are not as many")
    need(all(type(place) is int and 0 <= place < len(offsets) for place in places), "a transition to no offset")
    need(all(type(number) is int and abs(number) < 1 << 62 for number in times) and all(type(number) is int and abs(number) < 86_400 for number in offsets), "a transition at no time")
    need(all(type(text) is str for text in names) and (rule is None or (type(rule) is bytes and len(rule) <= 128)), "the names of a zone")
    module = importlib.import_module("dateutil.tz._tzfile")
    return module._unpickle(module.tzfile, key, filename, data)


register_named(["dateutil.tz._tzfile:tzfile"], "dateutil.tzfile", _encode_file_zone, _decode_file_zone)
_tables.overrides["dateutil.tz.tz:tzoffset"] = offset_zone
_tables.overrides["pandas._libs.lib:_NoDefault"] = _no_default
def _period(value: Any, freq: Any, ordinal: Any) -> Any:
    """Stand in for ``Period``: of a frequency and a number. Not of text, which is parsed."""
    need(value is None and isinstance(freq, _pandas().offsets.BaseOffset), "a Period is of a frequency and a number")
    return _pandas().Period(None, freq, integer(ordinal, "the number of a Period", -(1 << 63), (1 << 63) - 1))


def _one_interval(left: Any, right: Any, closed: Any = "right") -> Any:
    """Stand in for ``Interval``: of numbers and times."""
    pd = _pandas()
    for side in (left, right):
        need(isinstance(side, (int, float, pd.Timestamp, pd.Timedelta)) or type(side).__module__ == "numpy", f"an Interval of a {type(side).__qualname__}")
    need(type(closed) is str, "an Interval closed at no side")
    return pd.Interval(left, right, closed)


_MOST_OF_FREQUENCY = 64


def _period_dtype(name: Any) -> Any:
    """Stand in for ``PeriodDtype``: of its name, which is parsed, or a frequency."""
    need((type(name) is str and len(name) <= _MOST_OF_FREQUENCY) or isinstance(name, _pandas().offsets.BaseOffset), "a PeriodDtype of no frequency")
    return _pandas().PeriodDtype(name)


def _text_dtype(storage: Any = None, na_value: Any = None) -> Any:
    """Stand in for ``StringDtype``."""
    need(storage is None or (type(storage) is str and storage in ("python", "pyarrow")), "the storage of a StringDtype")
    need(na_value is None or na_value is _pandas().NA or type(na_value) is float, "what a StringDtype has where text is missing")
    return _pandas().StringDtype(storage) if na_value is None else _pandas().StringDtype(storage, na_value)


# ── State of dtypes: compiled code and their own texts believe it ────────────────────────────────────────────


def _is_dtype(value: Any) -> bool:
    import numpy as np

    return isinstance(value, (np.dtype, _pandas().api.extensions.ExtensionDtype))


def _check_categories(state: Any) -> None:
    need(type(state) is dict and set(state) <= {"categories", "ordered"}, "the state of a CategoricalDtype is categories and order")
    need(state.get("categories") is None or isinstance(state["categories"], _pandas().Index), "categories are an index")
    need(state.get("ordered") is None or type(state["ordered"]) is bool, "ordered is no bool")


def _check_zone(state: Any) -> None:
    need(type(state) is dict and set(state) == {"unit", "tz"}, "the state of a DatetimeTZDtype is unit and zone")
    need(type(state["unit"]) is str and state["unit"] in ("s", "ms", "us", "ns"), "the unit of a DatetimeTZDtype")
    need(isinstance(state["tz"], datetime.tzinfo), "the zone of a DatetimeTZDtype")


def _check_interval_dtype(state: Any) -> None:
    need(type(state) is dict and set(state) <= {"subtype", "closed"}, "the state of an IntervalDtype is subtype and side")
    need(state.get("subtype") is None or _is_dtype(state["subtype"]), "the subtype of an IntervalDtype")
    need(state.get("closed") is None or (type(state["closed"]) is str and state["closed"] in _SIDES), "the side of an IntervalDtype")


def _check_sparse_dtype(state: Any) -> None:
    need(type(state) is dict and set(state) <= {"_dtype", "_fill_value"} and _is_dtype(state.get("_dtype")), "the state of a SparseDtype is a dtype and a fill value")
    need(isinstance(state.get("_fill_value"), (int, float, complex, str, bytes, datetime.date, datetime.timedelta, type(None))) or type(state["_fill_value"]).__module__ == "numpy"
         or state["_fill_value"] is _pandas().NA, "the fill value of a SparseDtype")


def _check_numpy_dtype(state: Any) -> None:
    import numpy as np

    need(type(state) is dict and set(state) == {"_dtype"} and isinstance(state["_dtype"], np.dtype), "the state of a NumpyEADtype is a dtype")


def _check_date_offset(state: Any) -> None:
    need(type(state) is dict and type(state.get("n")) is int and type(state.get("normalize")) is bool, "the state of a DateOffset is no number of steps")
    offset = state.get("_offset")
    need(isinstance(offset, (datetime.timedelta, type(None))) or type(offset).__qualname__ == "relativedelta", "the step of a DateOffset")


for _names, _check in (
    ("CategoricalDtype", _check_categories), ("DatetimeTZDtype", _check_zone), ("IntervalDtype", _check_interval_dtype), ("SparseDtype", _check_sparse_dtype), ("NumpyEADtype", _check_numpy_dtype),
    ("DateOffset", _check_date_offset),
):
    for _module in ("pandas", "pandas.core.dtypes.dtypes", _OFFSETS):
        _tables.state_checks[f"{_module}:{_names}"] = _check
stand_in({_OFFSETS: " ".join(name.partition(":")[2] for name in _trusted.NAMES if name.startswith(_OFFSETS) and not name.endswith(":DateOffset"))}, _offset)
for _module in ("pandas", "pandas._libs.tslibs.period"):
    _tables.overrides[f"{_module}:Period"] = _period
for _module in ("pandas", "pandas._libs.interval"):
    _tables.overrides[f"{_module}:Interval"] = _one_interval
for _module in ("pandas", "pandas.core.dtypes.dtypes"):
    _tables.overrides[f"{_module}:PeriodDtype"] = _period_dtype
for _module in ("pandas", "pandas.core.arrays.string_"):
    _tables.overrides[f"{_module}:StringDtype"] = _text_dtype
_tables.overrides["pandas.core.indexes.frozen:FrozenList"] = frozen_list
_tables.overrides["pandas.api.typing:FrozenList"] = frozen_list
_tables.overrides["pandas._libs.tslibs.timestamps:_unpickle_timestamp"] = timestamp
_tables.overrides["pandas._libs.tslibs.timedeltas:_timedelta_unpickle"] = timedelta
