"""What a cluster counted, put together: what `transload.dask.report` returns, and what the scheduler's page shows."""

from __future__ import annotations

from typing import Any

from ._counters import FIELDS, LINK_FIELDS, peer_host

__all__ = ["Report", "of_processes"]


class Report:
    """What crossed the borders of a cluster's processes, as counted by each of them.

    `processes` maps "client", "scheduler" or a worker's address to its counts:

    - `data`: rows `[way, road, family, objects, messages, frames, nbytes, pickled, stored]`: `nbytes` before compression,
      `stored` as sent or spilled;
    - `own`: `{kind: [count, nbytes]}`, what Dask pickled for itself: graphs, functions, exceptions, classes, control;
    - `wire`: `[messages, nbytes]` written by Dask's `tcp://` and by `transload://`, all of it;
    - `links`: the connections of `transload://` that the process opened, a dict for each peer and path;
    - `accepted`: those that a client opened to the process, by its host.

    `print(report)` shows the totals. `later - earlier` is what happened in between.
    """

    def __init__(self, processes: dict[str, dict[str, Any]]) -> None:
        self.processes = processes

    def rows(self, way: str = "encode") -> dict[tuple[str, str], dict[str, int]]:
        """Return totals over all processes: `{(road, family): {"objects": …, …, "stored": …}}`."""
        found: dict[tuple[str, str], dict[str, int]] = {}
        for counts in self.processes.values():
            for row_way, road, family, *numbers in counts["data"]:
                if row_way == way:
                    row = found.setdefault((road, family), dict.fromkeys(FIELDS, 0))
                    for name, n in zip(FIELDS, numbers, strict=True):
                        row[name] += n
        return found

    @property
    def pickled(self) -> int:
        """How many data objects were pickled, wholly or in part, by transload or by Dask."""
        return sum(row["pickled"] for row in self.rows().values())

    @property
    def own(self) -> dict[str, list[int]]:
        """What Dask pickled for itself, `{kind: [count, nbytes]}` over all processes."""
        found: dict[str, list[int]] = {}
        for counts in self.processes.values():
            for kind, (count, nbytes) in counts["own"].items():
                row = found.setdefault(kind, [0, 0])
                row[0] += count
                row[1] += nbytes
        return found

    @property
    def wire(self) -> tuple[int, int]:
        """Messages and bytes written to the wire by all processes, control messages and hops included."""
        messages, nbytes = zip((0, 0), *(counts["wire"] for counts in self.processes.values()), strict=True)
        return sum(messages), sum(nbytes)

    @property
    def links(self) -> list[dict[str, Any]]:
        """Return what went over `transload://` between each pair of processes, and by which path.

        Rows have `process` (which opened the connections), `peer` (the address that it opened them to), `path`
        ("process", "shared memory", "tcp"), `connections`, `streams`, messages and bytes sent and received, bytes
        copied on the side of `process`, seconds under way, and `reasons` why no better path was taken, each with the
        number of connections.
        """
        return [{"process": name, **row} for name, counts in self.processes.items() for row in counts.get("links", ())]

    def __sub__(self, earlier: Report) -> Report:
        nothing: dict[str, Any] = {"data": [], "own": {}, "wire": [0, 0], "links": [], "accepted": []}
        found: dict[str, dict[str, Any]] = {}
        for name, now in self.processes.items():
            then = earlier.processes.get(name, nothing)
            before = {tuple(row[:3]): row[3:] for row in then["data"]}
            rows = []
            for row in now["data"]:
                numbers = [a - b for a, b in zip(row[3:], before.get(tuple(row[:3]), [0] * len(FIELDS)), strict=True)]
                if any(numbers):
                    rows.append([*row[:3], *numbers])
            own = {
                kind: [a - b for a, b in zip(counts, then["own"].get(kind, (0, 0)), strict=True)]
                for kind, counts in now["own"].items()
            }
            found[name] = {
                "data": rows,
                "own": {kind: counts for kind, counts in own.items() if any(counts)},
                "wire": [a - b for a, b in zip(now["wire"], then["wire"], strict=True)],
                "links": _later_links(now["links"], then["links"]),
                "accepted": _later_links(now["accepted"], then["accepted"]),
            }
        return Report(found)

    def __str__(self) -> str:
        lines = [
            f"{'road':<17}{'family':<24}{'objects':>9}{'messages':>10}{'frames':>9}{'bytes':>15}{'compressed':>15}{'pickled':>9}"
        ]
        for (road, family), row in sorted(self.rows().items()):
            stored = f"{row['stored']:,}" if row["stored"] != row["nbytes"] else ""
            numbers = (
                f"{row['objects']:>9,}{row['messages']:>10,}{row['frames']:>9,}{row['nbytes']:>15,}{stored:>15}{row['pickled']:>9,}"
            )
            lines.append(f"{road:<17}{family:<24}{numbers}")
        own = ", ".join(f"{count:,} {kind} ({nbytes:,} B)" for kind, (count, nbytes) in sorted(self.own.items()))
        messages, nbytes = self.wire
        lines.append(f"data objects pickled: {self.pickled:,}")
        lines.append(f"Dask pickled for itself: {own or 'nothing'}")
        lines.append(f"written to the wire: {messages:,} messages, {nbytes:,} bytes")
        if self.links:
            title = f"{'opened by':<32}{'to':<32}{'path':<15}{'streams':>8}{'bytes sent':>16}{'received':>16}"
            lines.append(f"{title}  why no better")
        for link in self.links:
            numbers = f"{link['streams']:>8}{link['nbytes_sent']:>16,}{link['nbytes_received']:>16,}"
            ends = f"{link['process']:<32}{link['peer']:<32}{link['path']:<15}"
            lines.append(f"{ends}{numbers}  {'; '.join(link['reasons'])}".rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Report of {len(self.processes)} processes, {self.pickled} data objects pickled>"


def _later_links(now: list[dict[str, Any]], then: list[dict[str, Any]]) -> list[dict[str, Any]]:
    before: dict[tuple[str, str], dict[str, Any]] = {}
    there = {(row["peer"], row["path"]): row for row in now}
    for row in then:
        key = (row["peer"], row["path"])
        if key not in there or any(there[key][name] < row[name] for name in LINK_FIELDS):
            key = (peer_host(row["peer"]), row["path"])  # the process has added the row to that of the host since
        counts = before.setdefault(key, dict.fromkeys(LINK_FIELDS, 0))
        for name in LINK_FIELDS:
            counts[name] += row[name]
    rows = [
        {**row, **{name: row[name] - before.get(key, {}).get(name, 0) for name in LINK_FIELDS}}
        for key, row in there.items()
    ]
    return [row for row in rows if row["messages_sent"] or row["messages_received"]]


def of_processes(found: dict[str, dict[str, Any]]) -> Report:
    """Return the report of `{name: snapshot}`, in the order in which they were taken.

    A process that is there under several names counts once, by its first snapshot: with that its counters may have been
    reset. Its name is "client" where that is one of them, else the first.
    """
    names: dict[str, str] = {}
    for name, counts in found.items():
        if name == "client" or counts["process"] not in names:
            names[counts["process"]] = name
    processes: dict[str, dict[str, Any]] = {}
    for counts in found.values():
        name = names[counts["process"]]
        if name not in processes:
            processes[name] = {field: what for field, what in counts.items() if field != "process"}
    return Report(processes)
