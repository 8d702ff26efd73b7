"""One object of RAPIDS between two processes and one GPU: transload beside Dask as shipped, over `tcp://`, `ucxx://` and `transload://`.

    python benchmarks/bench_rapids.py [--runs 7] [--only NAME ...] [--json FOLDER]

Timed as in bench_device.py, and for forests until the receiver's first prediction. Needs a GPU, cuDF and cuML; ucxx where it is installed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from bench_device import compare, send, turn_on
from pairs import serve
from payloads import MiB
from rivals import parser


def receiver(conn: Any, scheme: str, ours: bool, config: dict[str, Any]) -> None:
    owner, families = turn_on(scheme, ours, config)
    import cupy

    data: dict[str, Any] = {}

    async def answer(comm: Any, message: Any) -> None:
        obj = message["x"]
        if type(obj).__name__.startswith("RandomForest") and type(obj).__module__.startswith("cuml"):
            obj.predict(data.setdefault("rows", cupy.ones((10, 32), "f4")))
        cupy.cuda.Device().synchronize()
        await comm.write("ok")

    asyncio.run(serve(conn, f"{scheme}://127.0.0.1:0", answer, families))
    del owner


def sender(conn: Any, address: str, scheme: str, ours: bool, config: dict[str, Any]) -> None:
    send(conn, address, (scheme, ours, config), objects, {"size": size})


async def size(obj: object) -> int:
    """Bytes of the object's message."""
    import transload

    return transload.serialize(obj, ("cuda", "host")).nbytes


def objects() -> dict[str, Any]:
    import cupy as cp

    def wide() -> object:
        import cudf

        rows = 200_000
        columns: dict[str, Any] = {f"f{i}": cp.random.random(rows) for i in range(100)}
        columns |= {f"i{i}": cp.random.randint(0, 1000, rows).astype("i4") for i in range(50)}
        frame = cudf.DataFrame(columns)
        texts = cudf.Series([f"name-{k % 997}" for k in range(rows)])
        for i in range(40):
            frame[f"s{i}"] = texts.copy(deep=True)
        for i in range(10):
            frame[f"c{i}"] = texts.astype("category")
        return frame

    def tall() -> object:
        import cudf

        return cudf.DataFrame({name: cp.random.random(32 * MiB) for name in "abcd"})

    def small() -> object:
        import cudf

        return cudf.DataFrame({"a": cp.arange(100), "b": cp.arange(100.0)})

    def columns() -> object:
        import cudf

        return cudf.DataFrame({f"column {i}": cp.arange(100.0) for i in range(1000)})

    def neighbors() -> object:
        import cuml

        return cuml.neighbors.NearestNeighbors().fit(cp.random.random((MiB, 64), dtype="f4"))

    def forest() -> object:
        import cuml

        rows = cp.random.random((100_000, 32), dtype="f4")
        return cuml.ensemble.RandomForestClassifier(n_estimators=100, max_depth=12).fit(rows, (rows.sum(axis=1) > 16).astype("i4"))

    def sklearn_forest() -> object:
        import numpy as np
        from sklearn.ensemble import RandomForestClassifier

        rows = np.random.default_rng(0).random((20_000, 32))
        return RandomForestClassifier(100, n_jobs=-1, random_state=0).fit(rows, rows.sum(axis=1) > 16)

    return {
        "cuDF 200 mixed columns": wide, "cuDF 4 columns, 1 GiB": tall, "cuDF 2 columns of 100 rows": small, "cuDF 1000 columns of 100 rows": columns,
        "cuML NearestNeighbors 256 MiB": neighbors, "cuML forest, to its first prediction": forest, "scikit-learn forest": sklearn_forest,
    }  # fmt: skip


NAMES = (
    "cuDF 200 mixed columns", "cuDF 4 columns, 1 GiB", "cuDF 2 columns of 100 rows", "cuDF 1000 columns of 100 rows", "cuML NearestNeighbors 256 MiB",
    "cuML forest, to its first prediction", "scikit-learn forest",
)  # fmt: skip


def main() -> None:
    arguments = parser(__doc__, 7)
    arguments.add_argument("--only", nargs="*", default=list(NAMES), help="objects")
    chosen = arguments.parse_args()
    import transload

    if transload.device_count() == 0:
        print("no GPU here")
        return
    compare(chosen, "rapids", [{"name": name} for name in chosen.only], receiver, sender)


if __name__ == "__main__":
    main()
