"""pyarrow: arrays of every layout, and what holds them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

N = 50


def arrays() -> dict[str, Any]:
    """One array a layout, with nulls."""
    numbers = [None if i % 7 == 3 else i for i in range(N)]
    texts = [None if i is None else str(i) * (i % 20) for i in numbers]
    out = {str(t): pa.array(numbers, t) for t in (pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())}
    out |= {str(t): pa.array(texts, t) for t in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view())}
    out["bool"] = pa.array([None if i is None else i % 2 == 0 for i in numbers])
    out["null"] = pa.nulls(N)
    out["fixed binary"] = pa.array([None if i is None else b"abc" for i in numbers], pa.binary(3))
    out["decimal"] = pa.array([None if i is None else decimal.Decimal(i) for i in numbers], pa.decimal128(20, 3))
    out["timestamp"] = pa.array([None if i is None else datetime.datetime(2024, 1, 1) + datetime.timedelta(i) for i in numbers], pa.timestamp("us", "UTC"))
    out["list"] = pa.array([None if i is None else list(range(i % 4)) for i in numbers], pa.list_(pa.int32()))
    out["list view"] = pa.array([None if i is None else list(range(i % 4)) for i in numbers], pa.list_view(pa.int32()))
    out["fixed list"] = pa.array([None if i is None else [i, i] for i in numbers], pa.list_(pa.int32(), 2))
    out["struct"] = pa.array([None if i is None else {"a": i, "b": str(i)} for i in numbers])
    out["map"] = pa.array([None if i is None else [("k", i)] for i in numbers], pa.map_(pa.string(), pa.int32()))
    out["dictionary"] = pa.array(texts).dictionary_encode()
    out["run-end"] = pa.compute.run_end_encode(pa.array([i // 10 for i in range(N)])) if hasattr(pa, "compute") else pa.array([1])
    out["union"] = pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])])
    return out


def objects() -> Iterator[tuple[str, Any]]:
    """All of them with a label."""
    all_arrays = arrays()
    for name, array in all_arrays.items():
        yield name, array
        yield f"{name} slice", array[1:-1]
    table = pa.table({name: array for name, array in all_arrays.items() if len(array) == N})
    yield "table", table
    yield "table slice", [table[5:9], table[:0]]
    yield "batch", table.to_batches()[0]
    yield "chunks", [pa.chunked_array([[1, 2], [3]]), pa.chunked_array([], pa.int8())]
    yield "schema", [table.schema, table.schema.field(0), pa.list_(pa.int8())]
    yield "scalars", [array[0] for array in all_arrays.values()]
    yield "buffer", pa.py_buffer(b"x" * 3000)
