"""Encode and decode in one process: transload beside pickle 5 and beside Dask as shipped, on the same objects.

    python benchmarks/bench_objects.py [--runs 15] [--only "dict of 8"] [--json FOLDER]

Every object here goes by family host. The second forest is decoded with family pickle allowed, which leaves out the look at its nodes. "decode" reads frames as
a receiver has them: fresh, writable, made outside the timing. The bars are issue 4's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import payloads
import tables
from rivals import (
    Call,
    DaskSerialize,
    DaskWorkers,
    MsgPack,
    Ours,
    Pickle5,
    arrived,
    interleaved,
    just_received,
    keep,
    nbytes,
    parser,
    result,
    summary,
)

import transload

OURS, PICKLE, SERIALIZE, WORKERS, MSGPACK = Ours(), Pickle5(), DaskSerialize(), DaskWorkers(), MsgPack()
AS_PICKLE: dict[str, float] = {PICKLE.name: 1.0}  # each at least as fast as pickle 5
MOST_BYTES = 1.05  # of pickle 5's, above 1 kB


@dataclasses.dataclass
class Row:
    """`bars`: how many times faster than whom; none where issue 4 sets none. `number`: calls a shot; small objects have more shots, too."""

    name: str
    make: Callable[[], Any]
    bars: dict[str, float] = dataclasses.field(default_factory=lambda: AS_PICKLE)
    number: int = 1
    ours: Ours = OURS
    rivals: tuple[Any, ...] = (PICKLE, SERIALIZE, WORKERS)


ROWS = [
    Row("1000 arrays of 8 kB", payloads.arrays, {**AS_PICKLE, SERIALIZE.name: 3.0}),
    Row("DataFrame, 200 mixed columns x 200 000", lambda: payloads.mixed_frame(200_000, object_strings=False)),
    Row("DataFrame, 200 mixed columns with object strings x 200 000", lambda: payloads.mixed_frame(200_000, object_strings=True)),
    Row("DataFrame, 200 columns without dates x 200 000", lambda: payloads.wide_frame(200_000)),
    Row("DataFrame, 200 mixed columns with object strings x 100", lambda: payloads.mixed_frame(100, object_strings=True)),
    Row("dict of 10 000 (int, float, None)", payloads.small_values),
    Row("[1.5] * 100 000", payloads.floats, {**AS_PICKLE, WORKERS.name: 100.0}),
    Row("10 000 dataclass objects", payloads.flights),
    Row("forest, 100 trees", payloads.forest),
    Row("forest, 100 trees, trusted as by pickle", payloads.forest, ours=Ours(("host", "pickle"))),
    Row("GradientBoosting, 100 trees", payloads.gradient_boosting),
    Row("HistGradientBoosting, 200 trees", payloads.hist_gradient_boosting),
    Row("KDTree of 100 000 x 8", payloads.kd_tree),
    Row("KNeighbors on 100 000 x 8", payloads.neighbors),
    Row("OneHotEncoder, 2616 categories", payloads.one_hot),
    Row("OrdinalEncoder, 2616 categories", payloads.ordinal),
    Row("Pipeline: columns, scaling, linear model", payloads.pipeline),
    Row("dict of 8", payloads.small_dict, {MSGPACK.name: 0.5}, 100, rivals=(PICKLE, SERIALIZE, WORKERS, MSGPACK)),
    Row("array of 8 kB", lambda: payloads.arrays(1)[0], {}, 100),
    Row("DataFrame 3 x 3", payloads.small_frame, {}, 20),
]


def measure(row: Row, runs: int, clock: str) -> dict[str, Any]:
    obj = row.make()
    calls, sizes = {}, {}
    for who in (row.ours, *row.rivals):
        frames = who.dumps(obj)
        sizes[who.name] = {"frames": len(frames) - 1, "bytes": nbytes(frames)}
        calls[who.name, "encode"] = Call(who.dumps, obj)
        calls[who.name, "decode"] = Call(who.loads, arrived(frames), just_received)
        del frames
    times = interleaved(calls, runs if row.number == 1 else 5 * runs, number=row.number, clock=clock)
    found = {}
    for who, size in sizes.items():
        e, d = times[who, "encode"], times[who, "decode"]
        found[who] = {"encode": summary(e), "decode": summary(d), "both": summary([a + b for a, b in zip(e, d, strict=False)]), **size}
    return {"name": row.name, "who": found, **judged(row.bars, found)}


def judged(bars: dict[str, float], found: dict[str, Any]) -> dict[str, Any]:
    """The row's bars, which of them are missed, and who is faster although no bar says anything of them. By medians."""
    ours = found[OURS.name]
    faster = {who: times["both"]["median"] / ours["both"]["median"] for who, times in found.items() if who != OURS.name}
    missed = [f"{tables.times(faster[who])} {who}, bar {bar:g}×" for who, bar in bars.items() if faster[who] < bar]
    theirs = found[PICKLE.name]["bytes"]
    if ours["bytes"] > MOST_BYTES * max(theirs, 1000):
        missed.append(f"{ours['bytes'] / theirs - 1:+.0%} bytes")
    return {"bars": bars, "missed": missed, "slower than": [who for who, times in faster.items() if times < 1 and who not in bars]}


def main() -> None:
    arguments = parser(__doc__, 15)
    arguments.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="this row, not all; may be repeated")
    chosen = arguments.parse_args()
    transload.trust(payloads.Flight)
    found = result("objects", chosen.runs, chosen.clock, rows=[])
    print(tables.heading(found))
    print(tables.table(tables.OBJECTS, []))
    for row in ROWS:
        if not chosen.only or row.name in chosen.only:
            found["rows"].append(measure(row, chosen.runs, chosen.clock))
            print(tables.line(tables.objects_row(found["rows"][-1])), flush=True)
    print(f"\n{tables.objects_foot(found)}")
    if not chosen.only:
        keep(chosen.json, found)


if __name__ == "__main__":
    main()
