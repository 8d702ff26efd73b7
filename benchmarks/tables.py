"""Results as Markdown: what the benchmarks print and what docs/measuring.md shows are made by the same lines."""

from __future__ import annotations

from typing import Any

MiB = 2**20
RIVALS = ("pickle 5", "Dask, serialize", "Dask, between workers")


def heading(found: dict[str, Any]) -> str:
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{found['date']}, transload {found['transload']}, {machine['cores']} cores ({machine['cpu']}), load {machine['load']} at the start, "
        f"{clock(found)}median (best–worst) of {found['runs']}. {versions}.\n"
    )


def clock(found: dict[str, Any]) -> str:
    return "CPU time, " if found["clock"] == "cpu" else ""


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join([line(head), "|---" * len(head) + "|", *map(line, rows)])


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def spread(times: dict[str, float]) -> str:
    """Median, best and worst, in the unit that suits the median."""
    unit, factor = next((pair for pair in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if times["median"] * pair[1] >= 1), ("ns", 1e9))
    median = times["median"] * factor
    digits = 0 if median >= 100 else 1 if median >= 10 else 2
    return f"{median:.{digits}f} {unit} ({times['best'] * factor:.{digits}f}–{times['worst'] * factor:.{digits}f})"


def faster(ours: dict[str, float], theirs: dict[str, float]) -> str:
    """How many times faster we are: by the medians, and by the best of each."""
    return f"{times(theirs['median'] / ours['median'])} ({times(theirs['best'] / ours['best'])})"


def times(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:,.0f}×"


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────

OBJECTS = [
    "object", "bar", "faster than pickle 5", "than Dask, serialize", "than Dask, between workers", "ours, encode + decode", "pickle 5",
    "both: Dask, serialize", "Dask, between workers", "frames, ours / pickle 5", "bytes, ours / pickle 5",
]  # fmt: skip


def objects_row(row: dict[str, Any]) -> list[str]:
    ours, pickle, serialize, workers = (row["who"][who] for who in ("transload", *RIVALS))
    return [
        row["name"],
        verdict(row),
        f"**{faster(ours['both'], pickle['both'])}**",
        faster(ours["both"], serialize["both"]),
        faster(ours["both"], workers["both"]),
        *(f"{spread(who['encode'])} + {spread(who['decode'])}" for who in (ours, pickle)),
        *(spread(who["both"]) for who in (serialize, workers)),
        f"{ours['frames']} / {pickle['frames']}",
        f"{ours['bytes']:,} / {pickle['bytes']:,}",
    ]


def verdict(row: dict[str, Any]) -> str:
    """What became of the row's bars, and who is faster though no bar speaks of them."""
    if row["missed"]:
        return f"**missed**: {'; '.join(row['missed'])}"
    return ("met" if row["bars"] else "none") + (f"; slower than {' and '.join(row['slower than'])}" if row["slower than"] else "")


def objects(found: dict[str, Any]) -> str:
    return table(OBJECTS, [objects_row(row) for row in found["rows"]]) + "\n\n" + objects_foot(found)


def objects_foot(found: dict[str, Any]) -> str:
    lines = ["Ratios are of encode and decode together, by medians (by bests)."]
    for row in found["rows"]:
        if "msgpack" in row["who"]:
            ours, theirs = row["who"]["transload"], row["who"]["msgpack"]
            lines.append(
                f"The {row['name']} beside msgpack's packb and unpackb: {times(ours['both']['median'] / theirs['both']['median'])} its time "
                f"({times(ours['both']['best'] / theirs['both']['best'])} by bests; bar {1 / row['bars']['msgpack']:g}×): {spread(ours['both'])} against {spread(theirs['both'])}, "
                f"{ours['bytes']} against {theirs['bytes']} bytes."
            )
    missed = sum(bool(row["missed"]) for row in found["rows"])
    lines.append(f"Bars missed: {missed} of {sum(bool(row['bars']) for row in found['rows'])}.")
    return "\n".join(lines)


# ── packing ──────────────────────────────────────────────────────────────────────────────────────────────────


def packing(found: dict[str, Any]) -> str:
    rows = [[row["limit"], str(row["frames"]), f"{row['packed']:,}", spread(row["encode"]), spread(row["decode"])] for row in found["rows"]]
    return table(["pack limit", "frames", "packed bytes", "encode", "decode"], rows)


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────


