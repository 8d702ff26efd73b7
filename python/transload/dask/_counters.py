"""What crossed this process's border, and how: one table of counters per process.

Four instruments fill it, each at the one place that every byte of its kind passes:

- `data`: each value that Dask hands to a serializer (a result, a scattered or spilled value, an actor's argument),
  whichever serializer took it;
- `packed_by_dask`: each frame of such a value that Dask's own compression has seen;
- `own`: each call of Dask's own pickler that no value asked for: task graphs, functions, exceptions, class names;
- `wire`: what `distributed.comm.tcp` and `transload://` wrote, every message of any kind;
- `links`: the connections of `transload://`: by which path, what went over it, and why no better one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

from distributed.comm.addressing import get_address_host

from .. import _core

__all__ = [
    "Counters",
    "Links",
    "add_row",
    "counters",
    "end_links",
    "links",
    "members",
    "offered",
    "on_road",
    "own_kind",
    "packed_by_dask",
    "peer_host",
    "plain_reason",
    "road",
    "value_pickles",
]

FIELDS = ("objects", "messages", "frames", "nbytes", "pickled", "stored")

members: weakref.WeakSet[Any] = weakref.WeakSet()
"""Schedulers and workers of this process with transload on; where there is one, the cluster sees what is counted here."""

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


def offered(row: tuple[str, str, str], header: dict[str, Any], frames: Sequence[Any]) -> None:
    """Note that Dask may compress these frames of a value next, in this order and in this thread."""
    marks = header.get("compression") or [None] * len(frames)
    _inside.row = row
    _inside.offered = deque(id(frame) for frame, mark in zip(frames, marks, strict=True) if mark is None)


def packed_by_dask(frame: Any, nbytes: int) -> None:
    """Note that Dask made `nbytes` bytes of `frame`; counts where the frame is the next one of those that were offered."""
    waiting = getattr(_inside, "offered", None)
    if waiting and waiting[0] == id(frame):
        waiting.popleft()
        if saved := _core.frames_nbytes((frame,)) - nbytes:
            counters.saved(_inside.row, saved)


class Counters:
    """Counts of one process; thread-safe.

    `data` maps (way, road, family) to counts in the order of `FIELDS`, where way is "encode" or "decode" and family is
    what the header says: "transload:host", "transload:host+pickle", or Dask's "dask", "pickle", "dask+pickle", "error".
    `objects` are values as the user knows them, `messages` the pieces they were encoded in (Dask makes one of each
    element of a collection), `pickled` the objects of which any part was pickled; `nbytes` are bytes before compression,
    `stored` those that were sent or spilled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._data: dict[tuple[str, str, str], list[int]] = {}
            self._own: dict[str, list[int]] = {}
            self._wire = [0, 0]
        links.reset()

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
        stored: int | None = None,
    ) -> None:
        with self._lock:
            row = self._data.setdefault((way, on, family), [0] * len(FIELDS))
            row[0] += 1
            row[1] += messages
            row[2] += frames
            row[3] += nbytes
            row[4] += pickled
            row[5] += nbytes if stored is None else stored

    def saved(self, row: tuple[str, str, str], nbytes: int) -> None:
        """Take what Dask's compression saved off the bytes of a row."""
        with self._lock:
            if row in self._data:  # else the counters were reset in between
                self._data[row][FIELDS.index("stored")] -= nbytes

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
        """Return the counts as lists and dicts: `{"data": [[way, road, family, *counts]], "own": …, "wire": …, …}`.

        Under "process" stands a name of this process that no other has, in containers with the same ids neither.
        """
        with self._lock:
            return {
                "process": f"{_token}-{os.getpid()}",
                "data": [[*key, *row] for key, row in sorted(self._data.items())],
                "own": {kind: list(row) for kind, row in sorted(self._own.items())},
                "wire": list(self._wire),
                "links": links.rows(),
                "accepted": links.rows("accepted"),
            }


LINK_FIELDS = (
    "messages_sent",
    "messages_received",
    "nbytes_sent",
    "nbytes_received",
    "nbytes_copied",
    "seconds_sending",
    "seconds_receiving",
)
"""What is added up for each peer and path, as `comm.extra_info` names it. Bytes are those of frames."""

MOST_ENDED = 1000
"""Rows of connections that have ended; where there are more, the oldest are added to a row of their host."""


def peer_host(peer: str) -> str:
    """Return the host of a row's peer, which is an address or a host."""
    return get_address_host(peer) if "://" in peer else peer


def plain_reason(text: str) -> tuple[str, str]:
    """Return (what was refused, why) of a row's reason; one with addresses or numbers is "failed"."""
    choice, _, reason = text.partition(": ")
    reason = reason.partition(":")[0]
    return choice, "failed" if any(c.isdigit() for c in reason) else reason


