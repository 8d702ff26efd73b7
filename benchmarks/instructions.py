"""How many instructions encode and decode take, counted by callgrind: a figure that a busy machine does not blur.

    make callgrind                           # counts, and prints the change against the committed figures
    make callgrind ARGS=--write              # ... and makes them this version's in benchmarks/instructions.json
    make callgrind ARGS='--top 25 --only "dict of 8"'

Only what happens inside `transload.dumps` and `transload.loads` is counted (or pickle's call), Python's own work there
included. The module is the wheel's build with its symbols left in (build/callgrind). Each call ran three times before, and the
collector is off on both sides. Counts belong to the versions they were made with, which stand beside them; two runs differ by
up to 1 %, as hash tables of addresses do.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import datetime
import gc
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import payloads
from builds import ROOT, package, site_packages

RECORD = Path(__file__).with_name("instructions.json")
OUT = ROOT / "build" / "callgrind"
CALLS = ("encode", "decode", "pickle encode", "pickle decode")

CASES: dict[str, Callable[[], Any]] = {
    "dict of 10 000 (int, float, None)": payloads.small_values,
    "10 000 dataclass objects": payloads.flights,
    "1000 arrays of 8 kB": payloads.arrays,
    "dict of 8": payloads.small_dict,
    "DataFrame, 200 mixed columns x 100 rows": lambda: payloads.mixed_frame(100, object_strings=True),
}

# Whose code an object file is, by a part of its path; the first that fits.
OWNERS = {
    "/transload/_core": "transload", "/nanobind_backend": "transload", "/numpy/": "NumPy", "/numpy.libs/": "NumPy", "/pandas/": "pandas",
    "/pyarrow/": "Arrow", "/libpython": "Python", "/lib-dynload/": "Python", "/bin/python": "Python", "/libc.so": "libc",
}  # fmt: skip


def child(names: list[str]) -> None:
    """Under callgrind: each case's four calls, each counted into a file of its own."""
    from rivals import pickle5_dumps, pickle5_loads

    import transload

    library = ctypes.PyDLL(str(OUT / "measured.so"))
    library.measured.argtypes, library.measured.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.py_object
    transload.trust(payloads.Flight)
    for name in names:
        obj = CASES[name]()
        ours, theirs = transload.dumps(obj, ("host",)), pickle5_dumps(obj)
        calls = {
            "encode": lambda obj=obj: transload.dumps(obj, ("host",)),
            "decode": lambda ours=ours: transload.loads(ours),
            "pickle encode": lambda obj=obj: pickle5_dumps(obj),
            "pickle decode": lambda theirs=theirs: pickle5_loads(theirs),
        }
        for what, call in calls.items():
            for _ in range(3):
                call()
            gc.collect()
            gc.disable()
            library.measured(call, f"{name}/{what}".encode())
            gc.enable()


def measure(names: list[str]) -> dict[str, dict[str, Profile]]:
    there = package("callgrind", "-DTRANSLOAD_KEEP_SYMBOLS=ON", "-DCMAKE_CXX_FLAGS=-g1")
    subprocess.run([*sysconfig.get_config_var("CC").split(), "-shared", "-fPIC", "-O2", f"-I{sysconfig.get_path('include')}", "-o", str(OUT / "measured.so"),
                    str(Path(__file__).with_name("measured.c"))], check=True)  # fmt: skip
    for old in OUT.glob("callgrind.out*"):
        old.unlink()
    environment = {**os.environ, "PYTHONPATH": ":".join([str(there), *site_packages()]), "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={OUT}/callgrind.out",
               f"--log-file={OUT}/valgrind.log", sys.executable, "-S", __file__, "--child", *names]  # fmt: skip
    if subprocess.run(command, env=environment, check=False).returncode != 0:
        raise SystemExit(f"callgrind failed; valgrind's own messages: {OUT}/valgrind.log")
    found: dict[str, dict[str, Profile]] = {}
    for file in OUT.glob("callgrind.out.*"):
        profile = Profile(file)
        if profile.name is not None:
            case, _, what = profile.name.rpartition("/")
            found.setdefault(case, {})[what] = profile
    return found


