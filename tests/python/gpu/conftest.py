"""Tests that need a GPU and CuPy; each skips itself elsewhere."""

import pytest

import transload


def pytest_collection_modifyitems(items):
    if transload.device_count() == 0:
        for item in items:
            if "gpu" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason="no GPU here"))


@pytest.fixture
def cp():
    return pytest.importorskip("cupy")


@pytest.fixture(params=["tcp", "transload", "ucxx"])
def client(request, cp):
    """A client of a cluster of two workers, over each kind of comm, with transload on."""
    distributed = pytest.importorskip("distributed")
    if request.param == "ucxx":
        pytest.importorskip("distributed_ucxx")
    given = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    with distributed.LocalCluster(protocol=request.param, **given) as cluster, distributed.Client(cluster) as client:
        if request.param != "transload":
            import transload.dask

            transload.dask.enable(client)
        yield client
