"""What is replaced in a process while transload is on in it, and put back when the last one leaves.

Encoding replaces two module globals, as `serialize_and_split` is bound in `distributed.protocol.core` (every comm) and
in `distributed.protocol.serialize` (spilling). `serialize`, the families "dask" and "pickle" and the dispatch tables
stay Dask's, and so do task graphs. Beside them: what an end says of itself in a handshake, the labels of two client
calls, three places where a failed transfer would stall somebody, and five where things are counted.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import dask
from dask.utils import parse_bytes
from distributed import system
from distributed.comm.addressing import get_address_host
from distributed.scheduler import Scheduler
from distributed.worker import Worker

from .. import _core
from . import _wire
from ._counters import counters, on_road, packed_by_dask, pickled_by_dask

__all__ = [
    "announcer",
    "carry",
    "host_of",
    "join",
    "leave",
    "listens",
    "listens_no_more",
    "measure",
    "pool_was_used",
    "put_down",
    "says_on_our_comm",
    "speaking",
]

PRELOAD = "transload.dask.preload"

_lock = threading.RLock()
_speakers: weakref.WeakSet[Any] = weakref.WeakSet()
_speaker_refs: tuple[weakref.ref[Any], ...] = ()  # the same, to be read by any thread
_measurers: weakref.WeakSet[Any] = weakref.WeakSet()
_carriers: weakref.WeakSet[Any] = weakref.WeakSet()
_installing = False
_patches: list[tuple[Any, str, Any, Any]] = []
_client_preload: tuple[Any, list[str]] | None = None
_announcers: list[Callable[[Any], dict[str, Any] | None]] = []
refusals_of: Callable[[Any], bool] = lambda worker: False  # set by _worker: does this worker hold a Refusal?


def speaking() -> bool:
    """Tell whether a client, worker or scheduler of this process has transload turned on."""
    owners = [ref() for ref in _speaker_refs]
    return any(owner is not None and not _is_closed(owner) for owner in owners)


def _is_closed(owner: Any) -> bool:
    return bool(getattr(owner.status, "name", owner.status) == "closed")


def join(owner: object, clients: bool = True) -> None:
    """Turn transload on in this process on behalf of `owner` (a client, worker or scheduler; weakly held).

    With `clients`, also for clients that are made in this process from now on.
    """
    global _speaker_refs
    # One that is closed and forgotten, without `leave`, puts back what it needed when it is collected.
    weakref.finalize(owner, _settle_where_possible).atexit = False
    with _lock:
        _speakers.add(owner)
        _speaker_refs = tuple(map(weakref.ref, _speakers))
        size_pool(owner)
        _install()
        if clients:
            _preload_clients(True)


def leave(owner: object) -> None:
    """Undo `join`; with the last one everything that was replaced is put back.

    The decoder stays: what was spilled or published in our form can still be read.
    """
    global _speaker_refs
    with _lock:
        _speakers.discard(owner)
        _speaker_refs = tuple(map(weakref.ref, _speakers))
        _settle()


def measure(owner: object, on: bool) -> None:
    """Count what stock Dask does in this process, on behalf of `owner`; changes nothing that is sent."""
    with _lock:
        (_measurers.add if on else _measurers.discard)(owner)
        _install() if on else _settle()


def carry(carrier: object) -> None:
    """Keep what is replaced in place while `carrier` is there: a connection or listener of `transload://`; weakly held.

    On it values go in our form, whoever else in this process turns transload on or off; others see none of it.
    """
    # Made before the set's own reference: the interpreter calls the youngest first.
    weakref.finalize(carrier, _settle_where_possible).atexit = False
    with _lock:
        _carriers.add(carrier)
        _install()


def carried() -> list[Any]:
    """Return the connections and listeners of `transload://` that are there."""
    with _lock:
        return list(_carriers)


def put_down(carrier: object) -> None:
    """Undo `carry`."""
    with _lock:
        if carrier in _carriers:
            _carriers.discard(carrier)
            _settle()


def listens(server: object) -> None:
    """Note that `server` listens on our comm: a scheduler looks who takes our form, a worker is turned on."""
    from . import _scheduler, _worker

    size_pool(server)
    if isinstance(server, Scheduler):
        _scheduler.watch(server)
    elif isinstance(server, Worker):
        _worker.turn_on_by_listening(server)


def listens_no_more(server: object) -> None:
    """Undo `listens`; a scheduler looks on, as its other listeners may be there still."""
    from . import _worker

    if isinstance(server, Worker):
        _worker.turn_off_by_listening(server)


def says_on_our_comm(server: object) -> dict[str, Any]:
    """Return what the listening end of a connection of ours says of itself: whoever it is can read our form."""
    if isinstance(server, Scheduler):  # but what it passes on is for others
        for announce in _announcers:
            if (says := announce(server)) is not None:
                return says
    return _wire.announcement(push=True, publish=True)


def host_of(server: object, bound: Sequence[tuple[str, int]]) -> str | None:
    """Return the address by which this host reaches the scheduler of `server`, where it has one and listens there.

    Dask gives a listener on a wildcard a `default_host` for its own schemes only.
    """
    scheduler = getattr(getattr(server, "scheduler", None), "address", None)
    host = _host_towards(get_address_host(scheduler)) if isinstance(scheduler, str) else None
    if host is None or not any((":" in host) == (":" in one) for one, _ in bound):
        return None
    return host


def _host_towards(host: str) -> str | None:
    """Return the address of this host from which packets to `host` go; None where there is no way to it."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _settle_where_possible() -> None:
    """Settle after an object was collected, which may be at any place: in another's `_install`, too. Then a later one does."""
    if _lock.acquire(blocking=False):
        try:
            if not _installing:
                _settle()
        finally:
            _lock.release()


