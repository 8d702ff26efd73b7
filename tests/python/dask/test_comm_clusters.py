"""Clusters on `transload://`: whatever Dask starts, restarts, moves and loses goes on there as on `tcp://`."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time

import dask
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, Nanny, Queue, Scheduler, Variable, Worker, wait
from distributed.deploy.subprocess import SubprocessCluster

import transload.dask

pytestmark = pytest.mark.timeout(120)

PROTOCOL = "transload"


@contextlib.contextmanager
def local_cluster(**kwargs):
    given = {"protocol": PROTOCOL, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", **kwargs}
    with LocalCluster(**given) as cluster, Client(cluster) as client:
        yield cluster, client


def workers(client):
    return list(client.sync(client.scheduler.identity)["workers"])


def two_workers(client, other_than=None):
    """Wait until there are two, and `other_than` is known to be gone."""
    end = time.monotonic() + 30
    while len(there := workers(client)) < 2 or other_than in there:
        assert time.monotonic() < end
        time.sleep(0.05)


def frame(n=200_000):
    return pd.DataFrame({"a": np.arange(n), "b": [f"{i % 1000}" for i in range(n)]})


@pytest.mark.parametrize("processes", [False, True])
def test_local_cluster(processes):
    with local_cluster(processes=processes) as (cluster, client):
        assert cluster.scheduler_address.startswith("transload://")
        assert all(address.startswith("transload://") for address in workers(client))
        one, two = workers(client)
        before = transload.dask.report(client)

        x = np.random.default_rng(0).random(3_000_000)
        for direct in (False, True):
            data = client.scatter(x, direct=direct, workers=[one])
            assert np.array_equal(client.submit(lambda a: a * 2, data, workers=[two]).result(), x * 2)
            assert np.array_equal(client.gather(data, direct=direct), x)
        made = client.submit(frame, workers=[one], pure=False)
        assert client.submit(len, made, workers=[two]).result() == 200_000
        assert made.result().equals(frame())
        assert client.gather(client.map(lambda i: i + 1, range(500))) == list(range(1, 501))
        with pytest.raises(ZeroDivisionError):
            client.submit(lambda: 1 / 0).result()
        assert (transload.dask.report(client) - before).pickled == 0


def test_values_arrive_aligned_and_as_they_were():
    """In our form: a list stays a list, identity is kept, and what Dask's tcp:// misaligns lies at a multiple of 64."""
    with local_cluster(processes=True) as (_, client):
        shared = np.arange(100_000.0)
        a, b, rest = client.submit(lambda x: x, client.scatter([shared, shared, (1, [2])])).result()
        assert a is b and a.ctypes.data % 64 == 0 and rest == (1, [2])


def where_it_lies(x):
    return x.ctypes.data % 64, float(x.sum())


def test_arguments_variables_and_queues_travel_in_our_form():
    """The graph that the client sends is Dask's; what the scheduler hands on is not pickled."""
    from sklearn.linear_model import LinearRegression

    x = np.arange(100_001.0)
    model = LinearRegression().fit(np.eye(3), [1, 2, 3])
    with local_cluster(processes=True) as (_, client):
        before = transload.dask.report(client)
        assert client.submit(where_it_lies, x).result() == (0, x.sum())
        Variable("v").set({"x": x, "model": model})
        came = Variable("v").get()
        assert np.array_equal(came["x"], x) and came["x"].ctypes.data % 64 == 0
        assert np.array_equal(came["model"].coef_, model.coef_)
        queue = Queue("q")
        queue.put(model)
        queue.put([x[:5], {1}])
        assert np.array_equal(queue.get().coef_, model.coef_)
        assert queue.get()[1] == {1}
        after = transload.dask.report(client) - before
    assert after.own["graphs"][0] == 1 and "control" not in after.own
    assert sum(row["objects"] for (road, _), row in after.rows().items() if road == "control") >= 7
    assert after.rows()["control", "transload:names"]["nbytes"] > x.nbytes
    assert after.pickled == 0


def first_of(x):
    return float(x[0])


def test_what_the_scheduler_keeps_is_not_changed_by_who_sent_or_got_it():
    """Client and scheduler of a LocalCluster are in one process, where frames are shared."""
    with local_cluster(processes=True) as (_, client):
        x = np.zeros(100_000)
        variable = Variable("v")
        variable.set(x)
        queue = Queue("q")
        queue.put(x)
        client.publish_dataset(d=x)
        future = client.submit(first_of, x)
        wait(future)
        x[:] = 1
        assert variable.get()[0] == 0 and client.get_dataset("d")[0] == 0 and queue.get()[0] == 0
        (lost,) = client.who_has(future)[future.key]
        with contextlib.suppress(Exception):
            client.run(os._exit, 1, workers=[lost])  # it is computed again
        assert future.result() == 0
        variable.get()[:] = 2
        client.get_dataset("d")[:] = 2
        assert variable.get()[0] == 0 and client.get_dataset("d")[0] == 0


