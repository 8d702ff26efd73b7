"""Every road that data take in a cluster goes transload's way, and nothing on it is pickled."""

import sys

import numpy as np
import pytest
from distributed import get_client, worker_client

import transload.dask

roadside = pytest.importorskip("roadside")
FRAME, make_frame, total = roadside.make_frame(), roadside.make_frame, roadside.total

pytestmark = pytest.mark.timeout(60)


def families(client, road):
    """Return (the families in which values of `road` were encoded, how many objects)."""
    rows = {family: row for (on, family), row in transload.dask.report(client).rows().items() if on == road}
    return set(rows), sum(row["objects"] for row in rows.values())


def test_result(client):
    assert client.submit(make_frame).result().equals(FRAME)
    assert families(client, "gather") == ({"transload:host"}, 1)


def test_gather_direct(client):
    futures = [client.submit(np.full, 1000, i) for i in range(4)]
    values = client.gather(futures, direct=True)
    assert [v[0] for v in values] == [0, 1, 2, 3]
    assert families(client, "gather") == ({"transload:host"}, 4)


@pytest.mark.parametrize("direct", [False, True])
def test_scatter(client, direct):
    future = client.scatter(FRAME, direct=direct)
    assert client.submit(total, future).result() == FRAME["x"].sum()
    assert families(client, "scatter") == ({"transload:host"}, 1)


@pytest.mark.parametrize("direct", [False, True])
def test_scatter_to_all(client, direct):
    future = client.scatter(FRAME, broadcast=True, direct=direct)
    assert len(client.who_has(future)[future.key]) == 2
    assert families(client, "scatter") == ({"transload:host"}, 1)
    assert families(client, "worker to worker") == ({"transload:host"}, 1)


def test_worker_to_worker(client, a, b):
    x = client.submit(make_frame, workers=a)
    assert client.submit(total, x, workers=b).result() == FRAME["x"].sum()
    assert families(client, "worker to worker") == ({"transload:host"}, 1)


def test_run(client):
    results = client.run(make_frame)
    assert all(r.equals(FRAME) for r in results.values())
    kinds, objects = families(client, "reply")
    assert kinds == {"transload:host"}
    assert objects >= 2


def test_actor(client):
    actor = client.submit(roadside.Counter, actor=True).result()
    assert actor.add(np.arange(5)).result().tolist() == [0, 1, 2, 3, 4]
    assert actor.n == 5
    assert families(client, "actor") == ({"transload:host"}, 1)
    assert families(client, "reply")[0] == {"transload:host"}


def test_actor_of_another_worker(client, a, b):
    actor = client.submit(roadside.Counter, actor=True, workers=a)

    def use(actor):
        return actor.add(np.arange(7)).result().sum()

    assert client.submit(use, actor, workers=b).result() == 21
    assert families(client, "actor") == ({"transload:host"}, 1)


def test_published_dataset(cluster, client):
    client.publish_dataset(flights=FRAME, both=[FRAME, FRAME])
    try:
        assert client.get_dataset("flights").equals(FRAME)
        first, second = client.get_dataset("both")
        assert first is second
        assert families(client, "publish") == ({"transload:host"}, 2)
    finally:
        client.unpublish_dataset("flights")
        client.unpublish_dataset("both")


def test_published_futures_stay_dasks(client):
    client.publish_dataset(later=client.scatter([1, 2, 3]))
    try:
        assert client.gather(client.get_dataset("later")) == [1, 2, 3]
    finally:
        client.unpublish_dataset("later")


def test_spilling(client, a):
    future = client.submit(np.arange, 100_000.0, workers=a)
    future = client.submit(lambda x: [x, x], future, workers=a)
    future.result()

    def spill(dask_worker):
        while dask_worker.data.fast:
            assert dask_worker.data.evict() != -1
        return len(dask_worker.data.slow)

    assert client.run(spill, workers=[a])[a] == 1

    def look(x):
        return x[0] is x[1], x[0].flags.aligned, x[0].flags.writeable, float(x[0].sum())

    assert client.submit(look, future, workers=a).result() == (True, True, True, float(np.arange(100_000).sum()))
    assert families(client, "spill") == ({"transload:host"}, 1)


