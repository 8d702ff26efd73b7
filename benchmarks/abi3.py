"""What the limited API costs the walk: the abi3 module beside the same source built for this Python alone.

    python benchmarks/abi3.py [--rounds 5]

Builds both into build/abi3-cost-* and runs them in turns, a fresh process each. Not part of `make bench`: it compiles for a minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

from builds import package, site_packages

CHILD = """
import sys, time, gc, json, dataclasses
sys.path[:0] = [sys.argv[1], *sys.argv[2].split(":")]
import numpy as np, transload

@dataclasses.dataclass
class Flight:
    number: int
    delay: float
    carrier: str
transload.trust(Flight)

objects = {
    "10 000 dataclass objects": [Flight(i, i * 0.5, f"c{i % 16}") for i in range(10_000)],
    "dict of 10 000 (int, float, None)": {f"k{i}": (i, i * 0.5, None) for i in range(10_000)},
    "[1.5] * 100 000": [1.5] * 100_000,
    "1000 arrays of 8 kB": [np.full(1000, float(i)) for i in range(1000)],
}
def best(f, n=15):
    times = []
    for _ in range(n):
        gc.collect(); s = time.perf_counter(); r = f(); times.append(time.perf_counter() - s); del r
    return min(times)
out = {}
for name, obj in objects.items():
    frames = transload.dumps(obj, ("host",))
    out[name] = best(lambda: transload.dumps(obj, ("host",))), best(lambda: transload.loads(frames))
print(json.dumps(out))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    builds = {name: package(f"abi3-cost-{name}", f"-DTRANSLOAD_STABLE_ABI={stable}") for name, stable in (("abi3", "ON"), ("full", "OFF"))}
    site = ":".join(site_packages())
    found: dict[str, dict[str, list[list[float]]]] = {name: {} for name in builds}
    for _ in range(rounds):
        for name, folder in builds.items():
            child = subprocess.run([sys.executable, "-S", "-c", CHILD, str(folder), site], capture_output=True, text=True, check=True)
            for case, times in json.loads(child.stdout).items():
                found[name].setdefault(case, []).append(times)
    print(f"Medians of the bests of {rounds} processes each, ms encode + decode.\n")
    print("| object | abi3 costs | abi3 | full API |\n|---|---|---|---|")
    for case in found["abi3"]:
        e, d = ({name: statistics.median(t[i] for t in found[name][case]) * 1e3 for name in builds} for i in (0, 1))
        cost = (e["abi3"] + d["abi3"]) / (e["full"] + d["full"]) - 1
        print(f"| {case} | **{cost:+.0%}** | {e['abi3']:.2f} + {d['abi3']:.2f} | {e['full']:.2f} + {d['full']:.2f} |")


if __name__ == "__main__":
    main()
