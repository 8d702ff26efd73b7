"""transload on Dask: results, scattered and gathered data, transfers between workers, actors, published datasets and
spilled values go as transload messages over Dask's own connections.

    import transload.dask
    transload.dask.enable(client)

docs/dask.md says what goes which way, and what a peer without transload gets.
"""

from __future__ import annotations

from collections.abc import Awaitable

from distributed import Client

from . import _scheduler as _scheduler  # its listeners say what they take
from ._client import Enabled, collect, disable, enable, measure
from ._report import Report
from ._wire import StockPeer

__all__ = ["Enabled", "Report", "StockPeer", "disable", "enable", "measure", "report"]


def report(client: Client, reset: bool = False) -> Report | Awaitable[Report]:
    """Collect the counters of every process of the client's cluster that has transload.

    Parameters
    ----------
    client
        Connected, synchronous or asynchronous (then the result is awaited).
    reset
        Start every counter anew.

    Notes
    -----
    Counting is on where `enable` or `measure` is. Collecting does not count itself as data, but its functions
    appear among what Dask pickled for itself, and its messages on the wire.
    """

    found: Report | Awaitable[Report] = client.sync(collect, client, reset)
    return found
