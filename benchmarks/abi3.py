"""What the limited API costs the walk: the abi3 module beside the same source built for this Python alone.

    python benchmarks/abi3.py [--rounds 5]

Builds both into build/abi3-cost-* and runs them in turns, a fresh process each. Not part of `make bench`: it compiles for a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

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


def build(name: str, stable: bool) -> Path:
    folder = ROOT / "build" / f"abi3-cost-{name}"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DTRANSLOAD_BUILD_PYTHON=ON", "-DTRANSLOAD_BUILD_TESTS=OFF",
                 "-DTRANSLOAD_CUDA=OFF", f"-DPython_EXECUTABLE={sys.executable}", f"-DTRANSLOAD_STABLE_ABI={'ON' if stable else 'OFF'}"]  # fmt: skip
    for command in (configure, ["cmake", "--build", str(folder), "--target", "_core"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    package = folder / "package"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "transload", package / "transload", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (module,) = (folder / "bindings").glob("_core*.so")
    shutil.copy(module, package / "transload")
    return package


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    builds = {"abi3": build("abi3", True), "full": build("full", False)}
    site = ":".join(path for path in sys.path if "site-packages" in path)
    found: dict[str, dict[str, list[list[float]]]] = {name: {} for name in builds}
    for _ in range(rounds):
        for name, package in builds.items():
            # -S: an editable transload in site-packages would win over the one that is measured.
            child = subprocess.run([sys.executable, "-S", "-c", CHILD, str(package), site], capture_output=True, text=True, check=True)
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
