"""A client with transload, and the round that turns a whole cluster on or off.

Functions that run on other machines travel by value and import transload inside, so that one without it answers and
works on as a stock peer.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from distributed import Client
from distributed.diagnostics.plugin import WorkerPlugin

import transload

from . import _process
from ._report import Report, of_processes
from ._wire import with_marker

__all__ = ["Enabled", "collect", "disable", "enable", "measure", "turn_off", "turn_on"]

PLUGIN = "transload"

_roles: weakref.WeakKeyDictionary[Client, list[tuple[Any, str, Any]]] = weakref.WeakKeyDictionary()
_preloaded: weakref.WeakSet[Client] = weakref.WeakSet()


# ── this client ───────────────────────────────────────────────────────────────────────────────────────────────


def turn_on(client: Client) -> None:
    """Let `client` ask for our form, and push it where it is taken; again is a refresh."""
    turn_off(client)
    _process.join(client)
    scheme = client.scheduler.address.partition("://")[0]
    places = [(client.rpc, "deserializers"), (client.scheduler, "deserializers"), (client, "_deserializers")]
    _roles[client] = [(place, name, getattr(place, name)) for place, name in places]
    for place, name, before in _roles[client]:
        setattr(place, name, with_marker(before, scheme))
    client.rpc.collect()  # connections that open from now on are judged anew


def turn_off(client: Client) -> None:
    """Put everything in `client` back; the process too when nobody else in it uses transload."""
    _preloaded.discard(client)
    for place, name, before in _roles.pop(client, ()):
        setattr(place, name, before)
    _process.leave(client)


def turn_on_preloaded(client: Client) -> None:
    """As `turn_on`, for a client made inside a task: it is turned off with the process's last worker."""
    if client not in _roles:
        turn_on(client)
        _preloaded.add(client)


def turn_off_preloaded() -> None:
    for client in list(_preloaded):
        turn_off(client)


# ── by value: what runs on other machines ─────────────────────────────────────────────────────────────────────


def _by_value() -> dict[str, Any]:
    """Return the functions and the plugin that are sent by value: local objects that refer to nothing in this module."""

    def probe() -> dict[str, Any]:
        try:
            import transload
            import transload.dask
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"version": getattr(transload, "__version__", "?"), "format": transload.FORMAT_VERSION}

    def scheduler_on(workers: Any, clients: Any, dask_scheduler: Any = None) -> bool:
        try:
            from transload.dask import _scheduler
        except Exception:
            return False
        _scheduler.turn_on(dask_scheduler, workers, clients)
        return True

    def scheduler_off(dask_scheduler: Any = None) -> None:
        import sys

        if "transload.dask" in sys.modules:
            from transload.dask import _scheduler

            _scheduler.turn_off(dask_scheduler)

    def worker_off(dask_worker: Any = None) -> None:
        import sys

        if "transload.dask" in sys.modules:
            from transload.dask import _worker

            _worker.turn_off(dask_worker)

    def counts(reset: Any = False, dask_worker: Any = None, dask_scheduler: Any = None) -> bytes:
        import json

        try:
            from transload.dask._counters import counters
        except Exception:
            return b'{"transload-report": null}'
        found = json.dumps({"transload-report": counters.snapshot()}).encode()
        if reset:
            counters.reset()
        return found

    def measuring(on: Any, dask_worker: Any = None, dask_scheduler: Any = None) -> bool:
        try:
            from transload.dask import _process
        except Exception:
            return False
        _process.measure(dask_worker or dask_scheduler, on)
        return True

    class TransloadPlugin(WorkerPlugin):
        name = "transload"

        def __init__(self, trusted: tuple[str, ...]) -> None:
            self.trusted = trusted

        def setup(self, worker: Any) -> None:
            try:
                from transload.dask import _worker
            except Exception as error:
                import logging

                logging.getLogger("distributed.transload").warning(
                    "transload cannot be imported here (%s: %s), so this worker exchanges data in Dask's own form; "
                    "install transload in its environment (pip install transload) and restart it",
                    type(error).__name__,
                    error,
                )
            else:
                _worker.turn_on(worker, self.trusted)

        def teardown(self, worker: Any) -> None:
            import sys

            if "transload.dask" in sys.modules:
                from transload.dask import _worker

                _worker.turn_off(worker)

    return {k: v for k, v in locals().items()}


