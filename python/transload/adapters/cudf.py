"""cuDF: frames, series, indexes and dtypes, and pylibcudf's tables, columns and scalars. Their buffers travel as memory of a GPU.

A column is what pylibcudf has of it: a type, a size, buffers and children. A slice carries the rows that it shows: of items of one size as a
window into the buffers, of texts, lists and records as a compact copy that libcudf makes on the device. A receiver that asks for host memory
gets pandas and pyarrow objects (cudf_host.py). docs/rapids.md has the values that are written here.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from typing import Any

import numpy as np

from .. import _core
from .._gpu import LEGACY_STREAM
from .._registry import register_named
from . import cudf_host
from ._checks import charge, integer, label, need
from ._device import device_place, library, on_host

# ── What is used of cuDF beside its public API ───────────────────────────────────────────────────────────────


class _Internals:
    """Every name of cuDF and pylibcudf that is not their public API and has no public way; another version that lacks one of them is left to its own reduce methods.

    ColumnBase.plc_column, ColumnBase.create, Frame._data with ColumnAccessor, ._index, ._attrs, ._flags, MultiIndex._names and ._simple_new,
    DatetimeIndex._freq, RangeIndex._range, CategoricalDtype._categories and ._ordered, Buffer and its owner, SpillLock.
    """

    def __init__(self) -> None:
        cudf = library("cudf")
        self.cudf = cudf
        try:
            from cudf.core.buffer import buffer, spill_manager, spillable_buffer, utils
            from cudf.core.column import ColumnBase
            from cudf.core.column_accessor import ColumnAccessor
            from cudf.utils.dtypes import dtype_to_pylibcudf_type

            self.ColumnBase: Any = ColumnBase
            self.create: Any = ColumnBase.create
            self.ColumnAccessor: Any = ColumnAccessor
            self.type_of: Any = functools.lru_cache(1 << 10)(dtype_to_pylibcudf_type)
            self.Buffer: Any = buffer.Buffer
            self.SpillableBuffer: Any = spillable_buffer.SpillableBuffer
            self.SpillLock: Any = spillable_buffer.SpillLock
            self.as_buffer: Any = utils.as_buffer
            self.spills: Any = lambda: spill_manager.get_global_manager() is not None
            self.simple_multiindex: Any = cudf.MultiIndex._simple_new
        except (ImportError, AttributeError) as error:
            raise NotImplementedError(f"cuDF {getattr(cudf, '__version__', '')} is not as transload knows it: {error}") from error
        self.dtypes: dict[type, Any] = {
            cudf.ListDtype: lambda t: ("list", spec_of(t.element_type)),
            cudf.StructDtype: lambda t: ("struct", *((name, spec_of(field)) for name, field in t.fields.items())),
            cudf.IntervalDtype: lambda t: ("interval", None if t.subtype is None else spec_of(t.subtype), t.closed),
            cudf.CategoricalDtype: lambda t: ("category", None if t._categories is None else _column(t._categories), t.ordered),
        }
        for bits in (32, 64, 128):
            self.dtypes[getattr(cudf, f"Decimal{bits}Dtype")] = lambda t, name=f"decimal{bits}": (name, int(t.precision), int(t.scale))


@functools.cache
def _internals() -> _Internals:
    return _Internals()


@functools.cache
def _plc() -> Any:
    return library("pylibcudf")


@functools.cache
def _stream() -> int:
    """The stream that cuDF works on, as CUDA's array interface names it."""
    return 2 if os.environ.get("CUDF_PER_THREAD_STREAM", "0") == "1" else LEGACY_STREAM


# ── Buffers and columns, written ─────────────────────────────────────────────────────────────────────────────


def _memory(buffer: Any, begin: int, end: int) -> Any:
    """Bytes of a buffer. A cuDF buffer that is written to later is copied by cuDF first; a spilled one is sent from where it is."""
    known = sys.modules.get("cudf") and _internals()
    if known and type(buffer) is known.SpillableBuffer:
        return _spillable(known, buffer, begin, end)
    if known and type(buffer) is known.Buffer:
        buffer = buffer.copy(deep=False)
    return _core.DeviceMemory(buffer.ptr + begin, end - begin, _core.current_device(), buffer, _stream())


