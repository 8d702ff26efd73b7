"""What the cluster counted, on the scheduler's HTTP server: `/transload`, a page of tables, and `/transload.json`.

It stands beside Dask's dashboard, with bokeh or without. Workers are asked when somebody looks, at most once in a
second; where nobody does it costs nothing.
"""

from __future__ import annotations

import asyncio
import html
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from distributed.scheduler import Scheduler
from tornado.web import Application, RequestHandler

from ._counters import FIELDS, LINK_FIELDS, counters
from ._report import Report, of_processes
from ._wire import COUNTS

__all__ = ["Page"]

FRESH = 1.0
"""Seconds for which an answer of the workers is shown again."""

PATIENCE = 3.0
"""Seconds after which a worker that does not answer is left out, and named."""


@dataclass
class Found:
    """What the processes of a cluster answered, those that did not, and the workers without transload."""

    report: Report
    silent: list[str]
    stock: list[str]

    def links(self) -> list[dict[str, Any]]:
        """Return the report's links and those of clients, all seen from the end that opened them."""
        rows = self.report.links
        for name, counts in self.report.processes.items():
            for row in counts["accepted"]:
                turned = {ours: row[theirs] for ours, theirs in _OTHER_SIDE.items()}
                rows.append({**row, **turned, "process": f"a client on {row['peer']}", "peer": name})
        return rows

    def document(self) -> dict[str, Any]:
        values = [
            {"way": way, "road": road, "family": family, **row}
            for way in ("encode", "decode")
            for (road, family), row in sorted(self.report.rows(way).items())
        ]
        return {
            "links": self.links(),
            "values": values,
            "pickled by Dask for itself": self.report.own,
            "wire": dict(zip(("messages", "nbytes"), self.report.wire, strict=True)),
            "processes": list(self.report.processes),
            "no answer": self.silent,
            "without transload": self.stock,
        }


_OTHER_SIDE = {
    "messages_sent": "messages_received",
    "messages_received": "messages_sent",
    "nbytes_sent": "nbytes_received",
    "nbytes_received": "nbytes_sent",
    "seconds_sending": "seconds_receiving",
    "seconds_receiving": "seconds_sending",
}


class Page:
    """The page of one scheduler; belongs to its event loop."""

    def __init__(self, scheduler: Scheduler, stock_workers: Callable[[Collection[str]], list[str]]) -> None:
        self._scheduler = weakref.ref(scheduler)
        self._stock_workers = stock_workers
        self._asking = asyncio.Lock()
        self._asked = float("-inf")
        self._found = Found(Report({}), [], [])
        prefix = _prefix(scheduler.http_application)
        self._application = Application(
            [(f"{prefix}transload", _Tables, {"page": self}), (f"{prefix}transload.json", _Document, {"page": self})]
        )
        scheduler.http_application.add_application(self._application)
        self._entry = {"url": "transload", "name": "Transload"}
        if (entries := _entries(scheduler)) is not None:
            entries.append(self._entry)

    def remove(self) -> None:
        scheduler = self._scheduler()
        if scheduler is None:
            return
        if self._application in scheduler.http_application.applications:
            scheduler.http_application.applications.remove(self._application)
        entries = _entries(scheduler)
        if entries is not None and self._entry in entries:
            entries.remove(self._entry)

    async def found(self) -> Found:
        """Ask everybody, or return what was answered just now."""
        async with self._asking:
            scheduler = self._scheduler()
            if scheduler is not None and time.monotonic() > self._asked + FRESH:
                self._found = await self._ask(scheduler)
                self._asked = time.monotonic()
            return self._found

    async def _ask(self, scheduler: Scheduler) -> Found:
        stock = set(self._stock_workers(scheduler.workers))
        addresses = [address for address in scheduler.workers if address not in stock]
        answers = await asyncio.gather(*(self._ask_one(scheduler, address) for address in addresses))
        snapshots = {"scheduler": counters.snapshot()}
        snapshots |= {address: counts for address, counts in zip(addresses, answers, strict=True) if counts}
        silent = [address for address in addresses if address not in snapshots]
        return Found(of_processes(snapshots), silent, sorted(stock))

    async def _ask_one(self, scheduler: Scheduler, address: str) -> dict[str, Any] | None:
        try:
            counts = await asyncio.wait_for(getattr(scheduler.rpc(address), COUNTS)(), PATIENCE)
        except Exception:
            return None
        return counts if isinstance(counts, dict) else None


