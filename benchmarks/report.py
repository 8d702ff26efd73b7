"""docs/measuring.md and docs/plots from the results that the benchmarks kept.

    scripts/bench --json benchmarks/results     # on a quiet machine
    python benchmarks/report.py                 # then

Tables stand between `<!-- NAME -->` and `<!-- /NAME -->` and are replaced whole; the text around them is written by hand.
`--check` writes nothing and fails when the documents are not what the results say (tests/python/test_benchmarks.py).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plots
import tables

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = (ROOT / "docs" / "measuring.md",)

Results = dict[str, dict[str, Any]]


def read(folder: Path = RESULTS) -> Results:
    results = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {**results, "instructions": json.loads((ROOT / "benchmarks" / "instructions.json").read_text())}


# ── Issue 4's bars ───────────────────────────────────────────────────────────────────────────────────────────


def row_of(results: Results, name: str) -> dict[str, Any]:
    return next(row for row in results["objects"]["rows"] if row["name"] == name)


def ratio(row: dict[str, Any], rival: str) -> float:
    return row["who"][rival]["both"]["median"] / row["who"]["transload"]["both"]["median"]


def bars(results: Results) -> str:
    rows = []
    for row in results["objects"]["rows"]:
        for rival, bar in row["bars"].items():
            got = ratio(row, rival)
            if rival == "msgpack":
                rows.append([f"{row['name']}: at most {1 / bar:g}× msgpack's own time", tables.times(1 / got), met(got >= bar)])
            else:
                rows.append([f"{row['name']}: {'at least as fast as' if bar == 1 else f'≥ {bar:g}×'} {rival}", tables.times(got), met(got >= bar)])
    most = max((row for row in results["objects"]["rows"] if row["who"]["pickle 5"]["bytes"] > 1000), key=lambda row: row["who"]["transload"]["bytes"] / row["who"]["pickle 5"]["bytes"])
    more = most["who"]["transload"]["bytes"] / most["who"]["pickle 5"]["bytes"] - 1
    rows.append(["never more than 5 % more bytes than pickle 5 above 1 kB", f"{more:+.1%} at most ({most['name']})", met(more <= 0.05)])
    for row in results["copies"]["rows"]:
        growth = row["growth"]["transload"]
        rows.append([f"{row['name']}: no payload copied", " + ".join(f"{growth[what] / 2**20:.1f} MiB in {what}" for what in ("encode", "decode")), met(not row["missed"])])
    largest = max(results["copies"]["slices"], key=lambda row: row["bytes"]["transload"])
    rows.append(["ten rows of a table of 10 000 000: below 16 kB wherever it sits", f"{largest['bytes']['transload']:,} bytes at most ({largest['name']})", met(not largest["missed"])])
    return tables.table(["bar", "figure", ""], rows)


def met(fact: bool) -> str:
    return "met" if fact else "**missed**"


# ── Tables and plots ─────────────────────────────────────────────────────────────────────────────────────────


def instructions(results: Results) -> str:
    rows = []
    for release in reversed(results["instructions"]["releases"]):
        for case, calls in release["cases"].items():
            total = {what: call["total"] for what, call in calls.items()}
            both = (total["pickle encode"] + total["pickle decode"]) / (total["encode"] + total["decode"])
            own = calls["decode"]["transload"] / total["decode"]
            rows.append([release["version"], case, f"**{tables.times(both)}**", *(f"{total[what]:,}" for what in ("encode", "pickle encode", "decode", "pickle decode")), f"{own:.0%}"])
    return tables.table(["version", "object", "fewer than pickle 5", "encode", "pickle 5", "decode", "pickle 5", "of decode: transload's own"], rows)


def of_machines(what: str, made: dict[str, Callable[[Any], str]]) -> dict[str, Callable[[Results], str]]:
    """Tables of a benchmark that ran on the CPU host and on a large one, and what these are; by name."""
    made = {"-machine": lambda found: tables.heading(found).strip(), **made}
    return {
        f"{name}{ending}": lambda results, name=name, table=table: table(results[name])
        for name in (what, f"{what}-large")
        for ending, table in made.items()
    }


TABLES: dict[str, Callable[[Results], str]] = {
    "bars": bars,
    "objects-machine": lambda results: tables.heading(results["objects"]).strip(),
    "objects": lambda results: tables.objects(results["objects"]),
    "walk": lambda results: tables.walk(results["walk"]),
    "packing": lambda results: tables.packing(results["packing"]),
    "copies": lambda results: tables.copies(results["copies"]),
    "slices": lambda results: tables.slices(results["copies"]),
    "imports": lambda results: tables.imports(results["copies"]),
    "comm-machine": lambda results: tables.heading(results["comm"]).strip(),
    "comm": lambda results: tables.comm(results["comm"]),
    "hops": lambda results: tables.hops(results["comm"]),
    **of_machines("transport", {"": tables.transport, "-tls": tables.encrypted, "-growth": tables.growth, "-hops": tables.hops}),
    **of_machines("flights", {"": tables.flights}),
    "device-machine": lambda results: tables.heading(results["device"]).strip(),
    "device": lambda results: tables.device(results["device"]),
    "codec": lambda results: tables.codec(results["codec"]),
    "micro-machine": lambda results: tables.heading(results["micro"]).strip(),
    "micro": lambda results: tables.micro(results["micro"]),
    "instructions": instructions,
}
PLOTS: dict[str, Callable[[Any], str]] = {name: getattr(plots, name) for name in ("objects", "walk", "comm", "device", "instructions")}


def filled(text: str, results: Results) -> str:
    def table(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n{TABLES[found[1]](results)}\n<!-- /{found[1]} -->"

    return re.sub(r"<!-- ([a-z-]+) -->\n.*?<!-- /\1 -->", table, text, flags=re.DOTALL)


def written(results: Results) -> dict[Path, str]:
    """What each file should hold."""
    files = {path: filled(path.read_text(), results) for path in DOCUMENTS}
    return {**files, **{ROOT / "docs" / "plots" / f"{name}.svg": plot(results[name]) for name, plot in PLOTS.items()}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file would change")
    arguments = parser.parse_args()
    stale = []
    for path, text in written(read(arguments.results)).items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not arguments.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    print("\n".join(stale) or "nothing changed")
    if stale and arguments.check:
        raise SystemExit("these are not what the results say: python benchmarks/report.py")


if __name__ == "__main__":
    main()