@pytest.mark.parametrize("processes", [False, True])
def test_tasks_that_change_their_argument_do_not_change_each_others(processes):
    """Also where they go by pickle, as a lambda does: the scheduler keeps one array for all of them, and sends it again."""
    with local_cluster(processes=processes) as (_, client):
        for function in (fill, lambda number, x: fill(number, x)):
            futures = client.map(function, range(8), x=np.zeros(5000))
            assert client.gather(futures) == [0] * 8
        variable = Variable("v")
        variable.set({"x": np.zeros(5000), "by pickle": lambda: 1})
        variable.get()["x"][:] = 1
        assert variable.get()["x"][0] == 0


def fill(number, x):
    before = float(x[0])
    x[:] = number + 1
    return before


def test_leaving_a_cluster_open_at_the_end_is_quiet():
    """Dask closes it in an `atexit` function, by a loop in another thread, after transload's own."""
    text = """
        import time
        from distributed import Client, LocalCluster
        if __name__ == "__main__":
            cluster = LocalCluster(protocol="transload", n_workers=1, dashboard_address=":0", processes=PROCESSES)
            client = Client(cluster)
            assert client.submit(sum, [1, 2]).result() == 3
            time.sleep(0.2)  # Dask warns of results that a cluster loses; this one is let go by then
    """
    for processes in ("True", "False"):
        script = textwrap.dedent(text).replace("PROCESSES", processes)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def cluster(make_cluster):
    """Scheduler, and two workers under nannies, by the command line."""
    with make_cluster(protocol=PROTOCOL) as cluster:
        for name in "ab":
            cluster.worker(name, nanny=True)
        yield cluster


def test_command_line_and_restart(cluster):
    with cluster.client() as client:
        assert cluster.address.startswith("transload://127.0.0.1:")
        before = client.run(os.getpid)
        assert all(address.startswith("transload://127.0.0.1:") for address in before)
        client.restart()
        after = client.run(os.getpid)
        assert len(after) == 2 and not set(after.values()) & set(before.values())
        assert client.submit(sum, client.map(abs, range(-9, 1))).result() == 45


def test_a_worker_that_is_killed_in_a_transfer_is_replaced(cluster):
    with cluster.client() as client:
        for _ in range(3):
            two_workers(client)
            one, two = workers(client)
            pid = client.run(os.getpid, workers=[one])[one]
            large = [client.submit(np.full, 5_000_000, i, workers=[one], allow_other_workers=True) for i in range(4)]
            wait(large)
            sums = client.map(np.sum, large, workers=[two], allow_other_workers=True)
            time.sleep(0.03)
            os.kill(pid, signal.SIGKILL)
            assert client.gather(sums) == [5_000_000 * i for i in range(4)]
            two_workers(client, other_than=one)


def test_shuffle():
    import dask.dataframe as dd

    with local_cluster(processes=True), dask.config.set({"dataframe.shuffle.method": "p2p"}):
        check_merge(dd)


