"""The report of a cluster's counters: every process once, with what it counted."""

import os

import numpy as np
import pytest
from distributed import Client, LocalCluster

import transload.dask

pytestmark = pytest.mark.timeout(60)


def test_processes_of_one_pid_are_two(cluster):
    """Containers each have a process 1; of two such workers one was missing."""

    def say_one():
        os.getpid = lambda: 1

    with cluster.client() as client:
        client.run(say_one)
        try:
            found = transload.dask.report(client)
            assert set(found.processes) == {"client", "scheduler", *cluster.addresses(client).values()}
        finally:
            client.run(lambda: setattr(os, "getpid", __import__("posix").getpid))


def test_a_report_that_resets_has_what_was_counted_before():
    """Where client, scheduler and workers are one process, it had what was counted since the reset: nothing."""
    given = {"protocol": "transload", "n_workers": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**given) as cluster, Client(cluster) as client:
        transload.dask.report(client, reset=True)
        client.submit(np.zeros, 1_000_000).result()
        found = transload.dask.report(client, reset=True)
        assert found.rows()["gather", "transload:host"]["nbytes"] >= 8_000_000
        assert ("gather", "transload:host") not in transload.dask.report(client).rows()
