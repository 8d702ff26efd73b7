"""The walk over Python objects alone, kind by kind: 10 000 of each, through `_core.encode` and `_core.decode`, beside pickle 5.

    python benchmarks/bench_walk.py [--runs 21] [--json FOLDER]

Every object has one owner, the list, unless the row says otherwise: shared ones cost a memo on both sides.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import payloads
import tables
from rivals import Call, Pickle5, arrived, interleaved, keep, nbytes, parser, result, summary

import transload
from transload import _core

N = 10_000
RNG = np.random.default_rng(0)


class Walk:
    name = "transload"

    def dumps(self, obj: object) -> list[Any]:
        header, frames, _ = _core.encode(obj, ("host",))
        return [header, *frames]

    def loads(self, frames: list[Any]) -> Any:
        return _core.decode(frames[0], frames[1:], ("host",))


ROWS: dict[str, Callable[[int], Any]] = {
    "None": lambda i: None,
    "int below 128": lambda i: i % 128,
    "int of 32 bits": lambda i: 10**9 + i,
    "int of 100 bits": lambda i: 2**100 + i,
    "float among ints": lambda i: i * 0.5 if i else 0,
    "str of 8": lambda i: f"text{i:04}",
    "str of 100": lambda i: f"{i:0100}",
    "bytes of 8": lambda i: i.to_bytes(8, "little"),
    "empty list": lambda i: [],
    "list of 3 ints": lambda i: [i, i + 1, i + 2],
    "tuple of 3 ints": lambda i: (i, i + 1, i + 2),
    "set of 3 ints": lambda i: {i, i + 1, i + 2},
    "dict of 3, keys of its own": lambda i: {f"a{i}": i, f"b{i}": i, f"c{i}": i},
    "dict of 3, the same keys": lambda i: {"number": i, "delay": i, "carrier": i},
    "dataclass of 3": lambda i: payloads.Flight(i, i * 0.5, f"c{i}"),
    "datetime": lambda i: datetime.datetime.fromtimestamp(1e9 + i),
    "Decimal": lambda i: decimal.Decimal(i) / 8,
    "UUID": lambda i: uuid.UUID(int=i),
    "array of 4 float64": lambda i: RNG.random(4),
    "array of 64 x 16 float64": lambda i: np.zeros((64, 16)),
    "np.float64": lambda i: np.float64(i),
    "one str, shared": lambda i: "the same text",
    "one list, shared": lambda i, shared=[1, 2]: shared,
}


def main() -> None:
    chosen = parser(__doc__, 21).parse_args()
    transload.trust(payloads.Flight)
    rows = []
    for name, make in ROWS.items():
        obj = [make(i) for i in range(N)]
        calls, sizes = {}, {}
        for who in (Walk(), Pickle5()):
            frames = who.dumps(obj)
            sizes[who.name] = nbytes(frames)
            calls[who.name, "encode"], calls[who.name, "decode"] = Call(who.dumps, obj), Call(who.loads, arrived(frames))
        seconds = interleaved(calls, chosen.runs, clock=chosen.clock)
        found = {}
        for who, size in sizes.items():
            e, d = seconds[who, "encode"], seconds[who, "decode"]
            found[who] = {"encode": summary(e), "decode": summary(d), "both": summary([a + b for a, b in zip(e, d, strict=True)]), "bytes": size}
        rows.append({"name": name, "n": N, "who": found})
    found = result("walk", chosen.runs, chosen.clock, rows=rows)
    print(tables.heading(found))
    print(tables.walk(found))
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
