"""Adapters for pyarrow.

Tables, batches, chunked arrays, arrays and schemas are written by the walk itself (bindings/arrow.cpp) through the PyCapsule protocol:
the entries below name only the kind. Scalars, types, fields and buffers become one of those, or bytes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .. import _tables
from .._registry import register
from ._checks import words


def _of(value: object, cls: Any, what: str) -> Any:
    if not isinstance(value, cls):
        raise ValueError(f"{what}: a {type(value).__qualname__} where a {cls.__qualname__} is needed")  # noqa: TRY004  the bytes are wrong
    return value


# ── Kinds of ARROW nodes ─────────────────────────────────────────────────────────────────────────────────────


def _register_kind(cls: type, kind: str) -> None:
    """Let the walk write objects of a class as an ARROW node; there is nothing for Python to do on either side."""
    _tables.adapters_by_type[cls] = (f"pyarrow.{kind}", kind)


def _classes(base: type) -> list[type]:
    """`base` and what pyarrow derives from it; a user's own subclasses are not meant."""
    found = [cls for cls in vars(pa.lib).values() if isinstance(cls, type) and issubclass(cls, base)]
    return [base, *(cls for cls in found if cls is not base)]


_register_kind(pa.Table, "table")
_register_kind(pa.RecordBatch, "batch")
_register_kind(pa.ChunkedArray, "chunked")
_register_kind(pa.Schema, "schema")
for _class in _classes(pa.Array):
    _register_kind(_class, "array")


# ── Rows that show places anywhere in their children ─────────────────────────────────────────────────────────

_SPARE = 1024  # items that may come along


def gathered(value: Any) -> Any:
    """`value`, or where list views and dense unions show little of their children, the same rows with children that hold what is shown, in its order.

    The walk asks for what has such types in it; a slice of other types is a range of its children.
    """
    if isinstance(value, pa.Array):
        return _gathered(value)
    if isinstance(value, pa.ChunkedArray):
        chunks = value.chunks
        new = [_gathered(chunk) for chunk in chunks]
        return value if _all_same(new, chunks) else pa.chunked_array(new, value.type)
    columns = value.columns
    new = [gathered(column) for column in columns]
    return value if _all_same(new, columns) else type(value).from_arrays(new, schema=value.schema)


def _all_same(new: list[Any], old: list[Any]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def _gathered(array: Any) -> Any:
    try:
        return _gather(array)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):  # children of a type that nothing gathers
        return array


def _gather(array: Any) -> Any:
    kind = array.type
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return _gather_views(array)
    if pa.types.is_union(kind) and kind.mode == "dense":
        return _gather_union(array)
    if pa.types.is_struct(kind):
        old = [array.field(i) for i in range(kind.num_fields)]
        new = [_gather(child) for child in old]
        return array if _all_same(new, old) else pa.StructArray.from_arrays(new, fields=list(kind), mask=array.is_null())
    if isinstance(array, pa.ExtensionArray):
        storage = _gather(array.storage)
        return array if storage is array.storage else pa.ExtensionArray.from_storage(kind, storage)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets = array.offsets.to_numpy(zero_copy_only=False)
        shown = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        new_values = _gather(shown)
        return array if new_values is shown else type(array).from_arrays(pa.array(offsets - offsets[0], array.offsets.type), new_values, kind, mask=array.is_null())
    return array


def _is_scattered(first: int, end: int, nshown: int) -> bool:
    return end - first > 2 * nshown + _SPARE


def _gather_views(array: Any) -> Any:
    import numpy as np

    offsets, sizes = (part.to_numpy(zero_copy_only=False).astype(np.int64) for part in (array.offsets, array.sizes))
    sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    nshown = int(sizes.sum())
    used = sizes > 0
    if not used.any() or not _is_scattered(int(offsets[used].min()), int((offsets + sizes)[used].max()), nshown):
        return array
    begins = np.cumsum(sizes) - sizes
    places = np.arange(nshown) + np.repeat(offsets - begins, sizes)
    values = _gather(array.values.take(pa.array(places)))
    return type(array).from_arrays(pa.array(begins, array.offsets.type), pa.array(sizes, array.sizes.type), values, array.type, mask=array.is_null())