class Profile:
    """One file of callgrind: instructions of each function itself, and with all that it calls."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name: str | None = None
        self.own: collections.Counter[tuple[str, str]] = collections.Counter()
        self.inclusive: collections.Counter[tuple[str, str]] = collections.Counter()
        owner = function = ""
        call = False
        with file.open() as lines:
            for line in lines:
                head, equals, rest = line.rstrip("\n").partition("=")
                if line.startswith("desc: Trigger: Client Request: "):
                    self.name = line.rstrip("\n").removeprefix("desc: Trigger: Client Request: ")
                elif equals and head == "ob":
                    owner = _owner(rest)
                elif equals and head == "fn":
                    function = rest
                elif equals and head == "calls":
                    call = True
                elif line[:1].isdigit():
                    cost = int(line.split()[1])
                    self.inclusive[owner, function] += cost
                    if not call:
                        self.own[owner, function] += cost
                    call = False

    @property
    def total(self) -> int:
        return sum(self.own.values())

    def by_owner(self) -> dict[str, int]:
        sums: collections.Counter[str] = collections.Counter()
        for (owner, _), cost in self.own.items():
            sums[owner] += cost
        return dict(sorted(sums.items()))


def _owner(path: str) -> str:
    return next((owner for part, owner in OWNERS.items() if part in path), "other")


def setup() -> dict[str, str]:
    """What the counts depend on."""
    compiler = subprocess.run([os.environ.get("CXX", "c++"), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    libraries = {name: importlib.metadata.version(name) for name in ("numpy", "pandas", "pyarrow", "nanobind")}
    return {"machine": platform.machine(), "python": platform.python_version(), "compiler": compiler, "valgrind": valgrind.removeprefix("valgrind-"), **libraries}


def counts(found: dict[str, dict[str, Profile]]) -> dict[str, dict[str, dict[str, int]]]:
    """In the order of CASES and CALLS, so that the record of one version differs from the next by figures alone."""
    return {case: {what: {"total": found[case][what].total, **found[case][what].by_owner()} for what in CALLS} for case in CASES if case in found}


def short(function: str) -> str:
    """A C++ name without its arguments and namespaces."""
    function = re.sub(r"\s*\[clone [^]]*\]", "", function)
    while (less := re.sub(r"<[^<>]*>", "", function)) != function:
        function = less
    return re.sub(r"\(.*", "", function.replace("(anonymous namespace)::", "")).replace("transload::", "")


def print_changes(now: dict[str, dict[str, dict[str, int]]], release: dict[str, Any] | None) -> None:
    then = release["cases"] if release else {}
    print("| object | instructions, against pickle 5 | encode | pickle 5 | decode | pickle 5 | of decode: transload's own | encode, change | decode, change |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case, calls in now.items():
        total = {what: calls[what]["total"] for what in CALLS}
        ours, theirs = total["encode"] + total["decode"], total["pickle encode"] + total["pickle decode"]
        changes = []
        for what in ("encode", "decode"):
            before = then.get(case, {}).get(what, {}).get("total")
            changes.append(f"{total[what] / before - 1:+.1%}" if before else "new")
        print(
            f"| {case} | **{theirs / ours:.2f}x** | {total['encode']:,} | {total['pickle encode']:,} | {total['decode']:,} | {total['pickle decode']:,} | "
            f"{calls['decode'].get('transload', 0) / total['decode']:.0%} | {changes[0]} | {changes[1]} |"
        )


def print_top(found: dict[str, dict[str, Profile]], n: int) -> None:
    for case, calls in found.items():
        for what in ("encode", "decode"):
            profile = calls[what]
            owners = ", ".join(f"{owner} {cost / profile.total:.0%}" for owner, cost in sorted(profile.by_owner().items(), key=lambda pair: -pair[1]))
            print(f"\n{case}, {what}: {profile.total:,} instructions ({owners}); callgrind_annotate {profile.file.relative_to(ROOT)}")
            print("| itself | with what it calls | whose | function |\n|---|---|---|---|")
            for (owner, function), cost in profile.own.most_common(n):
                print(f"| {cost / profile.total:.1%} | {min(profile.inclusive[owner, function] / profile.total, 1):.0%} | {owner} | {short(function)} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", choices=list(CASES), help="this case, not all; may be repeated")
    parser.add_argument("--top", type=int, default=0, help="print so many functions of each call, the most expensive first")
    parser.add_argument("--write", action="store_true", help="make these the figures of this version")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write needs every case")
    if arguments.child:
        child(arguments.child)
        return
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is missing: scripts/setup --no-wheel demo callgrind")
    found = measure(arguments.only or list(CASES))
    now, here = counts(found), setup()
    version = re.search(r"^  VERSION ([0-9.]+)$", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert version is not None
    releases: list[dict[str, Any]] = json.loads(RECORD.read_text())["releases"] if RECORD.exists() else []
    last = releases[-1] if releases else None
    print(f"transload {version[1]}; {', '.join(f'{what} {which}' for what, which in here.items())}")
    if last:
        print(f"Changes are against {last['version']} of {last['date']}.")
        for what, which in last["setup"].items():
            if here.get(what) != which:
                print(f"  counted there with {what} {which}: part of a change may come from that")
    print()
    print_changes(now, last)
    if arguments.top:
        print_top(found, arguments.top)
    if arguments.write:
        releases = [release for release in releases if release["version"] != version[1]]
        releases.append({"version": version[1], "date": datetime.date.today().isoformat(), "setup": here, "cases": now})
        RECORD.write_text(json.dumps({"releases": releases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
