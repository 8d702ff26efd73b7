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


# A server connects before its preloads start; the handshake of that connection must carry our key already.
_process.join_early()


def dask_setup(server: Any) -> None:
    """Turn transload on for a scheduler, worker or client that has started."""
    if isinstance(server, Scheduler):
        _scheduler.turn_on(server)
    elif isinstance(server, Worker):
        _worker.turn_on(server)
    elif isinstance(server, Client):
        _client.turn_on_preloaded(server)


def dask_teardown(server: Any) -> None:
    """Put the server back as it closes."""
    if isinstance(server, Scheduler):
        _scheduler.turn_off(server)
    elif isinstance(server, Worker):
        _worker.turn_off(server)
    elif isinstance(server, Client):
        _client.turn_off(server)
