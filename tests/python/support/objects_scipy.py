"""SciPy: sparse containers of all formats, and the objects that estimators hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import interpolate, stats

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


def objects() -> Iterator[tuple[str, Any]]:
    """All of them with a label."""
    base = sp.random(50, 40, 0.1, format="coo", dtype="f4", random_state=0)
    for form in FORMATS:
        for kind in ("matrix", "array"):
            yield f"{form}_{kind}", getattr(sp, f"{form}_{kind}")(base)
            yield f"{form}_{kind} empty", getattr(sp, f"{form}_{kind}")((3, 4))
    for cls in (sp.csr_matrix, sp.csr_array):
        x = cls((np.ones(5), np.array([2, 0, 1, 1, 0]), np.array([0, 2, 5])), shape=(2, 3))
        x.indices, x.indptr = x.indices.astype("i8"), x.indptr.astype("i8")
        yield f"{cls.__name__} duplicates", x
    yield "coo 1-d", sp.coo_array(np.array([0, 1, 0, 2]))
    yield "csr 1-d", sp.csr_array(np.array([0, 1, 0, 2]))
    yield "coo 3-d", sp.coo_array(np.eye(3).reshape(3, 3, 1))
    yield "complex", sp.csr_array(np.array([[1 + 2j, 0]]))
    yield "bsr blocks", sp.bsr_array(np.kron(np.eye(3), np.ones((2, 2))), blocksize=(2, 2))
    yield "lil rows", sp.lil_array(np.array([[0, 1], [2, 0]]))
    yield "spline", interpolate.BSpline(np.arange(8.0), np.arange(4.0), 3)
    yield "frozen", [stats.norm(1, 2), stats.uniform(0, 1), stats.randint(1, 5), stats.loguniform(1e-3, 1), stats.expon(), stats.gamma(2.0), stats.beta(1, 2)]
