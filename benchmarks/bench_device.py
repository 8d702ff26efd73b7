"""One object of a GPU library between two processes and one GPU: transload beside Dask as shipped, over `tcp://`, `ucxx://` and `transload://`.

    python benchmarks/bench_device.py [--runs 7] [--only NAME ...] [--json FOLDER]

Time is from the call of `comm.write` to the arrival of a small answer that the peer sends when it holds the object and its GPU is done. Each rival
has two processes, which take turns, a few transfers in a row, of which the first does not count; in the stock pairs transload is not imported. Needs a GPU and CuPy; ucxx where it is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import tables
from pairs import Pairs, drive, serve
from payloads import GiB, MiB
from rivals import keep, parser, result, summary

STOCK = {"tcp": ["dask", "pickle", "error"], "ucxx": ["cuda", "dask", "pickle", "error"]}
IN_A_ROW = 6
BUDGET = 12.0  # seconds; who has used them up on one object has been measured often enough

Rival = tuple[str, bool, dict[str, Any]]
# Those that take turns. UCX polls, a core for each process: beside it nobody else has the machine to himself.
TCP: dict[str, Rival] = {
    "stock tcp": ("tcp", False, {}),
    "ours on tcp": ("tcp", True, {}),
    "transload, no shortcuts": ("transload", True, {"transload.local-streams": 0, "transload.cuda-ipc": False}),
}
SAME_GPU: dict[str, Rival] = {"transload": ("transload", True, {})}
UCX: dict[str, Rival] = {"stock ucxx": ("ucxx", False, {}), "ours on ucxx": ("ucxx", True, {})}


class Owner:
    """Keeps transload's hooks in this process while it lives."""

    status = "running"


def turn_on(scheme: str, ours: bool, config: dict[str, Any]) -> tuple[Owner, list[str] | None]:
    import cupy
    import dask

    dask.config.set(config)
    cupy.zeros(1)
    owner = Owner()
    if not ours:
        return owner, STOCK[scheme]
    import transload
    from transload.dask import _process

    transload.trust(Holder)
    _process.join(owner)
    return owner, None if scheme == "transload" else [*STOCK[scheme], f"transload/{transload.FORMAT_VERSION}"]


def receiver(conn: Any, scheme: str, ours: bool, config: dict[str, Any]) -> None:
    owner, families = turn_on(scheme, ours, config)
    import cupy

    async def answer(comm: Any, message: Any) -> None:
        assert message["x"] is not None
        cupy.cuda.Device().synchronize()
        await comm.write("ok")

    asyncio.run(serve(conn, f"{scheme}://127.0.0.1:0", answer, families))
    del owner


def send(conn: Any, address: str, rival: Rival, objects: Any, others: Any = None) -> None:
    """Connect as `rival` says, and do what `conn` says (`pairs.drive`)."""
    owner, serializers = turn_on(*rival)

    async def main() -> None:
        from distributed.comm import connect

        await drive(conn, await connect(address), objects, serializers, others)

    asyncio.run(main())
    del owner


def sender(conn: Any, address: str, scheme: str, ours: bool, config: dict[str, Any]) -> None:
    send(conn, address, (scheme, ours, config), objects)


class Holder:
    """An ordinary object that holds arrays of a GPU, as a fitted estimator does."""

    def __init__(self) -> None:
        import cupy as cp

        self.coef_ = cp.ones(32 * MiB, "f8")
        self.intercept_ = cp.ones(64, "f8")
        self.params = {"alpha": 1.0, "solver": "eig"}
        self.classes_ = cp.arange(10)


def objects() -> dict[str, Any]:
    import cupy as cp

    def matrix() -> object:
        import cupyx.scipy.sparse as sp

        rows, width = MiB, 64
        parts = cp.ones(rows * width, "f4"), cp.tile(cp.arange(width, dtype="i4"), rows), cp.arange(rows + 1, dtype="i4") * width
        return sp.csr_matrix(parts, shape=(rows, width))

    return {
        "CuPy 1 GiB": lambda: cp.ones(GiB // 8, "f8"),
        "CuPy 64 MiB": lambda: cp.ones(8 * MiB, "f8"),
        "CuPy 1 KiB": lambda: cp.ones(128, "f8"),
        "1000 CuPy arrays of 80 kB": lambda: [cp.full(10_000, i, "f8") for i in range(1000)],
        "CSR matrix 541 MB": matrix,
        "object with 256 MiB of CuPy": Holder,
    }


SIZES = {
    "CuPy 1 GiB": GiB,
    "CuPy 64 MiB": 64 * MiB,
    "CuPy 1 KiB": 1024,
    "1000 CuPy arrays of 80 kB": 80_000_000,
    "CSR matrix 541 MB": MiB * 64 * 8 + (MiB + 1) * 4,
    "object with 256 MiB of CuPy": 256 * MiB + 592,
}


def compare(chosen: Any, what: str, rows: list[dict[str, Any]], receiver: Any, sender: Any) -> None:
    """Measure the rows' objects between the processes of every rival, and print and keep what was found. A row without its bytes asks a sender of ours."""
    groups = [TCP, {**SAME_GPU, **(UCX if importlib.util.find_spec("distributed_ucxx") else {})}]
    found = result(what, chosen.runs, rows=rows)
    print(tables.heading(found), flush=True)
    for rivals in groups:
        with Pairs(receiver, sender, rivals) as pairs:
            for row in found["rows"]:
                times = pairs.transfers(row["name"], chosen.runs, BUDGET, IN_A_ROW)
                row.update({who: summary(seconds) for who, seconds in times.items()})
                if "bytes" not in row:
                    row["bytes"] = pairs.ask(next(who for who, (_, ours, _) in rivals.items() if ours), "size")
                print({who: f"{row[who]['median'] * 1e3:.3f} ms" for who in times}, row["name"], flush=True)
    print(tables.device(found), flush=True)
    keep(chosen.json, found)


def main() -> None:
    arguments = parser(__doc__, 7)
    arguments.add_argument("--only", nargs="*", default=list(SIZES), help="objects")
    chosen = arguments.parse_args()
    import transload

    if transload.device_count() == 0:
        print("no GPU here")
        return
    compare(chosen, "device", [{"name": name, "bytes": SIZES[name]} for name in chosen.only], receiver, sender)


if __name__ == "__main__":
    main()
