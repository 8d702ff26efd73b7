"""Encode and decode in one process: transload beside pickle 5 with out-of-band buffers, on the same objects.

    python benchmarks/bench_objects.py [--runs 15]

Every object here goes by family host. The second forest is decoded with family pickle allowed, which leaves out the look at its nodes. "decode" reads frames as a receiver
has them: fresh, writable, outside the timing.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys

import numpy as np
from rivals import MiB, Peak, arrived, forest, interleaved, machine, pickle5_dumps, pickle5_loads, ratio, spread

import transload
from transload import _core


@transload.trust
@dataclasses.dataclass
class Flight:
    number: int
    delay: float
    carrier: str


# A script's own classes live in __main__, which transload would send by value; here both ends are this process.
transload.trust(Flight)


AS_TRUSTING = "the same, the sender as trusted as by pickle"


def objects() -> dict[str, object]:
    rng = np.random.default_rng(0)
    trees = forest()
    return {
        "forest, 100 trees": trees,
        AS_TRUSTING: trees,
        "10 000 dataclass objects": [Flight(i, i * 0.5, f"c{i % 16}") for i in range(10_000)],
        "dict of 10 000 (int, float, None)": {f"k{i}": (i, i * 0.5, None) for i in range(10_000)},
        "[1.5] * 100 000": [1.5] * 100_000,
        "1000 arrays of 8 kB": [rng.random(1000) for _ in range(1000)],
        "dict of 8": {"op": "get", "n": 1, "x": 2.5, "none": None, "text": "text", "list": [1, 2], "yes": True, "raw": b"raw"},
    }


def frames_of(obj: object, limit: int | None) -> list[object]:
    header, frames, _ = _core.encode(obj, True, False, pack_limit=limit)
    return [header, *frames]


def objects_table(runs: int) -> None:
    print("| object | faster than pickle 5, encode + decode | encode ms, ours | pickle 5 | decode ms, ours | pickle 5 | frames, ours / pickle | bytes, ours / pickle |")
    print("|---|---|---|---|---|---|---|---|")
    for name, obj in objects().items():
        ours, theirs = transload.dumps(obj, ("host",)), pickle5_dumps(obj)
        ours_there, theirs_there = arrived(ours), arrived(theirs)
        families = ("host", "pickle") if name == AS_TRUSTING else ("host",)
        n = runs * 5 if name == "dict of 8" else runs
        t = interleaved(
            {
                "ours e": lambda obj=obj: transload.dumps(obj, ("host",)),
                "pickle e": lambda obj=obj: pickle5_dumps(obj),
                "ours d": lambda there=ours_there, families=families: transload.loads(there, families),
                "pickle d": lambda there=theirs_there: pickle5_loads(there),
            },
            n,
        )
        both = {who: [e + d for e, d in zip(t[f"{who} e"], t[f"{who} d"], strict=True)] for who in ("ours", "pickle")}
        nbytes = [sum(memoryview(f).nbytes for f in frames) for frames in (ours, theirs)]
        print(
            f"| {name} | **{ratio(both['pickle'], both['ours'])}** | {spread(t['ours e'])} | {spread(t['pickle e'])} | {spread(t['ours d'])} | "
            f"{spread(t['pickle d'])} | {len(ours) - 1} / {len(theirs) - 1} | {nbytes[0]:,} / {nbytes[1]:,} |",
            flush=True,
        )


def packing_table(runs: int) -> None:
    obj = forest()
    print("\nWhat packing the forest costs: payloads up to the limit share one frame, which costs their copy.\n")
    print("| pack limit | frames | packed bytes | encode ms | decode ms |\n|---|---|---|---|---|")
    limits = {"nothing": 0, "64 KiB": 64 << 10, "as chosen: 64 KiB, more from 160 frames on": None, "everything": 1 << 40}
    calls = {}
    there = {}
    for name, limit in limits.items():
        frames = frames_of(obj, limit)
        there[name] = arrived(frames)
        calls[f"{name} e"] = lambda limit=limit: frames_of(obj, limit)
        calls[f"{name} d"] = lambda name=name: transload.loads(there[name])
    t = interleaved(calls, runs)
    for name, limit in limits.items():
        packed = memoryview(there[name][1]).nbytes if limit != 0 else 0
        print(f"| {name} | {len(there[name]) - 1} | {packed:,} | {spread(t[f'{name} e'])} | {spread(t[f'{name} d'])} |", flush=True)


def copies_table() -> None:
    print("\nPeak memory above what is held already; an array of 1 GiB. 0 means: not copied.\n")
    print("| step | growth, MiB |\n|---|---|")
    array = np.ones(128 * MiB)
    with Peak() as p:
        message = transload.serialize(array)
    print(f"| encode | {p.growth / MiB:.1f} |")
    there = [bytes(message.header), memoryview(bytearray(message.frames[0]))]
    with Peak() as p:
        back = transload.loads(there)
    assert back[-1] == 1.0
    print(f"| decode | {p.growth / MiB:.1f} |")


def import_table() -> None:
    print("\nImport, milliseconds beyond what is imported already (best of 9 fresh processes each).\n")
    print("| after | ms |\n|---|---|")
    for before in ("", "import numpy", "import numpy, pandas, distributed"):
        code = f"{before}\nimport time\ns = time.perf_counter()\nimport transload\nprint(time.perf_counter() - s)"
        best = min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(9))
        print(f"| {before or 'nothing'} | {best * 1e3:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    print(f"transload {transload.__version__} and pickle 5, median (best–worst) of {runs}; ratio by medians (by bests). {machine()}\n")
    objects_table(runs)
    packing_table(runs)
    copies_table()
    import_table()


if __name__ == "__main__":
    main()