def copies(found: dict[str, Any]) -> str:
    rows = [
        [row["name"], verdict(row), f"{row['bytes'] / MiB:,.0f}", *(f"{row['growth'][who][what] / MiB:,.1f}" for who in ("transload", "pickle 5", "Dask, serialize") for what in ("encode", "decode"))]
        for row in found["rows"]
    ]
    return table(["object", "bar", "MiB", "ours: encode", "decode", "pickle 5: encode", "decode", "Dask, serialize: encode", "decode"], rows)


def slices(found: dict[str, Any]) -> str:
    rows = [[row["name"], verdict(row), *(f"{row['bytes'][who]:,}" for who in ("transload", *RIVALS))] for row in found["slices"]]
    return table(["ten rows of 10 000 000", "bar", "bytes, ours", *RIVALS], rows)


def imports(found: dict[str, Any]) -> str:
    return table(["`import transload` after", "best of 9, ms"], [[row["after"], f"{row['seconds'] * 1e3:.1f}"] for row in found["imports"]])


# ── walk ─────────────────────────────────────────────────────────────────────────────────────────────────────


def walk(found: dict[str, Any]) -> str:
    rows = []
    for row in found["rows"]:
        ours, theirs = row["who"]["transload"], row["who"]["pickle 5"]
        each = [f"{spread_of(who[what], row['n'])}" for what in ("encode", "decode") for who in (ours, theirs)]
        rows.append([row["name"], f"**{faster(ours['both'], theirs['both'])}**", *each, f"{ours['bytes'] / row['n']:.1f} / {theirs['bytes'] / row['n']:.1f}"])
    return table(["each of 10 000", "faster than pickle 5", "encode, ours", "pickle 5", "decode, ours", "pickle 5", "bytes, ours / pickle 5"], rows)


def spread_of(seconds: dict[str, float], n: int) -> str:
    return spread({name: value / n for name, value in seconds.items()})


# ── comm ─────────────────────────────────────────────────────────────────────────────────────────────────────


def comm(found: dict[str, Any]) -> str:
    rows = [
        [row["name"], f"{row['bytes'] / 1e6:.1f}", f"**{faster(row['ours'], row['stock'])}**", spread(row["ours"]), spread(row["stock"]), f"{row['bytes'] / row['ours']['median'] / 1e9:.2f}", f"{row['frames'][0]} / {row['frames'][1]}"]
        for row in found["rows"]
    ]
    return table(["object", "MB", "faster than stock", "ours", "stock", "GB/s, ours", "frames, ours / stock"], rows) + (
        f"\n\nBare limit of the forest (one socket, and scikit-learn's own `__setstate__`): {spread(found['limit'])}."
    )


def hops(found: dict[str, Any]) -> str:
    return table(["way", "faster than stock", "ours", "stock"], [[row["name"], faster(row["ours"], row["stock"]), spread(row["ours"]), spread(row["stock"])] for row in found["hops"]])


# ── transport ──────────────────────────────────────────────────────────────────────────────────────────────────


def transport(found: dict[str, Any]) -> str:
    """There and back, then large objects: how many times faster than Dask's `tcp://`, and each rival's time."""
    rivals = ("shared memory", "tcp alone")
    head = [*(f"faster with {who}" for who in rivals), *(f"ours, {who}" for who in rivals), "Dask's tcp"]

    def cells(row: dict[str, Any]) -> list[str]:
        ratios = [f"**{faster(row[who], row['stock'])}**" for who in rivals]
        return [*ratios, *(spread(row[who]) for who in (*rivals, "stock"))]

    small = table(["there and back", *head], [[row["name"], *cells(row)] for row in found["trips"]])
    rows = []
    for row in found["rows"]:
        speed = " / ".join(f"{row['bytes'] / row[who]['median'] / 1e9:.2f}" for who in (*rivals, "stock"))
        rows.append([row["name"], f"{row['bytes'] / 1e6:.1f}", *cells(row), speed])
    return small + "\n\n" + table(["one way, rebuilt", "MB", *head, "GB/s"], rows)


def encrypted(found: dict[str, Any]) -> str:
    rows = []
    for row in found["encrypted"]:
        speed = " / ".join(f"{row['bytes'] / row[who]['median'] / 1e9:.2f}" for who in ("ours", "stock"))
        rows.append([row["name"], f"{row['bytes'] / 1e6:.1f}", f"**{faster(row['ours'], row['stock'])}**", spread(row["ours"]), spread(row["stock"]), speed])
    return table(["over TLS", "MB", "faster than Dask's tls", "ours", "Dask's tls", "GB/s"], rows)


