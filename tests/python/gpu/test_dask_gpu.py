"""GPU objects in real Dask clusters: between workers, to the client, and back; what Dask has no frames for, too."""

import operator

import numpy as np
import pytest

pytest.importorskip("distributed")

import transload
import transload.dask

pytestmark = pytest.mark.timeout(120)


def test_arrays_between_workers_and_the_client(client, cp):
    first, second = client.scheduler_info(n_workers=-1)["workers"]
    big = client.submit(cp.arange, 5_000_000, workers=[first], pure=False)
    doubled = client.submit(operator.add, big, big, workers=[second], pure=False)
    total = client.submit(cp.sum, doubled, workers=[first], pure=False)
    assert int(client.gather(total)) == 5_000_000 * 4_999_999
    got = client.gather(doubled)
    assert type(got) is cp.ndarray and bool((got == 2 * cp.arange(5_000_000)).all())
    small = client.gather(client.submit(operator.mul, client.scatter(cp.arange(10)), 3, workers=[second]))
    assert small.tolist() == list(range(0, 30, 3))
    report = transload.dask.report(client)
    families = {family for _, family in report.rows()}
    assert report.pickled == 0 and families <= {"transload:host", "transload:host+cuda", "transload:names", "cuda"}
    assert any("cuda" in family for family in families) == client.scheduler.address.startswith(("ucx", "transload"))


def test_containers_sparse_matrices_and_host_arrays(client, cp):
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    sent = {"arrays": [cp.full(10_000, i) for i in range(200)], "csr": sparse.random(1000, 100, 0.1, format="csr"), "host": np.arange(50_000.0), "empty": cp.zeros((0, 3))}
    (future,) = client.scatter([sent])
    other = next(address for address in client.scheduler_info(n_workers=-1)["workers"] if address not in client.who_has(future)[future.key])
    moved = client.submit(dict, future, workers=[other], pure=False)
    got = client.gather(moved)
    assert all(int(array[0]) == i and type(array) is cp.ndarray for i, array in enumerate(got["arrays"]))
    assert abs(got["csr"] - sent["csr"]).sum() == 0 and np.array_equal(got["host"], sent["host"]) and got["empty"].shape == (0, 3)
