"""One object between two processes over Dask's own `tcp://` comm on loopback: transload beside Dask as shipped.

    python benchmarks/bench_comm.py [--runs 11] [--json FOLDER]

Time is from the call of `comm.write` to the arrival of a small answer that the peer sends when it holds the rebuilt object. Stock and ours have two
processes each, which take turns, transfer by transfer; in the stock pair transload is not imported. "limit" is the same bytes through one
bare socket into warm memory and scikit-learn's own `__setstate__` of each tree.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import numpy as np
import payloads
import tables
from pairs import Pairs, drive, scatter_and_gather, serve
from payloads import MiB
from rivals import DaskWorkers, keep, nbytes, parser, result, summary

STOCK = ["dask", "pickle", "error"]
BUDGET = 15.0  # seconds; who has used them up on one object has been measured often enough


class Owner:
    """Keeps transload's hooks in this process while it lives."""

    status = "running"


def turn_on(ours: bool) -> tuple[Owner, list[str]]:
    owner = Owner()
    if not ours:
        return owner, STOCK
    import transload
    from transload.dask import _process

    _process.join(owner)
    return owner, [*STOCK, f"transload/{transload.FORMAT_VERSION}"]


def receiver(conn: Any, ours: bool) -> None:
    owner, _ = turn_on(ours)

    async def answer(comm: Any, message: Any) -> None:
        assert message["x"] is not None
        await comm.write("ok")

    asyncio.run(serve(conn, "tcp://127.0.0.1:0", answer))
    del owner


def sender(conn: Any, address: str, ours: bool) -> None:
    owner, serializers = turn_on(ours)

    async def main() -> None:
        from distributed.comm import connect

        await drive(conn, await connect(address), objects, serializers)

    asyncio.run(main())
    del owner


def objects() -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def frame() -> object:
        import pandas as pd

        return pd.DataFrame(rng.random((1_000_000, 20)), columns=[f"c{i}" for i in range(20)])

    def table() -> object:
        import pyarrow as pa

        return pa.table({"a": rng.random(32 * MiB)})

    return {
        "forest, 100 trees, 20 000 x 32": payloads.forest,
        "array 256 MiB": lambda: rng.random(32 * MiB),
        "two arrays of 128 MiB": lambda: {"a": rng.random(16 * MiB), "b": rng.random(16 * MiB)},
        "DataFrame 1e6 x 20": frame,
        "Arrow table 256 MiB": table,
        "1000 arrays of 8 kB": payloads.arrays,
        "DataFrame, 200 mixed columns x 20 000": lambda: payloads.mixed_frame(20_000, object_strings=True),
        "10 000 dataclass objects": payloads.flights,
        "[1.5] * 100 000": payloads.floats,
    }


def bare_limit(obj: Any, runs: int) -> list[float]:
    """The object's frames through one blocking socket into warm memory, plus what scikit-learn does to take them in."""
    import transload

    frames = transload.dumps(obj, ("host",))
    total = sum(memoryview(frame).nbytes for frame in frames)
    left, right = _tcp_pair()
    target = bytearray(total)
    states = []
    for tree in getattr(obj, "estimators_", []):
        _, args, state = tree.tree_.__reduce__()
        states.append((type(tree.tree_), args, state))
    times = []

    def receive() -> None:
        view, got = memoryview(target), 0
        while got < total:
            got += right.recv_into(view[got:])
        for cls, args, state in states:
            cls(*args).__setstate__(state)
        right.sendall(b"k")

    for i in range(runs + 2):
        thread = threading.Thread(target=receive)
        thread.start()
        start = time.perf_counter()
        for frame in frames:
            left.sendall(frame)
        left.recv(1)
        seconds = time.perf_counter() - start
        thread.join()
        if i >= 2:
            times.append(seconds)
    return times


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        right, _ = server.accept()
    for end in (left, right):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return left, right


def hops(obj: Any, runs: int) -> dict[str, dict[str, list[float]]]:
    """scatter and gather of one worker, direct and through the scheduler, with transload on and off."""
    from distributed import Client, LocalCluster

    import transload.dask

    results: dict[str, dict[str, list[float]]] = {}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for who in ("stock", "ours"):
            if who == "ours":
                transload.dask.enable(client)
            for way, seconds in scatter_and_gather(client, obj, runs).items():
                results.setdefault(way, {})[who] = seconds
    return results


def main() -> None:
    arguments = parser(__doc__, 11)
    arguments.add_argument("--hops", type=int, default=5, help="runs of the table through a cluster; 0 leaves it out")
    chosen = arguments.parse_args()
    import transload

    found = result("comm", chosen.runs, rows=[])
    print(tables.heading(found))
    print("`tcp://` on loopback, two processes each:\n")
    with Pairs(receiver, sender, {"ours": (True,), "stock": (False,)}) as pairs:
        measured = {name: pairs.transfers(name, chosen.runs, BUDGET) for name in objects()}
    for name, times in measured.items():
        obj = objects()[name]()
        frames = transload.dumps(obj)
        stock = DaskWorkers().dumps(obj)
        found["rows"].append({"name": name, "bytes": nbytes(frames), "frames": [len(frames) - 1, len(stock) - 1], **{who: summary(seconds) for who, seconds in times.items()}})
    trees = payloads.forest()
    found["limit"] = summary(bare_limit(trees, chosen.runs))
    print(tables.comm(found), flush=True)
    if chosen.hops:
        found["hops"] = [{"name": way, **{who: summary(seconds) for who, seconds in times.items()}} for way, times in hops(trees, chosen.hops).items()]
        print(f"\nThe forest through a cluster of one worker, {chosen.hops} runs; no bar, the hop is Dask's:\n\n{tables.hops(found)}")
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
