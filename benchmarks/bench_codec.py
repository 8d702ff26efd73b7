"""Dask's message codec: transload's drop-in beside `distributed.protocol`'s own, on the same messages. The bytes are the same.

    python benchmarks/bench_codec.py [--runs 15] [--json FOLDER]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tables
from distributed.protocol import dumps, loads, to_serialize
from rivals import Call, interleaved, keep, parser, result, summary

from transload.dask import codec

CONTEXT = {"compression": None, "pickle-protocol": 5}


def messages() -> dict[str, tuple[Any, int]]:
    """What makes each message, and how often it is timed in one shot."""
    kilobyte = np.arange(128.0)
    state = {"op": "task-finished", "nbytes": 8, "typename": "float", "metadata": {}, "thread": 1}
    return {
        "array of 1 KiB": (lambda: {"op": "put", "x": to_serialize(kilobyte)}, 500),
        "ping": (lambda: {"op": "ping", "reply": True}, 500),
        "100 task states": (lambda: [{**state, "key": ("x", i)} for i in range(100)], 20),
        "a list of 100 arrays": (lambda: {"x": to_serialize([kilobyte] * 100)}, 20),
    }


def main() -> None:
    chosen = parser(__doc__, 15).parse_args()
    rows = []
    for name, (make, number) in messages().items():
        ours, theirs = codec.dumps(make(), context=CONTEXT), dumps(make(), context=CONTEXT)
        assert [bytes(frame) for frame in ours] == [bytes(frame) for frame in theirs]
        calls = {
            "ours, dumps": Call(lambda make: codec.dumps(make(), context=CONTEXT), make),
            "Dask, dumps": Call(lambda make: dumps(make(), context=CONTEXT), make),
            "ours, loads": Call(codec.loads, ours),
            "Dask, loads": Call(loads, theirs),
        }
        seconds = interleaved(calls, chosen.runs, number=number, clock=chosen.clock)
        both = {who: summary([a + b for a, b in zip(seconds[f"{who}, dumps"], seconds[f"{who}, loads"], strict=True)]) for who in ("ours", "Dask")}
        rows.append({"name": name, "both": both, **{call: summary(seconds[call]) for call in calls}})
    found = result("codec", chosen.runs, chosen.clock, rows=rows)
    print(tables.heading(found))
    print(tables.codec(found))
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
