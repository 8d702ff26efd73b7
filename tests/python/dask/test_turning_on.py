"""`enable`, `disable`, the preload module, strict, and what travels with them."""

import asyncio
import gc
import subprocess
import sys
import time

import numpy as np
import pytest
from distributed.comm import connect, listen

import transload
import transload.dask

roadside, standing = pytest.importorskip("roadside"), pytest.importorskip("standing")
FRAME = roadside.make_frame()
pytestmark = pytest.mark.timeout(60)


def of_this_client(client):
    return [client.rpc.deserializers, client.scheduler.deserializers, client._deserializers]


def test_disable_puts_everything_back(cluster):
    with cluster.client() as client:
        here = standing.of_this_process
        there = lambda: (client.run(here), client.run(standing.of_this_worker), client.run_on_scheduler(here),
                         client.run_on_scheduler(standing.of_the_scheduler), here(), of_this_client(client))  # fmt: skip
        before = there()
        transload.dask.enable(client)
        during = there()
        transload.dask.disable(client)
        assert there() == before
        for part, (was, now) in enumerate(zip(before, during, strict=True)):
            assert was != now, f"part {part} shows nothing of what enable does"
        x = client.submit(np.arange, 10)
        assert x.result().sum() == 45


def test_disable_stops_encoding_and_keeps_decoding(cluster):
    with cluster.client() as client:
        transload.dask.enable(client)
        client.publish_dataset(kept=FRAME)
        transload.dask.disable(client)
        transload.dask.measure(client)
        try:
            transload.dask.report(client, reset=True)
            assert client.submit(roadside.make_frame, pure=False).result().equals(FRAME)
            assert {family for _, family in transload.dask.report(client).rows()} == {"pickle"}
            assert client.get_dataset("kept").equals(FRAME)
        finally:
            transload.dask.measure(client, False)
            client.unpublish_dataset("kept")


def test_enable_twice_and_disable_once(cluster):
    with cluster.client() as client:
        before = of_this_client(client), client.run(standing.of_this_worker)
        transload.dask.enable(client)
        transload.dask.enable(client)
        transload.dask.disable(client)
        assert (of_this_client(client), client.run(standing.of_this_worker)) == before


def test_a_client_that_closes_without_disable_leaves_the_process_as_it_was(cluster):
    before = standing.of_this_process()
    with cluster.client() as client:
        transload.dask.enable(client)
        assert standing.of_this_process() != before
    try:
        with cluster.client() as client:
            assert standing.of_this_process() == before
            assert not [names for names in of_this_client(client) if "transload/1" in (names or ())]
    finally:
        with cluster.client() as client:  # the workers are on
            transload.dask.enable(client)
            transload.dask.disable(client)


def test_the_clients_own_lists_are_kept(cluster):
    with cluster.client(deserializers=["dask", "msgpack"]) as client:
        transload.dask.enable(client)
        assert client.rpc.deserializers == ["dask", "msgpack", "error", "transload/1"]
        transload.dask.disable(client)
        assert client.rpc.deserializers == ["dask", "msgpack"]


def test_on_ucx_cuda_heads_the_list():
    from transload.dask._wire import MARKER, with_marker

    assert with_marker(None) == ["dask", "pickle", "error", MARKER]
    assert with_marker(None, "ucxx") == ["cuda", "dask", "pickle", "error", MARKER]
    assert with_marker(["pickle", "error"]) == ["pickle", "error", MARKER]


def test_trusted_names_travel(cluster, monkeypatch):
    """What the client trusts, the workers rebuild without pickle."""
    with cluster.client() as client:
        transload.trust(roadside.Point)
        transload.dask.enable(client)
        try:
            assert "roadside:Point" in client.submit(lambda: __import__("transload").trusted_names()).result()
            transload.dask.report(client, reset=True)
            there = client.scatter(roadside.Point(1, 2))
            assert client.submit(lambda p: type(p)(p.y, p.x), there).result() == roadside.Point(2, 1)
            report = transload.dask.report(client)
            assert report.pickled == 0
            assert {family for _, family in report.rows()} == {"transload:host"}
        finally:
            transload.dask.disable(client)


def test_preload_turns_a_cluster_on(make_cluster, tmp_path):
    """No call of enable anywhere: preloads on scheduler and workers, configuration for the client."""
    with make_cluster("preload", {"a": "preload", "b": "preload"}) as cluster:
        code = f"""
import dask, numpy as np
dask.config.set({{"distributed.client.preload": ["transload.dask.preload"]}})
from distributed import Client
import transload.dask
with Client({cluster.address!r}) as client:
    a, b = client.scheduler_info()["workers"]
    transload.dask.report(client, reset=True)
    for direct in (False, True):
        x = client.scatter(np.arange(5), direct=direct, workers=[a], hash=False)
        assert client.submit(lambda x: x + 1, x, workers=[b]).result().tolist() == [1, 2, 3, 4, 5]
    client.publish_dataset(x=[np.arange(3)])
    assert client.get_dataset("x")[0].tolist() == [0, 1, 2]
    report = transload.dask.report(client)
    print(report)
    assert {{family for _, family in report.rows()}} == {{"transload:host"}}
    assert {{road for road, _ in report.rows()}} == {{"scatter", "gather", "worker to worker", "publish"}}
    transload.dask.disable(client)
    transload.dask.measure(client)
    transload.dask.report(client, reset=True)
    client.submit(lambda: "stock again").result()
    assert {{family for _, family in transload.dask.report(client).rows()}} == {{"pickle"}}
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_strict(make_cluster, tmp_path):
    """Under strict nothing is pickled or unpickled: what would need it fails the task, by name, and no one hangs."""
    with make_cluster("with", {"a": "with", "b": "with"}) as cluster:
        code = f"""