def check_merge(dd, n=100_000):
    rng = np.random.default_rng(0)
    left = pd.DataFrame({"k": rng.integers(0, n // 4, n), "x": rng.random(n)})
    right = pd.DataFrame({"k": np.arange(n // 4), "y": rng.random(n // 4)})
    merged = dd.from_pandas(left, npartitions=8).merge(dd.from_pandas(right, npartitions=8), on="k").compute()
    expected = left.merge(right, on="k")
    order = ["k", "x", "y"]
    merged, expected = (table.sort_values(order, ignore_index=True) for table in (merged, expected))
    pd.testing.assert_frame_equal(merged[order], expected[order])


def test_shuffle_while_workers_are_killed():
    import dask.dataframe as dd

    p2p = {"dataframe.shuffle.method": "p2p"}
    with local_cluster(processes=True, n_workers=3) as (_, client), dask.config.set(p2p):
        for _ in range(2):
            pids = list(client.run(os.getpid).values())
            killer = asyncio.run_coroutine_threadsafe(_kill_later(pids[0]), client.loop.asyncio_loop)
            check_merge(dd, 400_000)
            killer.result()
            client.wait_for_workers(3, timeout=60)


def test_a_value_that_cannot_come_is_the_error_of_the_task_that_waits_for_it(cluster):
    """Stock Dask waits for ever (distributed#6705)."""
    with cluster.client() as client:
        two_workers(client)
        one, two = workers(client)
        lock = client.submit(lambda: __import__("threading").Lock(), workers=[one], pure=False)
        with pytest.raises(Exception, match="lock"):
            client.submit(type, lock, workers=[two]).result(timeout=20)
        assert client.submit(abs, -1, workers=[two]).result(timeout=20) == 1


@pytest.mark.parametrize("processes, path", [(True, "shared memory"), (False, "process")])
def test_the_report_tells_who_reached_whom_and_how(processes, path):
    with local_cluster(processes=processes) as (cluster, client):
        one, two = workers(client)
        data = client.submit(np.zeros, 2_000_000, workers=[one])
        wait(data)
        before = transload.dask.report(client)
        client.submit(np.sum, data, workers=[two]).result()
        found = transload.dask.report(client) - before
        # In one process there is one table, under the client's name.
        (row,) = [r for r in found.links if r["nbytes_received"] >= 16_000_000]
        assert row["process"] == (two if processes else "client") and row["peer"] == one
        assert row["path"] == path and row["connections"] >= 1 and row["seconds_receiving"] >= 0
        assert row["nbytes_received"] < 17_000_000 and row["nbytes_sent"] < 10_000
        assert f"{one:<32}{path:<15}" in str(found)


async def _kill_later(pid):
    await asyncio.sleep(0.7)
    os.kill(pid, signal.SIGKILL)


def test_adaptive():
    with local_cluster(n_workers=0, processes=False) as (cluster, client):
        cluster.adapt(minimum=0, maximum=3, interval="50ms", wait_count=2)
        futures = client.map(lambda i: time.sleep(0.05) or i, range(30))
        assert client.gather(futures) == list(range(30))
        del futures
        end = time.monotonic() + 30
        while workers(client) and time.monotonic() < end:
            time.sleep(0.1)
        assert not workers(client)


def test_subprocess_cluster():
    given = {"scheduler_kwargs": {"protocol": PROTOCOL}, "worker_kwargs": {"nthreads": 1}}
    with SubprocessCluster(n_workers=1, **given) as cluster, Client(cluster) as client:
        assert cluster.scheduler_address.startswith("transload://")
        assert all(address.startswith("transload://") for address in workers(client))
        assert client.submit(np.sum, client.scatter(np.ones(1000))).result() == 1000


def test_tcp_and_transload_at_once():
    """One scheduler listens on both; workers and clients of either kind give each other data."""

    async def check():
        both = {"protocol": ["tcp", PROTOCOL], "host": ["127.0.0.1"] * 2, "port": [0, 0]}
        async with Scheduler(**both, dashboard_address=":0") as scheduler:
            addresses = {a.partition(":")[0]: a for a in (one.contact_address for one in scheduler.listeners)}
            assert set(addresses) == {"tcp", PROTOCOL}
            async with contextlib.AsyncExitStack() as stack:
                for scheme, address in addresses.items():
                    await stack.enter_async_context(Nanny(address, nthreads=1, name=f"{scheme}-nanny"))
                    await stack.enter_async_context(Worker(address, nthreads=1, name=scheme))
                assert {w.partition(":")[0] for w in scheduler.workers} == {"tcp", PROTOCOL}
                for address in addresses.values():
                    async with Client(address, asynchronous=True) as client:
                        await talk(client, list(scheduler.workers))

    async def talk(client, workers):
        x = np.arange(300_000.0)
        for direct in (False, True):
            data = await client.scatter(x, direct=direct, broadcast=True)
            assert np.array_equal(await client.gather(data, direct=direct), x)
        for source in workers:
            made = client.submit(frame, 1000, workers=[source], pure=False)
            for target in workers:
                assert await client.submit(len, made, workers=[target], pure=False) == 1000
            assert (await made).equals(frame(1000))

    asyncio.run(asyncio.wait_for(check(), 100))


def test_without_extensions():
    """The scheduler then has no handler for published datasets; looking for it kept it from starting."""

    async def check():
        bare = {"protocol": PROTOCOL, "host": "127.0.0.1", "port": 0, "dashboard_address": ":0", "extensions": {}}
        async with Scheduler(**bare) as scheduler, Worker(scheduler.address, nthreads=1, extensions={}):
            async with Client(scheduler.address, asynchronous=True) as client:
                assert await client.submit(sum, await client.scatter([1, 2])) == 3

    asyncio.run(asyncio.wait_for(check(), 60))


def test_on_a_wildcard_and_ipv6():
    """The workers' contact address is the one by which they reach the scheduler."""

    async def check(host, expected):
        async with Scheduler(protocol=PROTOCOL, host=host, port=0, dashboard_address=":0") as scheduler:
            async with Worker(scheduler.address, nthreads=1, host=None) as worker:
                assert worker.address.startswith(f"transload://{expected}:"), worker.address
                async with Client(scheduler.address, asynchronous=True) as client:
                    assert await client.submit(sum, [1, 2]) == 3

    for host, expected in (("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]")):
        asyncio.run(asyncio.wait_for(check(host, expected), 60))
