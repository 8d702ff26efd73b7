"""Clusters of other makes: LocalCluster with nannies and restart, one process for all, TLS."""

import shutil
import subprocess
import time

import numpy as np
import pytest
from distributed import Client, LocalCluster, Security

import transload.dask

roadside = pytest.importorskip("roadside")
FRAME = roadside.make_frame()
pytestmark = pytest.mark.timeout(90)


def families(client):
    return {family for _, family in transload.dask.report(client).rows()}


def test_local_cluster_with_nanny_and_restart(monkeypatch):
    """The scheduler lives in the client's process; a restarted worker is on again by itself."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        transload.dask.enable(client)
        for restarted in (False, True):
            if restarted:
                client.restart()
            deadline = time.monotonic() + 20
            while True:
                transload.dask.report(client, reset=True)
                x = client.scatter(FRAME, hash=False)
                assert client.submit(lambda x: x, x).result().equals(FRAME)
                if families(client) == {"transload:host"}:
                    break
                assert restarted  # its worker comes as a stranger, and tells the scheduler a moment later
                assert time.monotonic() < deadline
            del x
        transload.dask.disable(client)


def test_cluster_in_one_process():
    """Client, scheduler and worker share it; inproc:// passes references, and nothing breaks."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        transload.dask.enable(client)
        assert client.submit(lambda x: x.sum(), client.scatter(np.arange(5))).result() == 10
        transload.dask.disable(client)
        assert client.submit(lambda x: x.sum(), client.scatter(np.arange(6))).result() == 15


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_tls(tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    roles = {f"tls_{role}_{part}": path for role in ("client", "scheduler", "worker")
             for part, path in (("key", key), ("cert", certificate))}  # fmt: skip
    security = Security(tls_ca_file=certificate, require_encryption=True, **roles)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, security=security, protocol="tls://"
        ) as cluster,
        Client(cluster) as client,
    ):
        assert client.scheduler.address.startswith("tls://")
        transload.dask.enable(client)
        transload.dask.report(client, reset=True)
        x = client.scatter([np.arange(9 << 20)], direct=True)  # 72 MiB: more than one of Dask's shards
        back = client.submit(lambda x: [x, x], x[0]).result()
        assert back[0] is back[1]
        assert back[0].flags.aligned
        assert int(back[0][-1]) == (9 << 20) - 1
        rows = transload.dask.report(client).rows()
        assert {(road, family, row["frames"]) for (road, family), row in rows.items()} == {
            ("scatter", "transload:host", 1),
            ("gather", "transload:host", 1),
        }
        transload.dask.disable(client)
