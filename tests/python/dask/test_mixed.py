"""Clusters where somebody has no transload: what goes to him is what stock Dask sends, whoever stands between."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from distributed import wait

import transload
import transload.dask

roadside = pytest.importorskip("roadside")
WITHOUT = Path(__file__).parent / "without_transload"
FRAME = roadside.make_frame()
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module", params=["with", "without"], ids=["scheduler with", "scheduler without"])
def mixed_cluster(request, make_cluster):
    """One worker with transload, one without; the scheduler either way."""
    with make_cluster(request.param, {"ours": "with", "stock": "without"}) as cluster:
        cluster.kind = request.param
        yield cluster


@pytest.fixture
def cluster(mixed_cluster):
    return mixed_cluster


@pytest.fixture
def client(cluster):
    with cluster.client() as client:
        found = transload.dask.enable(client, mixed=True)
        assert len(found.workers) == 1
        assert len(found.without) == 1
        assert found.scheduler is (cluster.kind == "with")
        transload.dask.report(client, reset=True)
        yield client
        transload.dask.disable(client)


@pytest.fixture
def ours(cluster, client):
    return cluster.addresses(client)["ours"]


@pytest.fixture
def stock(cluster, client):
    return cluster.addresses(client)["stock"]


def families(client, road):
    return {family for (on, family) in transload.dask.report(client).rows() if on == road}


def test_enable_names_each_worker_without_and_the_remedy(cluster):
    with cluster.client() as client:
        address = cluster.addresses(client)["stock"]
        before = client.rpc.deserializers
        with pytest.raises(transload.Failed) as caught:
            transload.dask.enable(client)
        text = str(caught.value)
        assert address in text
        assert "No module named 'transload'" in text
        assert "pip install transload" in text
        assert "mixed=True" in text
        assert cluster.addresses(client)["ours"] not in text
        assert client.rpc.deserializers is before
        assert client.submit(roadside.make_frame, workers=address, pure=False).result().equals(FRAME)


# The twelve checks: one value of each road, from and to either worker.


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("where", ["ours", "stock"])
def test_results(cluster, client, where, direct):
    x = client.submit(roadside.make_frame, workers=cluster.addresses(client)[where], pure=False)
    wait(x)
    assert client.gather(x, direct=direct).equals(FRAME)
    assert families(client, "gather") == ({"transload:host"} if where == "ours" else set())


def test_from_ours_to_stock(client, ours, stock):
    x = client.submit(roadside.make_frame, workers=ours, pure=False)
    assert client.submit(roadside.total, x, workers=stock).result() == FRAME["x"].sum()
    assert families(client, "worker to worker") == {"pickle"}


def test_from_stock_to_ours(client, ours, stock):
    x = client.submit(roadside.make_frame, workers=stock, pure=False)
    assert client.submit(roadside.total, x, workers=ours).result() == FRAME["x"].sum()


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("where", ["ours", "stock"])
def test_scatter(cluster, client, where, direct):
    """A direct one goes our way to a worker that takes it; through a scheduler it stays stock while one worker is."""
    address = cluster.addresses(client)[where]
    other = cluster.addresses(client)["stock" if where == "ours" else "ours"]
    x = client.scatter(FRAME, workers=[address], direct=direct, hash=False)
    assert client.submit(roadside.total, x, workers=address).result() == FRAME["x"].sum()
    assert client.submit(roadside.total, x, workers=other, pure=False).result() == FRAME["x"].sum()
    assert families(client, "scatter") == ({"transload:host"} if direct and where == "ours" else {"pickle"})


@pytest.mark.parametrize("direct", [False, True])
def test_scatter_to_all(client, direct):
    x = client.scatter(FRAME, broadcast=True, direct=direct, hash=False)
    assert len(client.who_has(x)[x.key]) == 2


@pytest.mark.parametrize("where", ["ours", "stock"])
def test_actor(cluster, client, where):
    actor = client.submit(roadside.Counter, actor=True, workers=cluster.addresses(client)[where], pure=False).result()
    assert actor.add(np.arange(5)).result(timeout=20).tolist() == [0, 1, 2, 3, 4]
    assert actor.n == 5


def test_actors_of_each_other(client, ours, stock):
    use = lambda actor: int(actor.add(np.arange(7)).result(timeout=20).sum())
    for home, user in ((ours, stock), (stock, ours)):
        actor = client.submit(roadside.Counter, actor=True, workers=home, pure=False)
        assert client.submit(use, actor, workers=user, pure=False).result(timeout=30) == 21


def test_published_dataset_suits_all(client, stock):
    client.publish_dataset(flights=FRAME)
    try:
        assert client.get_dataset("flights").equals(FRAME)

        def inside():
            from distributed import get_client

            return float(get_client().get_dataset("flights")["x"].sum())

        assert client.submit(inside, workers=stock, pure=False).result(timeout=20) == FRAME["x"].sum()
        assert families(client, "publish") == {"pickle"}
    finally:
        client.unpublish_dataset("flights")


def test_run(client):
    assert all(r.equals(FRAME) for r in client.run(roadside.make_frame).values())


@pytest.mark.parametrize("where", ["ours", "stock"])
def test_client_inside_a_task(cluster, client, where):
    names = cluster.addresses(client)

    def inside(others):
        from distributed import worker_client

        with worker_client() as c:
            futures = [c.submit(np.full, 1000, i, workers=[w], pure=False) for i, w in enumerate(others)]
            return int(sum(v.sum() for v in c.gather(futures)))

    assert client.submit(inside, list(names.values()), workers=names[where], pure=False).result(timeout=30) == 1000


def test_shuffle_between_workers(client):
    dd = pytest.importorskip("dask.dataframe")
    left = dd.from_pandas(pd.DataFrame({"k": np.arange(300) % 7, "x": np.arange(300)}), npartitions=4)
    right = dd.from_pandas(pd.DataFrame({"k": np.arange(7), "y": np.arange(7) * 10}), npartitions=2)
    merged = client.compute(left.merge(right, on="k", shuffle_method="p2p")).result(timeout=50)
    assert len(merged) == 300
    assert (merged["y"] == merged["k"] * 10).all()


def test_an_error_of_a_stock_worker_arrives(client, stock):
    with pytest.raises(ZeroDivisionError):
        client.submit(lambda: 1 / 0, workers=stock).result(timeout=20)


def test_the_stock_worker_said_why(cluster, client):
    deadline = time.monotonic() + 5
    while "pip install transload" not in cluster.log("stock"):
        assert time.monotonic() < deadline, cluster.log("stock")
        time.sleep(0.05)


def test_what_a_stock_worker_sends_and_nobody_can_read_is_the_tasks_error(client, ours, stock):
    """The receiver has transload: that suffices."""
    x = client.submit(roadside.CannotArrive, workers=stock, pure=False)
    y = client.submit(lambda x: 1, x, workers=ours)
    with pytest.raises(Exception, match="cannot be built here"):
        y.result(timeout=20)
    z = client.submit(roadside.Holder, workers=stock, pure=False)
    with pytest.raises(Exception, match="Holder"):
        client.submit(lambda x: 1, z, workers=ours).result(timeout=20)


@contextlib.contextmanager
def turned_on(client, **kwargs):
    transload.dask.enable(client, **kwargs)
    try:
        yield
    finally:
        transload.dask.disable(client)


def test_a_stock_worker_comes_late(make_cluster):
    """It starts as a stock peer, says why in its log, and is sent Dask's bytes, also over connections opened before."""
    with make_cluster("with", {"ours": "with"}) as cluster, cluster.client() as client, turned_on(client):
        x = client.scatter(FRAME, hash=False)
        transload.dask.report(client, reset=True)
        client.scatter(FRAME, hash=False)
        assert families(client, "scatter") == {"transload:host"}

        cluster.worker("late", "without")
        client.wait_for_workers(2)
        names = cluster.addresses(client)
        assert "pip install transload" in cluster.log("late")
        assert client.submit(roadside.total, x, workers=names["late"]).result(timeout=20) == FRAME["x"].sum()
        y = client.scatter(FRAME, workers=[names["late"]], hash=False)
        assert client.submit(roadside.total, y, workers=names["ours"]).result(timeout=20) == FRAME["x"].sum()
        actor = client.submit(roadside.Counter, actor=True, workers=names["late"]).result(timeout=20)
        assert actor.add(np.arange(4)).result(timeout=20).tolist() == [0, 1, 2, 3]
        client.publish_dataset(flights=FRAME)
        try:
            assert families(client, "publish") <= {"pickle"}
        finally:
            client.unpublish_dataset("flights")
        z = client.scatter(FRAME, broadcast=True, hash=False)
        assert len(client.who_has(z)[z.key]) == 2

        cluster.stop("late")
        deadline = time.monotonic() + 20
        while len(cluster.addresses(client)) == 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        client.rpc.collect()
        transload.dask.report(client, reset=True)
        client.scatter(FRAME, hash=False)
        assert families(client, "scatter") == {"transload:host"}


