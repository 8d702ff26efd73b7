"""The looks at arrays of integers, against NumPy's."""

import numpy as np
import pytest

from transload import _core
from transload.adapters._checks import ascending, within

INTEGERS = [np.dtype(code) for code in "bhilqBHILQ"]


def arrays(dtype):
    rng = np.random.default_rng(dtype.num)
    info = np.iinfo(dtype)
    for n in range(40):
        any_value = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        small = rng.integers(0, 100, n).astype(dtype)
        yield from (any_value, small, np.sort(any_value), np.sort(small)[::2], small[::-1], np.broadcast_to(small[:1], small[:1].shape * 3))
    yield np.array([info.min, info.max], dtype)
    yield np.frombuffer(bytes(1 + 4 * dtype.itemsize), dtype, 4, offset=1)  # off its alignment


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_look_says_what_numpy_says(dtype):
    info = np.iinfo(dtype)
    bounds = [(0, 99), (-1, 50), (info.min, info.max), (info.min + 1, info.max), (info.min, info.max - 1), (-(1 << 70), 1 << 70), (5, 4), (-5, -1)]
    told = 0
    for array in arrays(dtype):
        for least, most in bounds:
            known = _core.all_within(array, least, most)
            told += known is not None
            expected = all(least <= int(value) <= most for value in array.ravel())
            assert known is None or known == expected, (array, least, most)
            if expected:
                within(array, least, most + 1, "values")
            else:
                with pytest.raises(ValueError, match="values: from"):
                    within(array, least, most + 1, "values")
        if array.ndim == 1:
            known = _core.ascending(array)
            expected = all(a <= b for a, b in zip(array.tolist(), array.tolist()[1:], strict=False))
            assert known is None or known == expected, array
            if expected:
                ascending(array, "values")
            else:
                with pytest.raises(ValueError, match="values decrease"):
                    ascending(array, "values")
    assert told > 1000


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros(3, ">i4"), np.zeros(3, "M8[s]"), np.zeros(3, "?"), [1], None, np.zeros(2, [("a", "i4")])], ids=repr)
def test_another_kind_is_not_judged(array):
    assert _core.all_within(array, 0, 1) is None
    assert _core.ascending(array) is None


def test_a_bound_is_an_int():
    with pytest.raises(TypeError):
        _core.all_within(np.zeros(1, int), None, 1)
