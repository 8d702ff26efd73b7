"""Looking at values from the bytes before an object holds them. What fails is a ValueError, which the walk turns into Malformed."""

from __future__ import annotations

from typing import Any


def need(fact: bool, what: str) -> None:
    """Raise ValueError with `what` unless `fact`."""
    if not fact:
        raise ValueError(what)


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
    if value.nbytes > _SHOWN and not value.flags.forc:
        in_memory(value, what)
    return value


# A few bytes can show one item 2**60 times over (strides of 0); looking at each, or a mask of them, would not end.
_SHOWN = 1 << 26


def memory(value: Any) -> int:
    """Bytes from the first to the last item of an array, wherever its strides put them."""
    if value.size == 0:
        return 0
    return int(value.itemsize) + sum((n - 1) * abs(stride) for n, stride in zip(value.shape, value.strides, strict=True))


def in_memory(value: Any, what: str) -> None:
    """`value`, an array, shows no more bytes than it has, or not many."""
    if value.nbytes > max(memory(value), _SHOWN):
        raise ValueError(f"{what} shows {value.nbytes} bytes of {memory(value)}")


def within(values: Any, low: int, high: int, what: str) -> None:
    """low ≤ each of `values` < high."""
    if values.size:
        least, most = int(values.min()), int(values.max())
        if least < low or most >= high:
            raise ValueError(f"{what}: from {least} to {most}, not all in [{low}, {high})")


def integer(value: Any, what: str, low: int, high: int) -> int:
    """`value`, an int from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is {value!r}, not an int from {low} to {high}")
    return value


def same_parts(state: Any, parts: tuple[str, ...], what: str) -> None:
    """`state` is a dict that has all `parts`."""
    need(type(state) is dict, f"the state of {what} is no dict")
    for part in parts:
        need(part in state, f"the state of {what} lacks {part}")
