"""NumPy: arrays of every dtype and layout, scalars, dtypes, masked and record arrays, generators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

DTYPES = ("?", "i1", "u1", "i2", ">u2", "i4", "u4", "<i8", ">i8", "u8", "f2", "f4", ">f4", "f8", "g", "c8", ">c16", "S5", "U3", "M8[s]", "M8[ns]", "m8[D]", "V6")


def objects() -> Iterator[tuple[str, Any]]:
    """All of them with a label."""
    for dtype in DTYPES:
        for n in (0, 3, 20_000):
            yield f"{dtype} {n}", np.zeros(n, dtype)
    base = np.arange(60.0).reshape(3, 4, 5)
    yield "layouts", [base, base.T, np.asfortranarray(base), base[::-1], base[:, ::2], base[..., 1], np.broadcast_to(base[0], (2, 4, 5)), np.arange(1000.0)[100:110], np.array(1.5), np.zeros((0, 3))]
    readonly = np.arange(10)
    readonly.flags.writeable = False
    yield "read-only", [readonly, readonly[2:5]]
    yield "shared", [base, base, base[0], base.ravel()[5:]]
    yield "structured", [np.zeros(3, "i4,f8"), np.zeros(2, np.dtype([("a", "i1"), ("b", "f8", (2, 2))], align=True)), np.rec.array([(1, 2.0)], dtype="i4,f8"), np.zeros(2, "i4,f8")[0]]
    yield "objects", [np.array([None, "x", [1]], object), np.empty((2, 2), object), np.array([np.arange(3), {"a": 1}], object)]
    yield "strings", np.array(["a", "", "long" * 40], np.dtypes.StringDType())
    yield "scalars", [np.float32(1.5), np.int64(-3), np.bool_(True), np.complex64(1j), np.datetime64("2024-01-01"), np.timedelta64(3, "s"), np.str_("s"), np.bytes_(b"b"), np.longdouble(1) / 3]
    yield "dtypes", [np.dtype("i4"), np.dtype(">f8"), np.dtype("i4,f8"), np.dtype([("a", "O")]), np.dtype(("f4", (2, 3))), np.dtype("M8[25s]"), np.dtypes.StringDType(na_object=None)]
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0], fill_value=-1)
    masked.harden_mask()
    yield "masked", [masked, np.ma.masked, np.ma.array([[1, 2]], mask=False)]
    yield "generators", [np.random.default_rng(1), np.random.RandomState(2), np.random.Generator(np.random.Philox(3)), np.random.MT19937(4)]
    yield "functions", [np.log1p, np.add, np.float64]
