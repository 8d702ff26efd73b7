"""Looking at values from the bytes before an object holds them. What fails is a ValueError, which the walk turns into Malformed."""

from __future__ import annotations

from typing import Any

from .. import _core

# charge(n): n bytes or items of the message, which may be named again in a few bytes, are copied; more than twice the message has is refused.
charge = _core.charge


def words(value: Any) -> str:
    """A value from the bytes, shortly: the repr of a list that names another one twice, which names a third one twice, … does not end."""
    kind = type(value)
    if kind in (str, bytes):
        return repr(value[:80]) + ("…" if len(value) > 80 else "")
    if kind in (bool, float, type(None)) or (kind is int and value.bit_length() <= 64):
        return repr(value)
    if kind is tuple and len(value) <= 64 and all(type(part) is int and part.bit_length() <= 64 for part in value):
        return repr(value)
    if kind.__module__ == "numpy.dtypes":
        return str(value)[:200]
    return f"a {kind.__qualname__}"


def need(fact: bool, what: str, *shown: Any) -> None:
    """Raise ValueError with ``what.format(…)`` of `shown` in words, unless `fact`; words cost more than most looks."""
    if not fact:
        raise ValueError(what.format(*(value if type(value) is str and len(value) < 80 else words(value) for value in shown)) if shown else what)


def ndarray(value: Any, what: str, ndim: int, kinds: str = "") -> Any:
    """`value`, an array of exactly class ndarray with `ndim` dimensions and a dtype of one of `kinds` (any when empty)."""
    import numpy as np

    # The text of a dtype costs more than the whole look, so texts are made when they are needed.
    if type(value) is not np.ndarray:
        raise ValueError(f"{what} is a {type(value).__qualname__}, not an array")  # noqa: TRY004  the bytes are wrong
    if value.ndim != ndim:
        raise ValueError(f"{what} has {value.ndim} dimensions, not {ndim}")
    if kinds and value.dtype.kind not in kinds:
        raise ValueError(f"{what} is of {value.dtype}")
    if value.nbytes > LARGE and not value.flags.forc:
        in_memory(value, what)
    return value


# A few bytes can show one item 2**60 times over (strides of 0); looking at each, or a mask of them, would not end.
LARGE = 1 << 26


def memory(value: Any) -> int:
    """Bytes from the first to the last item of an array, wherever its strides put them."""
    if value.size == 0:
        return 0
    return int(value.itemsize) + sum((n - 1) * abs(stride) for n, stride in zip(value.shape, value.strides, strict=True))


def in_memory(value: Any, what: str) -> None:
    """`value`, an array, shows no more bytes than it has, or not many."""
    if value.nbytes > LARGE and value.nbytes > memory(value):
        raise ValueError(f"{what} shows {value.nbytes} bytes of {memory(value)}")


def within(values: Any, low: int, high: int, what: str) -> None:
    """low ≤ each of `values` < high."""
    if not _core.all_within(values, low, high - 1) and values.size:
        least, most = int(values.min()), int(values.max())
        if least < low or most >= high:
            raise ValueError(f"{what}: from {least} to {most}, not all in [{low}, {high})")


def ascending(values: Any, what: str) -> None:
    """No value is below the one before it."""
    known = _core.ascending(values)
    if known is None:
        known = bool((values[1:] >= values[:-1]).all())
    if not known:
        raise ValueError(f"{what} decrease")


def integer(value: Any, what: str, low: int, high: int) -> int:
    """`value`, an int from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is {words(value)}, not an int from {low} to {high}")
    return value


_MOST_OF_LABEL = 1000


def label(value: Any, what: str) -> None:
    """A name of rows or columns, which is hashed: a tuple that names another one twice, which names a third one twice, … has a hash that does not end."""
    n, todo = 0, [value]
    while todo and n <= _MOST_OF_LABEL:
        part = todo.pop()
        n += 1
        if type(part) is tuple:
            todo.extend(part[: _MOST_OF_LABEL + 1])
    need(n <= _MOST_OF_LABEL, f"{what} of more than {_MOST_OF_LABEL} parts")
    hash(value)


def same_parts(state: Any, parts: tuple[str, ...], what: str) -> None:
    """`state` is a dict that has all `parts`."""
    need(type(state) is dict, f"the state of {what} is no dict")
    for part in parts:
        need(part in state, f"the state of {what} lacks {part}")


def compact(value: Any, what: str, dtype: Any, shape: tuple[int | None, ...]) -> Any:
    """`value`, an array as compiled code takes it by its address: of exactly class ndarray, of `dtype` in this machine's order, in C order, of `shape` (None: any)."""
    import numpy as np

    if type(value) is not np.ndarray or value.dtype != np.dtype(dtype) or not (value.flags.c_contiguous and value.flags.aligned):
        raise ValueError(f"{what} is no compact array of {dtype}")
    if len(value.shape) != len(shape) or any(n is not None and n != m for n, m in zip(shape, value.shape, strict=True)):
        raise ValueError(f"{what} has shape {value.shape}, not {shape}")
    return value
