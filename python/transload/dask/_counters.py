"""What crossed this process's border, and how: one table of counters per process.

Three instruments fill it, each at the one place that every byte of its kind passes:

- `data`: each value that Dask hands to a serializer (a result, a scattered or spilled value, an actor's argument),
  whichever serializer took it;
- `own`: each call of Dask's own pickler that no value asked for: task graphs, functions, exceptions, class names;
- `wire`: what `distributed.comm.tcp` wrote, every message of any kind.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any

__all__ = ["Counters", "counters", "on_road", "own_kind", "road", "value_pickles"]

FIELDS = ("objects", "messages", "frames", "nbytes", "pickled")

road: ContextVar[str | None] = ContextVar("transload_road", default=None)
"""The road that the running call is on ("scatter", "gather", "actor", ...), where the plug-in knows it."""

_inside = threading.local()


@contextlib.contextmanager
def on_road(name: str) -> Iterator[None]:
    """Name the road of every value that is encoded inside the block."""
    token = road.set(name)
    try:
        yield
    finally:
        road.reset(token)


@contextlib.contextmanager
def value_pickles() -> Iterator[list[int]]:
    """Count the calls of Dask's pickler that the block's value causes; yields `[calls]`.

    Pickles of a class (Dask writes one into each of its headers) are not the value's.
    """
    before, _inside.cell = getattr(_inside, "cell", None), [0]
    try:
        yield _inside.cell
    finally:
        _inside.cell = before


def pickled_by_dask(value: object, nbytes: int, kind: str | None = None) -> None:
    """Note one call of Dask's pickler."""
    cell = getattr(_inside, "cell", None)
    if isinstance(value, type):
        counters.own("classes", nbytes)
    elif cell is not None:
        cell[0] += 1
    else:
        counters.own(kind or own_kind(value), nbytes)


def own_kind(value: object) -> str:
    """Sort what Dask pickles for itself: "exceptions", "functions", "graphs" or "control"."""
    if isinstance(value, (BaseException, TracebackType)):
        return "exceptions"
    top = str(type(value).__module__).partition(".")[0]
    if top in ("dask", "distributed"):
        return "functions" if type(value).__name__.endswith("Plugin") else "graphs"
    if callable(value):
        return "functions"
    return "control"


class Counters:
    """Counts of one process; thread-safe.

    `data` maps (way, road, family) to counts in the order of `FIELDS`, where way is "encode" or "decode" and family is
    what the header says: "transload:host", "transload:host+pickle", or Dask's "dask", "pickle", "dask+pickle", "error".
    `objects` are values as the user knows them, `messages` the pieces they were encoded in (Dask makes one of each
    element of a collection), `pickled` the objects of which any part was pickled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._data: dict[tuple[str, str, str], list[int]] = {}
            self._own: dict[str, list[int]] = {}
            self._wire = [0, 0]

    def data(
        self,
        way: str,
        on: str,
        family: str,
        *,
        messages: int = 1,
        frames: int = 0,
        nbytes: int = 0,
        pickled: bool = False,
    ) -> None:
        with self._lock:
            row = self._data.setdefault((way, on, family), [0] * len(FIELDS))
            for i, n in enumerate((1, messages, frames, nbytes, int(pickled))):
                row[i] += n

    def own(self, kind: str, nbytes: int) -> None:
        with self._lock:
            row = self._own.setdefault(kind, [0, 0])
            row[0] += 1
            row[1] += nbytes

    def wire(self, nbytes: int) -> None:
        with self._lock:
            self._wire[0] += 1
            self._wire[1] += nbytes

    def snapshot(self) -> dict[str, Any]:
        """Return the counts as plain lists and dicts: `{"data": [[way, road, family, *counts]], "own": …, "wire": …}`."""
        with self._lock:
            return {
                "data": [[*key, *row] for key, row in sorted(self._data.items())],
                "own": {kind: list(row) for kind, row in sorted(self._own.items())},
                "wire": list(self._wire),
            }


counters = Counters()
"""The counters of this process."""
