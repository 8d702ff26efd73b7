"""One object between two processes over `transload://` beside Dask's own `tcp://`: with shared memory, and with TCP alone; and over TLS.

    python benchmarks/bench_transport.py [--runs 7] [--json FOLDER]

Time is from the call of `comm.write` to the arrival of a small answer that the peer sends when it holds the rebuilt object. Each
rival has two processes, which take turns, transfer by transfer; in the stock pair transload is not imported.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import payloads
import tables
from pairs import Pairs, drive, scatter_and_gather, serve
from payloads import MiB
from rivals import Peak, keep, nbytes, parser, result, summary

RIVALS: dict[str, tuple[str, dict[str, Any]]] = {
    "stock": ("tcp", {}),
    "shared memory": ("transload", {}),
    "tcp alone": ("transload", {"transload.local-streams": 0}),
}
ENCRYPTED: dict[str, tuple[str, dict[str, Any]]] = {"stock": ("tls", {}), "ours": ("transload+tls", {})}
FOREST = "forest, 300 trees, 20 000 x 32"
BUDGET = 12.0  # seconds; who has used them up on one object has been measured often enough
TRIPS = 300


def one_of_each() -> list[Any]:
    """One small object of each library, so that what a first object brings is not counted as memory of a large one."""
    import pandas as pd
    import pyarrow as pa

    return [pd.DataFrame({"a": [1.5]}), pa.table({"a": [1.5]}), payloads.forest(50, 4, 2), np.ones(3), b"x"]


def security(scheme: str) -> Any:
    """The certificates of the tests where the scheme is an encrypted one."""
    from distributed.security import Security

    folder = Path(__file__).resolve().parents[1] / "tests" / "data" / "tls"
    files = {
        f"tls_{role}_{kind}": str(folder / f"peer{'-key' if kind == 'key' else ''}.pem")
        for role in ("scheduler", "worker")
        for kind in ("cert", "key")
    }
    return Security(tls_ca_file=str(folder / "peer-authority.pem"), **files) if scheme.endswith("tls") else Security()


def receiver(conn: Any, scheme: str, config: dict[str, Any]) -> None:
    import dask
    from distributed.protocol import to_serialize

    dask.config.set(config)
    peak = Peak()

    async def answer(comm: Any, message: Any) -> None:
        nonlocal peak
        while message["op"] == "echo":
            if "x" in message:
                message["x"] = to_serialize(message["x"])
            await comm.write(message)
            message = await comm.read()
        if message["op"] == "enough":
            return
        if message["op"] == "begin":
            peak = Peak().__enter__()
            await comm.write("ok")
            return
        assert message["x"] is not None
        if message["op"] == "measure":
            peak.__exit__()
        await comm.write(peak.growth if message["op"] == "measure" else "ok")

    asyncio.run(serve(conn, f"{scheme}://127.0.0.1:0", answer, **security(scheme).get_listen_args("scheduler")))


def sender(conn: Any, address: str, scheme: str, config: dict[str, Any]) -> None:
    import dask
    from distributed.comm import connect
    from distributed.protocol import to_serialize

    dask.config.set(config)

    async def main() -> None:
        comm = await connect(address, **security(scheme).get_connection_args("worker"))

        async def measure(obj: object) -> tuple[int, int]:
            await comm.write({"op": "put", "x": to_serialize(one_of_each())})
            await comm.read()
            await comm.write({"op": "begin"})
            await comm.read()
            with Peak() as peak:
                await comm.write({"op": "measure", "x": to_serialize(obj)})
                received = await comm.read()
            return peak.growth, received

        async def trip(more: Any) -> list[float]:
            seconds = []
            for _ in range(TRIPS):
                message = {"op": "echo", **more()}
                start = time.perf_counter()
                await comm.write(message)
                await comm.read()
                seconds.append(time.perf_counter() - start)
            await comm.write({"op": "enough"})
            return sorted(seconds)

        small = np.ones(128)
        trips = {"ping": lambda _: trip(dict), "array": lambda _: trip(lambda: {"x": to_serialize(small)})}
        await drive(conn, comm, objects, None, {"measure": measure, **trips})

    asyncio.run(main())


def objects() -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def frame() -> object:
        import pandas as pd

        return pd.DataFrame(rng.random((5_000_000, 20)), columns=[f"c{i}" for i in range(20)])

    def table() -> object:
        import pyarrow as pa

        return pa.table({"a": rng.random(64 * MiB)})

    return {
        "array 512 MiB": lambda: rng.random(64 * MiB),
        "two arrays of 128 MiB": lambda: {"a": rng.random(16 * MiB), "b": rng.random(16 * MiB)},
        "DataFrame 5e6 x 20": frame,
        "Arrow table 512 MiB": table,
        "bytes 512 MiB": lambda: b"x" * (512 * MiB),
        FOREST: lambda: payloads.forest(trees=300),
        "1000 arrays of 8 kB": payloads.arrays,
        "array 1 GiB": lambda: rng.random(128 * MiB),
    }


def transfers(pairs: Pairs, name: str, runs: int) -> dict[str, Any]:
    return {who: summary(seconds) for who, seconds in pairs.transfers(name, runs, BUDGET).items()}


def growth(name: str) -> dict[str, Any]:
    """Bytes that sender and receiver of each rival need for one object, in processes that have sent none of its size before."""
    with Pairs(receiver, sender, RIVALS) as pairs:
        grown = {}
        for who in pairs.names:
            pairs.ask(who, name)
            grown[who] = dict(zip(("sender", "receiver"), pairs.ask(who, "measure"), strict=True))
    return grown


def trips(pairs: Pairs, order: str, runs: int) -> dict[str, Any]:
    """Times there and back: of each rival the medians of its rounds, which take turns."""
    medians: dict[str, list[float]] = {who: [] for who in pairs.names}
    for _ in range(runs):
        for who in pairs.names:
            seconds = pairs.ask(who, order)
            medians[who].append(seconds[len(seconds) // 2])
    return {who: summary(found) for who, found in medians.items()}


def hops(runs: int) -> list[dict[str, Any]]:
    """scatter and gather of one worker, direct and through the scheduler, in a cluster on either comm."""
    from distributed import Client, LocalCluster

    rows = []
    for name in ("DataFrame 5e6 x 20", FOREST):
        obj = objects()[name]()
        seconds: dict[str, dict[str, list[float]]] = {}
        for who, protocol in (("stock", "tcp"), ("ours", "transload")):
            given = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
            with LocalCluster(protocol=protocol, **given) as cluster, Client(cluster) as client:
                for way, found in scatter_and_gather(client, obj, runs).items():
                    seconds.setdefault(way, {})[who] = found
        rows += [
            {"name": f"{name}: {way}", **{who: summary(taken) for who, taken in rivals.items()}}
            for way, rivals in seconds.items()
        ]
    return rows


def main() -> None:
    chosen = parser(__doc__, 7).parse_args()
    import transload

    found = result("transport", chosen.runs, rows=[], trips=[], encrypted=[])
    print(tables.heading(found))
    with Pairs(receiver, sender, RIVALS) as pairs:
        for order, name in (("ping", "ping"), ("array", "array of 1 KiB")):
            found["trips"].append({"name": name, **trips(pairs, order, chosen.runs)})
        for name, make in objects().items():
            row = transfers(pairs, name, chosen.runs)
            found["rows"].append({"name": name, "bytes": nbytes(transload.dumps(make())), **row})
    print(tables.transport(found), flush=True)
    with Pairs(receiver, sender, ENCRYPTED) as pairs:
        for name in ("array 1 GiB", "1000 arrays of 8 kB"):
            row = transfers(pairs, name, chosen.runs)
            found["encrypted"].append({"name": name, "bytes": nbytes(transload.dumps(objects()[name]())), **row})
    print(f"\nOver TLS:\n\n{tables.encrypted(found)}", flush=True)
    found["growth"] = [{"name": row["name"], "bytes": row["bytes"], **growth(row["name"])} for row in found["rows"] if row["name"] != "array 1 GiB"]
    print(f"\nMemory:\n\n{tables.growth(found)}", flush=True)
    found["hops"] = hops(chosen.runs)
    print(f"\nThrough a cluster of one worker:\n\n{tables.hops(found)}")
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