def _gather_union(array: Any) -> Any:
    import numpy as np

    kind = array.type
    # `type_codes` and `offsets` of a slice are those of the first rows of the whole.
    _, codes_buffer, offsets_buffer, *_ = array.buffers()
    codes = np.frombuffer(codes_buffer, np.int8, len(array), array.offset)
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array), 4 * array.offset).copy()
    old = [array.field(i) for i in range(kind.num_fields)]
    new = []
    for code, child in zip(kind.type_codes, old, strict=True):
        rows = codes == code
        places = offsets[rows]
        if len(places) and _is_scattered(int(places.min()), int(places.max()) + 1, len(places)):
            child = _gather(child.take(pa.array(places)))  # noqa: PLW2901  the child in its new order
            offsets[rows] = np.arange(len(places), dtype=offsets.dtype)
        new.append(child)
    if _all_same(new, old):
        return array
    names = [kind.field(i).name for i in range(kind.num_fields)]
    made = pa.UnionArray.from_dense(pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), new, names, kind.type_codes)
    return made if made.type == kind else array  # fields with metadata, or that may not be null


# ── Extension types that nobody registered ───────────────────────────────────────────────────────────────────


class _Exported:
    """A schema of which pyarrow sees the C interface alone."""

    def __init__(self, schema: Any) -> None:
        self.__arrow_c_schema__ = schema.__arrow_c_schema__


def survives(thing: Any) -> bool:
    """Whether the types in a table, batch, array or schema come back as they are: the C interface has names for extension types, and only those
    that are registered here come back."""
    schema = thing if isinstance(thing, pa.Schema) else getattr(thing, "schema", None) or pa.schema([pa.field("", thing.type)])
    return bool(pa.schema(_Exported(schema)).equals(schema))


def _check_survives(type_: Any) -> None:
    if isinstance(type_, pa.BaseExtensionType) or type_.num_fields > 0 or pa.types.is_dictionary(type_):
        schema = pa.schema([pa.field("", type_)])
        if not survives(schema):
            raise NotImplementedError(f"{type_} has an extension type that is not registered here")


# ── Scalars, types, fields: as an array or schema of one ─────────────────────────────────────────────────────


def _encode_scalar(scalar: Any) -> Any:
    try:
        array = pa.repeat(scalar, 1)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        array = pa.array([scalar], type=scalar.type)
    return pa.chunked_array([array])  # an array of an extension type may be of the user's own class


def _decode_scalar(value: object) -> Any:
    chunked = _of(value, pa.ChunkedArray, "pyarrow.scalar")
    if len(chunked) != 1:
        raise ValueError(f"pyarrow.scalar: {len(chunked)} values")
    return chunked[0]


def _encode_field(field: Any) -> Any:
    _check_survives(field.type)
    return pa.schema([field])


def _decode_field(value: object) -> Any:
    schema = _of(value, pa.Schema, "pyarrow.field")
    if len(schema) != 1:
        raise ValueError(f"pyarrow.field: {len(schema)} fields")
    return schema.field(0)


def _encode_type(type_: Any) -> Any:
    _check_survives(type_)
    return pa.schema([pa.field("", type_)])


def _decode_type(value: object) -> Any:
    field = _decode_field(value)
    name = (field.metadata or {}).get(b"ARROW:extension:name")
    if name is not None and not isinstance(field.type, pa.BaseExtensionType):  # a field keeps the name, a type has no place for it
        raise ValueError(f"the extension type {words(name)} is not registered here (pyarrow.register_extension_type)")
    return field.type


def _register_all(base: type, name: str, encode: Any, decode: Any) -> None:
    for cls in _classes(base):
        _tables.adapters_by_type[cls] = (name, encode)
    _tables.adapters_by_name[name] = decode