import sys; sys.path.insert(0, {str(roadside.__file__.rpartition("/")[0])!r})
import numpy as np, pytest, roadside
from distributed import Client
import transload, transload.dask
transload.strict()
with Client({cluster.address!r}) as client:
    client.run(lambda: __import__("transload").strict())
    transload.dask.enable(client)
    assert client.rpc.deserializers == ["dask", "error", "transload/1"]
    assert set(map(tuple, client.run(lambda dask_worker: dask_worker.rpc.deserializers).values())) == {{
        ("dask", "error", "transload/1")}}
    a, b = client.scheduler_info()["workers"]
    transload.dask.report(client, reset=True)
    x = client.submit(roadside.make_frame, workers=a)
    assert client.submit(roadside.total, x, workers=b).result() == x.result()["x"].sum()
    p = client.submit(roadside.Point, workers=a)
    for needs in (
        lambda: client.submit(lambda p: p.x, p, workers=b).result(timeout=20),
        lambda: p.result(timeout=20),
        lambda: client.gather(p, direct=True),
        lambda: client.submit(lambda p: 1, client.scatter(roadside.Point(), workers=[a], hash=False)).result(timeout=20),
        lambda: client.replicate(p, n=2),
    ):
        with pytest.raises(Exception, match="roadside:Point"):
            needs()
    assert client.submit(lambda p: p.x, p, workers=a).result(timeout=20) == 0
    transload.trust(roadside.Point)
    transload.dask.enable(client)
    assert client.submit(lambda p: p.y, p, workers=b, pure=False).result(timeout=20) == 0
    assert p.result() == roadside.Point()
    with pytest.raises(Exception):
        client.submit(lambda: (lambda: 1)).result(timeout=20)
    report = transload.dask.report(client)
    assert report.pickled == 0, report
    assert {{family for _, family in report.rows()}} <= {{"transload:host", "error"}}, report
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=55, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_second_client_turns_off_and_on_by_itself(cluster):
    """Two clients of one process: the process stays on until the last one leaves."""
    before = standing.of_this_process()
    with cluster.client() as one, cluster.client() as two:
        transload.dask.enable(one)
        transload.dask.enable(two)
        transload.dask.disable(one)
        assert standing.of_this_process() != before
        assert two.submit(np.arange, 7).result().sum() == 21
        transload.dask.disable(two)
    assert standing.of_this_process() == before


def test_client_that_never_asked_is_stock(cluster):
    """A client without transload on gets Dask's own bytes from a cluster that has it, in the same process or not."""
    with cluster.client() as on, cluster.client() as off:
        transload.dask.enable(on)
        try:
            transload.dask.report(on, reset=True)
            assert off.submit(roadside.make_frame, pure=False).result().equals(FRAME)
            assert {f for (road, f), _ in transload.dask.report(on).rows().items() if road == "gather"} == {"pickle"}
        finally:
            transload.dask.disable(on)


def test_restarted_and_late_workers_are_on(make_cluster):
    with make_cluster("with", {"a": "with"}) as cluster, cluster.client() as client:
        transload.dask.enable(client)
        cluster.worker("late", "with")
        client.wait_for_workers(2)
        names = cluster.addresses(client)
        end = time.monotonic() + 10
        while client.run(standing.of_this_worker)[names["late"]]["own"] != ["batched_send", "execute", "gather_dep"]:
            assert time.monotonic() < end
        for _ in range(100):  # a connection opened before the scheduler heard of it is judged anew within seconds
            transload.dask.report(client, reset=True)
            x = client.scatter(FRAME, workers=[names["late"]], hash=False)
            assert client.submit(roadside.total, x, workers=names["a"]).result() == FRAME["x"].sum()
            if {family for _, family in transload.dask.report(client).rows()} == {"transload:host"}:
                break
            time.sleep(0.1)
        else:
            pytest.fail(str(transload.dask.report(client)))
        transload.dask.disable(client)


def test_a_scheduler_that_was_mixed_is_asked_again(make_cluster, monkeypatch):
    from transload.dask import _process

    monkeypatch.setattr(_process, "JUDGED", 0.2)
    with make_cluster("with", {"a": "with", "stock": "without"}) as cluster, cluster.client() as client:
        transload.dask.enable(client, mixed=True)
        a = [cluster.addresses(client)["a"]]
        transload.dask.report(client, reset=True)
        client.scatter(FRAME, hash=False, workers=a)
        assert {family for _, family in transload.dask.report(client).rows()} == {"pickle"}
        cluster.stop("stock")
        for _ in range(100):
            transload.dask.report(client, reset=True)
            client.scatter(FRAME, hash=False, workers=a)
            if {family for _, family in transload.dask.report(client).rows()} == {"transload:host"}:
                break
            time.sleep(0.1)
        else:
            pytest.fail(str(transload.dask.report(client)))
        transload.dask.disable(client)


def test_connections_of_our_comm_put_back_what_they_needed():
    async def talk():
        listener = await listen("transload://127.0.0.1:0", lambda comm: None)
        comm = await connect(listener.contact_address)
        assert standing.of_this_process() != before
        await comm.close()
        listener.stop()

    gc.collect()  # connections of other tests
    before = standing.of_this_process()
    asyncio.run(talk())
    gc.collect()
    assert standing.of_this_process() == before


def test_the_traceback_of_a_failed_task_is_as_short_as_dasks(client):
    """A coroutine of ours around Dask's `gather` stood in it."""
    with pytest.raises(ZeroDivisionError) as raised:
        client.gather(client.submit(lambda: 1 / 0))
    assert not [e.path for e in raised.traceback if "transload" in str(e.path) and "tests" not in str(e.path)]
