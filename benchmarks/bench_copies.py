"""What is copied and what is sent along: peak memory of encode and decode, bytes of ten rows of a large table, time of the import.

    python benchmarks/bench_copies.py [--json FOLDER]

Each peak is of a process of its own that holds the object (or the frames as a receiver has them) before the clock starts, so that 0 means: no copy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import payloads
import tables
from payloads import GiB, MiB
from rivals import DaskSerialize, DaskWorkers, Ours, Peak, Pickle5, arrived, keep, nbytes, parser, result

RIVALS = {who.name: who for who in (Ours(), Pickle5(), DaskSerialize(), DaskWorkers())}
ROOM = 16 * MiB  # of growth that is no copy of a payload: headers, and what libraries allocate on their first call
TEN_ROWS = 16_000  # bytes


def array() -> Any:
    import numpy as np

    return np.ones(128 * MiB)


LARGE: dict[str, Callable[[], Any]] = {"array of 1 GiB": array, "Arrow table of 2 GiB": lambda: payloads.table(2 * GiB)}


def child(name: str, who: str, what: str) -> None:
    """Prints bytes of growth, and of the frames."""
    rival = RIVALS[who]
    obj = LARGE[name]()
    rival.loads(arrived(rival.dumps([1, 2])))  # imports are no copies
    if what == "encode":
        with Peak() as peak:
            frames = rival.dumps(obj)
    else:
        sent = rival.dumps(obj)
        frames = arrived(sent)
        del obj, sent
        with Peak() as peak:
            back = rival.loads(frames)
        assert len(back) > 0
    print(json.dumps([peak.growth, sum(memoryview(frame).nbytes for frame in frames[1:])]))


def growth(name: str, who: str, what: str) -> list[int]:
    # With these, memory that is freed leaves the process, and cannot hide a later copy.
    strict = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, __file__, "--child", name, who, what]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **strict}).stdout)


def copies() -> list[dict[str, Any]]:
    rows = []
    for name in LARGE:
        found: dict[str, dict[str, int]] = {}
        size = 0
        for who in (Ours.name, Pickle5.name, DaskSerialize.name):
            found[who] = {}
            for what in ("encode", "decode"):
                found[who][what], size = growth(name, who, what)
        missed = [f"{what} copies {n / MiB:,.0f} MiB" for what, n in found[Ours.name].items() if n > ROOM]
        rows.append({"name": name, "bytes": size, "growth": found, "bars": {"bytes copied": 0}, "missed": missed, "slower than": []})
    return rows


def slices() -> list[dict[str, Any]]:
    import pandas as pd

    import transload

    transload.trust(payloads.Holder)
    table = payloads.table(32 * 10_000_000)
    frame = pd.DataFrame({"x": table["x"].to_numpy(), "n": table["n"].to_numpy(zero_copy_only=False), "text": pd.Series(table["text"], dtype="str")})
    rows = []
    for kind, ten in (("Arrow table", table.slice(5_000_000, 10)), ("DataFrame", frame.iloc[5_000_000:5_000_010])):
        for where, obj in (("alone", ten), ("in a dict", {"rows": ten}), ("in a dataclass", payloads.Holder(ten)), ("in a list", [ten])):
            sizes = {name: nbytes(who.dumps(obj)) for name, who in RIVALS.items()}
            missed = [f"{sizes[Ours.name]:,} bytes"] if sizes[Ours.name] >= TEN_ROWS else []
            rows.append({"name": f"{kind}, {where}", "bytes": sizes, "bars": {"bytes": TEN_ROWS}, "missed": missed, "slower than": []})
    return rows


def imports() -> list[dict[str, Any]]:
    rows = []
    for before in ("", "import numpy", "import numpy, pandas, distributed"):
        code = f"{before}\nimport time\ns = time.perf_counter()\nimport transload\nprint(time.perf_counter() - s)"
        best = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(9))
        rows.append({"after": before.removeprefix("import ") or "nothing", "seconds": round(best, 5)})
    return rows


def main() -> None:
    arguments = parser(__doc__, 9)
    arguments.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.child:
        child(*chosen.child)
        return
    found = result("copies", 1, rows=copies(), slices=slices(), imports=imports())
    print(tables.heading(found))
    print("Peak memory above what is held already, MiB:\n")
    for part in (tables.copies(found), tables.slices(found), tables.imports(found)):
        print(part, end="\n\n")
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