_register_all(pa.Scalar, "pyarrow.scalar", _encode_scalar, _decode_scalar)
_register_all(pa.DataType, "pyarrow.type", _encode_type, _decode_type)
for _class in (pa.ExtensionType, pa.ExtensionScalar):  # and what users derive from them: the third part says so
    _tables.adapters_by_type[_class] = (*_tables.adapters_by_type[_class], "with subclasses")
register(pa.Field, name="pyarrow.field", encode=_encode_field, decode=_decode_field)


# ── Buffers ──────────────────────────────────────────────────────────────────────────────────────────────────


def _encode_buffer(buffer: Any) -> memoryview:
    if not buffer.is_cpu:
        raise NotImplementedError("a pyarrow.Buffer in device memory")
    return memoryview(buffer)


def _decode_buffer(value: object) -> Any:
    return pa.py_buffer(_of(value, memoryview, "pyarrow.buffer"))


_register_all(pa.Buffer, "pyarrow.buffer", _encode_buffer, _decode_buffer)


# ── Metadata, intervals, tensors ─────────────────────────────────────────────────────────────────────────────


def _encode_metadata(metadata: Any) -> list[tuple[bytes, bytes]]:
    return list(metadata.items())


def _decode_metadata(value: object) -> Any:
    pairs = [_of(pair, tuple, "pyarrow.metadata") for pair in _of(value, list, "pyarrow.metadata")]
    return pa.KeyValueMetadata(
        [(_of(k, bytes, "pyarrow.metadata"), _of(v, bytes, "pyarrow.metadata")) for k, v in pairs]
    )


def _decode_month_day_nano(value: Any) -> Any:
    return pa.MonthDayNano([_of(part, int, "pyarrow.month_day_nano") for part in _of(value, tuple, "pyarrow.month_day_nano")])


def _encode_tensor(tensor: Any) -> tuple[Any, list[str]]:
    return tensor.to_numpy(), list(tensor.dim_names)


def _decode_tensor(value: Any) -> Any:
    array, names = value
    return pa.Tensor.from_numpy(array, dim_names=[_of(name, str, "pyarrow.tensor") for name in names] or None)


register(pa.KeyValueMetadata, name="pyarrow.metadata", encode=_encode_metadata, decode=_decode_metadata)
register(pa.MonthDayNano, name="pyarrow.month_day_nano", encode=tuple, decode=_decode_month_day_nano)
register(pa.Tensor, name="pyarrow.tensor", encode=_encode_tensor, decode=_decode_tensor)


# ── pyarrow.fs.FileInfo ──────────────────────────────────────────────────────────────────────────────────────

try:
    from pyarrow.fs import FileInfo, FileSelector, FileType
except ImportError:  # pyarrow without its file systems
    pass
else:

    def _encode_file_info(info: Any) -> tuple[str, int, int | None, int | None]:
        return info.path, int(info.type), info.size, info.mtime_ns

    def _decode_file_info(value: Any) -> Any:
        path, kind, size, mtime_ns = value
        for number in (size, mtime_ns):
            if number is not None:
                _of(number, int, "pyarrow.file_info")
        return FileInfo(
            _of(path, str, "pyarrow.file_info"),
            FileType(_of(kind, int, "pyarrow.file_info")),
            mtime_ns=mtime_ns,
            size=size,
        )

    def _decode_file_selector(value: Any) -> Any:
        base, allow_not_found, recursive = value
        return FileSelector(_of(base, str, "pyarrow.file_selector"), bool(allow_not_found), bool(recursive))

    register(FileInfo, name="pyarrow.file_info", encode=_encode_file_info, decode=_decode_file_info)
    register(FileType, name="pyarrow.file_type", encode=int, decode=lambda kind: FileType(_of(kind, int, "pyarrow.file_type")))
    register(FileSelector, name="pyarrow.file_selector", encode=lambda s: (s.base_dir, s.allow_not_found, s.recursive), decode=_decode_file_selector)
