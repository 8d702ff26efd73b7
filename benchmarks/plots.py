"""Results as plots: how many times faster, one line an object, on a logarithmic axis with 1× in it. Written as SVG that follows the reader's light or dark theme."""

from __future__ import annotations

import dataclasses
import math
from typing import Any
from xml.sax.saxutils import escape

import tables

PLOT, RIGHT, ROW, TOP, BOTTOM = 470, 70, 24, 78, 34

STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.title{font-weight:600;font-size:15px}.tick,.note{fill:#59636e;font-size:12px}
.grid{stroke:#d1d9e0}.one{stroke:#1f2328;stroke-width:1.5}.span{stroke:#d1d9e0;stroke-width:2}.lost{fill:#cf222e;fill-opacity:.07}
.s0{fill:#0969da}.s1{fill:#bc4c00}.s2{fill:#8250df}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.tick,.note{fill:#9198a1}.grid,.span{stroke:#3d444d}.one{stroke:#f0f6fc}.lost{fill:#f85149;fill-opacity:.1}
.s0{fill:#4493f8}.s1{fill:#f0883e}.s2{fill:#ab7df8}}
""".strip()


@dataclasses.dataclass
class Line:
    """One object; how many times faster than each rival, None where it was not measured."""

    name: str
    ratios: list[float | None]


def chart(title: str, note: str, rivals: list[str], lines: list[Line]) -> str:
    """The shaded half is where the rival is faster. With one rival each figure stands beside its point."""
    known = [ratio for line in lines for ratio in line.ratios if ratio is not None]
    low, high = min(0.5, *known) / 1.15, max(2.0, *known) * 1.15
    left = 20 + max(round(7.1 * len(line.name)) for line in lines)
    width = left + PLOT + RIGHT
    scale = PLOT / math.log(high / low)
    bottom = TOP + ROW * len(lines)

    def x(ratio: float) -> float:
        return left + math.log(ratio / low) * scale

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + BOTTOM}" width="{width}" height="{bottom + BOTTOM}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="8" y="20">{escape(title)}</text><text class="note" x="8" y="38">{escape(note)}</text>',
        f'<rect class="lost" x="{left}" y="{TOP - 8}" width="{x(1) - left:.1f}" height="{bottom - TOP + 8}"/>',
    ]
    legend = left
    for i, rival in enumerate(rivals):
        parts.append(f'<circle class="s{i}" cx="{legend + 5}" cy="56" r="5"/><text x="{legend + 15}" y="60">{escape(rival)}</text>')
        legend += 40 + 7 * len(rival)
    for tick in _ticks(low, high):
        kind = "one" if tick == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{x(tick):.1f} {TOP - 8}V{bottom}"/><text class="tick" x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:,g}×</text>')
    for i, line in enumerate(lines):
        y = TOP + ROW * i + ROW / 2
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(line.name)}</text>')
        ratios = [ratio for ratio in line.ratios if ratio is not None]
        parts.append(f'<path class="span" d="M{x(min(1, *ratios)):.1f} {y}H{x(max(1, *ratios)):.1f}"/>')
        for series in reversed(range(len(line.ratios))):  # the first rival lies on top
            ratio = line.ratios[series]
            if ratio is not None:
                parts.append(f'<circle class="s{series}" cx="{x(ratio):.1f}" cy="{y}" r="5"><title>{escape(line.name)}: {tables.times(ratio)} {escape(rivals[series])}</title></circle>')
        if len(rivals) == 1:
            parts.append(f'<text class="tick" x="{x(max(1, *ratios)) + 9:.1f}" y="{y + 4}">{tables.times(ratios[0])}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 30 else (1, 3) if high / low < 300 else (1,)
    return [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]


def faster(ours: dict[str, float], theirs: dict[str, float]) -> float:
    return theirs["median"] / ours["median"]


def note(found: dict[str, Any]) -> str:
    machine = found["machine"]
    return f"{found['date']}, {machine['cores']} cores ({machine['cpu']}), load {machine['load']}; {tables.clock(found)}medians of {found['runs']}; shaded: the other is faster"


def objects(found: dict[str, Any]) -> str:
    rivals = ["pickle 5", "Dask, serialize", "Dask, between workers"]
    lines = [Line(row["name"], [faster(row["who"]["transload"]["both"], row["who"][rival]["both"]) for rival in rivals]) for row in found["rows"]]
    return chart("Encode + decode in one process: transload is so many times faster than …", note(found), rivals, lines)


def walk(found: dict[str, Any]) -> str:
    lines = [Line(row["name"], [faster(row["who"]["transload"]["both"], row["who"]["pickle 5"]["both"])]) for row in found["rows"]]
    return chart("The walk over 10 000 objects of one kind: so many times faster than …", note(found), ["pickle 5"], lines)


def comm(found: dict[str, Any]) -> str:
    lines = [Line(row["name"], [faster(row["ours"], row["stock"])]) for row in found["rows"]]
    return chart("Between two processes over Dask's own tcp://: so many times faster than …", note(found), ["Dask as shipped"], lines)


def device(found: dict[str, Any]) -> str:
    rivals = ["Dask's tcp, over TCP", "Dask's ucxx, on one GPU", "Dask's tcp, with our serializers on it"]
    pairs = [("transload, no shortcuts", "stock tcp"), ("transload", "stock ucxx"), ("ours on tcp", "stock tcp")]
    lines = [Line(row["name"], [faster(row[ours], row[stock]) for ours, stock in pairs]) for row in found["rows"]]
    return chart("Objects of a GPU between two processes: transload is so many times faster than …", note(found), rivals, lines)


def instructions(record: dict[str, Any]) -> str:
    """Every version counts: the newest is the first line of each object."""
    lines = []
    release = record["releases"][-1]
    for case, calls in release["cases"].items():
        lines += [Line(f"{case}, {what}", [calls[f"pickle {what}"]["total"] / calls[what]["total"]]) for what in ("encode", "decode")]
    of = f"{release['date']}, transload {release['version']}, Python {release['setup']['python']}, {release['setup']['compiler']}; shaded: pickle needs fewer"
    return chart("Instructions: so many times fewer than …", of, ["pickle 5"], lines)
