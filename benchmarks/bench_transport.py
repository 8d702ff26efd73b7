"""One object between two processes over `transload://` beside Dask's own `tcp://`: with shared memory, and with TCP alone; and over TLS.

    python benchmarks/bench_transport.py [--runs 7] [--json FOLDER]

Time is from the call of `comm.write` to the arrival of a small answer that the peer sends when it holds the rebuilt object. Each
rival has two processes, which take turns, transfer by transfer; in the stock pair transload is not imported.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import payloads
import tables
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


async def receive(conn: Any, scheme: str) -> None:
    from distributed.comm import listen
    from distributed.protocol import to_serialize

    done = asyncio.Event()

    async def handle(comm: Any) -> None:
        peak = Peak()
        while True:
            message = await comm.read()
            if message["op"] == "stop":
                await comm.close()
                done.set()
                return
            if message["op"] == "echo":
                while message["op"] == "echo":
                    if "x" in message:
                        message["x"] = to_serialize(message["x"])
                    await comm.write(message)
                    message = await comm.read()
                continue
            if message["op"] == "begin":
                peak = Peak().__enter__()
                await comm.write("ok")
                continue
            assert message["x"] is not None
            if message["op"] == "measure":
                peak.__exit__()
            await comm.write(peak.growth if message["op"] == "measure" else "ok")
            del message

    async with listen(f"{scheme}://127.0.0.1:0", handle, **security(scheme).get_listen_args("scheduler")) as listener:
        conn.send(listener.contact_address)
        await done.wait()


async def send(conn: Any, address: str) -> None:
    """Makes each payload that `conn` names, and sends it as often as `conn` says so."""
    from distributed.comm import connect
    from distributed.protocol import to_serialize

    comm = await connect(address, **security(address.partition("://")[0]).get_connection_args("worker"))
    obj: object = None
    while (order := conn.recv()) != "stop":
        if order == "go":
            start = time.perf_counter()
            await comm.write({"op": "put", "x": to_serialize(obj)})
            await comm.read()
            conn.send(time.perf_counter() - start)
            await asyncio.sleep(0.01)
        elif order == "measure":
            await comm.write({"op": "put", "x": to_serialize(one_of_each())})
            await comm.read()
            await comm.write({"op": "begin"})
            await comm.read()
            with Peak() as peak:
                await comm.write({"op": "measure", "x": to_serialize(obj)})
                received = await comm.read()
            conn.send((peak.growth, received))
        elif order in ("ping", "array"):
            small = np.ones(128)
            seconds = []
            for _ in range(TRIPS):
                message = {"op": "echo"} if order == "ping" else {"op": "echo", "x": to_serialize(small)}
                start = time.perf_counter()
                await comm.write(message)
                await comm.read()
                seconds.append(time.perf_counter() - start)
            await comm.write({"op": "enough"})
            conn.send(sorted(seconds))
        else:
            obj = objects()[order]()
            conn.send("ready")
    await comm.write({"op": "stop"})
    await comm.close()


def receiver_main(conn: Any, scheme: str, config: dict[str, Any]) -> None:
    import dask

    dask.config.set(config)
    asyncio.run(receive(conn, scheme))


def sender_main(conn: Any, address: str, config: dict[str, Any]) -> None:
    import dask

    dask.config.set(config)
    asyncio.run(send(conn, address))


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


def start(rivals: dict[str, tuple[str, dict[str, Any]]]) -> tuple[dict[str, Any], list[Any]]:
    context = multiprocessing.get_context("spawn")
    senders: dict[str, Any] = {}
    processes = []
    for who, (scheme, config) in rivals.items():
        here, there = context.Pipe()
        processes.append(context.Process(target=receiver_main, args=(there, scheme, config), daemon=True))
        processes[-1].start()
        address = here.recv()
        senders[who], there = context.Pipe()
        processes.append(context.Process(target=sender_main, args=(there, address, config), daemon=True))
        processes[-1].start()
    return senders, processes


def stop(senders: dict[str, Any], processes: list[Any]) -> None:
    for sender in senders.values():
        sender.send("stop")
    for process in processes:
        process.join(10)


def transfers(senders: dict[str, Any], name: str, runs: int) -> dict[str, Any]:
    for sender in senders.values():
        sender.send(name)
        sender.recv()
    seconds: dict[str, list[float]] = {who: [] for who in senders}
    for i in range(runs + 2):
        for who, sender in senders.items():
            if len(seconds[who]) >= 3 and sum(seconds[who]) > BUDGET:
                continue
            sender.send("go")
            taken = sender.recv()
            if i >= 2:
                seconds[who].append(taken)
    return {who: summary(found) for who, found in seconds.items()}


def growth(name: str) -> dict[str, Any]:
    """Bytes that sender and receiver of each rival need for one object, in processes that have sent none of its size before."""
    senders, processes = start(RIVALS)
    grown = {}
    for who, sender in senders.items():
        sender.send(name)
        sender.recv()
        sender.send("measure")
        grown[who] = dict(zip(("sender", "receiver"), sender.recv(), strict=True))
    stop(senders, processes)
    return grown


def trips(senders: dict[str, Any], order: str, runs: int) -> dict[str, Any]:
    """Times there and back: of each rival the medians of its rounds, which take turns."""
    medians: dict[str, list[float]] = {who: [] for who in senders}
    for _ in range(runs):
        for who, sender in senders.items():
            sender.send(order)
            seconds = sender.recv()
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
                for direct in (True, False):
                    way = "direct" if direct else "through the scheduler"
                    for _ in range(runs):
                        start = time.perf_counter()
                        future = client.scatter(obj, hash=False, direct=direct)
                        middle = time.perf_counter()
                        client.gather(future, direct=direct)
                        end = time.perf_counter()
                        seconds.setdefault(f"scatter, {way}", {}).setdefault(who, []).append(middle - start)
                        seconds.setdefault(f"gather, {way}", {}).setdefault(who, []).append(end - middle)
                        del future
                        time.sleep(0.05)
        rows += [
            {"name": f"{name}: {way}", **{who: summary(taken) for who, taken in found.items()}}
            for way, found in seconds.items()
        ]
    return rows


def main() -> None:
    chosen = parser(__doc__, 7).parse_args()
    import transload

    found = result("transport", chosen.runs, rows=[], trips=[], encrypted=[])
    print(tables.heading(found))
    senders, processes = start(RIVALS)
    for order, name in (("ping", "ping"), ("array", "array of 1 KiB")):
        found["trips"].append({"name": name, **trips(senders, order, chosen.runs)})
    for name, make in objects().items():
        row = transfers(senders, name, chosen.runs)
        found["rows"].append({"name": name, "bytes": nbytes(transload.dumps(make())), **row})
    stop(senders, processes)
    print(tables.transport(found), flush=True)
    senders, processes = start(ENCRYPTED)
    for name in ("array 1 GiB", "1000 arrays of 8 kB"):
        row = transfers(senders, name, chosen.runs)
        found["encrypted"].append({"name": name, "bytes": nbytes(transload.dumps(objects()[name]())), **row})
    stop(senders, processes)
    print(f"\nOver TLS:\n\n{tables.encrypted(found)}", flush=True)
    found["growth"] = [{"name": row["name"], "bytes": row["bytes"], **growth(row["name"])} for row in found["rows"] if row["name"] != "array 1 GiB"]
    print(f"\nMemory:\n\n{tables.growth(found)}", flush=True)
    found["hops"] = hops(chosen.runs)
    print(f"\nThrough a cluster of one worker:\n\n{tables.hops(found)}")
    keep(chosen.json, found)


if __name__ == "__main__":
    main()
