"""Real clusters for the tests: scheduler and workers are processes of their own, each with transload or without."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

distributed = pytest.importorskip("distributed")
pytest.importorskip("transload")

HERE = Path(__file__).parent
MODULES = HERE / "on_every_machine"
sys.path.insert(0, str(MODULES))

QUIET = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false",
    "DASK_DISTRIBUTED__ADMIN__LOG_FORMAT": "%(levelname)s %(name)s: %(message)s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "20s",
    # It drops second replicas every two seconds, and with them what a test has put on one worker.
    "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "false",
}


class Cluster:
    """A scheduler and workers in processes of their own; `logs` keeps what each wrote."""

    def __init__(self, folder, scheduler="with", env=None, protocol="tcp"):
        self.folder, self.env, self.processes = Path(folder), env or {}, {}
        self.protocol = protocol
        self.file = self.folder / "scheduler.json"
        self._start("scheduler", scheduler, "dask_scheduler", "--protocol", protocol, "--host", "127.0.0.1", "--port", "0",
                    "--no-dashboard", "--scheduler-file", str(self.file))  # fmt: skip
        self._wait(lambda: self.file.exists() and self.file.read_text().strip(), "the scheduler")
        self.address = json.loads(self.file.read_text())["address"]

    def _start(self, name, kind, module, *arguments):
        path = [str(MODULES), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        if kind == "without":
            path.insert(0, str(HERE / "without_transload"))
        if kind == "preload":
            arguments += ("--preload", "transload.dask.preload")
        env = {**os.environ, **QUIET, **self.env, "PYTHONPATH": os.pathsep.join(p for p in path if p)}
        command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=self.folder)

    def worker(self, name, kind="with", memory="1GB", wait=True, host="127.0.0.1", nanny=False):
        """Start a worker (`kind`: with, without, preload), by default without a nanny, and wait until it has registered."""
        self._start(name, kind, "dask_worker", self.address, "--nanny" if nanny else "--no-nanny", "--nthreads", "1",
                    "--no-dashboard", "--host", host, "--protocol", self.protocol, "--name", name, "--memory-limit",
                    memory, "--local-directory", str(self.folder))  # fmt: skip
        if wait:
            self._wait(lambda: "Registered to" in self.log(name), name)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def _wait(self, ready, what, seconds=40):
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end or any(p.poll() is not None for p in self.processes.values()):
                raise RuntimeError(f"{what} did not start:\n" + "\n".join(self.log(n) for n in self.processes))
            time.sleep(0.02)

    def addresses(self, client):
        """Return `{name: address}` of the workers."""
        return {w["name"]: a for a, w in client.scheduler_info(n_workers=-1)["workers"].items()}

    @contextlib.contextmanager
    def client(self, **kwargs):
        with distributed.Client(self.address, timeout=20, **kwargs) as client:
            yield client

    def stop(self, name=None):
        for process in [self.processes.pop(name)] if name else list(self.processes.values()):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def make_cluster(tmp_path_factory):
    """Return a context manager that starts a cluster: `with make_cluster(scheduler, {name: kind}) as cluster`."""

    @contextlib.contextmanager
    def make(scheduler="with", workers=None, protocol="tcp", **env):
        cluster = None
        try:
            cluster = Cluster(tmp_path_factory.mktemp("cluster"), scheduler, env, protocol)
            for name, kind in (workers or {}).items():
                cluster.worker(name, kind, wait=False)
            cluster._wait(lambda: all("Registered to" in cluster.log(n) for n in workers or ()), "a worker")
            yield cluster
        finally:
            if cluster is not None:
                cluster.stop()

    return make


@pytest.fixture(scope="module")
def cluster(make_cluster):
    """Scheduler and two workers, all with transload."""
    with make_cluster("with", {"a": "with", "b": "with"}) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A client of `cluster` with transload on, turned off again afterwards."""
    import transload.dask

    with cluster.client() as client:
        transload.dask.enable(client)
        transload.dask.report(client, reset=True)
        yield client
        transload.dask.disable(client)


@pytest.fixture
def a(cluster, client):
    return cluster.addresses(client)["a"]


@pytest.fixture
def b(cluster, client):
    return cluster.addresses(client)["b"]