def _spillable(known: _Internals, buffer: Any, begin: int, end: int) -> Any:
    lock = known.SpillLock()  # it stays on the device for as long as the lock is somewhere
    owner = buffer.owner
    with owner.lock:
        if owner.is_spilled:
            return np.frombuffer(buffer.memoryview(), np.uint8)[begin:end]
        owner.spill_lock(lock)
        pointer = buffer.memory_info()[0]
        kept = buffer if owner.exposed else buffer.copy(deep=False)
    return _core.DeviceMemory(pointer + begin, end - begin, _core.current_device(), (kept, lock), _stream())


def _column(column: Any) -> tuple[Any, ...]:
    """A cuDF column: dtype and body. The body of a plain one is its memory alone."""
    body = column.plc_column
    spec = spec_of(column.dtype)
    if not _is_compact(body):
        body = column.copy(deep=True).plc_column
    size, mask = body.size(), body.null_mask()
    if mask is None and body.num_children() == 0 and (item := _item_size(body.type())):
        data, begin = body.data(), body.offset() * item
        return spec, (_memory(data, begin, begin + size * item) if data is not None else None)
    return spec, _tree(body, named=False)


def _is_compact(column: Any) -> bool:
    """Whether its rows are what its children hold. Rows of one size need not be: a window shows them."""
    children = column.children()
    if column.offset() != 0 and (children or not _item_size(column.type())):
        return False
    if not children:
        return True
    kind = column.type().id().name
    rows = column.size() + 1 if kind in ("STRING", "LIST") else column.size()
    first, *others = children
    if column.size() == 0 and first.size() == 0:
        rows = 0
    if first.size() != rows or first.offset() != 0 or not _is_compact(first):
        return False
    return all(_is_compact(child) and (kind == "LIST" or child.size() == rows) and child.offset() == 0 for child in others)


_ITEM_SIZES = {
    "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "FLOAT32": 4, "FLOAT64": 8, "BOOL8": 1,
    "TIMESTAMP_DAYS": 4, "TIMESTAMP_SECONDS": 8, "TIMESTAMP_MILLISECONDS": 8, "TIMESTAMP_MICROSECONDS": 8, "TIMESTAMP_NANOSECONDS": 8,
    "DURATION_DAYS": 4, "DURATION_SECONDS": 8, "DURATION_MILLISECONDS": 8, "DURATION_MICROSECONDS": 8, "DURATION_NANOSECONDS": 8,
    "DECIMAL32": 4, "DECIMAL64": 8, "DECIMAL128": 16,
}  # fmt: skip
_OTHERS = ("EMPTY", "STRING", "LIST", "STRUCT", "DICTIONARY32")


def _item_size(kind: Any) -> int:
    """Bytes of an item; 0 where items have no size of their own."""
    return _ITEM_SIZES.get(kind.id().name, 0)


def _tree(column: Any, named: bool = True) -> tuple[Any, ...]:
    """(type, size, offset, nulls, data, mask, children); the type is None where the dtype says it."""
    kind = column.type()
    size, offset, item = column.size(), column.offset(), _item_size(kind)
    data, mask = column.data(), column.null_mask()
    first = 0
    if item:
        first = offset - offset % 32 if mask is not None else offset  # bits stay where they are in their words
        data = None if data is None else _memory(data, first * item, (offset + size) * item)
    elif data is not None:
        data = _memory(data, 0, data.size)
    if mask is not None:
        begin = first // 8
        mask = _memory(mask, begin, min(mask.size, begin + _mask_nbytes(offset - first + size)))
    name = kind.id().name if named else None
    if named and name is not None and name.startswith("DECIMAL"):
        name = f"{name}:{kind.scale()}"
    return name, size, offset - first, column.null_count(), data, mask, tuple(map(_tree, column.children()))


def _mask_nbytes(nbits: int) -> int:
    return (nbits + 511) // 512 * 64