def growth(found: dict[str, Any]) -> str:
    """How much memory each end needs while one object is sent for the first time."""
    rivals = ("shared memory", "tcp alone", "stock")
    shown = {"shared memory": "shared memory", "tcp alone": "tcp alone", "stock": "Dask's tcp"}
    head = [f"{end}, {shown[who]}" for end in ("receiver", "sender") for who in rivals]
    rows = []
    for row in found["growth"]:
        received = [times(row[who]["receiver"] / row["bytes"]) for who in rivals]
        sent = [f"{row[who]['sender'] / 2**20:.0f} MiB" for who in rivals]
        rows.append([row["name"], f"{row['bytes'] / 1e6:.1f}", *received, *sent])
    return table(["one object", "MB", *head], rows)


def device(found: dict[str, Any]) -> str:
    """Each way that transload offers beside Dask's own; `transload://` over TCP beside Dask's `tcp://`, by the shortcuts of one GPU beside `ucxx://`."""
    rivals = {
        "ours on tcp": "stock tcp",
        "transload, no shortcuts": "stock tcp",
        "transload": "stock ucxx",
        "ours on ucxx": "stock ucxx",
    }
    if "stock ucxx" not in found["rows"][0]:
        rivals["transload"] = "stock tcp"
    there = {ours: stock for ours, stock in rivals.items() if ours in found["rows"][0]}
    stocks = list(dict.fromkeys(there.values()))
    rows = [
        [row["name"], f"{row['bytes'] / 1e6:.1f}", *(f"**{faster(row[ours], row[stock])}**" for ours, stock in there.items()), *(spread(row[who]) for who in (*there, *stocks))]
        for row in found["rows"]
    ]
    head = [f"{ours}: faster than {stock}" for ours, stock in there.items()]
    return table(["one way, rebuilt", "MB", *head, *there, *stocks], rows)


def flights(found: dict[str, Any]) -> str:
    return table(["stage", "faster than Dask's tcp", "ours", "Dask's tcp"], [[row["name"], f"**{faster(row['ours'], row['stock'])}**", spread(row["ours"]), spread(row["stock"])] for row in found["rows"]])


# ── codec ────────────────────────────────────────────────────────────────────────────────────────────────────


def codec(found: dict[str, Any]) -> str:
    calls = ("ours, dumps", "Dask, dumps", "ours, loads", "Dask, loads")
    rows = [[row["name"], f"**{faster(row['both']['ours'], row['both']['Dask'])}**", *(spread(row[call]) for call in calls)] for row in found["rows"]]
    return table(["message", "faster than Dask, both ways", "dumps, ours", "Dask", "loads, ours", "Dask"], rows)


# ── compression ──────────────────────────────────────────────────────────────────────────────────────────────


def compression(found: dict[str, Any]) -> str:
    rows = []
    for row in found["rows"]:
        ours, theirs = row["who"]["ours"], row["who"].get("Dask")
        codec = row["codec"] or "none"
        if row["codec"] == "auto":
            codec += f" ({', '.join(row['codecs']) or 'raw'})"
        stored = f"{ours['bytes'] / 1e6:.1f}" + (f" / {theirs['bytes'] / 1e6:.1f}" if theirs else "")
        pays = row.get("pays_below")
        rows.append([
            row["name"] if row["codec"] is None else "",
            codec,
            stored,
            f"**{faster(ours['both'], theirs['both'])}**" if theirs else "",
            *(spread(who[what]) if who else "" for what in ("write", "read") for who in (ours, theirs)),
            f"{pays / 1e9:.2f} GB/s" if pays else "",
        ])  # fmt: skip
    return table(["object", "codec", "MB stored, ours / Dask", "faster than Dask, write + read", "write, ours", "Dask", "read, ours", "Dask", "pays on links below"], rows)


# ── micro ────────────────────────────────────────────────────────────────────────────────────────────────────


def micro(found: dict[str, Any]) -> str:
    rows = []
    for row in found["rows"]:
        median = row["seconds"]["median"]
        items = f"{median / row['items'] * 1e9:.1f}" if "items" in row else ""
        rate = f"{row['bytes'] / median / 1e9:.2f}" if "bytes" in row else ""
        rival = f"**{faster(row['seconds'], row['msgpack-cxx'])}**" if "msgpack-cxx" in row else ""
        rows.append([row["name"], spread(row["seconds"]), items, rate, rival])
    return table(["what", "CPU time", "ns an item", "GB/s", "faster than msgpack-cxx"], rows)