def nobody_asks_for_clients() -> bool:
    """Tell whether new clients were to be turned on by somebody who has closed since; from now on they are not."""
    with _lock:
        asked = _client_preload is not None
        _settle()
        return asked and _client_preload is None


def _settle() -> None:
    global _speaker_refs
    for owner in list(_speakers):
        if _is_closed(owner):
            _speakers.discard(owner)
            _speaker_refs = tuple(map(weakref.ref, _speakers))
    if not _speakers:
        _preload_clients(False)
        if not _measurers and not _carriers:
            _uninstall()


# ── what is replaced ──────────────────────────────────────────────────────────────────────────────────────────


def _install() -> None:
    global _installing
    if _patches:
        return
    _installing = True
    try:
        _replace_all()
    finally:
        _installing = False


def _replace_all() -> None:
    # `import distributed.protocol.serialize as s` would give the function of that name.
    serialize = importlib.import_module("distributed.protocol.serialize")
    core = importlib.import_module("distributed.protocol.core")
    pickle = importlib.import_module("distributed.protocol.pickle")
    tcp = importlib.import_module("distributed.comm.tcp")
    comm = importlib.import_module("distributed.comm.core")
    client = importlib.import_module("distributed.client")
    actor = importlib.import_module("distributed.actor")
    worker = importlib.import_module("distributed.worker")

    serialize.register_serialization_family(_wire.MARKER, None, _wire.decode)
    _replace(core, "serialize_and_split", _to_comm)
    _replace(serialize, "serialize_and_split", _to_disk)
    _replace(core, "maybe_compress", _counting_compressor)
    _replace(serialize, "maybe_compress", _counting_compressor)
    _replace(comm.Comm, "handshake_info", _handshake_info)
    _replace(comm.Listener, "on_connection", _on_connection)
    _replace(client.Client, "_scatter", functools.partial(_labelled, "scatter"))
    _replace(client.Client, "_publish_dataset", functools.partial(_labelled, "publish"))
    _replace(client.Client, "_gather", _gather)
    _replace(actor.Actor, "_worker_rpc", _actor_rpc)
    _replace(worker, "get_data_from_worker", _get_data_from_worker)
    _replace(pickle, "dumps", functools.partial(_counting_pickler, None))
    _replace(client, "dumps", functools.partial(_counting_pickler, "functions"))
    _replace(tcp.TCP, "write", _counting_write)
    _replace(tcp, "host_array", _pooled)


