"""What programs do with a cluster on `transload://`: annotations, nested futures, actors, code that a worker lacks."""

import importlib
import os
import sys
import threading
import types
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster, Queue, Variable, get_client, get_worker, wait
from distributed.deploy.subprocess import SubprocessCluster

import transload
import transload.dask

pytestmark = pytest.mark.timeout(40)


@pytest.fixture(scope="module", params=["local", "subprocess", "tls"])
def client(request):
    safe = None
    if request.param == "subprocess":
        worker = {"nthreads": 1, "resources": {"slot": 1}}
        with pytest.MonkeyPatch.context() as patch:  # where this module can be imported
            patch.setenv("PYTHONPATH", str(Path(__file__).parents[3]), prepend=os.pathsep)
            cluster = SubprocessCluster(n_workers=2, scheduler_kwargs={"protocol": "transload"}, worker_kwargs=worker)
    else:
        given = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "resources": {"slot": 1}}
        if request.param == "tls":
            from certificates import security

            given["security"] = safe = security(require_encryption=True)
        cluster = LocalCluster(protocol="transload+tls" if safe else "transload", **given)
    with cluster, Client(cluster, security=safe) as client:
        client.wait_for_workers(2, timeout=30)
        yield client


def workers(client):
    return sorted(client.sync(client.scheduler.identity)["workers"])


@pytest.fixture
def only_here():
    """A module that this process has and no worker."""
    module = types.ModuleType("only_here")
    exec("def plus_one(x):\n    return x + 1\nclass Thing:\n    pass\n", module.__dict__)
    sys.modules["only_here"] = module
    yield module
    del sys.modules["only_here"]


def annotations_of(key):
    found = get_worker().state.tasks[key].annotations
    return {k: v for k, v in found.items() if k.startswith("my")}


def where():
    return get_worker().address


# ── annotations ───────────────────────────────────────────────────────────────────────────────────────────────


def test_annotations_of_every_kind_reach_the_worker(client):
    one, two = workers(client)
    array = np.arange(50_000.0)
    mine = {"my_array": array, "my_set": {1, 2}, "my_nested": {"a": [array, {"b": (1, 2)}]}}
    given = {"priority": 5, "retries": 2, "resources": {"slot": 1}, "workers": [two], "allow_other_workers": False}
    with dask.annotate(**given, **mine):
        key = "annotated"
        x = dask.delayed(annotations_of)(key, dask_key_name=key)
        y = dask.delayed(where)(dask_key_name="place")
    found, place = client.gather(client.compute([x, y], optimize_graph=False))
    assert place == two
    assert np.array_equal(found["my_array"], array) and found["my_set"] == {1, 2}
    inner = found["my_nested"]["a"]
    assert np.array_equal(inner[0], array) and tuple(inner[1]["b"]) == (1, 2)


def test_submits_own_annotations(client):
    one, two = workers(client)
    for target in (one, two):
        given = {"workers": [target], "resources": {"slot": 1}, "priority": -3, "retries": 1, "pure": False}
        assert client.submit(where, **given).result() == target
        assert client.submit(where, allow_other_workers=True, workers=[target], pure=False).result() in (one, two)


def fails_once(key):
    tried = get_worker().__dict__.setdefault("tried", set())
    if key not in tried:
        tried.add(key)
        raise ValueError("the first time")
    return "then"


def test_retries_are_made(client):
    one, _ = workers(client)
    assert client.submit(fails_once, "k", workers=[one], retries=2, pure=False).result() == "then"


# ── futures wherever they are ─────────────────────────────────────────────────────────────────────────────────


def total(tree):
    if isinstance(tree, dict):
        return sum(total(v) for v in tree.values())
    if isinstance(tree, (list, tuple, set)):
        return sum(total(v) for v in tree)
    return float(np.sum(tree))