def test_actor_argument_on_a_connection_opened_before_a_stock_worker_came(make_cluster):
    """The scheduler stops our form on its way to the late worker, and the client says it again in stock form."""
    with make_cluster("with", {"ours": "with"}) as cluster, cluster.client() as client, turned_on(client):
        one = client.submit(roadside.Counter, actor=True).result(timeout=20)
        assert one.add(np.arange(4)).result(timeout=20).tolist() == [0, 1, 2, 3]
        cluster.worker("late", "without")
        client.wait_for_workers(2)
        late = cluster.addresses(client)["late"]
        two = client.submit(roadside.Counter, actor=True, workers=late, pure=False).result(timeout=20)
        for _ in range(3):
            assert two.add(np.arange(4)).result(timeout=20).tolist() == [0, 1, 2, 3]


def test_a_stock_client_in_a_process_of_its_own(make_cluster, tmp_path):
    """All machines have transload, one client has not: it reads results, errors and what was published while it is there."""
    with make_cluster("with", {"a": "with", "b": "with"}) as cluster, cluster.client() as client, turned_on(client):
        code = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(roadside.__file__.rpartition("/")[0])!r})
import roadside
from distributed import Client
try:
    import transload
    raise SystemExit("transload is here")
except ModuleNotFoundError:
    pass
