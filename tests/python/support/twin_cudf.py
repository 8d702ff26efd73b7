"""cuDF's columns over host memory, on a machine without a GPU: nothing that runs on a device may be asked of them."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("RAPIDS_NO_INITIALIZE", "1")

import cudf
import numpy as np
import pandas as pd
import pyarrow as pa
import pylibcudf as plc
import pytest
from cudf.core.buffer import as_buffer
from cudf.core.column import ColumnBase
from cudf.core.column_accessor import ColumnAccessor
from cudf.utils.dtypes import dtype_to_pylibcudf_type

from transload import _core
from transload.adapters import cudf as adapter
from transload.adapters import cudf_host


class Span:
    """Host memory that says it is a GPU's."""

    def __init__(self, array: Any, owner: Any = None) -> None:
        self.array, self.owner_of_it = array, owner

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self.array.nbytes,), "typestr": "|u1", "strides": None, "data": (self.array.ctypes.data, False)}


def buffer_of(memory: Any) -> Any:
    """A cuDF buffer over bytes; they are padded as rmm's are."""
    content = np.frombuffer(memory, np.uint8) if memory is not None and len(memory) else np.zeros(0, np.uint8)
    return as_buffer(Span(np.concatenate([content, np.zeros(-len(content) % 64, np.uint8)])))


_UNITS = {"s": "SECONDS", "ms": "MILLISECONDS", "us": "MICROSECONDS", "ns": "NANOSECONDS"}


def _kind(t: Any) -> Any:
    ids = plc.TypeId
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        return plc.DataType(ids[f"{'TIMESTAMP' if pa.types.is_timestamp(t) else 'DURATION'}_{_UNITS[t.unit]}"])
    if pa.types.is_decimal(t):
        return plc.DataType(ids[f"DECIMAL{t.bit_width}"], -t.scale)
    if pa.types.is_boolean(t):
        return plc.DataType(ids.BOOL8)
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return plc.DataType(ids.STRING)
    if pa.types.is_list(t):
        return plc.DataType(ids.LIST)
    if pa.types.is_struct(t):
        return plc.DataType(ids.STRUCT)
    name = str(t).upper()
    return plc.DataType(ids[{"FLOAT": "FLOAT32", "DOUBLE": "FLOAT64"}.get(name, name)])


def plc_column(array: Any, make: Any = buffer_of) -> Any:
    """pylibcudf's column of an Arrow array, in the layout of libcudf. A slice of items of one size stays one."""
    t, n, offset = array.type, len(array), array.offset
    children: list[Any] = []
    data = None
    mask = make(array.buffers()[0]) if array.buffers()[0] is not None else None
    if pa.types.is_boolean(t):
        bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")[: n + offset]
        data = make(bits.tobytes())
    elif pa.types.is_string(t) or pa.types.is_large_string(t):
        assert offset == 0
        item = 8 if pa.types.is_large_string(t) else 4
        if array.buffers()[1] is not None and n:
            offsets = np.frombuffer(array.buffers()[1], f"i{item}")[: n + 1]
            children = [plc.Column(plc.DataType(plc.TypeId[f"INT{item * 8}"]), n + 1, make(offsets.tobytes()), None, 0, 0, [])]
        data = make(array.buffers()[2])
    elif pa.types.is_list(t):
        assert offset == 0
        offsets = np.frombuffer(array.buffers()[1], "i4")[: n + 1] if n else np.zeros(1, "i4")
        children = [plc.Column(plc.DataType(plc.TypeId.INT32), n + 1, make(offsets.tobytes()), None, 0, 0, []), plc_column(array.values, make)]
    elif pa.types.is_struct(t):
        children = [plc_column(array.field(i), make) for i in range(t.num_fields)]
    elif array.buffers()[1] is not None:
        data = make(array.buffers()[1])
    return plc.Column(_kind(t), n, data, mask, array.null_count, offset if not pa.types.is_struct(t) else 0, children)


def column(array: Any, dtype: Any = None) -> Any:
    """A column of cuDF; the dtype is that of the Arrow type where none is said."""
    if dtype is None:
        dtype = cudf.utils.dtypes.cudf_dtype_from_pa_type(array.type)
    return ColumnBase.create(plc_column(array), dtype)


def category(values: Any, categories: Any, ordered: Any = False) -> Any:
    """A categorical column: codes with nulls where `values` has None."""
    dtype = cudf.CategoricalDtype(ordered=ordered)
    dtype._categories = categories
    codes = pa.array(values, pa.from_numpy_dtype(dtype._codes_dtype))
    return ColumnBase.create(plc_column(codes), dtype)


def index(column_: Any, name: Any = None, cls: Any = None, freq: Any = None) -> Any:
    cls = cls or cudf.Index
    made = object.__new__(cls)
    made._data = ColumnAccessor({name: column_}, verify=False)
    if cls is cudf.DatetimeIndex:
        made._freq = freq
    return made


def frame(columns: dict[Any, Any], index_: Any = None, **axis: Any) -> Any:
    return cudf.DataFrame._from_data(ColumnAccessor(columns, **axis), index=index_)


def series(column_: Any, name: Any = None, index_: Any = None) -> Any:
    return cudf.Series._from_data({name: column_}, index=index_)


def tree(column_: Any) -> Any:
    """All that a column is, in values: type, nulls, and the bytes that its rows show."""
    kind = column_.type()
    name, size, offset = kind.id().name, column_.size(), column_.offset()
    item = adapter._item_size(kind)
    mask = column_.null_mask()
    valid = [True] * size
    if mask is not None:
        valid = np.unpackbits(_content(mask), bitorder="little")[offset : offset + size].astype(bool).tolist()
    data = column_.data()
    if item and size:
        rows = _content(data)[offset * item : (offset + size) * item].reshape(size, item)
        shown: Any = [bytes(row) if ok else None for row, ok in zip(rows, valid, strict=True)]
    else:
        shown = valid
    content = b"" if data is None or item else bytes(_content(data)).rstrip(b"\0")
    return name, kind.scale(), size, column_.null_count(), shown, content, [tree(child) for child in column_.children()]


def _content(buffer: Any) -> Any:
    import ctypes

    return np.frombuffer((ctypes.c_uint8 * buffer.size).from_address(buffer.ptr), np.uint8) if buffer.size else np.zeros(0, np.uint8)


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Host memory stands in for the current device's, also on arrival: cuDF's objects come back, over host memory."""
    monkeypatch.setattr(_core, "current_device", lambda: _core.HOST_TWIN)
    monkeypatch.setattr(adapter, "on_host", lambda memory: False)
    known = adapter._internals()

    class Seen:
        def __init__(self, memory: Any) -> None:
            self.owner = memory

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"version": 3, "shape": (self.owner.nbytes,), "typestr": "|u1", "strides": None, "data": (self.owner.pointer, False)}

    def as_seen(memory: Any) -> Any:
        if type(memory) is not _core.DeviceMemory:
            return as_buffer(memory)
        found = as_buffer(Seen(memory))
        if type(found.owner.owner) is Seen:
            found.owner._owner = memory
        return found

    monkeypatch.setattr(known, "as_buffer", as_seen)
    monkeypatch.setattr(adapter, "_view", lambda memory: plc.gpumemoryview(Seen(memory)))
    return known


@pytest.fixture
def host_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host memory stands in for the current device's when it is sent; it arrives as pandas and pyarrow objects."""
    monkeypatch.setattr(_core, "current_device", lambda: _core.HOST_TWIN)


__all__ = ["adapter", "buffer_of", "category", "cudf_host", "dtype_to_pylibcudf_type", "pd"]