def test_futures_nested_in_arguments(client):
    one, two = workers(client)
    a = client.submit(np.ones, 100_000, workers=[one])
    b = client.scatter(np.full(5, 2.0), workers=[two])
    assert client.submit(total, {"x": [a, (b, {"y": a})], "z": 1}, workers=[two]).result() == 200_011
    assert client.gather(client.map(total, [[a, b], [b]], workers=[one])) == [100_010, 10]
    assert client.gather({"p": [a, {"q": b}]})["p"][1]["q"].sum() == 10


def test_futures_inside_variables_and_queues(client):
    a = client.submit(np.ones, 100_000, pure=False)
    b = client.scatter(np.full(5, 2.0), hash=False)
    bare, bag = Variable("bare", client=client), Queue("bag", client=client)
    bare.set(a)
    bag.put(b)
    assert bare.get(timeout=4).result(timeout=4).sum() == 100_000
    assert bag.get(timeout=4).result(timeout=4).sum() == 10
    nested = Variable("nested", client=client)
    nested.set({"future": a, "rest": [1, np.arange(3)]})
    got = nested.get(timeout=4)
    assert got["future"].key == a.key and got["rest"][1].tolist() == [0, 1, 2]  # Dask binds such a one to no client
    bag.put([a, {"b": b}])
    x, y = bag.get(timeout=4)
    assert (x.key, y["b"].key) == (a.key, b.key)


def made_inside(n):
    client = get_client()
    future = client.submit(np.ones, n, pure=False)
    wait(future)
    Variable("from inside").set(future)
    return future


def test_futures_made_in_tasks(client):
    future = client.submit(made_inside, 50_000, pure=False)
    assert future.result(timeout=20).key.startswith("ones")
    assert Variable("from inside", client=client).get(timeout=4).result(timeout=4).sum() == 50_000


def test_scatter_to_all(client):
    for direct in (False, True):
        value = [np.arange(100_000.0) + direct, {"a": 1}]
        (data,) = client.scatter([value], broadcast=True, direct=direct)
        assert len(client.who_has(data)[data.key]) == 2
        for address in workers(client):
            assert client.submit(total, data, workers=[address], pure=False).result() == value[0].sum() + 1
    named = client.scatter({"k1": np.ones(3), "k2": "text"}, broadcast=True)
    assert client.gather(named)["k2"] == "text"


# ── actors ────────────────────────────────────────────────────────────────────────────────────────────────────


class Store:
    def __init__(self, first):
        self.kept = [first]

    def add(self, x, *, scale=1):
        self.kept.append(x * scale)
        return len(self.kept), x

    def sums(self):
        return [float(x.sum()) for x in self.kept]

    def fail(self, x):
        raise ValueError(f"not {x.shape}")


def uses(store):
    return store.add(np.ones(10), scale=3).result()[0], store.sums().result()


def test_actors_with_arrays(client):
    one, two = workers(client)
    store = client.submit(Store, np.ones(100_000), actor=True, workers=[one]).result()
    for _ in range(2):
        n, back = store.add(np.arange(200_000.0), scale=2).result()
        assert back.sum() == np.arange(200_000.0).sum()
    assert store.sums().result()[0] == 100_000 and len(store.sums().result()) == 3
    with pytest.raises(ValueError, match=r"not \(3, 4\)"):
        store.fail(np.zeros((3, 4))).result()
    assert client.submit(uses, store, workers=[two], pure=False).result()[1][-1] == 30
    assert client.submit(uses, store, workers=[one], pure=False).result()[1][-1] == 30
    futures = [store.add(np.full(30_000, i)) for i in range(20)]
    assert sorted(f.result()[0] for f in futures) == list(range(6, 26))


# ── code that a worker lacks ──────────────────────────────────────────────────────────────────────────────────


def pids(client):
    return client.run(os.getpid)


