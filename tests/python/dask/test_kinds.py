"""The kinds of docs/cases.md on every road of a cluster; the objects are tests/python/support/kinds.py."""

import pytest
from support import kinds

import transload.dask

kindroads = pytest.importorskip("kindroads")
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:the matrix subclass", "ignore:future versions will not create a writeable array"),
]


@pytest.fixture(scope="module")
def compressing(make_cluster):
    """As `cluster`; what goes over the wire and to disk is compressed."""
    with make_cluster("with", {"a": "with", "b": "with"}, DASK_DISTRIBUTED__COMM__COMPRESSION="lz4", DASK_DISTRIBUTED__WORKER__MEMORY__SPILL_COMPRESSION="lz4") as cluster:
        yield cluster


@pytest.fixture(params=["plain", "compressed"])
def roads(request):
    """A client with transload on, and the addresses of two workers."""
    import dask

    cluster = request.getfixturevalue("cluster" if request.param == "plain" else "compressing")
    with dask.config.set({"distributed.comm.compression": None if request.param == "plain" else "lz4"}), cluster.client() as client:
        transload.dask.enable(client)
        addresses = cluster.addresses(client)
        yield client, addresses["a"], addresses["b"]
        transload.dask.disable(client)


@pytest.mark.parametrize("kind", kinds.TABLES)
def test_objects_arrive_whole_on_every_road(roads, kind):
    client, a, b = roads
    transload.dask.report(client, reset=True)
    there = client.submit(kindroads.make, kind, workers=a, pure=False)
    assert not kindroads.differences(kind, there.result())
    assert not kindroads.differences(kind, client.gather(there, direct=True))
    assert client.submit(kindroads.differences, kind, there, workers=b, pure=False).result() == {}
    assert not kindroads.differences(kind, client.submit(kindroads.same, there, workers=b, pure=False).result())
    for direct in (False, True):
        scattered = client.scatter([kindroads.make(kind)], direct=direct, hash=False, workers=b)[0]
        assert client.submit(kindroads.differences, kind, scattered, workers=b, pure=False).result() == {}
        assert not kindroads.differences(kind, client.submit(kindroads.same, scattered, workers=a, pure=False).result())
    assert not kindroads.differences(kind, client.run(kindroads.make, kind, workers=[a])[a])
    assert client.run(kindroads.spill, workers=[a])[a] > 0
    assert client.submit(kindroads.differences, kind, there, workers=a, pure=False).result() == {}
    client.run(kindroads.spill, workers=[a])
    assert not kindroads.differences(kind, there.result())
    assert {family for _, family in transload.dask.report(client).rows()} == {"transload:host"}


def test_b09_b19_flags_and_sharing(roads):
    client, a, b = roads
    expected = ([True, False, False, True], False, True)
    there = client.submit(kindroads.flags, workers=a, pure=False)
    assert kindroads.look(there.result()) == expected
    assert tuple(client.submit(kindroads.look, there, workers=b, pure=False).result()) == expected
    scattered = client.scatter([kindroads.flags()], hash=False)[0]
    assert tuple(client.submit(kindroads.look, scattered, pure=False).result()) == expected


@pytest.mark.parametrize("wrap", ["dict", "attributes", "column"])
def test_b17_600_levels(roads, wrap):
    client, a, b = roads
    there = client.submit(kindroads.deep, wrap, workers=a, pure=False)
    assert kindroads.depth(there.result()) == 600
    assert client.submit(kindroads.depth, there, workers=b, pure=False).result() == 600
    assert client.submit(kindroads.depth, client.scatter([kindroads.deep(wrap)], hash=False)[0], pure=False).result() == 600


def test_b25_state_is_asked_for_once_a_transfer(cluster, client, a, b):
    there = client.submit(kindroads.counted, workers=a, pure=False)
    there.result()
    assert client.run(kindroads.calls, workers=[a])[a] == len(kinds.Counted.HOW)
    client.submit(len, there, workers=b, pure=False).result()
    assert client.run(kindroads.calls, workers=[a])[a] == 2 * len(kinds.Counted.HOW)


def test_b26_registered_adapter_is_used_on_the_way(cluster, client, a, b):
    there = client.submit(kindroads.images, workers=a, pure=False)
    kinds.Image.calls.clear()
    assert isinstance(there.result()[3]["k"][1].a, kinds.Image)
    assert kinds.Image.calls == ["decode"] * 3
    assert client.run(kindroads.image_calls, workers=[a])[a] == ["encode"] * 3


def test_b34_ten_rows_are_few_bytes_on_the_way(cluster, client, a):
    there = client.submit(kindroads.cut_from_large, workers=a, pure=False)
    transload.dask.report(client, reset=True)
    assert len(there.result()) > 30
    assert transload.dask.report(client).rows()["gather", "transload:host"]["nbytes"] < 60_000