def _replace(place: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = inspect.getattr_static(place, name)
    ours = make(original)
    _patches.append((place, name, original, ours))
    setattr(place, name, ours)


def _uninstall() -> None:
    while _patches:
        place, name, original, ours = _patches.pop()
        if inspect.getattr_static(place, name) is ours:  # else somebody wrapped it after us: then ours only passes on
            setattr(place, name, original)


POOLED = 64 * 1024
"""From this size (bytes) on a receive buffer comes from the pool."""

IDLE = 10.0
"""Seconds without a large message after which the pool's idle memory goes back to the system."""

_last_pooled = 0.0
_idle_loop: asyncio.AbstractEventLoop | None = None


def _pooled(stock: Any) -> Any:
    """Receive buffers from transload's pool: aligned to 64 bytes, and warm, where fresh pages cost more than the wire."""

    @functools.wraps(stock)
    def host_array(n: int) -> memoryview:
        if n < POOLED or not (_carriers or speaking()):
            view: memoryview = stock(n)
            return view
        pool_was_used(asyncio.get_running_loop())
        return _core.allocate(n)

    return host_array


KEPT_LEAST, KEPT_MOST = 256 << 20, 4 << 30
"""Bytes that may lie idle in the pool, between which the size of this process's memory decides."""


def size_pool(owner: object = None) -> None:
    """Let the pool keep what `transload.pool` says, or an eighth of a worker's memory limit, a sixteenth of the machine's."""
    said = dask.config.get("transload.pool", "auto")
    if said == "auto":
        limit = getattr(getattr(owner, "memory_manager", None), "memory_limit", None)
        share = limit // 8 if limit else system.MEMORY_LIMIT // 16
        kept = min(max(share, KEPT_LEAST), KEPT_MOST)
    else:
        kept = parse_bytes(said)
    _core.keep_in_pool(kept)


def pool_was_used(loop: asyncio.AbstractEventLoop) -> None:
    """Let the pool's idle memory go some time after the last large message."""
    global _last_pooled, _idle_loop
    _last_pooled = time.monotonic()
    if _idle_loop is None or _idle_loop.is_closed():
        _idle_loop = loop
        loop.call_later(IDLE, _release_when_idle)


def _release_when_idle() -> None:
    global _idle_loop
    left = _last_pooled + IDLE - time.monotonic()
    if left > 0:
        asyncio.get_running_loop().call_later(left, _release_when_idle)
        return
    _idle_loop = None
    _core.release_pool()


def _to_comm(stock: Any) -> Any:
    @functools.wraps(stock)
    def serialize_and_split(
        x: Any, serializers: Any = None, on_error: str = "message", context: Any = None, size: int | None = None
    ) -> Any:
        ours = _wire.on_our_comm(context)
        return _wire.encode(stock, x, serializers, on_error, context, size, speaking=ours or speaking())

    return serialize_and_split


def _to_disk(stock: Any) -> Any:
    @functools.wraps(stock)
    def serialize_and_split(x: Any, **kwargs: Any) -> Any:
        return _wire.encode_spilled(stock, x, kwargs, speaking=speaking())

    return serialize_and_split


def _handshake_info(stock: Any) -> Any:
    @functools.wraps(stock)
    def handshake_info(self: Any) -> dict[str, Any]:
        info: dict[str, Any] = stock(self)
        return {**info, _wire.KEY: _wire.announcement()} if speaking() else info

    return handshake_info


def _on_connection(stock: Any) -> Any:
    @functools.wraps(stock)
    async def on_connection(self: Any, comm: Any, handshake_overrides: dict[str, Any] | None = None) -> None:
        if speaking() and _wire.KEY not in (handshake_overrides or {}):
            server = getattr(getattr(self, "comm_handler", None), "__self__", None)
            for announce in _announcers:
                if (says := announce(server)) is not None:
                    handshake_overrides = {**(handshake_overrides or {}), _wire.KEY: says}
        await stock(self, comm, handshake_overrides)

    return on_connection


def announcer(announce: Callable[[Any], dict[str, Any] | None]) -> Callable[[Any], dict[str, Any] | None]:
    """Register what a listening server of some kind says of itself; the function returns None for other kinds."""
    _announcers.append(announce)
    return announce


def _labelled(name: str, stock: Any) -> Any:
    """Put a client's call on its road; where the scheduler finds that a target is stock, say it again in stock form."""

    @functools.wraps(stock)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and hasattr(args[0], "__next__"):  # an iterator can be read once, the call may be made twice
            values = list(args[0])
            again: Callable[[], tuple[Any, ...]] = lambda: (iter(values), *args[1:])
        else:
            again = lambda: args
        try:
            with on_road(name):
                return await stock(self, *again(), **kwargs)
        except _wire.StockPeer:
            self.rpc.collect()  # what opens now is judged anew
            with on_road("stock"):
                return await stock(self, *again(), **kwargs)
        finally:
            _judge_anew(self.rpc)

    return call


JUDGED = 5.0
"""Seconds for which an answer "not now" to a push is believed; then connections are opened anew, to ask again."""

_judged = 0.0


def _judge_anew(pool: Any) -> None:
    global _judged
    if pool is not None and _wire.declined.is_set() and time.monotonic() - _judged > JUDGED:
        _judged = time.monotonic()
        _wire.declined.clear()
        pool.collect()


def _gather(stock: Any) -> Any:
    # No coroutine of ours around Dask's: it would stand in the traceback of every task that failed.
    @functools.wraps(stock)
    def _gather(self: Any, *args: Any, local_worker: Any = None, **kwargs: Any) -> Any:
        # A client inside a task looks into its worker first; where a Refusal stands there it must ask the others.
        if local_worker is not None and refusals_of(local_worker):
            local_worker = None
        return stock(self, *args, local_worker=local_worker, **kwargs)

    return _gather


class _Pool:
    """A connection pool that keeps what is given back until it is known how the call ended."""

    def __init__(self, pool: Any) -> None:
        self.connect, self.serializers, self.deserializers = pool.connect, pool.serializers, pool.deserializers
        self.returned: list[tuple[str, Any]] = []

    def reuse(self, address: str, comm: Any) -> None:
        self.returned.append((address, comm))


def _get_data_from_worker(stock: Any) -> Any:
    @functools.wraps(stock)
    async def get_data_from_worker(rpc: Any, *args: Any, **kwargs: Any) -> Any:
        # A value that cannot be decoded leaves the other end waiting for its "OK"; Dask would use the connection for
        # the next request, which the other end takes for the answer, and that request fails for no reason of its own.
        pool = _Pool(rpc)
        try:
            return await stock(pool, *args, **kwargs)
        except BaseException:
            for _, comm in pool.returned:
                comm.abort()
            raise
        finally:
            for address, comm in pool.returned:
                rpc.reuse(address, comm)

    return get_data_from_worker


class _ActorRPC:
    """An actor's connection whose failures become the error of the call; with Dask's own the caller waits for ever."""

    def __init__(self, rpc: Any) -> None:
        self._rpc = rpc

    def __getattr__(self, op: str) -> Any:
        call = getattr(self._rpc, op)

        async def guarded(**message: Any) -> Any:
            try:
                try:
                    with on_road("actor"):
                        return await call(**message)
                except _wire.StockPeer:
                    with on_road("stock"):
                        return await call(**message)
            except OSError:
                raise  # Dask looks for the actor elsewhere
            except Exception as error:
                return {"status": "error", "exception": error}
            finally:
                rpc = vars(self._rpc).get("rpc", self._rpc)  # of a ProxyRPC: the scheduler's
                _judge_anew(vars(rpc).get("pool"))

        return guarded


def _actor_rpc(stock: property) -> property:
    return property(lambda self: _ActorRPC(stock.__get__(self, type(self))), doc=stock.__doc__)


def _counting_pickler(kind: str | None, stock: Any) -> Any:
    @functools.wraps(stock)
    def dumps(x: Any, **kwargs: Any) -> bytes:
        result: bytes = stock(x, **kwargs)
        if _patches:
            pickled_by_dask(x, len(result), kind)
        return result

    return dumps


def _counting_compressor(stock: Any) -> Any:
    @functools.wraps(stock)
    def maybe_compress(payload: Any, **kwargs: Any) -> Any:
        name, stored = stock(payload, **kwargs)
        packed_by_dask(payload, _core.frames_nbytes((stored,)))
        return name, stored

    return maybe_compress


def _counting_write(stock: Any) -> Any:
    @functools.wraps(stock)
    async def write(self: Any, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        nbytes: int = await stock(self, msg, serializers=serializers, on_error=on_error)
        counters.wire(nbytes)
        return nbytes

    return write


# ── clients made inside tasks ─────────────────────────────────────────────────────────────────────────────────


def _preload_clients(on: bool) -> None:
    """Let every client that is made in this process from now on load our preload module, or stop that."""
    global _client_preload
    if on and _client_preload is None:
        before = dask.config.get("distributed.client.preload", [])
        names = [before] if isinstance(before, str) else list(before)
        if PRELOAD not in names:
            names.append(PRELOAD)
            _client_preload = (before, names)
            dask.config.set({"distributed.client.preload": names})
    elif not on and _client_preload is not None:
        before, names = _client_preload
        _client_preload = None
        if dask.config.get("distributed.client.preload", None) == names:
            dask.config.set({"distributed.client.preload": before})