@pytest.mark.parametrize("client", ["local", "tls"], indirect=True)  # whose scheduler is here and has it
@pytest.mark.parametrize("what", ["function", "argument", "annotation", "by pickle", "actor", "in a map"])
def test_a_task_of_a_module_that_the_worker_lacks_fails_alone(client, only_here, what):
    """Its error ended the worker, and the next one that got the task; nobody was told."""
    before = pids(client)
    calls = {
        "function": lambda: client.submit(only_here.plus_one, 1),
        "argument": lambda: client.submit(type, [only_here.Thing()]),
        "by pickle": lambda: client.submit(lambda x: only_here.plus_one(x), only_here.Thing()),
        "actor": lambda: client.submit(only_here.Thing, actor=True),
        "in a map": lambda: client.map(only_here.plus_one, range(20))[3],
    }
    if what == "annotation":
        with dask.annotate(my=[only_here.Thing()]):
            future = client.compute(dask.delayed(abs)(-1), optimize_graph=False)
    else:
        future = calls[what]()
    good = client.map(abs, range(-50, 0), pure=False)
    with pytest.raises(transload.Failed, match="only_here"):
        future.result(timeout=20)
    assert sum(client.gather(good)) == sum(range(51))
    assert pids(client) == before


class Opens:
    """Can be sent while it is closed."""

    lock = None

    def __getstate__(self):
        if self.lock is not None:
            raise RuntimeError("an open thing is not for travel")
        return {}

    def __setstate__(self, state):
        self.lock = threading.Lock()


def test_a_task_that_the_scheduler_cannot_send_on_fails_alone(client):
    """It ended the streams of all workers, one after another."""
    held = client.submit(np.ones, 1000, pure=False)
    wait(held)
    before = pids(client)
    for task in (client.submit(id, Opens()), client.submit(lambda x: x, Opens())):
        with pytest.raises(transload.Failed, match="an open thing is not for travel"):
            task.result(timeout=20)
    with dask.annotate(my=[Opens()]):
        task = client.compute(dask.delayed(abs)(-1), optimize_graph=False)
    with pytest.raises(transload.Failed, match="an open thing is not for travel"):
        task.result(timeout=20)
    assert held.result(timeout=20).sum() == 1000 and pids(client) == before


@pytest.mark.parametrize("client", ["subprocess"], indirect=True)
def test_an_annotation_that_the_scheduler_lacks_fails_its_graph_alone(client, only_here):
    """It ended the client's stream, and with it all results that the client held."""
    held = client.submit(np.ones, 1000, pure=False)
    wait(held)
    with dask.annotate(my=only_here.Thing()):
        future = client.compute(dask.delayed(abs)(-1), optimize_graph=False)
    with pytest.raises(RuntimeError, match="task graph") as raised:
        future.result(timeout=20)
    assert "only_here" in str(raised.value.__cause__)
    assert held.result(timeout=20).sum() == 1000
    with pytest.raises(RuntimeError, match="task graph"):  # its tasks, too: Dask's scheduler sees to that
        client.submit(only_here.plus_one, 1).result(timeout=20)
    assert client.submit(abs, -1, pure=False).result(timeout=20) == 1


@pytest.mark.parametrize("client", ["local"], indirect=True)
def test_a_module_that_comes_later_and_changes_is_used_as_it_is_then(client, tmp_path, monkeypatch):
    def write(version):
        text = f"class C:\n    def v(self):\n        return {version}\ndef f(x):\n    return {version}, C().v(), x.v()\n"
        (tmp_path / "comes_later.py").write_text(text)
        importlib.invalidate_caches()

    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose time stamps are whole seconds
    monkeypatch.syspath_prepend(tmp_path)
    write(1)
    import comes_later

    def answer():
        return client.submit(comes_later.f, comes_later.C(), pure=False).result(timeout=20)

    with pytest.raises(transload.Failed, match="comes_later"):
        answer()
    for version in (1, 2):
        write(version)
        client.upload_file(str(tmp_path / "comes_later.py"))
        assert answer() == (version,) * 3
        data = client.scatter(comes_later.C(), hash=False)
        assert client.submit(comes_later.C.v, data, pure=False).result(timeout=20) == version
    del sys.modules["comes_later"]
