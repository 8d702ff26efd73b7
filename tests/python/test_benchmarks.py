"""What the benchmarks conclude from what they measured. The measurements themselves are no tests."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == FOLDER:
            del sys.modules[name]


CALLGRIND = """version: 1
desc: Trigger: Client Request: a dict/decode
events: Ir

ob=/venv/lib/python3.11/site-packages/transload/_core.abi3.so
fl=graph.cpp
fn=decode(int)
10 100
cob=/usr/lib/libpython3.11.so.1.0
cfn=PyDict_New
calls=2 0
11 40
12 7
ob=/usr/lib/libpython3.11.so.1.0
fn=PyDict_New
1 30
cob=/venv/lib/python3.11/site-packages/numpy/_core/_multiarray_umath.so
cfn=array_new
calls=1 0
2 10
ob=/venv/lib/python3.11/site-packages/numpy/_core/_multiarray_umath.so
fn=array_new
5 10
"""


def test_instructions_of_calls_count_once_and_for_their_owner(tmp_path):
    import instructions

    (tmp_path / "callgrind.out.1").write_text(CALLGRIND)
    profile = instructions.Profile(tmp_path / "callgrind.out.1")
    assert profile.name == "a dict/decode"
    assert profile.total == 147
    assert profile.by_owner() == {"NumPy": 10, "Python": 30, "transload": 107}
    assert profile.inclusive["transload", "decode(int)"] == 147


def test_recorded_instructions_have_every_case_of_today():
    import instructions

    releases = json.loads(instructions.RECORD.read_text())["releases"]
    assert [release["version"] for release in releases] == sorted({release["version"] for release in releases})
    assert list(releases[-1]["cases"]) == list(instructions.CASES)
    for calls in releases[-1]["cases"].values():
        assert list(calls) == list(instructions.CALLS)
        assert all(total == sum(parts.values()) for total, parts in ((dict(call).pop("total"), {k: v for k, v in call.items() if k != "total"}) for call in calls.values()))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("transload::py::(anonymous namespace)::Decoder::node()'2", "py::Decoder::node"),
        ("transload::msgpack::Packer::str(std::basic_string_view<char, std::char_traits<char> >) [clone .isra.0]", "msgpack::Packer::str"),
        ("_PyDict_Next", "_PyDict_Next"),
    ],
)
def test_functions_are_told_without_arguments(function, name):
    import instructions

    assert instructions.short(function) == name


# ── Rivals ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rival", ["Ours", "Pickle5", "DaskSerialize", "DaskWorkers"])
def test_each_rival_brings_the_object_back_as_often_as_it_is_asked(rival):
    import payloads
    import rivals

    who = getattr(rivals, rival)()
    for obj in (payloads.small_dict(), payloads.floats(10), {"x": {"y": np.arange(3.0)}}):
        frames = rivals.arrived(who.dumps(obj))
        for _ in range(2):
            back = who.loads(rivals.just_received(frames))
            assert str(back) == str(obj)
    frame = payloads.mixed_frame(20, object_strings=True)
    pd.testing.assert_frame_equal(who.loads(rivals.arrived(who.dumps(frame))), frame)


def test_bytes_of_a_header_dict_are_as_dask_packs_it():
    import msgpack
    import rivals

    header = {"serializer": "dask", "n": 1}
    assert rivals.nbytes([header, b"abc", np.zeros(2)]) == len(msgpack.packb(header)) + 3 + 16


def test_shots_take_turns_and_preparing_is_not_timed(monkeypatch):
    import rivals

    now, seen = [0.0], []
    monkeypatch.setattr(rivals.time, "perf_counter", lambda: now[0])

    def fresh(argument):
        now[0] += 100.0
        return argument + 1

    def run(argument):
        seen.append(argument)
        now[0] += 2.0

    def slow(argument):
        now[0] += 5.0

    times = rivals.interleaved({"quick": rivals.Call(run, 1, fresh), "slow": rivals.Call(slow, None)}, 5, number=2, budget=12.0)
    assert times == {"quick": [2.0] * 3, "slow": [5.0] * 3}  # both have spent their 12 seconds then
    assert set(seen) == {2}


def test_summaries_are_median_best_and_worst():
    import rivals

    assert rivals.summary([3.0, 1.0, 2.00004]) == {"median": 2.0, "best": 1.0, "worst": 3.0}


def test_results_name_no_host(tmp_path):
    import rivals

    found = rivals.result("x", 1)
    rivals.keep(tmp_path / "new", found)
    assert set(found["machine"]) == {"cpu", "cores", "load", "versions"}
    assert json.loads((tmp_path / "new" / "x.json").read_text()) == found


# ── Bars ─────────────────────────────────────────────────────────────────────────────────────────────────────


def timed(both: float, nbytes: int = 100) -> dict:
    return {"both": {"median": both, "best": both, "worst": both}, "frames": 1, "bytes": nbytes}


@pytest.mark.parametrize(
    ("bars", "pickle", "nbytes", "missed", "slower"),
    [
        ({"pickle 5": 1.0}, 1.0, (100, 100), [], []),
        ({"pickle 5": 1.0}, 0.99, (100, 100), ["0.99× pickle 5, bar 1×"], []),
        ({"pickle 5": 3.0}, 2.5, (100, 100), ["2.50× pickle 5, bar 3×"], []),
        ({}, 0.5, (100, 100), [], ["pickle 5"]),
        ({}, 2.0, (1100, 1000), ["+10% bytes"], []),
        ({}, 2.0, (1050, 1000), [], []),
        ({}, 2.0, (600, 300), [], []),  # below 1 kB
        ({}, 2.0, (1200, 900), ["+33% bytes"], []),
    ],
)
def test_what_is_slower_or_larger_than_its_bar_is_told(bars, pickle, nbytes, missed, slower):
    import bench_objects
    import tables

    found = {"transload": timed(1.0, nbytes[0]), "pickle 5": timed(pickle, nbytes[1])}
    judged = bench_objects.judged(bars, found)
    assert judged == {"bars": bars, "missed": missed, "slower than": slower}
    assert ("missed" in tables.verdict(judged)) == bool(missed)
    assert ("slower than" in tables.verdict(judged)) == bool(slower)


# ── Microbenchmarks ──────────────────────────────────────────────────────────────────────────────────────────


def test_repetitions_become_one_row_with_the_rival_beside_it():
    import bench_micro

    def run(name, nanoseconds, family, **more):
        return {"run_type": "iteration", "run_name": name, "name": name, "cpu_time": nanoseconds, "time_unit": "ns", "family_index": family, "per_family_instance_index": 0, **more}

    found = bench_micro.rows(
        [
            run("read", 4.0, 1, items_per_second=5e8),
            run("gather; bytes each/65536", 1e3, 0, bytes_per_second=1e9),
            run("read, msgpack-cxx", 8.0, 2),
            run("read", 2.0, 1, items_per_second=1e9),
            {"run_type": "aggregate", "run_name": "read", "name": "read_mean", "cpu_time": 3.0, "time_unit": "ns", "family_index": 1, "per_family_instance_index": 0},
        ]
    )
    assert [row["name"] for row in found] == ["gather, 65 536 bytes each", "read"]
    assert found[0]["bytes"] == 1000
    assert found[1] == {"name": "read", "items": 2, "seconds": {"median": 3e-9, "best": 2e-9, "worst": 4e-9}, "msgpack-cxx": {"median": 8e-9, "best": 8e-9, "worst": 8e-9}}


# ── Plots and documents ──────────────────────────────────────────────────────────────────────────────────────


def test_plot_puts_each_ratio_on_its_side_of_the_line():
    import plots

    svg = plots.chart("A < B", "note", ["pickle 5", "Dask"], [plots.Line("first", [0.5, 200.0]), plots.Line("second", [2.0, None])])
    root = xml.etree.ElementTree.fromstring(svg)
    names = {"s": "http://www.w3.org/2000/svg"}
    (one,) = (float(path.get("d")[1:].split(" ")[0]) for path in root.findall("s:path[@class='one']", names))
    points = {circle.find("s:title", names).text: float(circle.get("cx")) for circle in root.findall("s:circle", names) if circle.find("s:title", names) is not None}
    assert set(points) == {"first: 0.50× pickle 5", "first: 200× Dask", "second: 2.00× pickle 5"}
    assert points["first: 0.50× pickle 5"] < one < points["second: 2.00× pickle 5"] < points["first: 200× Dask"]
    assert root.find("s:rect", names).get("class") == "lost"


@pytest.mark.parametrize(("low", "high"), [(0.4, 2.5), (0.5, 9.0), (0.02, 30.0), (0.013, 35.0), (0.5, 4000.0)])
def test_axes_have_the_line_of_equals_and_some_more(low, high):
    import plots

    ticks = plots._ticks(low, high)
    assert 1 in ticks
    assert len(ticks) >= 3
    assert all(low <= tick <= high for tick in ticks)


def test_documents_and_plots_are_what_the_results_say():
    import report

    for path, text in report.written(report.read()).items():
        assert path.read_text() == text, f"{path.name}: python benchmarks/report.py"


def test_every_table_and_plot_is_shown():
    import report

    text = "".join(path.read_text() for path in report.DOCUMENTS)
    for name in report.TABLES:
        assert f"<!-- {name} -->" in text
    for name in report.PLOTS:
        assert f"plots/{name}.svg" in text
