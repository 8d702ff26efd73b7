"""A worker with transload: it asks for our form, says that it takes it, and turns failures into the task's error.

In stock Dask a value that cannot be encoded or decoded on its way between two workers stalls the task that waits for it
(distributed#6705). Here a `Refusal` takes the value's place, `execute` gives its error to the task, and the Refusal is
dropped again; it never leaves the worker, and the scheduler never hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import weakref
from collections.abc import Collection
from typing import Any

import distributed.worker
from distributed.core import AsyncTaskGroupClosedError, clean_exception
from distributed.metrics import time
from distributed.worker import Worker
from distributed.worker_state_machine import (
    ExecuteFailureEvent,
    GatherDepFailureEvent,
    GatherDepNetworkFailureEvent,
    GatherDepSuccessEvent,
    RemoveReplicasEvent,
)

import transload

from . import _metrics, _process
from ._counters import counters, on_road
from ._wire import COUNTS, TOPIC, Refusal, announcement, with_marker

__all__ = ["WorkerRole", "turn_off", "turn_off_by_listening", "turn_on", "turn_on_by_listening"]

logger = logging.getLogger("distributed.transload")

_roles: weakref.WeakKeyDictionary[Worker, WorkerRole] = weakref.WeakKeyDictionary()
_by_listening: weakref.WeakKeyDictionary[Worker, WorkerRole] = weakref.WeakKeyDictionary()

_NEEDS_VALUE = frozenset({"waiting", "ready", "constrained", "executing", "long-running", "resumed", "cancelled"})


def turn_on(worker: Worker, trusted: Collection[str] = ()) -> None:
    """Turn transload on for `worker` and trust the names; again is a refresh."""
    from . import _client

    if trusted:
        transload.trust(*trusted)
    turn_off(worker, tell=False)
    _process.join(worker)
    _roles[worker] = WorkerRole(worker)
    if worker._client is not None:  # made inside a task, earlier
        _client.turn_on_preloaded(worker._client)
    worker.log_event(TOPIC, {"worker": worker.contact_address or worker.address_safe, **announcement(push=True)})


def turn_on_by_listening(worker: Worker) -> None:
    """Turn transload on for a worker that begins to listen on `transload://`: its connections tell the scheduler."""
    if worker not in _roles:
        _process.join(worker, clients=False)
        _roles[worker] = _by_listening[worker] = WorkerRole(worker)


def turn_off_by_listening(worker: Worker) -> None:
    """Undo `turn_on_by_listening`, unless somebody turned transload on or off since."""
    role = _by_listening.pop(worker, None)
    if role is not None and _roles.get(worker) is role:
        turn_off(worker, tell=False)


def turn_off(worker: Worker, tell: bool = True) -> None:
    """Put everything in `worker` back; the process too when nobody else in it uses transload."""
    from . import _client

    role = _roles.pop(worker, None)
    if role is not None:
        role.close()
    if not _roles:
        _client.turn_off_preloaded()
    _process.leave(worker)
    if tell and role is not None:
        worker.log_event(TOPIC, {"worker": worker.contact_address or worker.address_safe})


@_process.announcer
def _announce(server: object) -> dict[str, Any] | None:
    return announcement(push=server in _roles, publish=server in _roles) if isinstance(server, Worker) else None


class WorkerRole:
    """What transload replaces in one worker, and the values that were refused there.

    All methods run on the worker's event loop.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = weakref.ref(worker)
        self._refused: set[Any] = set()

        scheme = worker.scheduler.address.partition("://")[0]
        self._lists = [(o, o.deserializers) for o in (worker.rpc, worker.scheduler)]
        for holder, before in self._lists:
            holder.deserializers = with_marker(before, scheme)

        self._methods = {name: getattr(worker, name) for name in ("gather_dep", "execute", "batched_send")}
        for name in self._methods:
            setattr(worker, name, getattr(self, name))
        self._handlers = {op: worker.handlers[op] for op in ("get_data", "gather")}
        worker.handlers["get_data"] = _around(self._handlers["get_data"], self.get_data)
        worker.handlers["gather"] = _around(self._handlers["gather"], self.gather)
        worker.handlers[COUNTS] = counters.snapshot
        _metrics.show(worker)

        worker.rpc.collect()  # connections that open from now on are judged anew

    def close(self) -> None:
        worker = self._worker()
        if worker is None:
            return
        for holder, before in self._lists:
            holder.deserializers = before
        for name, before in self._methods.items():
            if getattr(before, "__func__", None) is getattr(type(worker), name):
                worker.__dict__.pop(name, None)  # a method of the class, as in a worker that nobody touched
            else:
                setattr(worker, name, before)
        worker.handlers.update(self._handlers)
        worker.handlers.pop(COUNTS, None)
        _metrics.hide(worker)

    # ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────

    def refusal(self, key: Any) -> Refusal | None:
        """Return the Refusal that stands for `key` on this worker now."""
        worker = self._worker()
        if worker is None or key not in self._refused or key not in worker.data:
            return None
        value = worker.data[key]
        if isinstance(value, Refusal):
            return value
        self._refused.discard(key)  # a good value came since
        return None

    def holds_refusals(self) -> bool:
        return any(self.refusal(key) for key in list(self._refused))

    def _refuse(self, key: Any, error: BaseException) -> Refusal:
        logger.warning("%r cannot be brought here; what needs it will fail: %s", key, error)
        worker = self._worker()
        if worker is not None:
            self._refused.intersection_update(worker.state.tasks)
        self._refused.add(key)
        self._forget_soon(key)
        return Refusal(error)

    def _forget_soon(self, key: Any) -> None:
        worker = self._worker()
        if worker is not None:
            with contextlib.suppress(AsyncTaskGroupClosedError):
                worker._ongoing_background_tasks.call_soon(self._forget, key)

    async def _forget(self, key: Any) -> None:
        """Drop a Refusal as soon as no task here waits for its key, so that a later try fetches the value anew."""
        for pause in (0.01, 0.05, 0.2, 1, 5):
            await asyncio.sleep(pause)
            worker = self._worker()
            if worker is None:
                return
            if self.refusal(key) is None:
                continue  # not in its place yet, or gone
            ts = worker.state.tasks.get(key)
            if ts is not None and not any(t.state in _NEEDS_VALUE for t in ts.dependents):
                worker.handle_stimulus(RemoveReplicasEvent(keys=[key], stimulus_id=f"transload-refused-{time()}"))
                return

    # ── what is replaced in the worker ────────────────────────────────────────────────────────────────────────

    def batched_send(self, message: dict[str, Any]) -> None:
        """Send to the scheduler; it is not told of refused values, so that it takes no Refusal for a copy of one."""
        if self._refused and message.get("op") == "add-keys":
            keys = [key for key in message["keys"] if self.refusal(key) is None]
            if not keys:
                return
            message = {**message, "keys": keys}
        self._methods["batched_send"](message)

    async def execute(self, key: Any, *, stimulus_id: str) -> Any:
        """Run a task; it fails at once where a value that it needs was refused."""
        worker = self._worker()
        ts = worker.state.tasks.get(key) if worker is not None and self._refused else None
        for dependency in list(ts.dependencies) if ts is not None else ():
            refusal = self.refusal(dependency.key)
            if refusal is None:
                continue
            assert ts is not None
            self._forget_soon(dependency.key)
            try:
                raise refusal.error
            except BaseException as error:  # caught here, so that the report has a traceback
                return ExecuteFailureEvent.from_exception(
                    error, key=key, run_id=ts.run_id, stimulus_id=f"task-erred-{time()}"
                )
        return await self._methods["execute"](key, stimulus_id=stimulus_id)

    async def gather_dep(self, worker: str, to_gather: Collection[Any], total_nbytes: int, *, stimulus_id: str) -> Any:
        """Fetch values from another worker; one that does not arrive whole is refused, the others are fetched again."""
        event = await self._methods["gather_dep"](worker, to_gather, total_nbytes, stimulus_id=stimulus_id)
        here = self._worker()
        if not isinstance(event, GatherDepFailureEvent) or here is None:
            return event
        if here.status not in distributed.worker.WORKER_ANY_RUNNING:
            return event
        data: dict[Any, Any] = {}
        if len(to_gather) == 1:
            (key,) = to_gather
            error = clean_exception(event.exception.data)[1] or transload.Failed(event.exception_text)
            data[key] = self._refuse(key, error)
        else:
            try:
                for key in to_gather:
                    data.update(await self._fetch(key, worker))
            except OSError:
                return GatherDepNetworkFailureEvent(
                    worker=worker, total_nbytes=total_nbytes, stimulus_id=f"gather-dep-network-failure-{time()}"
                )
        return GatherDepSuccessEvent(
            worker=worker, total_nbytes=total_nbytes, data=data, stimulus_id=f"gather-dep-success-{time()}"
        )

    async def _fetch(self, key: Any, address: str) -> dict[Any, Any]:
        """Return `{key: value or Refusal}`, empty where the peer does not have it.

        @raises OSError when the peer is gone.
        """
        here = self._worker()
        assert here is not None
        while True:
            try:
                response: Any = await distributed.worker.get_data_from_worker(
                    rpc=here.rpc, keys=[key], worker=address, who=here.address
                )
            except OSError:
                raise
            except Exception as error:
                return {key: self._refuse(key, error)}
            if response["status"] == "OK":
                return dict(response["data"])
            await asyncio.sleep(0.15)  # busy

    async def get_data(self, stock: Any, *args: Any, **message: Any) -> Any:
        """Answer a request for values; what was refused here is not among them, so it is looked for elsewhere."""
        message["keys"] = [key for key in message["keys"] if self.refusal(key) is None]
        with on_road("worker to worker" if message.get("who") else "gather"):
            return await stock(*args, **message)

    async def gather(self, stock: Any, *args: Any, **message: Any) -> Any:
        """Copy values here for replicate and rebalance; a value that cannot come is an error of that call.

        Dask's own tries it again for ever (replicate), and a Refusal in its place would let rebalance drop the value.
        """
        result = await stock(*args, **message)
        for key in result.get("keys", ()):
            for address in message["who_has"][key]:
                try:
                    refusal = (await self._fetch(key, address)).get(key)
                except OSError:
                    continue
                if isinstance(refusal, Refusal):
                    raise refusal.error
        return result


def _around(stock: Any, ours: Any) -> Any:
    """Return a handler of a Dask server that calls `ours(stock, ...)`; Dask reads its parameters from `stock`."""

    @functools.wraps(stock)
    async def handler(*args: Any, **message: Any) -> Any:
        return await ours(stock, *args, **message)

    return handler


def _holds_refusals(worker: Worker) -> bool:
    role = _roles.get(worker)
    return role is not None and role.holds_refusals()


_process.refusals_of = _holds_refusals
