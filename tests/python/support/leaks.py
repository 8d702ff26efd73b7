"""Walks objects many times and tells what is left behind, in a process of its own.

    python leaks.py KIND ROUNDS [MANNER...]

KIND is one of support.corpus; ROUNDS are walked four times over, a third as often where messages fail; a MANNER is `trips` (there and back), `damaged` (messages cut short at every byte, frames cut short), `refused`
(names that are not trusted, on both sides) or `broken` (objects that fail in the middle of a walk). One line a count comes out, ending in `steady` or `GROWS`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.corpus import corpus  # noqa: E402

import transload  # noqa: E402
from transload import _core, _tables  # noqa: E402

MANNERS = ("trips", "damaged", "refused", "broken")
HOST = ("host",)


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"))


def _malloc_nbytes() -> int:
    """Bytes in use of the C library's allocator, where it tells (glibc): the C++ side's memory and Python's larger blocks."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return 0
    libc.mallinfo2.restype = _Mallinfo
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def _references() -> int:
    """Reference counts of all that can be reached, added up: one that is lost on a class, None or a text leaves no object behind."""
    seen: dict[int, object] = {}
    for thing in gc.get_objects():
        seen[id(thing)] = thing
        for part in gc.get_referents(thing):
            seen[id(part)] = part
    # From 3.12 on some objects do not count. Each generator in Cython's code, pandas' for one, loses a reference to its class, by pickle as by us.
    return sum(n for thing in seen.values() if (n := sys.getrefcount(thing)) < 1 << 29 and not (isinstance(thing, type) and str(thing.__module__).startswith("_cython_")))


def counts() -> dict[str, int]:
    """What is alive now."""
    for _ in range(3):
        gc.collect()
    _core.release_pool()
    found = {"references": _references()}
    gc.collect()
    if hasattr(sys, "_clear_type_cache"):
        sys._clear_type_cache()  # keeps up to 4096 names of attributes
    return found | {"blocks": sys.getallocatedblocks(), "objects": len(gc.get_objects()), "malloc bytes": _malloc_nbytes()}


class Breaks:
    """Fails where it is encoded, or where it is rebuilt."""

    def __init__(self, there: bool) -> None:
        self.there = there

    def __getstate__(self) -> Any:
        if not self.there:
            raise RuntimeError("no state today")
        return {"there": True}

    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("no state wanted")


transload.trust(Breaks)


def _parts(thing: Any) -> list[bytes]:
    return [bytes(part) for part in transload.dumps(thing, families=HOST)]


def _refused(work: Callable[[], object]) -> None:
    with contextlib.suppress(transload.Error, RuntimeError):
        work()
        raise AssertionError("not refused")


def work(things: dict[str, Any], manner: str) -> Callable[[int], None]:
    """What is done in each round, given its number."""

    def trips(i: int) -> None:
        for thing in things.values():
            transload.loads(_parts(thing))

    def broken(i: int) -> None:
        for thing in things.values():
            _refused(lambda thing=thing: transload.dumps([thing, {"a": (thing, Breaks(False))}], families=HOST))
            _refused(lambda thing=thing: transload.loads(transload.dumps([thing, {"a": (thing, Breaks(True))}], families=HOST)))

    # logging keeps a logger for every name it was ever asked for, of damaged messages, too.
    messages = [_parts(thing) for label, thing in things.items() if label != "python: object: loggers"]

    def damaged(i: int) -> None:
        for k, parts in enumerate(messages):
            cut = (i * 7 + k) % len(parts[0])
            frame = (i + k) % max(len(parts) - 1, 1) + 1
            flipped = bytearray(parts[0])
            flipped[cut] ^= 1 << i % 8
            shorter = [part[: len(part) // 2] if f == frame else part for f, part in enumerate(parts)]
            for wrong in ([parts[0][:cut], *parts[1:]], shorter, [flipped, *parts[1:]]):
                with contextlib.suppress(transload.Error):
                    transload.loads(wrong)

    sent = [(thing, _parts(thing)) for thing in things.values()]
    named = [(thing, parts) for thing, parts in sent if any(":" in name for name in _core.inspect(parts[0])["names"])]

    def refused(i: int) -> None:
        kept = dict(_tables.trusted)
        _tables.trusted.clear()
        try:
            for thing, parts in named:
                _refused(lambda parts=parts: transload.loads(parts))
                with contextlib.suppress(transload.Error):
                    transload.dumps(thing, families=HOST)
        finally:
            _tables.trusted.update(kept)

    return {"trips": trips, "broken": broken, "damaged": damaged, "refused": refused}[manner]


def growth(done: Callable[[int], None], rounds: int) -> dict[str, int]:
    """How much more is alive after so many rounds: the least of three goes, for caches fill now and then, and leaks grow always."""
    number = 0

    def run(n: int) -> None:
        nonlocal number
        for number in range(number, number + n):
            done(number)

    run(rounds)  # the interpreter and the libraries fill caches of their own
    counts()
    goes = []
    for _ in range(3):
        before = counts()
        run(rounds)
        after = counts()
        goes.append({what: after[what] - before[what] for what in before})
    return {what: min(go[what] for go in goes) for what in goes[0]}


def main(kind: str, rounds: int, manners: Sequence[str]) -> int:
    warnings.simplefilter("ignore")
    things = dict(corpus(kind))
    wrong = 0
    for manner in manners:
        began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        n = rounds if manner == "trips" else max(rounds // 3, 20)
        for what, more in growth(work(things, manner), n).items():
            # One thing left behind a round is as many as rounds; the C library's own lists of free blocks come and go.
            allowed = n * 16 + 8192 if what == "malloc bytes" else n // 4 + 10
            wrong += more > allowed
            print(f"{kind} {manner}: {more} {what} after {n} rounds: {'steady' if more <= allowed else 'GROWS'}")
        print(f"{kind} {manner}: peak memory grew by {(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began) // 1024} MiB", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:] or MANNERS))
