"""The C++ microbenchmarks (benchmarks/micro, Google Benchmark): header, msgpack, layout, packing, value tree, structs, checksum, codecs.

    python benchmarks/bench_micro.py [--runs 5] [--json FOLDER]

Runs build/bench/benchmarks/benchmarks, which scripts/bench builds (`cmake --workflow --preset bench`). Where it was not built, there is nothing to run.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import tables
from rivals import keep, parser, result, summary

BINARY = Path(__file__).resolve().parent.parent / "build" / "bench" / "benchmarks" / "benchmarks"
RIVAL = ", msgpack-cxx"


def spoken(name: str) -> str:
    """`pack: gather 32 MiB; bytes each/1024` → `pack: gather 32 MiB, 1024 bytes each`."""
    return re.sub(r"; (.*)/(\d+)$", lambda found: f", {int(found[2]):_} {found[1]}".replace("_", " "), name)


def rows(benchmarks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """CPU seconds of each repetition, gathered; a rival's row is put beside ours."""
    found: dict[str, dict[str, Any]] = {}
    seconds: dict[str, list[float]] = {}
    for run in sorted(benchmarks, key=lambda run: (run["family_index"], run["per_family_instance_index"])):  # they run in random order
        if run["run_type"] != "iteration":
            continue
        if "error_message" in run:
            raise SystemExit(f"{run['name']}: {run['error_message']}")
        name = spoken(run["run_name"])
        seconds.setdefault(name, []).append(run["cpu_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[run["time_unit"]])
        per_second = {what: run[f"{what}_per_second"] * seconds[name][-1] for what in ("items", "bytes") if f"{what}_per_second" in run}
        found[name] = {"name": name, **{what: round(count) for what, count in per_second.items()}}
    for name, row in found.items():
        row["seconds"] = summary(seconds[name])
    return [{**row, "msgpack-cxx": found[name + RIVAL]["seconds"]} if name + RIVAL in found else row for name, row in found.items() if not name.endswith(RIVAL)]


def main() -> None:
    chosen = parser(__doc__, 5).parse_args()
    if not BINARY.exists():
        print("The C++ microbenchmarks are not built here; `make bench` builds them.")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "micro.json"
        command = [BINARY, f"--benchmark_repetitions={chosen.runs}", "--benchmark_enable_random_interleaving=true", "--benchmark_min_time=0.1", f"--benchmark_out={out}", "--benchmark_out_format=json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = result("micro", chosen.runs, "cpu", rows=rows(json.loads(out.read_text())["benchmarks"]))
    print(tables.heading(found))
    print(tables.micro(found))
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
