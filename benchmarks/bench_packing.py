"""What packing a forest costs: payloads up to the limit share one frame, and are copied for it.

    python benchmarks/bench_packing.py [--runs 15] [--json FOLDER]
"""

from __future__ import annotations

import payloads
import tables
from rivals import Call, arrived, interleaved, keep, parser, result, summary

import transload
from transload import _core

LIMITS = {"nothing": 0, "64 KiB": 64 << 10, "as chosen: 64 KiB, more from 160 frames on": None, "everything": 1 << 40}


def frames_of(obj: object, limit: int | None) -> list[object]:
    header, frames, _ = _core.encode(obj, ("host",), pack_limit=limit)
    return [header, *frames]


def main() -> None:
    chosen = parser(__doc__, 15).parse_args()
    forest = payloads.forest()
    there = {name: arrived(frames_of(forest, limit)) for name, limit in LIMITS.items()}
    calls = {}
    for name, limit in LIMITS.items():
        calls[name, "encode"] = Call(lambda obj, limit=limit: frames_of(obj, limit), forest)
        calls[name, "decode"] = Call(transload.loads, there[name])
    seconds = interleaved(calls, chosen.runs, clock=chosen.clock)
    rows = []
    for name, limit in LIMITS.items():
        packed = memoryview(there[name][1]).nbytes if limit != 0 else 0
        rows.append({"limit": name, "frames": len(there[name]) - 1, "packed": packed, "encode": summary(seconds[name, "encode"]), "decode": summary(seconds[name, "decode"])})
    found = result("packing", chosen.runs, chosen.clock, rows=rows)
    print(tables.heading(found))
    print(tables.packing(found))
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