class Links:
    """Connections of `transload://` that this process has, added up by side, peer and path; thread-safe.

    Sides: "opened" by this process; "accepted" from a peer that only knows its own counts (a client); "mirrored":
    accepted from a worker or scheduler, where the cluster sees them as opened. Who opened a connection knows the peer by
    an address that stays; of the others the host is noted, as their ports are new each time. Addresses of those that come
    and go stay for a while: `MOST_ENDED`.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the collector may end a connection while we look
        self._tokens = itertools.count()
        # The last are the counts that are not to be told: of before a reset.
        self._open: dict[int, tuple[str, str, Callable[[], dict[str, Any]], dict[str, Any]]] = {}
        self._ended: dict[_Key, dict[str, Any]] = {}

    def opened(self, peer: str, stats: Callable[[], dict[str, Any]]) -> int:
        """Note a connection, whose counts `stats` tells until `ended` is called with the token that is returned."""
        return self._note("opened", peer, stats)

    def accepted(self, host: str, counted: bool, stats: Callable[[], dict[str, Any]]) -> int:
        """Note a connection that a peer on `host` opened, `counted` there or not, as `opened` does."""
        return self._note("mirrored" if counted else "accepted", host, stats)

    def _note(self, side: str, peer: str, stats: Callable[[], dict[str, Any]]) -> int:
        with self._lock:
            token = next(self._tokens)
            self._open[token] = (side, peer, stats, dict.fromkeys(LINK_FIELDS, 0))
            return token

    def ended(self, token: int) -> None:
        with self._lock:
            side, peer, stats, before = self._open.pop(token)
            key, row = _row_of(side, peer, stats(), before)
            add_row(self._ended, key, row)
            self._ended[key] = self._ended.pop(key)  # the latest stands last
            if len(self._ended) > MOST_ENDED:
                self._fold()

    def _fold(self) -> None:
        """Add the oldest tenth of the rows of addresses to rows of their hosts."""
        addresses = [key for key in list(self._ended) if "://" in key[1]]
        for side, peer, path in addresses[: MOST_ENDED // 10]:
            row = self._ended.pop((side, peer, path))
            reasons: dict[str, int] = {}
            for text, n in row["reasons"].items():
                plain = ": ".join(plain_reason(text))
                reasons[plain] = reasons.get(plain, 0) + n
            add_row(self._ended, (side, peer_host(peer), path), {**row, "reasons": reasons})

    def reset(self) -> None:
        with self._lock:
            self._ended.clear()
            for _, _, stats, before in list(self._open.values()):
                now = stats()
                before.update({name: now[name] for name in LINK_FIELDS})

    def rows(self, *sides: str) -> list[dict[str, Any]]:
        """Return a row for each peer and path of `sides` (none given: "opened").

        Each has what went over, connections, streams, and `reasons` why no better path was taken, each with the number of
        connections.
        """
        sides = sides or ("opened",)
        found: dict[_Key, dict[str, Any]] = {}
        with self._lock:
            for key, row in self._ended.copy().items():
                if key[0] in sides:
                    add_row(found, key, row)
            for side, peer, stats, before in list(self._open.values()):
                if side in sides:
                    add_row(found, *_row_of(side, peer, stats(), before))
        return [{"peer": peer, "path": path, **found[side, peer, path]} for side, peer, path in sorted(found)]


_Key = tuple[str, str, str]  # side, peer, path
_K = TypeVar("_K")


def _row_of(side: str, peer: str, stats: dict[str, Any], before: dict[str, Any]) -> tuple[_Key, dict[str, Any]]:
    """Return the row of one connection."""
    refused = {f"{choice}: {reason}" for _, choice, reason, taken in stats["decisions"] if reason and not taken}
    counts = {name: stats[name] - before[name] for name in LINK_FIELDS}
    row = {"connections": 1, "streams": stats["streams"], **counts, "reasons": dict.fromkeys(sorted(refused), 1)}
    return (side, peer, stats["path"]), row


def add_row(rows: dict[_K, dict[str, Any]], key: _K, more: dict[str, Any]) -> None:
    """Add the counts of a row to those of `rows[key]`; `more` stays as it is."""
    nothing = {"connections": 0, "streams": 0, **dict.fromkeys(LINK_FIELDS, 0), "reasons": {}}
    row = rows.setdefault(key, nothing)
    row["streams"] = max(row["streams"], more["streams"])
    for name in ("connections", *LINK_FIELDS):
        row[name] += more[name]
    for text, n in more["reasons"].items():
        row["reasons"][text] = row["reasons"].get(text, 0) + n


links = Links()
"""The connections of this process."""


def end_links(tokens: list[int]) -> None:
    """End those of `links` whose tokens are in the list, and empty it."""
    while tokens:
        links.ended(tokens.pop())


_token = uuid.uuid4().hex

counters = Counters()
"""The counters of this process."""
