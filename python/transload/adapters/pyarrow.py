"""Adapters for pyarrow.

Tables, batches, chunked arrays, arrays and schemas are written by the walk itself (bindings/arrow.cpp) through the PyCapsule protocol:
the entries below name only the kind. Scalars, types, fields and buffers become one of those, or bytes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .. import _tables
from .._registry import register


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
    return pa.schema([field])


def _decode_field(value: object) -> Any:
    schema = _of(value, pa.Schema, "pyarrow.field")
    if len(schema) != 1:
        raise ValueError(f"pyarrow.field: {len(schema)} fields")
    return schema.field(0)


def _encode_type(type_: Any) -> Any:
    return pa.schema([pa.field("", type_)])


def _decode_type(value: object) -> Any:
    return _decode_field(value).type


def _register_all(base: type, name: str, encode: Any, decode: Any) -> None:
    for cls in _classes(base):
        _tables.adapters_by_type[cls] = (name, encode)
    _tables.adapters_by_name[name] = decode


_register_all(pa.Scalar, "pyarrow.scalar", _encode_scalar, _decode_scalar)
_register_all(pa.DataType, "pyarrow.type", _encode_type, _decode_type)
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
    from pyarrow.fs import FileInfo, FileType
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

    register(FileInfo, name="pyarrow.file_info", encode=_encode_file_info, decode=_decode_file_info)