def test_clients_made_inside_tasks(client):
    def inside(how):
        if how == "get_client":
            c = get_client()
            x = c.scatter(np.arange(10))
            return int(c.gather(c.submit(np.sum, x, key=f"inside-{how}")))
        with worker_client() as c:
            futures = [c.submit(np.full, 1000, i, workers=w) for i, w in enumerate(c.scheduler_info()["workers"])]
            return int(sum(v.sum() for v in c.gather(futures)))

    assert client.submit(inside, "get_client").result() == 45
    assert client.submit(inside, "worker_client").result() == 1000
    report = transload.dask.report(client)
    assert report.pickled == 0
    assert {family for _, family in report.rows()} == {"transload:host"}


def test_collection_is_one_message(client):
    def numbers():
        return list(range(2000))

    assert client.submit(numbers).result() == list(range(2000))
    row = transload.dask.report(client).rows()["gather", "transload:host"]
    assert (row["objects"], row["messages"]) == (1, 1)


def test_sharing_and_cycles_survive(client):
    def knot():
        x = np.arange(1000)
        d = {"x": x, "again": x, "in": [x, (x,)]}
        d["self"] = d
        return d

    d = client.submit(knot).result()
    assert d["x"] is d["again"] is d["in"][0] is d["in"][1][0]
    assert d["self"] is d
    assert type(d["in"]) is list


def test_namedtuples_and_subclasses_keep_their_type(client):
    from collections import OrderedDict

    back = client.submit(lambda: [np.float64(1.5), OrderedDict(a=1), 2**70]).result()
    assert [type(v) for v in back] == [np.float64, OrderedDict, int]


@pytest.mark.parametrize("shape", ["one", "several", "small", "many small", "sliced"])
def test_arrays_arrive_aligned_and_writable(client, a, b, shape):
    def make(shape):
        return {
            "one": lambda: [np.arange(2e6)],
            "several": lambda: [
                np.arange(1e6),
                np.arange(70_000, dtype="c16"),
                np.arange(3, dtype="i2"),
                np.ones(20_000),
            ],
            "small": lambda: [np.arange(10.0)],
            "many small": lambda: [np.arange(i, dtype="f8") for i in range(1, 200)],
            "sliced": lambda: [np.arange(1e6)[7::2], np.arange(30_000.0).reshape(100, 300).T],
        }[shape]()

    def look(arrays):
        return [(x.flags.aligned, x.flags.writeable) for x in arrays]

    there = client.submit(make, shape, workers=a)
    here = there.result()
    assert all(np.array_equal(x, y) for x, y in zip(here, make(shape), strict=True))
    assert set(look(here)) == {(True, True)}
    assert set(client.submit(look, there, workers=b).result()) == {(True, True)}
    assert set(look(client.gather(there, direct=True))) == {(True, True)}
    scattered = client.scatter(make(shape), workers=b)
    assert all(v == [(True, True)] for v in client.gather(client.map(lambda x: look([x]), scattered)))


def test_large_arrays_arrive_at_multiples_of_64(client, a, b):
    def make():
        return [np.arange(1e6), np.ones(20_000)]

    def look(arrays):
        return [x.ctypes.data % 64 for x in arrays]

    there = client.submit(make, workers=a, pure=False)
    assert [x.ctypes.data % 64 for x in there.result()] == [0, 0]
    assert client.submit(look, there, workers=b, pure=False).result() == [0, 0]


def test_large_frames_are_not_cut(client):
    """Dask cuts at 64 MiB and the receiver joins by copying all of it; ours arrive as one frame each, in place."""
    x = client.submit(lambda: [np.ones(9 << 20), np.zeros(9 << 20)]).result()
    assert [v.flags.aligned for v in x] == [True, True]
    assert transload.dask.report(client).rows()["gather", "transload:host"]["frames"] == 2


