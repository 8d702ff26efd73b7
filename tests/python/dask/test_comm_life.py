"""Clusters on `transload://` over time: turned off and on, restarted, growing and shrinking, beside others."""

import asyncio
import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request

import dask
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, Scheduler, Variable, Worker, wait

import transload.dask
from certificates import security

pytestmark = pytest.mark.timeout(60)


@contextlib.contextmanager
def local_cluster(protocol="transload", **kwargs):
    given = {"protocol": protocol, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", **kwargs}
    with LocalCluster(**given) as cluster, Client(cluster) as client:
        try:
            yield cluster, client
        finally:
            transload.dask.disable(client)


def workers(client):
    return sorted(client.sync(client.scheduler.identity)["workers"])


def page(cluster):
    """What the dashboard shows at /transload.json, None where there is no such page."""
    port = cluster.scheduler.services["dashboard"].port
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/transload.json", timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError:
        return None


class Keeps:
    def __init__(self, x):
        self.x = x

    def total(self, y):
        return float((self.x + y).sum())


def check_all_ways(client):
    """Results, scatter, transfers, actors, Variables, datasets, run: each with an array."""
    one, two = workers(client)
    x = np.random.default_rng(0).random(50_000)
    for direct in (False, True):
        data = client.scatter(x, direct=direct, workers=[one], hash=False)
        assert client.submit(np.sum, data, workers=[two], pure=False).result(timeout=10) == np.sum(x)
        assert np.array_equal(client.gather(data, direct=direct), x)
    kept = client.submit(Keeps, x, actor=True, workers=[one], pure=False)  # Dask's actor holds on by the default client
    actor = kept.result(timeout=10)
    assert actor.total(x).result(timeout=10) == pytest.approx(2 * x.sum())
    Variable("x", client=client).set([x, {1}])
    assert np.array_equal(Variable("x", client=client).get(timeout=10)[0], x)
    client.publish_dataset(x, name="x", override=True)
    assert np.array_equal(client.get_dataset("x"), x)
    assert all(np.array_equal(v, x) for v in client.run(lambda: x).values())


@pytest.mark.parametrize("processes", [True, False])
def test_off_and_on_again_where_everybody_listens_on_our_comm(processes):
    """Page and role go and come; the connections work on, whatever is turned off."""
    with local_cluster(processes=processes) as (cluster, client):
        assert page(cluster) is not None
        held = client.submit(np.ones, 100_000, pure=False)
        wait(held)
        check_all_ways(client)
        for _ in range(2):
            transload.dask.enable(client)
            transload.dask.enable(client)  # twice is a refresh
            assert page(cluster) is not None
            check_all_ways(client)
            transload.dask.disable(client)
            assert page(cluster) is None
            check_all_ways(client)
            transload.dask.disable(client)
            assert held.result().sum() == 100_000
        transload.dask.enable(client)
        assert page(cluster) is not None
        check_all_ways(client)


def test_a_worker_that_joins_after_disable_works():
    with local_cluster(n_workers=1) as (cluster, client):
        transload.dask.enable(client)
        transload.dask.disable(client)
        cluster.scale(2)
        client.wait_for_workers(2, timeout=30)
        check_all_ways(client)
        transload.dask.enable(client)
        check_all_ways(client)


def test_clusters_of_different_schemes_in_one_process():
    with local_cluster("tcp", processes=False) as (_, tcp), local_cluster(processes=False) as (_, ours):
        with local_cluster("inproc", processes=False) as (_, inproc):
            for _ in range(2):
                for client in (tcp, ours, inproc):
                    check_all_ways(client)
            transload.dask.enable(tcp)
            for client in (tcp, ours, inproc):
                check_all_ways(client)
            transload.dask.disable(ours)
            for client in (tcp, ours, inproc):
                check_all_ways(client)
        moved = tcp.submit(np.arange, 1000)
        assert ours.submit(np.sum, tcp.gather(moved)).result() == 499500
        transload.dask.disable(tcp)
        check_all_ways(tcp)


def test_a_client_goes_on_with_a_scheduler_that_is_started_again():
    async def check():
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        given = {"protocol": "transload", "host": "127.0.0.1", "port": port, "dashboard_address": ":0"}
        client = None
        for i in range(3):
            async with Scheduler(**given) as scheduler, Worker(scheduler.address, nthreads=1):
                if client is None:
                    client = await Client(scheduler.address, asynchronous=True, timeout=10)
                end = time.monotonic() + 20
                while client.status != "running" or client.id not in scheduler.clients:
                    assert time.monotonic() < end
                    await asyncio.sleep(0.02)
                lost = client.submit(np.ones, 100_000, pure=False)
                assert (await lost).sum() == 100_000
                data = await client.scatter(np.arange(100_000.0), hash=False)
                assert await client.submit(np.sum, data, pure=False) == np.arange(100_000.0).sum()
        await client.close()

    asyncio.run(asyncio.wait_for(check(), 50))


def test_restart_with_results_held():
    with local_cluster() as (_, client):
        for _ in range(2):
            held = client.map(np.full, [200_000] * 6, range(6), pure=False)
            wait(held)
            data = client.scatter(np.arange(1000.0))
            before = workers(client)
            client.restart(timeout=30)
            assert not set(workers(client)) & set(before)
            assert all(f.cancelled() or f.status != "finished" for f in [*held, data])
            check_all_ways(client)


def test_growing_and_shrinking_while_a_shuffle_runs():
    import dask.dataframe as dd

    n = 200_000
    rng = np.random.default_rng(0)
    left = pd.DataFrame({"k": rng.integers(0, n // 4, n), "x": rng.random(n)})
    right = pd.DataFrame({"k": np.arange(n // 4), "y": rng.random(n // 4)})
    expected = left.merge(right, on="k")
    with dask.config.set({"dataframe.shuffle.method": "p2p"}), local_cluster(n_workers=1) as (cluster, client):
        cluster.adapt(minimum=1, maximum=3, interval="100ms", wait_count=2, target_duration="100ms")
        for _ in range(3):
            both = dd.from_pandas(left, npartitions=12).merge(dd.from_pandas(right, npartitions=12), on="k")
            merged = both.compute()
            order = ["k", "x", "y"]
            sorted_ones = (table.sort_values(order, ignore_index=True)[order] for table in (merged, expected))
            pd.testing.assert_frame_equal(*sorted_ones)
            time.sleep(0.4)  # long enough to shrink


def test_loops_in_threads_with_clients_of_their_own_at_one_scheduler():
    failures = []

    async def use(address, number):
        async with Client(address, asynchronous=True, set_as_default=False) as client:
            for i in range(10):
                x = np.full(50_000 + number, float(i))
                data = await client.scatter(x, hash=False, direct=bool(i % 2))
                assert await client.submit(np.sum, data, pure=False) == x.sum()
                assert np.array_equal(await client.gather(data, direct=bool(number % 2)), x)

    def thread(address, number):
        try:
            asyncio.run(asyncio.wait_for(use(address, number), 40))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    with local_cluster() as (cluster, client):
        threads = [threading.Thread(target=thread, args=(cluster.scheduler_address, i)) for i in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not failures
        check_all_ways(client)


@pytest.mark.parametrize("safe", [False, True])
def test_an_answer_above_the_message_limit_is_an_error_of_who_asked(safe):
    """The client asked for the result again and again; who ran a function heard of a lost connection."""
    given = {"security": security()} if safe else {}
    with dask.config.set({"transload.message-limit": "1MiB"}), local_cluster(**given) as (_, client):
        one, two = workers(client)
        large = client.submit(np.ones, 500_000, workers=[one])
        wait(large)
        calls = [
            lambda: large.result(timeout=20),
            lambda: client.gather([large], direct=True),
            lambda: client.submit(np.sum, large, workers=[two]).result(timeout=20),
            lambda: client.run(np.ones, 500_000),
            lambda: client.scatter(np.ones(500_000)),
        ]
        for call in calls:
            with pytest.raises(Exception, match="the peer takes 1048576"):
                call()
        small = client.map(np.full, [1000] * 5, range(5))
        assert [x[0] for x in client.gather(small)] == list(range(5))
        assert client.submit(np.sum, large, workers=[one], pure=False).result(timeout=20) == 500_000
