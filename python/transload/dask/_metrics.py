"""The counters of this process in the form of Prometheus, at `/metrics` of its Dask servers.

Dask's own pages there show what is in `prometheus_client`'s registry, where that package is installed; the collector
here is in it while the process has a scheduler or worker with transload on. A process with several has one table, so each
of their pages shows the same.

What is a label has few values: hosts, paths, roads, families; of a reason only its beginning.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import dask

from ._counters import FIELDS, add_row, counters, links, members, peer_host, plain_reason

__all__ = ["hide", "show"]

_lock = threading.Lock()
_collector: Collector | None = None


def show(server: object) -> None:
    """Let the cluster see what this process counts: a scheduler or worker in it has transload on (weakly held)."""
    global _collector
    with _lock:
        members.add(server)
        if _collector is None and (registry := _registry()) is not None:
            _collector = Collector()
            registry.register(_collector)


def hide(server: object) -> None:
    """Undo `show`."""
    global _collector
    with _lock:
        members.discard(server)
        if not members and _collector is not None:
            collector, _collector = _collector, None
            _registry().unregister(collector)


def _registry() -> Any:
    """Return the registry from which Dask's pages are made; None where `prometheus_client` is not installed."""
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return None
    return REGISTRY


class Collector:
    """What `prometheus_client` asks; thread-safe, as the counters are."""

    def __init__(self) -> None:
        namespace = dask.config.get("distributed.dashboard.prometheus.namespace")
        self._prefix = f"{namespace}_transload_" if namespace else "transload_"

    def collect(self) -> Iterator[Any]:
        if not members:
            return
        yield from self._of_links(links.rows("opened", "accepted", "mirrored"))
        yield from self._of_values(counters.snapshot())

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Any:
        from prometheus_client.core import CounterMetricFamily

        return CounterMetricFamily(self._prefix + name, text, labels=labels)

    def _of_links(self, rows: list[dict[str, Any]]) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        found = _by_host(rows)
        ends, way = ("peer", "path"), ("peer", "path", "direction")

        streams = GaugeMetricFamily(
            self._prefix + "streams", "Streams of the connection that had most, by host of the peer.", labels=ends
        )
        counted = {
            "connections": self._counter("connections", "Connections of transload://, by host of the peer.", ends),
            "nbytes_copied": self._counter("copied_bytes", "Bytes copied in this process on their way.", ends),
        }
        both_ways = {
            "messages": self._counter("messages", "Messages sent and received over transload://.", way),
            "nbytes": self._counter("bytes", "Bytes of frames sent and received over transload://.", way),
            "seconds": self._counter("transfer_seconds", "Time for which messages were under way.", way),
        }
        refused = self._counter(
            "fallbacks", "Connections that a better path was refused, and why.", ("peer", "refused", "reason")
        )
        for (host, path), row in found.items():
            streams.add_metric([host, path], row["streams"])
            for name, family in counted.items():
                family.add_metric([host, path], row[name])
            for name, family in both_ways.items():
                sent, received = ("sending", "receiving") if name == "seconds" else ("sent", "received")
                family.add_metric([host, path, "sent"], row[f"{name}_{sent}"])
                family.add_metric([host, path, "received"], row[f"{name}_{received}"])
        for (host, choice, reason), n in _reasons(rows).items():
            refused.add_metric([host, choice, reason], n)
        yield from (streams, *counted.values(), *both_ways.values(), refused)

    def _of_values(self, counts: dict[str, Any]) -> Iterator[Any]:
        row_labels = ("way", "road", "family")
        of_values = {
            "objects": self._counter("values", "Values encoded and decoded for Dask.", row_labels),
            "messages": self._counter("value_messages", "Messages in which values were encoded.", row_labels),
            "frames": self._counter("value_frames", "Frames of values.", row_labels),
            "nbytes": self._counter("value_bytes", "Bytes of values before compression.", row_labels),
            "pickled": self._counter("pickled_values", "Values that were pickled, wholly or in part.", row_labels),
        }
        # Not what was stored: a compression that is counted later takes off it, and a counter only rises.
        saved = self._counter("value_saved_bytes", "Bytes of values that compression saved.", row_labels)
        for way, road, family_name, *numbers in counts["data"]:
            labels, row = [way, road, family_name], dict(zip(FIELDS, numbers, strict=True))
            for name, family in of_values.items():
                family.add_metric(labels, row[name])
            saved.add_metric(labels, max(0, row["nbytes"] - row["stored"]))
        yield from (*of_values.values(), saved)

        pickles = self._counter("dask_pickles", "What Dask pickled for itself.", ["kind"])
        pickled = self._counter("dask_pickled_bytes", "Bytes of what Dask pickled for itself.", ["kind"])
        for kind, (n, nbytes) in counts["own"].items():
            pickles.add_metric([kind], n)
            pickled.add_metric([kind], nbytes)
        yield from (pickles, pickled)

        messages = self._counter("written_messages", "Messages written to tcp:// and transload://, of any kind.")
        written = self._counter("written_bytes", "Bytes written to tcp:// and transload://, of any kind.")
        messages.add_metric([], counts["wire"][0])
        written.add_metric([], counts["wire"][1])
        yield from (messages, written)


def _by_host(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Add up rows of `Links` by host and path: the ports of a cluster that grows and shrinks are new each time."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        add_row(found, (peer_host(row["peer"]), row["path"]), row)
    return found


def _reasons(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], int]:
    """Return `{(host, what was refused, why): connections}`."""
    found: dict[tuple[str, str, str], int] = {}
    for row in rows:
        for text, n in row["reasons"].items():
            key = (peer_host(row["peer"]), *plain_reason(text))
            found[key] = found.get(key, 0) + n
    return found