def spec_of(dtype: Any) -> Any:
    """A dtype of cuDF's own as a tuple, one of NumPy or pandas as it is."""
    own = _internals().dtypes.get(type(dtype))
    if own is not None:
        return own(dtype)
    if type(dtype).__module__.partition(".")[0] not in ("numpy", "pandas"):
        raise NotImplementedError(f"a column of {type(dtype).__qualname__}")
    return dtype


# ── Columns, rebuilt ─────────────────────────────────────────────────────────────────────────────────────────

_owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Owners of received memory by the id of what they keep: columns that share memory share one, and so are copied when written to."""


class Arrival:
    """Columns of one object from the bytes: what they point to is looked at in one pass, when all of them are known."""

    def __init__(self) -> None:
        self.offsets: list[tuple[int, int, int, bool]] = []
        self.limits: list[int] = []
        self.masks: list[tuple[int, int, int]] = []
        self.nulls: list[int] = []
        self.device = 0

    # A column of cuDF, or of pylibcudf where no dtype is beside it.

    def column(self, value: Any, nrows: int | None) -> Any:
        need(type(value) is tuple and len(value) == 2, "a column is a dtype and a body")
        spec, body = value
        known = _internals()
        dtype = self.dtype(spec)
        kind = known.type_of(dtype) if type(spec) is not tuple else known.type_of.__wrapped__(dtype)  # one of cuDF's own may hold categories
        item = _item_size(kind)
        if type(body) is not tuple:
            need(item > 0, "a column of such items is more than its memory")
            nbytes = 0 if body is None else body.nbytes
            size = nbytes // item
            need(size * item == nbytes and size < 1 << 31 and (nrows is None or size == nrows), f"{nbytes} bytes for {nrows} rows")
            plain = _plc().Column(kind, size, None if body is None else self.buffer(body), None, 0, 0, [], validate=False)
            return known.create(plain, dtype, validate=False)
        built = self.tree(body, kind)
        need(nrows is None or built.size() == nrows, f"a column of {built.size()} rows for {nrows}")
        return known.create(built, dtype, validate=not item)

    def tree(self, value: Any, kind: Any = None, make: Any = None) -> Any:
        """A column of pylibcudf; `make` makes what its buffers are from memory."""
        make = make or self.buffer
        charge(8)  # a few bytes can name one child twice, which names a third one twice, …
        need(type(value) is tuple and len(value) == 7, "the body of a column has 7 parts")
        name, size, offset, nulls, data, mask, children = value
        if kind is None:
            kind = _type(name)
        else:
            need(name is None, "a type beside the dtype")
        integer(size, "the size of a column", 0, (1 << 31) - 1)
        integer(offset, "the offset of a column", 0, (1 << 31) - 1 - size)
        integer(nulls, "the nulls of a column", 0, size)
        need(type(children) is tuple and len(children) <= 1 << 16, "the children of a column")
        item, name = _item_size(kind), kind.id().name
        rows = offset + size
        need(offset == 0 or item > 0, "rows that begin behind the first of what has children")
        have = 0 if data is None else self.span(data)
        need(have >= rows * item, f"{have} bytes of data for {rows} rows of {item}")
        need(not item or not children, "children of items of one size")
        if mask is None:
            need(nulls == 0, "nulls without a mask")
        else:
            need(self.span(mask) * 8 >= rows, "a mask that is shorter than the column")
            if type(mask) is _core.DeviceMemory:
                self.masks.append((mask.pointer, offset, size))
                self.nulls.append(nulls)
        parts = [self.tree(child, make=make) for child in children]
        self._fits(name, size, have, children, parts)
        return _plc().Column(kind, size, None if data is None else make(data), None if mask is None else make(mask), nulls, offset, parts, validate=False)

    def _fits(self, name: str, size: int, have: int, children: tuple[Any, ...], parts: list[Any]) -> None:
        """Children have the rows that their parent asks for."""
        if name == "STRING":
            need(len(parts) == 1 if size else len(parts) <= 1, "texts have offsets")
            if parts and (size or parts[0].size()):
                self._offsets(children[0], parts[0], size, have)
        elif name == "LIST":
            need(len(parts) == 2, "lists have offsets and items")
            if size or parts[0].size():
                self._offsets(children[0], parts[0], size, parts[1].size())
        elif name == "STRUCT":
            need(all(part.size() == size for part in parts), "fields of another length than their records")
        elif name == "DICTIONARY32":
            need((len(parts) == 2 and parts[0].size() == size) or (not parts and not size), "a dictionary has codes and values")
            if size:
                values, item = children[0], _item_size(parts[0].type())
                need(item in (4, 8) and parts[0].type().id().name.startswith("INT") and parts[0].null_mask() is None, "codes of a dictionary")
                self._run(values[4], size, item, False, parts[1].size() - 1)
        elif name == "EMPTY":
            need(not parts, "children of nothing")

    def _offsets(self, value: Any, part: Any, size: int, limit: int) -> None:
        item = {"INT32": 4, "INT64": 8}.get(part.type().id().name, 0)
        need(item > 0 and part.size() == size + 1 and part.null_mask() is None and part.offset() == 0, "offsets are size + 1 integers without nulls")
        self._run(value[4], size + 1, item, True, limit)

    def _run(self, memory: Any, n: int, item: int, ordered: bool, limit: int) -> None:
        if type(memory) is _core.DeviceMemory:
            self.offsets.append((memory.pointer, n, item, ordered))
            self.limits.append(limit)
        else:
            values = np.frombuffer(memory, f"i{item}")[:n]
            need(values[0] >= 0 and int(values.max()) <= limit and (not ordered or bool((values[1:] >= values[:-1]).all())), "offsets that point outside")

    def check(self) -> None:
        """Look at what lies on the device: offsets and codes stay inside, masks have the nulls that are said."""
        if self.offsets:
            several = list(dict.fromkeys(self.offsets))  # columns may share them
            bounds = dict(zip(several, _core.integer_bounds(several, self.device, _stream()), strict=True))
            for (least, most, ascending), limit in zip(map(bounds.__getitem__, self.offsets), self.limits, strict=True):
                need(0 <= least and most <= limit and ascending, "offsets that point outside")
        if self.masks:
            several_masks = list(dict.fromkeys(self.masks))
            nset = dict(zip(several_masks, _core.set_bits(several_masks, self.device, _stream()), strict=True))
            for mask, nulls in zip(self.masks, self.nulls, strict=True):
                nclear = mask[2] - nset[mask]
                need(nclear == nulls, f"a mask of {nclear} nulls, where {nulls} are said")

    def span(self, memory: Any) -> int:
        if type(memory) is _core.DeviceMemory:
            self.device = memory.device
        else:
            need(type(memory) is np.ndarray and memory.dtype == np.uint8 and memory.ndim == 1, "a buffer is no memory")
        return memory.nbytes

    def buffer(self, memory: Any) -> Any:
        """A buffer of cuDF over received memory."""
        known = _internals()
        self.span(memory)
        if type(memory) is not _core.DeviceMemory:  # it was spilled where it comes from
            return known.as_buffer(memory.data)
        whole = memory.owner if type(memory.owner) is _core.DeviceMemory else memory
        owner = _owners.get(id(whole))
        if owner is None or owner.owner is not whole:
            made = known.as_buffer(whole)
            if made.owner.owner is not whole:  # memory of this very process: cuDF has found its owner
                return made[memory.pointer - whole.pointer : memory.pointer - whole.pointer + memory.nbytes]
            owner = made.owner
            _owners[id(whole)] = owner
        kind = known.SpillableBuffer if known.spills() else known.Buffer
        return kind(owner=owner, offset=memory.pointer - whole.pointer, size=memory.nbytes)

    def dtype(self, spec: Any) -> Any:
        charge(4)
        if type(spec) is not tuple:
            need(isinstance(spec, np.dtype) or type(spec).__module__.partition(".")[0] == "pandas", "{} is no dtype", spec)
            return spec
        cudf = _internals().cudf
        need(len(spec) > 0 and type(spec[0]) is str, "a dtype without a name")
        name, *parts = spec
        if name == "list" and len(parts) == 1:
            return cudf.ListDtype(self.dtype(parts[0]))
        if name == "struct":
            need(all(type(part) is tuple and len(part) == 2 and type(part[0]) is str for part in parts), "the fields of a record")
            return cudf.StructDtype({field: self.dtype(inner) for field, inner in parts})
        if name == "interval" and len(parts) == 2:
            need(parts[1] in ("left", "right", "both", "neither", None), "an interval closed at no side")
            return cudf.IntervalDtype(None if parts[0] is None else self.dtype(parts[0]), parts[1])
        if name == "category" and len(parts) == 2:
            need(parts[1] in (True, False, None), "the order of categories")
            dtype = cudf.CategoricalDtype(ordered=parts[1])
            dtype._categories = None if parts[0] is None else self.column(parts[0], None)
            return dtype
        need(name in ("decimal32", "decimal64", "decimal128") and len(parts) == 2, "{} is no dtype", name)
        precision, scale = parts
        return getattr(cudf, f"Decimal{name[7:]}Dtype")(integer(precision, "a precision", 1, 38), integer(scale, "a scale", -38, 38))


def _type(name: Any) -> Any:
    need(type(name) is str, "the type of a column is no text")
    name, _, scale = name.partition(":")
    need(name in _ITEM_SIZES or name in _OTHERS, "{} is no type of a column", name)
    plc = _plc()
    if not name.startswith("DECIMAL"):
        return plc.DataType(plc.TypeId[name])
    need(scale.lstrip("-").isdecimal() and len(scale) < 4, "the scale of a decimal")
    return plc.DataType(plc.TypeId[name], int(scale))


# ── Frames and series ────────────────────────────────────────────────────────────────────────────────────────

_OWN_STATE = frozenset(("_data", "_index", "_attrs", "_flags"))
_KEPT_METHODS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "serialize", "device_serialize", "host_serialize")


def _subclass(obj: Any, cls: type, own: frozenset[str]) -> tuple[Any, ...]:
    """Class and attributes of a subclass; nothing for the class itself."""
    if type(obj) is cls:
        return ()
    known = {name for base in cls.__mro__ for name in vars(base)}  # cached properties lie beside the attributes
    return type(obj), {name: part for name, part in vars(obj).items() if name not in own and name not in known}


def _made(cls: type, more: tuple[Any, ...]) -> Any:
    """An empty object of `cls`, or of the subclass that `more` says, with its attributes."""
    if not more:
        return object.__new__(cls)
    need(len(more) == 2, "a subclass is a class and attributes")
    subclass, attributes = more
    need(isinstance(subclass, type) and issubclass(subclass, cls), "{} is no subclass", subclass)
    need(type(attributes) is dict and not any(name in _OWN_STATE for name in attributes), "the attributes of a subclass")
    made = object.__new__(subclass)
    vars(made).update(attributes)
    return made


def _axis(accessor: Any) -> tuple[Any, ...] | None:
    """What labels do not tell of the axis that they make: levels, names, dtypes."""
    index = vars(accessor).get("to_pandas_index") if accessor.multiindex else None
    names = accessor._level_names
    dtypes = accessor._level_dtypes
    label_dtype = accessor.label_dtype
    axis = (
        bool(accessor.multiindex), bool(accessor.rangeindex), None if names is None else tuple(names), None if label_dtype is None else spec_of(label_dtype),
        None if dtypes is None else tuple(map(spec_of, dtypes)), index,
    )  # fmt: skip
    return axis if any(part is not None and part is not False for part in axis) else None


def _encode_frame(frame: Any) -> tuple[Any, ...]:
    accessor = frame._data
    columns = accessor._data
    more = _subclass(frame, _internals().cudf.DataFrame, _OWN_STATE)
    return device_place(), list(columns), [_column(column) for column in columns.values()], frame.index, _axis(accessor), *_extras(frame, more)


def _extras(frame: Any, more: tuple[Any, ...]) -> tuple[Any, ...]:
    attrs = frame._attrs or None
    unique = not frame._flags.allows_duplicate_labels
    return (attrs, unique, *more) if attrs or unique or more else ()


def _decode_frame(value: Any) -> Any:
    need(type(value) is tuple and len(value) in (5, 7, 9), "a frame has 5, 7 or 9 parts")
    place, labels, columns, index, axis, *extras = value
    need(type(place) is _core.DeviceMemory, "the place of a frame")
    need(type(labels) is list and type(columns) is list and len(labels) == len(columns), "labels and columns do not fit")
    for one in labels:
        label(one, "the label of a column")
    if on_host(place):
        return cudf_host.frame(labels, columns, index, axis, extras[:2])
    known = _internals()
    _need_index(index)
    arrival = Arrival()
    nrows = len(index)
    made = {_nan_itself(one): arrival.column(column, nrows) for one, column in zip(labels, columns, strict=True)}
    need(len(made) == len(labels), "a label that is there twice")
    data = _accessor(arrival, made, axis)
    arrival.check()
    return _finish(_made(known.cudf.DataFrame, tuple(extras[2:])), data, index, extras)


def _nan_itself(one: Any) -> Any:
    """A label whose NaN are np.nan: cuDF finds them by identity, as it has put them there."""
    if type(one) is tuple:
        return tuple(np.nan if isinstance(part, float) and part != part else part for part in one) if any(part != part for part in one if isinstance(part, float)) else one
    return np.nan if isinstance(one, float) and one != one else one


def _accessor(arrival: Arrival, made: dict[Any, Any], axis: Any) -> Any:
    known = _internals()
    if axis is None:
        return known.ColumnAccessor(made, verify=False)
    need(type(axis) is tuple and len(axis) == 6, "an axis has 6 parts")
    multiindex, rangeindex, names, label_dtype, dtypes, index = axis
    need(names is None or type(names) is tuple, "names of an axis")
    need(not multiindex or all(type(one) is tuple and len(one) == len(next(iter(made))) for one in made), "labels of several levels are tuples")
    pandas = sys.modules["pandas"]
    need(index is None or isinstance(index, pandas.MultiIndex), "the index of an axis")
    return known.ColumnAccessor(
        made, multiindex=multiindex is True, level_names=names, rangeindex=rangeindex is True, label_dtype=None if label_dtype is None else arrival.dtype(label_dtype),
        level_dtypes=None if dtypes is None else tuple(map(arrival.dtype, dtypes)), pandas_index=index, verify=False,
    )  # fmt: skip


def _finish(frame: Any, data: Any, index: Any, extras: list[Any]) -> Any:
    attrs, unique = extras[:2] or (None, False)
    need(attrs is None or type(attrs) is dict, "the attrs of a frame")
    frame._data = data
    frame._index = index
    frame._attrs = attrs or {}
    frame._flags = sys.modules["pandas"].Flags(frame, allows_duplicate_labels=not unique)
    return frame


def _need_index(index: Any) -> None:
    need(isinstance(index, _internals().cudf.Index), "the index of a frame is none")


def _encode_series(series: Any) -> tuple[Any, ...]:
    ((name, column),) = series._data._data.items()
    more = _subclass(series, _internals().cudf.Series, _OWN_STATE)
    return device_place(), name, _column(column), series.index, *_extras(series, more)


def _decode_series(value: Any) -> Any:
    need(type(value) is tuple and len(value) in (4, 6, 8), "a series has 4, 6 or 8 parts")
    place, name, column, index, *extras = value
    need(type(place) is _core.DeviceMemory, "the place of a series")
    label(name, "the name of a series")
    if on_host(place):
        return cudf_host.series(name, column, index, extras[:2])
    known = _internals()
    _need_index(index)
    arrival = Arrival()
    data = known.ColumnAccessor({_nan_itself(name): arrival.column(column, len(index))}, verify=False)
    arrival.check()
    return _finish(_made(known.cudf.Series, tuple(extras[2:])), data, index, extras)


register_named(["cudf:DataFrame", "cudf.core.dataframe:DataFrame"], "cudf.DataFrame", _encode_frame, _decode_frame, _KEPT_METHODS)
register_named(["cudf:Series", "cudf.core.series:Series"], "cudf.Series", _encode_series, _decode_series, _KEPT_METHODS)


# ── Indexes ──────────────────────────────────────────────────────────────────────────────────────────────────

_INDEXES = ("Index", "RangeIndex", "DatetimeIndex", "TimedeltaIndex", "CategoricalIndex", "IntervalIndex", "MultiIndex")


def _index_class(obj: Any) -> str:
    cudf = _internals().cudf
    return next(name for cls in type(obj).__mro__ for name in _INDEXES if cls is getattr(cudf, name))


def _encode_index(index: Any) -> tuple[Any, ...]:
    name = _index_class(index)
    more = _subclass(index, getattr(_internals().cudf, name), frozenset(("_data", "_freq", "_range", "_name", "_names", "_levels", "_codes")))
    if name == "RangeIndex":
        span = index._range
        return device_place(), name, index.name, (span.start, span.stop, span.step), None, *more
    if name == "MultiIndex":
        return device_place(), name, index._name, ([_column(column) for column in index._data._data.values()], list(index._names)), None, *more
    ((label_, column),) = index._data._data.items()
    return device_place(), name, label_, _column(column), getattr(index, "_freq", None), *more


def _decode_index(value: Any) -> Any:
    need(type(value) is tuple and len(value) in (5, 7), "an index has 5 or 7 parts")
    place, kind, name, parts, freq, *more = value
    need(type(place) is _core.DeviceMemory, "the place of an index")
    need(type(kind) is str and kind in _INDEXES, "{} is no index", kind)
    label(name, "the name of an index")
    if kind == "RangeIndex":
        need(type(parts) is tuple and len(parts) == 3, "a range has 3 parts")
        for part in parts:
            integer(part, "a part of a RangeIndex", -(1 << 63), (1 << 63) - 1)
    if kind == "MultiIndex":
        need(type(parts) is tuple and len(parts) == 2 and all(type(part) is list for part in parts), "a MultiIndex has columns and names")
        need(len(parts[0]) == len(parts[1]) > 0, "names and levels do not fit")
        for one in parts[1]:
            label(one, "the name of a level")
    if on_host(place):
        return cudf_host.index(kind, name, parts, freq)
    known = _internals()
    cls = getattr(known.cudf, kind)
    if kind == "RangeIndex":
        made = cls(*parts, name=name)
        return made if not more else _dressed(made, _made(cls, tuple(more)))
    arrival = Arrival()
    if kind == "MultiIndex":
        columns, names = parts
        first = arrival.column(columns[0], None)
        data = known.ColumnAccessor(dict(enumerate([first, *(arrival.column(column, len(first)) for column in columns[1:])])), verify=False)
        arrival.check()
        made = known.simple_multiindex(data=data, levels=None, codes=None, names=sys.modules["pandas"].core.indexes.frozen.FrozenList(names), name=name)
        return made if not more else _dressed(made, _made(cls, tuple(more)))
    made = _made(cls, tuple(more))
    column = arrival.column(parts, None)
    kinds = {"DatetimeIndex": "M", "TimedeltaIndex": "m"}
    need(kind not in kinds or column.dtype.kind == kinds[kind], "an index of other values")
    need(kind != "CategoricalIndex" or isinstance(column.dtype, known.cudf.CategoricalDtype), "an index of other values")
    need(kind != "IntervalIndex" or isinstance(column.dtype, known.cudf.IntervalDtype), "an index of other values")
    arrival.check()
    made._data = known.ColumnAccessor({_nan_itself(name): column}, verify=False)
    if kind == "DatetimeIndex":
        need(freq is None or isinstance(freq, sys.modules["pandas"].tseries.offsets.BaseOffset), "the freq of an index")
        made._freq = freq
    else:
        need(freq is None, "the freq of such an index")
    return made


def _dressed(made: Any, subclass: Any) -> Any:
    vars(subclass).update(vars(made))
    return subclass


register_named(
    ["cudf.core.multiindex:MultiIndex", *(f"cudf.core.index:{name}" for name in _INDEXES), *(f"cudf:{name}" for name in _INDEXES)], "cudf.Index",
    _encode_index, _decode_index, _KEPT_METHODS,
)  # fmt: skip


# ── dtypes ───────────────────────────────────────────────────────────────────────────────────────────────────


def _encode_dtype(dtype: Any) -> tuple[Any, ...]:
    return device_place(), spec_of(dtype)


def _decode_dtype(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 2 and type(value[0]) is _core.DeviceMemory, "a dtype is a place and a name")
    if on_host(value[0]):
        return cudf_host.dtype(value[1])
    arrival = Arrival()
    dtype = arrival.dtype(value[1])
    arrival.check()
    return dtype


register_named(
    [f"cudf.core.dtypes:{name}Dtype" for name in ("Categorical", "List", "Struct", "Interval", "Decimal32", "Decimal64", "Decimal128")], "cudf.dtype", _encode_dtype, _decode_dtype
)


# ── Columns and buffers by themselves ────────────────────────────────────────────────────────────────────────


def _encode_column(column: Any) -> tuple[Any, ...]:
    return device_place(), _column(column)


def _decode_column(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 2 and type(value[0]) is _core.DeviceMemory, "a column is a place and its parts")
    if on_host(value[0]):
        return cudf_host.column(value[1], None)
    arrival = Arrival()
    column = arrival.column(value[1], None)
    arrival.check()
    return column


_COLUMNS = {
    "categorical": "CategoricalColumn", "datetime": "DatetimeColumn DatetimeTZColumn", "decimal": "DecimalColumn", "interval": "IntervalColumn", "lists": "ListColumn",
    "numerical": "NumericalColumn", "string": "StringColumn", "struct": "StructColumn", "timedelta": "TimeDeltaColumn",
}  # fmt: skip
register_named([f"cudf.core.column.{module}:{name}" for module, names in _COLUMNS.items() for name in names.split()], "cudf.column", _encode_column, _decode_column)


# ── pylibcudf ────────────────────────────────────────────────────────────────────────────────────────────────


def _compact(column: Any) -> Any:
    return column if _is_compact(column) else column.copy()


def _encode_plc_column(column: Any) -> tuple[Any, ...]:
    return device_place(), _tree(_compact(column))


def _encode_plc_table(table: Any) -> tuple[Any, ...]:
    return device_place(), [_tree(_compact(column)) for column in table.columns()]


def _view(memory: Any) -> Any:
    if type(memory) is not _core.DeviceMemory:
        memory = library("rmm").DeviceBuffer.to_device(memory.data)
    return _plc().gpumemoryview(memory)


def _plc_columns(place: Any, trees: list[Any]) -> list[Any]:
    need(type(place) is _core.DeviceMemory, "the place of columns")
    if on_host(place):
        return [cudf_host.array(tree) for tree in trees]
    arrival = Arrival()
    columns = [arrival.tree(tree, make=_view) for tree in trees]
    arrival.check()
    return columns


def _decode_plc_column(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 2, "a column is a place and its parts")
    return _plc_columns(value[0], [value[1]])[0]


def _decode_plc_table(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 2 and type(value[1]) is list, "a table is a place and columns")
    columns = _plc_columns(value[0], value[1])
    if on_host(value[0]):
        return cudf_host.table(columns)
    need(all(column.size() == columns[0].size() for column in columns), "columns of several lengths")
    return _plc().Table(columns)


def _encode_plc_scalar(scalar: Any) -> tuple[Any, ...]:
    return _encode_plc_column(_plc().Column.from_scalar(scalar, 1))


def _decode_plc_scalar(value: Any) -> Any:
    column = _decode_plc_column(value)
    if on_host(value[0]):
        return column[0]
    need(column.size() == 1, "a scalar is one row")
    return _plc().copying.get_element(column, 0)


def _encode_plc_type(kind: Any) -> str:
    name: str = kind.id().name
    return f"{name}:{kind.scale()}" if name.startswith("DECIMAL") else name


register_named(["pylibcudf.column:Column"], "pylibcudf.Column", _encode_plc_column, _decode_plc_column)
register_named(["pylibcudf.table:Table"], "pylibcudf.Table", _encode_plc_table, _decode_plc_table)
register_named(["pylibcudf.scalar:Scalar"], "pylibcudf.Scalar", _encode_plc_scalar, _decode_plc_scalar)
register_named(["pylibcudf.types:DataType"], "pylibcudf.DataType", _encode_plc_type, _type)
