"""Dask preload module: transload from the start, without a call of `enable`.

    dask scheduler --preload transload.dask.preload
    dask worker tcp://scheduler:8786 --preload transload.dask.preload

or for every process, clients included, in Dask's configuration: `distributed.scheduler.preload`,
`distributed.worker.preload`, `distributed.client.preload`.
"""

from __future__ import annotations

from typing import Any

from distributed import Client
from distributed.scheduler import Scheduler
from distributed.worker import Worker

from . import _client, _process, _scheduler, _worker
from ._wire import TOPIC, announcement


async def dask_setup(server: Any) -> None:
    """Turn transload on for a scheduler, worker or client that has started."""
    if isinstance(server, Scheduler):
        _scheduler.turn_on(server)
    elif isinstance(server, Worker):
        _worker.turn_on(server)
    elif isinstance(server, Client):
        if _process.nobody_asks_for_clients():
            return
        _client.turn_on_preloaded(server)
        # Its first connection was opened before: the scheduler has to be told.
        await server.scheduler.log_event(topic=TOPIC, msg={"client": server.id, **announcement()})
        server.rpc.collect()


def dask_teardown(server: Any) -> None:
    """Put the server back as it closes."""
    if isinstance(server, Scheduler):
        _scheduler.turn_off(server)
    elif isinstance(server, Worker):
        _worker.turn_off(server)
    elif isinstance(server, Client):
        _client.turn_off(server)
