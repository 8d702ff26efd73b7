"""What a receiver without a GPU gets of cuDF and pylibcudf: pandas and pyarrow objects over the same bytes, as ``to_pandas`` and ``to_arrow`` give them.

The values are those that cudf.py writes. pyarrow looks at offsets and lengths before an object holds them.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import numpy as np

from .. import _core
from .._errors import Unsupported
from ._checks import charge, integer, need


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unsupported(f"{error}; a column of cuDF in host memory needs it") from error


# ── Columns ──────────────────────────────────────────────────────────────────────────────────────────────────

_FIXED = {
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "FLOAT32": "float32", "FLOAT64": "float64",
}  # fmt: skip
_UNITS = {"SECONDS": "s", "MILLISECONDS": "ms", "MICROSECONDS": "us", "NANOSECONDS": "ns"}
_NUMPY = {"b1": "BOOL8", "i1": "INT8", "i2": "INT16", "i4": "INT32", "i8": "INT64", "u1": "UINT8", "u2": "UINT16", "u4": "UINT32", "u8": "UINT64", "f4": "FLOAT32", "f8": "FLOAT64"}


_SHOWN = 8
"""Columns that share memory become as many copies, so not every row that is copied is counted as one."""


def _bytes(memory: Any) -> Any:
    """Received memory as pyarrow's buffer; None stays None."""
    if memory is None:
        return None
    if type(memory) is _core.DeviceMemory:
        memory = memory.host_view()
    need(type(memory) is memoryview or (type(memory) is np.ndarray and memory.dtype == np.uint8 and memory.ndim == 1), "a buffer is no memory")
    return _library("pyarrow").py_buffer(memory)


def array(tree: Any, spec: Any = None) -> Any:
    """The pyarrow array of a column's body."""
    pa = _library("pyarrow")
    charge(8)  # a few bytes can name one child twice, which names a third one twice, …
    if type(spec).__name__ == "ArrowDtype":
        spec = _arrow_spec(spec.pyarrow_dtype) or spec
    if type(tree) is not tuple:
        buffer = _bytes(tree)
        name = _type_name(spec)
        item = 1 if name == "BOOL8" else _arrow_type(name).byte_width
        nbytes = 0 if buffer is None else buffer.size
        need(nbytes % item == 0, f"{nbytes} bytes for items of {item}")
        tree = (None, nbytes // item, 0, 0, tree, None, ())
    need(len(tree) == 7, "the body of a column has 7 parts")
    name, size, offset, nulls, data, mask, children = tree
    integer(size, "the size of a column", 0, (1 << 31) - 1)
    integer(offset, "the offset of a column", 0, (1 << 31) - 1 - size)
    integer(nulls, "the nulls of a column", 0, size)
    need(type(children) is tuple and len(children) <= 1 << 16, "the children of a column")
    name = _type_name(spec) if name is None else name
    need(type(name) is str, "the type of a column is no text")
    valid = _bytes(mask)
    need(valid is not None or nulls == 0, "nulls without a mask")
    need(valid is None or valid.size * 8 >= offset + size, "a mask that is shorter than the column")
    if name == "BOOL8":
        need(not children, "children of items of one size")
        made = _booleans(data, valid, size, offset)
    elif name == "STRING":
        made = _texts(data, valid, size, offset, children)
    elif name == "LIST":
        made = _lists(valid, size, offset, children, spec)
    elif name == "STRUCT":
        made = _records(valid, size, offset, children, spec)
    elif name == "DICTIONARY32":
        need(len(children) == 2 or not size, "a dictionary has codes and values")
        codes = array((*children[0][:5], mask, ()))
        made = pa.DictionaryArray.from_arrays(codes, array(children[1]))
    elif name == "EMPTY":
        charge(size)  # there is no memory of them
        made = pa.nulls(size)
    else:
        need(not children, "children of items of one size")
        made = pa.Array.from_buffers(_arrow_type(name, spec), size, [valid, _bytes(data) or pa.py_buffer(b"")], -1, offset)
    made.validate(full=name in ("STRING", "LIST", "DICTIONARY32"))
    return made


def _booleans(data: Any, valid: Any, size: int, offset: int) -> Any:
    pa = _library("pyarrow")
    items = np.frombuffer(_bytes(data) or b"", np.uint8)
    need(len(items) >= offset + size, "the data of a column are shorter than it is")
    bits = np.packbits(items[: offset + size] != 0, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), size, [valid, pa.py_buffer(bits)], -1, offset)


