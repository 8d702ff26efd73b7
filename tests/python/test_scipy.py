"""SciPy: sparse containers of all formats, splines, frozen distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import transload

sp = pytest.importorskip("scipy.sparse")

from support import objects_scipy as objects  # noqa: E402
from support.same import difference  # noqa: E402
from support.trips import host, host_readonly  # noqa: E402

_ALL = dict(objects.objects())


@pytest.mark.parametrize("label", _ALL)
def test_object_arrives_whole(label: str) -> None:
    assert difference(_ALL[label], host(_ALL[label])) is None


@pytest.mark.parametrize("form", objects.FORMATS)
def test_product_from_read_only_frames(form: str) -> None:
    matrix = getattr(sp, f"{form}_array")(sp.random_array((30, 20), density=0.2, random_state=1))
    assert np.array_equal(host_readonly(matrix) @ np.ones(20), matrix @ np.ones(20))


def test_flags_and_duplicates_are_kept() -> None:
    arrived = host(_ALL["csr_array duplicates"])
    assert arrived.nnz == 5 and arrived.indices.dtype == np.int64
    assert not arrived.has_canonical_format and not arrived.has_sorted_indices


def test_arrays_of_a_csr_are_frames_of_its_own_memory() -> None:
    matrix = sp.random_array((1000, 1000), density=0.1, format="csr")
    frames = transload.dumps(matrix, families=("host",))[1:]
    assert np.shares_memory(np.frombuffer(frames[-1], matrix.data.dtype), matrix.data) or np.shares_memory(np.frombuffer(frames[0], matrix.data.dtype), matrix.data)


@pytest.mark.parametrize(
    ("form", "part", "value"),
    [
        ("csr", "indices", np.array([0, 1, 99], "i4")), ("csr", "indices", np.array([0, -1, 1], "i4")), ("csr", "indptr", np.array([0, 2, 1, 3], "i4")),
        ("csr", "indptr", np.array([0, 1, 2, 10**6], "i4")), ("csr", "indptr", np.array([1, 1, 2, 3], "i4")), ("csr", "indptr", np.array([0, 3], "i4")),
        ("csr", "data", np.ones(1)), ("csr", "_shape", (3, -4)), ("csr", "_shape", (3, 2**70)), ("csr", "indices", np.zeros(3)),
        ("csc", "indices", np.array([0, 1, 99], "i4")), ("bsr", "data", np.ones((3, 0, 1))), ("bsr", "indices", np.array([0, 1, 99], "i4")), ("coo", "coords", (np.zeros(3, "i4"), np.full(3, 9, "i4"))),
        ("coo", "coords", (np.zeros(3, "i4"),)), ("dia", "offsets", np.zeros(7, "i4")), ("lil", "rows", np.array([[0], [1], [99]], object)), ("lil", "data", np.array([1, 2, 3], object)),
    ],
)
def test_container_that_points_outside_is_refused(form: str, part: str, value: Any) -> None:
    matrix = getattr(sp, f"{form}_array")(np.eye(3, 4))
    if form == "lil" and part == "rows":
        value = np.empty(3, object)
        value[:] = [[0], [1], [99]]
    matrix.__dict__[part] = value
    message = transload.dumps(matrix, families=("host",))
    with pytest.raises(transload.Malformed):
        transload.loads(message)


@pytest.mark.parametrize("value", [(np.arange(8.0), np.ones(1), 3, True, 0), (np.arange(8.0)[::-1], np.ones(8), 3, True, 0), (np.arange(8.0), np.ones(8), 10**9, True, 0), (np.arange(8.0), np.ones(8), 3, "x", 0)])
def test_spline_that_points_outside_is_refused(value: Any) -> None:
    from transload import _tables

    host(_ALL["spline"])
    with pytest.raises(ValueError):
        _tables.adapters_by_name["scipy.BSpline"](value)


@pytest.mark.parametrize("name", ["norm.__class__", "__name__", "linalg", "test", "norm_gen"])
def test_frozen_takes_names_of_distributions_only(name: str) -> None:
    from transload import _tables

    host(_ALL["frozen"])
    with pytest.raises(ValueError):
        _tables.adapters_by_name["scipy.frozen"]((name, (), {}))
