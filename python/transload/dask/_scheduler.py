"""A scheduler with transload: it says whether what passes through it may be in our form, and checks what does.

It never opens a value. Without transload on it (or with an untouched scheduler) what clients push through it stays
Dask's own, and everything that is asked for goes our way all the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.protocol.serialize import Serialized
from distributed.scheduler import Scheduler

import transload

from . import _metrics, _process
from ._page import Page
from ._wire import KEY, TOPIC, StockPeer, announcement, carries_ours, own_frames
from ._worker import _around

__all__ = ["turn_off", "turn_on", "watch"]

_roles: weakref.WeakKeyDictionary[Scheduler, SchedulerRole] = weakref.WeakKeyDictionary()


def turn_on(scheduler: Scheduler, workers: Iterable[str] = (), clients: Iterable[str] = ()) -> None:
    """Turn transload on for `scheduler`, and note addresses of workers and ids of clients that have it."""
    _process.join(scheduler)
    watch(scheduler)
    _roles[scheduler].note(workers, clients)


def watch(scheduler: Scheduler) -> None:
    """Look who of the scheduler's peers has transload, and stop our form on its way to one that has not."""
    if scheduler not in _roles:
        _roles[scheduler] = SchedulerRole(scheduler)
        scheduler.rpc.collect()


def turn_off(scheduler: Scheduler) -> None:
    """Put everything in `scheduler` back; the process too when nobody else in it uses transload."""
    role = _roles.pop(scheduler, None)
    if role is not None:
        role.shut()
    _process.leave(scheduler)


@_process.announcer
def _announce(server: object) -> dict[str, Any] | None:
    if not isinstance(server, Scheduler):
        return None
    role = _roles.get(server)
    if role is None:
        return announcement()
    return announcement(push=role.all_workers(), publish=role.all_peers())


class SchedulerRole(SchedulerPlugin):
    """Knows which workers and clients have transload, and stops our form on its way to one that has not.

    Who has it: those noted by `enable`, those that say so in an event, and those that said so when they connected.
    """

    name = "transload"

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = weakref.ref(scheduler)
        self._workers: set[str] = set()
        self._clients: set[str] = set()
        scheduler.add_plugin(self, name=self.name)
        ops = ("scatter", "proxy", "publish_put", "publish_get")  # the last are an extension's, which a scheduler may lack
        self._handlers = {op: scheduler.handlers[op] for op in ops if op in scheduler.handlers}
        for op, handler in self._handlers.items():
            scheduler.handlers[op] = _around(handler, getattr(self, f"check_{op}"))
        self._page = Page(scheduler, self.stock_workers)
        _metrics.show(scheduler)

    def shut(self) -> None:
        scheduler = self._scheduler()
        if scheduler is not None:
            self._page.remove()
            _metrics.hide(scheduler)
            scheduler.handlers.update(self._handlers)
            if scheduler.plugins.get(self.name) is self:
                scheduler.remove_plugin(name=self.name)

    async def close(self) -> None:
        """Take leave of a scheduler that closes."""
        scheduler = self._scheduler()
        if scheduler is not None:
            _metrics.hide(scheduler)

    def note(self, workers: Iterable[str], clients: Iterable[str]) -> None:
        self._workers.update(workers)
        self._clients.update(clients)

    # ── who has it ────────────────────────────────────────────────────────────────────────────────────────────

    def stock_workers(self, addresses: Collection[str]) -> list[str]:
        """Return those of `addresses` that have not said that they take our form."""
        scheduler = self._scheduler()
        streams = scheduler.stream_comms if scheduler is not None else {}
        return [a for a in addresses if a not in self._workers and not _says(streams.get(a))]

    def all_workers(self) -> bool:
        scheduler = self._scheduler()
        return scheduler is not None and not self.stock_workers(scheduler.workers)

    def all_peers(self) -> bool:
        scheduler = self._scheduler()
        if scheduler is None or not self.all_workers():
            return False
        return all(client in self._clients or _says(comm) for client, comm in scheduler.client_comms.items())

    def log_event(self, topic: str, msg: Any) -> None:
        if topic != TOPIC or not isinstance(msg, dict):
            return
        has_it = msg.get("format") == transload.FORMAT_VERSION
        for name, known in (("worker", self._workers), ("client", self._clients)):
            if name in msg:
                (known.add if has_it else known.discard)(msg[name])

    def remove_worker(self, scheduler: Scheduler, worker: str, **kwargs: Any) -> None:
        self._workers.discard(worker)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        self._clients.discard(client)

    # ── what is checked ───────────────────────────────────────────────────────────────────────────────────────

    async def check_scatter(self, stock: Any, *args: Any, **message: Any) -> Any:
        scheduler = self._scheduler()
        if scheduler is not None and carries_ours(message["data"]):
            targets = message.get("workers")
            if targets is None:
                targets = [ws.address for ws in scheduler.running]
            self._check([scheduler.coerce_address(w) for w in targets])
        return await stock(*args, **message)

    async def check_proxy(self, stock: Any, *args: Any, **message: Any) -> Any:
        if carries_ours(message["msg"]):
            self._check([message["worker"]])
        return await stock(*args, **message)

    async def check_publish_put(self, stock: Any, *args: Any, **message: Any) -> Any:
        if carries_ours(message["data"]) and not self.all_peers():
            raise StockPeer("a client or worker of this cluster has no transload; a published dataset must suit all")
        return await stock(*args, **message)

    async def check_publish_get(self, stock: Any, *args: Any, **message: Any) -> Any:
        """Hand out copies: a client in this process gets the frames themselves, and may write into them."""
        return [
            {**found, "data": Serialized(found["data"].header, own_frames(found["data"].frames))}
            if found and isinstance(found["data"], Serialized)
            else found
            for found in stock(*args, **message)
        ]

    def _check(self, addresses: Collection[str]) -> None:
        stock = self.stock_workers(addresses)
        if stock:
            raise StockPeer(f"no transload on {', '.join(stock)}")


def _says(stream: Any) -> bool:
    """Tell whether the other end of a batched stream said in its handshake that it takes our form."""
    info = getattr(getattr(stream, "comm", None), "remote_info", None) or {}
    return bool((info.get(KEY) or {}).get("format") == transload.FORMAT_VERSION)