# ── the whole cluster ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Enabled:
    """What `enable` found: addresses of workers with transload, those without and why, and whether the scheduler has it."""

    workers: list[str] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)
    scheduler: bool = False


def enable(client: Client, mixed: bool = False) -> Enabled | Awaitable[Enabled]:
    """Let the data of `client`'s cluster go transload's way: on the client, the scheduler and every worker.

    Workers that join later are included, clients made inside tasks too; names that this process trusts
    (`transload.trust`) are trusted on the workers as well. Calling it again brings both up to date. A scheduler
    without transload is left as it is: what clients push through it stays Dask's own.

    Parameters
    ----------
    client
        Connected, synchronous or asynchronous (then the result is awaited).
    mixed
        Go on where workers have no transload; they exchange data in Dask's own form.

    Returns
    -------
    Enabled
        Who has transload and who has not.

    Raises
    ------
    transload.Failed
        A worker has no transload, or another format of it, and `mixed` is false. Nothing was changed.
    """
    result: Enabled | Awaitable[Enabled] = client.sync(_enable, client, mixed)
    return result


async def _enable(client: Client, mixed: bool) -> Enabled:
    remote = _by_value()
    found = Enabled()
    for address, answer in (await client._run(remote["probe"], on_error="return")).items():
        if isinstance(answer, dict) and answer.get("format") == transload.FORMAT_VERSION:
            found.workers.append(address)
        elif isinstance(answer, dict) and "format" in answer:
            found.without[address] = f"speaks format {answer['format']}, not {transload.FORMAT_VERSION}"
        else:
            found.without[address] = answer["error"] if isinstance(answer, dict) else repr(answer)
    if found.without and not mixed:
        lines = [f"  {address}: {why}" for address, why in found.without.items()]
        count = len(lines) + len(found.workers)
        raise transload.Failed(
            f"{len(lines)} of {count} workers cannot exchange data with transload {transload.FORMAT_VERSION}:\n"
            + "\n".join(lines)
            + "\nInstall transload in their environment (pip install transload) and restart them,"
            " or go on with them in Dask's own form: enable(client, mixed=True)"
        )
    turn_on(client)
    try:
        plugin = remote["TransloadPlugin"](tuple(transload.trusted_names()))
        await client._register_worker_plugin(plugin, PLUGIN, False)
    except BaseException:
        turn_off(client)
        raise
    try:
        found.scheduler = await client._run_on_scheduler(remote["scheduler_on"], found.workers, [client.id])
    except Exception:  # a scheduler that runs no functions is an untouched one
        found.scheduler = False
    client.rpc.collect()
    return found


def disable(client: Client) -> None | Awaitable[None]:
    """Undo `enable` on the client, the scheduler and every worker, also where a preload turned it on.

    What was spilled or published in transload's form stays readable where transload was on.
    """
    result: None | Awaitable[None] = client.sync(_disable, client)
    return result


async def _disable(client: Client) -> None:
    remote = _by_value()
    try:
        await client._unregister_worker_plugin(PLUGIN)
    except ValueError:
        pass  # it was turned on by preload
    await client._run(remote["worker_off"], on_error="ignore")
    try:
        await client._run_on_scheduler(remote["scheduler_off"])
    except Exception:  # runs no functions
        pass
    turn_off(client)
    client.rpc.collect()


def measure(client: Client, on: bool = True) -> None | Awaitable[None]:
    """Count on client, scheduler and workers what Dask does by itself, without changing it, until `on=False`."""
    result: None | Awaitable[None] = client.sync(_measure, client, on)
    return result


async def _measure(client: Client, on: bool) -> None:
    remote = _by_value()
    await client._run(remote["measuring"], on, on_error="ignore")
    try:
        await client._run_on_scheduler(remote["measuring"], on)
    except Exception:
        pass
    _process.measure(client, on)


async def collect(client: Client, reset: bool) -> Report:
    """Return the counters of every process that has transload, by role or address."""
    remote = _by_value()
    texts = {}
    try:
        texts["scheduler"] = await client._run_on_scheduler(remote["counts"], reset)
    except Exception:
        pass
    texts |= await client._run(remote["counts"], reset, on_error="ignore")
    texts["client"] = remote["counts"](reset)  # last, as asking the others counts here
    found = {name: json.loads(text)["transload-report"] for name, text in texts.items()}
    return of_processes({name: counts for name, counts in found.items() if counts is not None})