def test_over_tls_frames_stay_below_a_c_int(monkeypatch):
    from transload.dask import _wire

    x = np.arange(100_000.0)
    monkeypatch.setattr(_wire, "TLS_FRAME_LIMIT", 100_000)
    context = {"recipient": {"address": "tls://127.0.0.1:1", _wire.KEY: _wire.announcement(push=True)}}
    from distributed.protocol import Serialize
    from distributed.protocol.serialize import merge_and_deserialize, serialize_and_split

    header, frames = _wire.encode(serialize_and_split, Serialize(x), None, "raise", context, None, speaking=True)
    assert max(memoryview(f).nbytes for f in frames) <= 100_000
    merged = []

    def keep(header, frames, deserializers=None):
        merged.extend(frames)

    monkeypatch.setattr(sys.modules["distributed.protocol.serialize"], "deserialize", keep)
    merge_and_deserialize(header, frames)
    assert np.array_equal(_wire.decode(header, merged), x)


def test_compression_of_the_wire_is_honoured():
    """Compression is Dask's setting between hosts; what comes out of a decompressor is read-only and misaligned."""
    from distributed.protocol import compression

    from transload.dask import _wire

    x = np.zeros(100_000)
    header, frames = _wire._ours(x, True, "reply", None)
    packed = [compression.maybe_compress(f, compression="lz4") for f in frames]
    assert any(name for name, _ in packed)
    out = compression.decompress({"compression": [name for name, _ in packed]}, [f for _, f in packed])
    back = _wire.decode(header, out)
    assert np.array_equal(back, x)
    assert back.flags.writeable
    assert back.flags.aligned


def test_report_counts_pickled_objects(client):
    client.submit(lambda: type("Local", (), {"__module__": "__main__"})()).result()
    report = transload.dask.report(client)
    assert report.pickled == 1
    assert report.own["functions"][0] > 0
    assert "data objects pickled: 1" in str(report)
    later = transload.dask.report(client)
    assert (later - report).pickled == 0
    assert report.wire[1] > 0


def test_measure_counts_stock_dask_without_changing_it(cluster):
    with cluster.client() as client:
        transload.dask.measure(client)
        try:
            transload.dask.report(client, reset=True)
            client.submit(make_frame).result()
            client.submit(lambda: [np.ones(3), 1, 2]).result()
            client.submit(lambda: np.array(["a", None], dtype=object)).result()
            rows = transload.dask.report(client).rows()
            assert {family for _, family in rows} == {"pickle", "dask+pickle"}
            assert rows["other", "pickle"]["pickled"] == 1
        finally:
            transload.dask.measure(client, False)


def test_asynchronous_client(cluster):
    import asyncio

    from distributed import Client

    async def main():
        async with Client(cluster.address, asynchronous=True, set_as_default=False) as client:
            found = await transload.dask.enable(client)
            assert len(found.workers) == 2
            assert found.scheduler
            await transload.dask.report(client, reset=True)
            assert (await client.submit(make_frame)).equals(FRAME)
            report = await transload.dask.report(client)
            assert set(report.rows()) == {("gather", "transload:host")}
            await transload.dask.disable(client)

    asyncio.run(main())


def test_values_in_threads_and_large_ones(client):
    """Above 10 MiB Dask encodes and decodes in a thread of its own; roads and counters know it there too."""
    future = client.submit(lambda: np.ones(3 << 20))
    assert future.result().sum() == 3 << 20
    assert families(client, "gather") == ({"transload:host"}, 1)


def test_many_at_once(client):
    futures = client.map(lambda i: np.full(1000, i), range(300))
    assert sum(int(v[0]) for v in client.gather(futures)) == sum(range(300))
    sums = client.map(lambda *xs: sum(int(x[0]) for x in xs), *[futures[i::10] for i in range(10)])
    assert sum(client.gather(sums)) == sum(range(300))
    assert transload.dask.report(client).pickled == 0