def _texts(data: Any, valid: Any, size: int, offset: int, children: tuple[Any, ...]) -> Any:
    pa = _library("pyarrow")
    if size == 0 and (not children or children[0][1] == 0):
        return pa.array([], pa.string())
    need(len(children) == 1, "texts have offsets")
    offsets = array(children[0])
    need(len(offsets) == offset + size + 1, "offsets are size + 1 integers")
    kind = pa.string() if offsets.type == pa.int32() else pa.large_string()
    return pa.Array.from_buffers(kind, size, [valid, offsets.buffers()[1], _bytes(data) or pa.py_buffer(b"")], -1, offset)


def _lists(valid: Any, size: int, offset: int, children: tuple[Any, ...], spec: Any) -> Any:
    pa = _library("pyarrow")
    need(len(children) == 2, "lists have offsets and items")
    offsets, items = array(children[0]), array(children[1], spec[1] if _is(spec, "list") else None)
    charge(len(items) // _SHOWN)
    if size == 0 and len(offsets) == 0:
        return pa.array([], pa.list_(items.type))
    need(len(offsets) == offset + size + 1 and offsets.type == pa.int32(), "offsets are size + 1 integers")
    return pa.Array.from_buffers(pa.list_(items.type), size, [valid, offsets.buffers()[1]], -1, offset, children=[items])


def _records(valid: Any, size: int, offset: int, children: tuple[Any, ...], spec: Any) -> Any:
    pa = _library("pyarrow")
    if _is(spec, "struct"):
        need(len(spec) == len(children) + 1, "the fields of a record")
        names, specs = [field[0] for field in spec[1:]], [field[1] for field in spec[1:]]
    elif _is(spec, "interval"):
        need(len(children) == 2, "an interval has two ends")
        names, specs = ["left", "right"], [spec[1]] * 2
    else:
        names, specs = [str(i) for i in range(len(children))], [None] * len(children)
    parts = [array(child, inner) for child, inner in zip(children, specs, strict=True)]
    charge(sum(map(len, parts)) // _SHOWN if parts or valid is not None else size)
    need(all(len(part) == offset + size for part in parts), "fields of another length than their records")
    kind = pa.struct([pa.field(name, part.type) for name, part in zip(names, parts, strict=True)])
    return pa.Array.from_buffers(kind, size, [valid], -1, offset, children=parts)


def _is(spec: Any, name: str) -> bool:
    return type(spec) is tuple and len(spec) > 0 and spec[0] == name


def _type_name(spec: Any) -> str:
    """The type that libcudf has for a dtype."""
    if type(spec) is tuple and spec and type(spec[0]) is str:
        if spec[0] in ("list", "struct"):
            return str(spec[0]).upper()
        if spec[0] == "interval":
            return "STRUCT"
        if spec[0] == "category" and len(spec) == 3:
            n = 0 if spec[1] is None else _length(spec[1])
            return next(f"UINT{bits}" for bits in (8, 16, 32, 64) if n <= 1 << bits)
        if spec[0] in ("decimal32", "decimal64", "decimal128") and len(spec) == 3:
            return f"{spec[0].upper()}:{-integer(spec[2], 'a scale', -38, 38)}"
    pd = _library("pandas")
    need(isinstance(spec, np.dtype) or isinstance(spec, pd.api.extensions.ExtensionDtype), "{} is no dtype", spec)
    if isinstance(spec, pd.StringDtype) or spec == np.dtype("O"):
        return "STRING"
    if isinstance(spec, pd.DatetimeTZDtype):
        return _temporal("TIMESTAMP", spec.unit)
    if isinstance(spec, pd.ArrowDtype):
        return _arrow_name(spec.pyarrow_dtype)
    kind = getattr(spec, "numpy_dtype", spec)
    need(isinstance(kind, np.dtype), "{} is no dtype of a column", spec)
    if kind.kind in "mM":
        return _temporal({"m": "DURATION", "M": "TIMESTAMP"}[kind.kind], np.datetime_data(kind)[0])
    need(kind.str[1:] in _NUMPY, "{} is no dtype of a column", kind)
    return _NUMPY[kind.str[1:]]


def _temporal(what: str, unit: str) -> str:
    return next(f"{what}_{name}" for name, known in _UNITS.items() if known == unit)


def _arrow_name(kind: Any) -> str:
    pa = _library("pyarrow")
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return "STRING"
    if types.is_boolean(kind):
        return "BOOL8"
    if types.is_timestamp(kind):
        return _temporal("TIMESTAMP", kind.unit)
    if types.is_duration(kind):
        return _temporal("DURATION", kind.unit)
    if types.is_list(kind) or types.is_large_list(kind):
        return "LIST"
    if types.is_struct(kind):
        return "STRUCT"
    if types.is_decimal(kind):
        return f"DECIMAL{kind.bit_width}:{-kind.scale}"
    return _NUMPY[np.dtype(kind.to_pandas_dtype()).str[1:]]


def _arrow_spec(kind: Any) -> Any:
    """The dtype of lists and records that pandas has from Arrow, as a column of cuDF's own says it; None for others."""
    types = _library("pyarrow").types
    if types.is_list(kind) or types.is_large_list(kind):
        return "list", _arrow_spec(kind.value_type)
    if types.is_struct(kind):
        return "struct", *((field.name, _arrow_spec(field.type)) for field in kind)
    return None


def _length(column_: Any) -> int:
    need(type(column_) is tuple and len(column_) == 2, "a column is a dtype and a body")
    spec, body = column_
    if type(body) is tuple:
        need(len(body) == 7, "the body of a column has 7 parts")
        return integer(body[1], "the size of a column", 0, (1 << 31) - 1)
    name = _type_name(spec)
    return 0 if body is None else int(body.nbytes) // (1 if name == "BOOL8" else _arrow_type(name).byte_width)


def _arrow_type(name: str, spec: Any = None) -> Any:
    pa = _library("pyarrow")
    if name in _FIXED:
        return getattr(pa, _FIXED[name])()
    what, _, rest = name.partition("_")
    if what in ("TIMESTAMP", "DURATION") and rest in _UNITS:
        return (pa.timestamp if what == "TIMESTAMP" else pa.duration)(_UNITS[rest])
    if name == "TIMESTAMP_DAYS":
        return pa.date32()
    what, _, scale = name.partition(":")
    need(what in ("DECIMAL32", "DECIMAL64", "DECIMAL128") and scale.lstrip("-").isdecimal() and len(scale) < 4, "{} is no type of a column", name)
    most = {"DECIMAL32": 9, "DECIMAL64": 18, "DECIMAL128": 38}[what]
    precision = integer(spec[1], "a precision", 1, most) if _is(spec, what.lower()) and len(spec) == 3 else most
    return getattr(pa, what.lower())(precision, -int(scale))


def column(value: Any, nrows: int | None) -> Any:
    """The values of a column as ``to_pandas`` gives them: an array of pandas or NumPy."""
    need(type(value) is tuple and len(value) == 2, "a column is a dtype and a body")
    spec, body = value
    pd, pa = _library("pandas"), _library("pyarrow")
    need(type(body) is not tuple or (len(body) == 7 and body[0] is None), "a type beside the dtype")
    made = array(body, spec)
    need(nrows is None or len(made) == nrows, f"a column of {len(made)} rows for {nrows}")
    need(not _has_codes(made.type), "codes of a dictionary in a column of cuDF")
    if type(spec) is not np.dtype or made.null_count or spec.kind in "bO":
        charge(len(made) // _SHOWN)
    if _is(spec, "category"):
        categories = _index(column(spec[1], None)) if spec[1] is not None else pd.Index([], dtype="str")
        codes = np.where(made.is_valid().to_numpy(zero_copy_only=False), made.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), -1)
        need(len(codes) == 0 or int(codes.max()) < len(categories), "codes of no category")
        known = np.asarray(categories.notna())
        if not known.all():  # pandas has none that is missing: such values are missing themselves
            codes = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[codes]
            categories = categories[known]
        return pd.Categorical.from_codes(codes, categories=categories, ordered=spec[2] is True)
    if _is(spec, "interval"):
        ends = [pd.array(made.field(i).to_numpy(zero_copy_only=False)) for i in range(2)]
        intervals = pd.arrays.IntervalArray.from_arrays(*(np.asarray(end) for end in ends), closed=spec[2] or "right")
        if made.null_count:
            intervals = intervals.copy()
            intervals[~made.is_valid().to_numpy(zero_copy_only=False)] = np.nan
        return intervals
    if _is(spec, "list") or _is(spec, "struct"):
        items = np.empty(len(made), object)
        items[:] = made.to_pylist()
        return items
    if isinstance(spec, pd.ArrowDtype):
        if pa.types.is_null(spec.pyarrow_dtype):
            need(made.null_count == len(made), "values of a dtype that has none")
            charge(len(made))
            made = pa.nulls(len(made))
        return pd.arrays.ArrowExtensionArray(made.cast(spec.pyarrow_dtype))
    if isinstance(spec, pd.StringDtype):
        if spec.storage == "pyarrow":
            return spec.__from_arrow__(made.cast(pa.large_string()))
        return pd.array(made.to_pandas(), dtype=spec)
    if isinstance(spec, pd.DatetimeTZDtype):
        stamps = pd.DatetimeIndex(made.to_numpy(zero_copy_only=False)).tz_localize("UTC").tz_convert(spec.tz)
        return stamps.array
    if isinstance(spec, pd.api.extensions.ExtensionDtype):
        return spec.__from_arrow__(made)
    return made.to_numpy(zero_copy_only=False, writable=True)


def _has_codes(kind: Any) -> bool:
    """Whether rows name values by number, so that each may be written out as often as it is named."""
    return _library("pyarrow").types.is_dictionary(kind) or any(_has_codes(kind.field(i).type) for i in range(kind.num_fields))


def dtype(spec: Any) -> Any:
    """The dtype that a column of this dtype has in pandas."""
    return column((spec, _nothing(spec)), 0).dtype


def _nothing(spec: Any) -> Any:
    name = _type_name(spec)
    empty = (None, 0, 0, 0, None, None, ())
    offsets = ("INT32", 0, 0, 0, None, None, ())
    if name == "LIST":
        return (*empty[:6], (offsets, _nothing(spec[1])))
    if name == "STRUCT":
        return (*empty[:6], tuple(_nothing(field[1]) for field in spec[1:]) if _is(spec, "struct") else (_nothing(spec[1]),) * 2)
    return empty


# ── Frames, series and indexes ───────────────────────────────────────────────────────────────────────────────


def _labels(labels: list[Any], axis: Any) -> Any:
    pd = _library("pandas")
    if axis is None:
        return pd.Index(labels, tupleize_cols=False, dtype=None if labels else "str")
    need(type(axis) is tuple and len(axis) == 6, "an axis has 6 parts")
    multiindex, rangeindex, names, label_dtype, dtypes, index = axis
    need(names is None or type(names) is tuple, "names of an axis")
    if isinstance(index, pd.MultiIndex) and len(index) == len(labels):
        return index
    need(dtypes is None or (type(dtypes) is tuple and len(dtypes) <= 1 << 16), "the dtypes of levels")
    if multiindex and labels:
        return _with_dtypes(pd.MultiIndex.from_tuples(labels, names=names), dtypes or ())
    if multiindex and dtypes:
        return pd.MultiIndex.from_arrays([pd.Index([], dtype=_label_dtype(kind)) for kind in dtypes], names=names)
    name = names[0] if names else None
    if rangeindex and all(type(one) is int for one in labels):
        step = labels[1] - labels[0] if len(labels) > 1 else 1
        start = labels[0] if labels else 0
        found = pd.RangeIndex(start, start + step * len(labels), step, name=name) if step else pd.Index(labels, name=name)
        return found if list(found) == labels else pd.Index(labels, name=name)
    kind = None if label_dtype is None else _label_dtype(label_dtype)
    return pd.Index(labels, dtype=kind if kind is not None or labels else "str", name=name, tupleize_cols=False)


def _label_dtype(spec: Any) -> Any:
    """The dtype of labels, which is any that pandas has, other than that of a column."""
    if isinstance(spec, np.dtype):
        need(spec.kind in "biufcmMO", "{} is no dtype of labels", spec)
        return spec
    return spec if isinstance(spec, _library("pandas").api.extensions.ExtensionDtype) else dtype(spec)


def _with_dtypes(index_: Any, specs: tuple[Any, ...]) -> Any:
    """As cuDF does it: the dtypes of levels, where labels are the same in them."""
    if len(specs) != index_.nlevels:
        return index_
    levels = []
    for level, spec in zip(index_.levels, specs, strict=True):
        kind = _label_dtype(spec)
        try:
            cast = level if level.dtype == kind else level.astype(kind)
        except (TypeError, ValueError):
            cast = level
        levels.append(cast if cast.astype(level.dtype).equals(level) else level)
    return index_.set_levels(levels)


def _dressed(made: Any, extras: list[Any]) -> Any:
    attrs, unique = extras or (None, False)
    need(attrs is None or type(attrs) is dict, "the attrs of a frame")
    made.attrs.update(attrs or {})
    return made.set_flags(allows_duplicate_labels=False) if unique else made


def frame(labels: list[Any], columns: list[Any], index_: Any, axis: Any, extras: list[Any]) -> Any:
    pd = _library("pandas")
    need(isinstance(index_, pd.Index), "the index of a frame is none")
    made = pd.DataFrame(dict(enumerate(column(one, len(index_)) for one in columns)), index=index_, copy=False)
    made.columns = _labels(labels, axis)
    return _dressed(made, extras)


def series(name: Any, column_: Any, index_: Any, extras: list[Any]) -> Any:
    pd = _library("pandas")
    need(isinstance(index_, pd.Index), "the index of a series is none")
    return _dressed(pd.Series(column(column_, len(index_)), index=index_, name=name, copy=False), extras)


def _index(values: Any, name: Any = None) -> Any:
    """An index of the dtype that the values have: pandas would look for another one for objects."""
    return _library("pandas").Index(values, dtype=values.dtype, name=name)


def index(kind: str, name: Any, parts: Any, freq: Any) -> Any:
    pd = _library("pandas")
    if kind == "RangeIndex":
        need(parts[2] != 0, "a range without a step")
        return pd.RangeIndex(*parts, name=name)
    if kind == "MultiIndex":
        columns, names = parts
        first = column(columns[0], None)
        return pd.MultiIndex.from_arrays([first, *(column(one, len(first)) for one in columns[1:])], names=names)
    made = _index(column(parts, None), name)
    if kind == "DatetimeIndex" and freq is not None:
        need(isinstance(freq, pd.tseries.offsets.BaseOffset), "the freq of an index")
        with contextlib.suppress(ValueError):  # cuDF keeps one that values have not, and to_pandas leaves it out
            made.freq = made.inferred_freq or freq
    return made


def table(columns: list[Any]) -> Any:
    need(all(len(one) == len(columns[0]) for one in columns), "columns of several lengths")
    return _library("pyarrow").Table.from_arrays(columns, names=[str(i) for i in range(len(columns))])