def _prefix(application: Application) -> str:
    """Return what stands before the paths of a Dask server (`--dashboard-prefix`), as its other pages have it."""
    for rule in application.wildcard_router.rules:
        pattern = getattr(getattr(rule.matcher, "regex", None), "pattern", "")
        for page in ("health$", "metrics$"):
            if pattern.endswith(f"/{page}"):
                return str(pattern.removesuffix(page))
    return "/"


def _entries(scheduler: Scheduler) -> list[dict[str, str]] | None:
    """Return the list from which Dask makes the menu "More..." of its dashboard; None where there is no dashboard."""
    dashboard = sys.modules.get("distributed.dashboard.scheduler")
    if dashboard is None:
        return None
    try:
        entries = dashboard.template_variables(scheduler)["plots"]  # it is made once for each scheduler
    except Exception:  # not an interface that Dask promises
        return None
    return entries if isinstance(entries, list) else None


# ── what a browser gets ───────────────────────────────────────────────────────────────────────────────────────


class _Handler(RequestHandler):
    def initialize(self, page: Page) -> None:
        self.page = page


class _Document(_Handler):
    async def get(self) -> None:
        self.write((await self.page.found()).document())


class _Tables(_Handler):
    async def get(self) -> None:
        self.write(_page_of(await self.page.found()))


_LINK_TITLES = (
    "messages sent", "messages received", "bytes sent", "bytes received", "bytes copied", "seconds sending",
    "seconds receiving",
)  # fmt: skip

_STYLE = """
body { font: 14px sans-serif; margin: 1.5em; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25em 0.7em; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


def _page_of(found: Found) -> str:
    links = [
        [
            row["process"], row["peer"], row["path"], row["streams"], row["connections"],
            *(row[name] for name in LINK_FIELDS),
            "; ".join(f"{text} ({n})" for text, n in row["reasons"].items()),
        ]
        for row in found.links()
    ]  # fmt: skip
    values = [
        [way, *key, *(row[name] for name in FIELDS)]
        for way in ("encode", "decode")
        for key, row in sorted(found.report.rows(way).items())
    ]
    own = ", ".join(f"{n:,} {kind} ({nbytes:,} bytes)" for kind, (n, nbytes) in sorted(found.report.own.items()))
    messages, nbytes = found.report.wire
    notes = [f"Dask pickled for itself: {own or 'nothing'}."]
    notes.append(f"Written to the wire: {messages:,} messages, {nbytes:,} bytes.")
    notes += [f"No answer from {address}." for address in found.silent]
    notes += [f"No transload on {address}." for address in found.stock]
    link_titles = ("opened by", "to", "path", "streams", "connections", *_LINK_TITLES, "why no better (connections)")
    value_titles = ("", "road", "family", "values", "messages", "frames", "bytes", "pickled", "as sent or spilled")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">',
            f"<title>transload</title><style>{_STYLE}</style></head><body>",
            '<p><a href="status">Dask</a> · <a href="transload.json">as JSON</a></p>',
            "<h2>Connections of transload://</h2>",
            _table(link_titles, links),
            "<h2>Values</h2>",
            _table(value_titles, values),
            *(f"<p>{html.escape(note)}</p>" for note in notes),
            "</body></html>",
        ]
    )


def _table(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td class="number">{value:,.3f}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{html.escape(str(value))}</td>"