with Client({cluster.address!r}) as client:
    frame = roadside.make_frame()
    x = client.submit(roadside.make_frame, pure=False)
    assert x.result().equals(frame)
    assert client.gather(x, direct=True).equals(frame)
    assert client.scatter(frame, broadcast=True).result().equals(frame)
    assert all(r.equals(frame) for r in client.run(roadside.make_frame).values())
    try:
        client.submit(lambda: 1 / 0).result()
    except ZeroDivisionError:
        pass
    Path("ready").touch()
    while not client.list_datasets():
        time.sleep(0.05)
    assert client.get_dataset("published").equals(frame)
"""
        env = {**os.environ, "PYTHONPATH": str(WITHOUT)}
        peer = subprocess.Popen([sys.executable, "-c", code], env=env, cwd=tmp_path, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)  # fmt: skip
        try:
            deadline = time.monotonic() + 30
            while not (tmp_path / "ready").exists():
                assert peer.poll() is None and time.monotonic() < deadline, peer.communicate()[0]
                time.sleep(0.05)
            client.publish_dataset(published=FRAME)
            output, _ = peer.communicate(timeout=30)
            assert peer.returncode == 0, output
            assert families(client, "publish") | families(client, "stock") >= {"pickle"}
        finally:
            peer.kill()
            client.unpublish_dataset("published")
