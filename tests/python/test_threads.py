"""Many threads, many processes, many rounds: nothing is mixed up, nothing leaks."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from support.mutate import OBJECTS
from support.same import difference
from support.trips import host

import transload


def _in_threads(work: Any, n: int = 8) -> list[BaseException]:
    errors: list[BaseException] = []
    barrier = threading.Barrier(n)

    def run(i: int) -> None:
        barrier.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_threads_encode_and_decode_their_own_objects() -> None:
    def work(i: int) -> None:
        for k in range(30):
            thing = {"i": i, "k": [k] * 50, "a": np.arange(20_000) + i, "t": ("x" * 100, {"y": k})}
            assert difference(thing, host(thing)) is None

    assert _in_threads(work) == []


def test_threads_share_one_object_and_one_message() -> None:
    thing = {"a": np.arange(50_000), "b": [{"x": i, "y": str(i)} for i in range(2000)]}
    message = transload.dumps(thing, families=("host",))

    def work(i: int) -> None:
        for _ in range(10):
            assert difference(thing, host(thing)) is None
            assert transload.loads(message)["b"] == thing["b"]

    assert _in_threads(work) == []


def test_threads_meet_a_library_for_the_first_time_together() -> None:
    code = (
        "import threading, transload, numpy as np\n"
        "barrier, bad = threading.Barrier(8), []\n"
        "def work():\n"
        "    barrier.wait()\n"
        "    try:\n"
        "        x = [np.random.default_rng(1), np.ma.array([1], mask=[1]), np.random.RandomState(1)]\n"
        "        transload.loads(transload.dumps(x, families=('host',)))\n"
        "    except Exception as error: bad.append(error)\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "assert not bad, bad\n"
    )
    for _ in range(3):
        subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], check=True)


def test_message_read_by_a_thread_outlives_it() -> None:
    got: list[Any] = []
    message = [bytes(part) for part in transload.dumps(np.arange(100_000))]
    thread = threading.Thread(target=lambda: got.append(transload.loads(message)))
    thread.start()
    thread.join()
    del message
    gc.collect()
    assert got[0].sum() == 4999950000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_child_of_a_fork_encodes_and_decodes() -> None:
    thing = [np.arange(1000), {"a": 1}]
    host(thing)
    child = os.fork()
    if child == 0:
        os._exit(0 if difference(thing, host(thing)) is None else 1)
    assert os.waitpid(child, 0)[1] == 0


def _growth(work: Any, rounds: int) -> float:
    """Bytes a round, some 20 of them noise: the least of several goes, for caches fill now and then, and leaks grow always."""
    tracemalloc.start()
    try:
        goes = []
        for _ in range(3):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for i in range(rounds):
                work(i)
            gc.collect()
            goes.append((tracemalloc.get_traced_memory()[0] - before) / rounds)
        return min(goes)
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("label", ["values", "library", "arrays", "pandas", "sparse", "arrow"])
def test_round_trips_leak_nothing(label: str) -> None:
    pytest.importorskip({"pandas": "pandas", "sparse": "scipy", "arrow": "pyarrow"}.get(label, "numpy"))
    thing = OBJECTS[label]()
    references = sys.getrefcount(thing)
    assert _growth(lambda i: transload.loads(transload.dumps(thing, families=("host",))), 300) < 40
    assert sys.getrefcount(thing) == references


def test_refused_messages_leak_nothing() -> None:
    parts = [bytes(part) for part in transload.dumps(OBJECTS["arrays"](), families=("host",))]
    kept = [b"x" * 10]

    def work(i: int) -> None:
        with contextlib.suppress(transload.Error):
            transload.loads([parts[0][: i % len(parts[0])], *parts[1:]])
        with contextlib.suppress(transload.Error):
            transload.dumps([kept, lambda: 1], families=("host",))

    references = sys.getrefcount(kept)
    assert _growth(work, len(parts[0])) < 40
    assert sys.getrefcount(kept) == references


def test_arrays_and_frames_are_freed() -> None:
    import resource

    thing = np.zeros(4_000_000)  # 32 MB
    host([thing])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(30):
        host([thing])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB
