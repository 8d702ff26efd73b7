"""Golden containers: what was written once is read for ever."""

import sys
from pathlib import Path

import numpy as np
import pytest

import transload
from transload._files import read

DATA = Path(__file__).parents[1] / "data"
sys.path.insert(0, str(DATA / "v1"))
import golden  # noqa: E402


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and a.flags.writeable == b.flags.writeable
        assert (a.flags.f_contiguous, a.flags.c_contiguous) == (b.flags.f_contiguous, b.flags.c_contiguous) or a.base is not None
        assert np.array_equal(a, b)
    elif isinstance(a, np.dtype):
        assert a == b
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize("name", [n for n in golden.OBJECTS if n != "cycle"])
def test_a_golden_container_gives_its_object(name):
    same(transload.load(DATA / "v1" / f"{name}.tld"), golden.OBJECTS[name]())


def test_a_golden_cycle_is_a_cycle():
    ring, knot = transload.load(DATA / "v1" / "cycle.tld")
    assert ring[0] is ring
    assert type(knot) is tuple and knot[0][0] is knot


def test_shared_objects_of_a_golden_container_are_one():
    value = transload.load(DATA / "v1" / "containers.tld")
    assert value["list"] is value["again"]


def test_a_golden_container_has_frames_of_each_codec():
    message = read(DATA / "v1" / "compressed.tld")
    assert message.codecs == ("lz4", "zstd", None)
    assert len(message.checksums) == 3
