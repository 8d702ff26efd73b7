"""Forks, other processes, a second interpreter, and the end of this one: nothing hangs, crashes or is lost."""

from __future__ import annotations

import copy
import gc
import importlib.util
import multiprocessing
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from typing import Any

import numpy as np
import pytest
from support import away
from support.same import difference
from support.trips import host

import transload
from transload import _process

_HERE = os.path.dirname(os.path.abspath(__file__))


def _python(code: str, *options: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a process of its own, which must end well."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([_HERE, os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, "-X", "faulthandler", *options, "-c", code], env=env, capture_output=True, text=True, timeout=timeout)
    assert run.returncode == 0, (run.returncode, run.stderr[-3000:])
    return run


def _in_child(work: Any, timeout: float = 60) -> None:
    """Runs `work` in the child of a fork, which must return true in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, f"status {status:#x}"
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


class Waits:
    """Rebuilding it says so, and waits."""

    begun = threading.Event()
    goes_on = threading.Event()

    def __init__(self) -> None:
        self.a = 1

    def __setstate__(self, state: Any) -> None:
        self.begun.set()
        assert self.goes_on.wait(60)


transload.trust(Waits)


@pytest.fixture
def decoding() -> Any:
    """Another thread is in the middle of decoding."""
    Waits.begun.clear()
    Waits.goes_on.clear()
    message = transload.dumps([Waits()], families=("host",))
    thread = threading.Thread(target=transload.loads, args=(message,))
    thread.start()
    assert Waits.begun.wait(60)
    yield
    Waits.goes_on.set()
    thread.join()


# ── Forks ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("nbytes", [100, 10_000, 10_000_000])
def test_child_uses_arrays_messages_and_the_pool_of_its_parent(nbytes: int) -> None:
    thing = {"a": np.arange(nbytes // 8), "f": [1.5] * (nbytes // 8), "k": [{"x": i} for i in range(100)]}
    message = transload.serialize(thing, families=("host",))
    back = transload.deserialize(message)

    def work() -> bool:
        same = difference(thing, back) is None and difference(thing, transload.deserialize(message)) is None and difference(thing, host(thing)) is None
        back.clear()  # what the parent's pool gave goes back to the child's
        return same and difference(thing, host(thing)) is None

    _in_child(work)
    assert difference(thing, back) is None


def test_child_collects_garbage_although_another_thread_was_decoding(decoding: None) -> None:
    # The collector is paused while a message is decoded; nobody would have turned it on again in the child.
    assert not gc.isenabled()
    _in_child(lambda: gc.isenabled() and difference([1, {"a": 2}], host([1, {"a": 2}])) is None and gc.isenabled())


def test_child_keeps_the_collector_off_where_its_parent_did() -> None:
    gc.disable()
    try:
        _in_child(lambda: not gc.isenabled())
    finally:
        gc.enable()


def test_child_does_not_wait_at_its_end_for_calls_of_threads_that_it_has_not(decoding: None) -> None:
    def work() -> bool:
        began = time.monotonic()
        return _process._core.end_calls(_process.CALL_PATIENCE) and time.monotonic() - began < 1

    _in_child(work)


class Late:
    """Its adapter comes from a slow import."""


def _late_import(pause: float) -> threading.Thread:
    begun = threading.Event()

    def importer() -> None:
        begun.set()
        time.sleep(pause)
        transload.register(Late, name="late.late", encode=lambda late: [], decode=lambda value: Late())

    Late.__module__ = "late_library"
    transload.register_lazy("late_library", importer)
    thread = threading.Thread(target=lambda: transload.dumps([Late()], families=("host",)))
    thread.start()
    assert begun.wait(60)
    return thread


def _forget_late() -> None:
    transload._tables.adapters_by_type.pop(Late, None)
    transload._tables.adapters_by_name.pop("late.late", None)


def test_a_fork_waits_for_the_import_of_a_library_in_another_thread() -> None:
    _forget_late()
    thread = _late_import(0.5)
    _in_child(lambda: type(host([Late()])[0]) is Late and "late_library" not in transload._tables.lazy)
    thread.join()


def test_child_imports_anew_what_another_thread_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    # The thread holds the lock and is not in the child, which would wait for it for ever.
    monkeypatch.setattr(_process, "IMPORT_PATIENCE", 0.0)
    _forget_late()
    thread = _late_import(1.0)
    _in_child(lambda: type(host([Late()])[0]) is Late)
    thread.join()


def test_fork_in_the_middle_of_a_message_with_large_trees() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    x = rng.random((3000, 4))
    forest = ensemble.RandomForestClassifier(24, random_state=0).fit(x, rng.integers(0, 2, 3000))
    assert min(tree.tree_.node_count for tree in forest.estimators_) >= 1000
    message = [bytes(part) for part in transload.dumps(forest, families=("host",))]
    good = message, True
    copies = [bytearray(part) for part in message]
    dtype = forest.estimators_[0].tree_.__getstate__()["nodes"].dtype
    records = next(np.frombuffer(part, dtype) for part in copies[1:] if len(part) > 64 * 1024 and len(part) % dtype.itemsize == 0)
    records["left_child"][np.flatnonzero(records["left_child"] != -1)[-1]] = 10**9
    lying = copies, False

    for parts, right in (good, lying):
        children: list[int] = []
        seen = 0

        def fork_at_the_twentieth(frame: Any, event: str, function: Any) -> None:
            nonlocal seen
            seen += event == "call" and frame.f_code.co_name == "_decode_tree"
            if seen == 20 and not children:
                children.append(os.fork())

        sys.setprofile(fork_at_the_twentieth)
        try:
            opened = difference(forest, transload.loads(parts)) is None
        except transload.Malformed as error:
            opened = "child 1000000000" not in str(error)
        finally:
            sys.setprofile(None)
        if children == [0]:
            os._exit(0 if opened is right else 1)
        assert opened is right
        assert os.waitpid(children[0], 0)[1] == 0


def test_forks_while_other_threads_encode_and_decode() -> None:
    code = (
        "import os, sys, threading, time, numpy as np, transload\n"
        "thing = {'a': np.arange(30_000), 'b': [{'x': i} for i in range(300)], 'f': [1.5] * 500}\n"
        "message = [bytes(part) for part in transload.dumps(thing, families=('host',))]\n"
        "sys.setswitchinterval(1e-5)\n"
        "end = False\n"
        "def work():\n"
        "    while not end: transload.loads(message); transload.dumps(thing, families=('host',))\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[t.start() for t in threads]\n"
        "bad = 0\n"
        "for _ in range(40):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        back = transload.loads(transload.dumps(thing, families=('host',)))\n"
        "        os._exit(0 if (back['a'] == thing['a']).all() and back['b'] == thing['b'] else 1)\n"
        "    bad += os.waitpid(child, 0)[1] != 0\n"
        "end = True\n"
        "[t.join() for t in threads]\n"
        "sys.exit(bad)\n"
    )
    _python(code, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_processes_of_multiprocessing_send_objects_both_ways(method: str) -> None:
    context = multiprocessing.get_context(method)
    thing = {"a": np.arange(20_000), "b": [1, (2.5, {"c"})]}
    here, there = context.Pipe()
    process = context.Process(target=away.answer, args=(there,))
    process.start()
    there.close()
    for _ in range(3):
        here.send(transload.serialize(thing, families=("host",)))
        assert here.poll(60), "no answer"
        assert difference([thing, process.pid], transload.deserialize(here.recv())) is None
    here.send(None)
    process.join(60)
    assert process.exitcode == 0


# ── The end of the interpreter ───────────────────────────────────────────────────────────────────────────────

_DAEMONS = """
import threading, time, sys, tempfile, os
import numpy as np, transload
from support.away import Slow
slow, array = [Slow() for _ in range(500)], np.zeros(3_000_000)
message = transload.dumps(slow, families=("host",))
path = tempfile.mkdtemp()
def loads(i): transload.loads(message)
def dumps(i): transload.dumps(slow, families=("host",))
def save(i): transload.save(f"{path}/{i}", array); transload.load(f"{path}/{i}")
def work(i):
    try:
        while True: FUNCTION(i)
    except transload.Failed: pass
for i in range(4): threading.Thread(target=work, args=(i,), daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.parametrize("function", ["loads", "dumps", "save"])
def test_interpreter_ends_while_daemon_threads_are_busy(function: str) -> None:
    # CPython before 3.14 unwinds such threads: destructors dropped references without the GIL, and every second process crashed at its end.
    for _ in range(4):
        assert _python(_DAEMONS.replace("FUNCTION", function)).stderr == ""


def test_call_that_had_begun_is_finished_before_the_interpreter_ends() -> None:
    code = (
        "import atexit, threading, time\n"
        "atexit.register(lambda: (time.sleep(0.2), print(done)))\n"  # before transload's own: runs after it
        "import transload\n"
        "from support.away import Sleeps\n"
        "message, done = transload.dumps([Sleeps(0.5)], families=('host',)), []\n"
        "threading.Thread(target=lambda: done.append(transload.loads(message)[0].seconds), daemon=True).start()\n"
        "assert Sleeps.begun.wait(60)\n"
    )
    assert _python(code).stdout == "[0.5]\n"


def test_call_that_does_not_end_is_not_waited_for_for_ever() -> None:
    code = (
        "import threading, transload\n"
        "from transload import _process\n"
        "from support.away import Sleeps\n"
        "message = transload.dumps([Sleeps(1000)], families=('host',))\n"
        "threading.Thread(target=lambda: transload.loads(message), daemon=True).start()\n"
        "assert Sleeps.begun.wait(60)\n"
    )
    began = time.monotonic()
    _python(code)
    assert _process.CALL_PATIENCE < time.monotonic() - began < _process.CALL_PATIENCE + 30


def test_only_the_thread_that_ends_the_interpreter_may_still_call() -> None:
    code = (
        "import atexit, threading\n"
        "def late():\n"
        "    print(transload.loads(transload.dumps([1])))\n"
        "    asked.set()\n"
        "    assert answered.wait(60)\n"
        "atexit.register(late)\n"  # before transload's own: runs after it
        "import transload\n"
        "asked, answered = threading.Event(), threading.Event()\n"
        "def daemon():\n"
        "    asked.wait()\n"
        "    try: transload.dumps([1])\n"
        "    except transload.Failed as error: print(error)\n"
        "    answered.set()\n"
        "threading.Thread(target=daemon, daemon=True).start()\n"
    )
    assert _python(code).stdout == "[1]\nthe interpreter ends; only the thread that ends it can still call transload\n"


def test_interpreter_ends_with_messages_and_arrays_alive() -> None:
    code = (
        "import atexit, sys, numpy as np, transload\n"
        "thing = {'a': np.arange(50_000), 'f': [1.5] * 20_000, 's': np.zeros(3, 'i4,f8')}\n"
        "message = transload.serialize(thing, families=('host',))\n"
        "back = transload.deserialize(message)\n"
        "class Holder: pass\n"
        "ring = Holder(); ring.ring, ring.back, ring.message, ring.pool = ring, back, message, transload._core.allocate(1000)\n"
        "view = memoryview(back['a'])[5:]\n"
        "class Late:\n"
        "    def __del__(self):\n"
        "        transload.loads(transload.dumps([1, 2]))\n"
        "sys.late = Late()\n"  # dies with the module sys, after everybody else
        "atexit.register(lambda: transload.loads(transload.dumps(thing)))\n"
    )
    assert _python(code, "-X", "dev").stderr == ""


# ── One interpreter, one module ──────────────────────────────────────────────────────────────────────────────

_SECOND_INTERPRETER = """
import sys
import sysconfig
PREPARE
CODE = "import sys; sys.path[:0] = %r\\ntry:\\n    import transload\\nexcept ImportError as error:\\n    open(%r, 'w').write(str(error))\\n"
import os, tempfile
said = os.path.join(tempfile.mkdtemp(), "said")
code = CODE % (sys.path, said)
for isolated in (False, True):
    if hasattr(interpreters, "create"):
        for _ in range(2):
            if sys.version_info >= (3, 13): one = interpreters.create("isolated" if isolated else "legacy")
            else: one = interpreters.create(isolated=isolated)
            if sys.version_info >= (3, 13): interpreters.exec(one, code)
            else: interpreters.run_string(one, code)
            interpreters.destroy(one)
            text = open(said).read()  # isolated ones are refused by CPython itself from 3.13 on
            assert "sub-interpreter" in text or "does not support loading in subinterpreters" in text, text
            os.remove(said)
    CHECK
print("refused, and the main interpreter works")
"""
_CHECK = "import transload; transload.trust('a:b'); assert transload.loads(transload.dumps([1, {'a': 2.5}])) == [1, {'a': 2.5}]"
_INTERPRETERS = (
    "try: import _interpreters as interpreters\n"
    "except ImportError: import _xxsubinterpreters as interpreters\n"
)


@pytest.mark.skipif(not any(importlib.util.find_spec(name) for name in ("_interpreters", "_xxsubinterpreters")), reason="no second interpreter here")
@pytest.mark.parametrize("first", [True, False])
def test_second_interpreter_is_refused_and_the_main_one_works_on(first: bool) -> None:
    prepare = _INTERPRETERS + (_CHECK if first else "")
    code = _SECOND_INTERPRETER.replace("PREPARE", prepare).replace("CHECK", _CHECK)
    assert _python(code).stdout == "refused, and the main interpreter works\n"


_IMPORTED_AGAIN = """
import gc, importlib, sys
import numpy as np, transload
from support.objects_values import Mutable
thing = [Mutable(1, np.arange(20_000)), {"a": 1.5}]
old, old_loads = transload, transload.loads
old_message = transload.dumps(thing, families=("host",))
AGAIN
import transload
transload.trust(Mutable)
for _ in range(3):
    back = transload.loads(transload.dumps(thing, families=("host",)))
    assert back[0].a == 1 and (back[0].b == thing[0].b).all() and back[1] == thing[1]
    assert transload.loads(old_message)[1] == thing[1] and old_loads(transload.dumps([1])) == [1]
    try: transload.loads([b"rubbish"])
    except transload.Malformed: pass
    gc.collect()
"""


@pytest.mark.parametrize(
    "again",
    [
        "del sys.modules['transload']",
        "importlib.reload(transload)",
        "importlib.reload(transload._core)",
        "del sys.modules['transload._core']; del sys.modules['transload']",
        "for name in [name for name in sys.modules if name.split('.')[0] == 'transload']: del sys.modules[name]",
        "for name in [name for name in sys.modules if name.split('.')[0] == 'transload']: del sys.modules[name]\ndel transload, old; gc.collect()",
    ],
)
def test_module_is_imported_again(again: str) -> None:
    assert _python(_IMPORTED_AGAIN.replace("AGAIN", again)).stderr == ""


# ── Messages as objects ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_message_is_pickled_with_its_frames(protocol: int) -> None:
    thing = {"a": np.arange(20_000), "b": "text"}
    message = transload.serialize(thing, families=("host",))
    back = pickle.loads(pickle.dumps(message, protocol))
    assert type(back) is transload.Message and (back.header, back.families) == (message.header, message.families)
    assert difference(thing, transload.deserialize(back)) is None


def test_frames_of_a_pickled_message_go_out_of_band() -> None:
    message = transload.serialize(np.arange(20_000))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(message, 5, buffer_callback=buffers.append)
    assert len(data) < 1000 and [buffer.raw().nbytes for buffer in buffers] == [frame.nbytes for frame in message.frames]
    assert transload.deserialize(pickle.loads(data, buffers=buffers)).sum() == 199990000


def test_copied_message_has_memory_of_its_own() -> None:
    array = np.arange(20_000)
    message = copy.deepcopy(transload.serialize(array))
    array[:] = 0
    assert transload.deserialize(message).sum() == 199990000


# ── Interpreters without the GIL ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [0, 1])
def test_free_threaded_interpreter_is_refused_when_configuring(tmp_path: pathlib.Path, answer: int) -> None:
    cmake = shutil.which("cmake") or shutil.which("cmake", path=os.path.join(sys.base_prefix, "bin"))
    script = pathlib.Path(_HERE).parents[1] / "cmake" / "TransloadGil.cmake"
    if cmake is None:
        pytest.skip("no cmake here")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncase \"$2\" in *Py_GIL_DISABLED*) echo {answer};; *) exit 9;; esac\n")
    python.chmod(0o755)
    run = subprocess.run([cmake, f"-DPYTHON={python}", "-P", str(script)], capture_output=True, text=True)
    assert (run.returncode != 0) == bool(answer), run.stderr
    assert ("free-threaded" in run.stderr) == bool(answer)


def test_this_interpreter_is_let_through() -> None:
    assert not sysconfig.get_config_var("Py_GIL_DISABLED")
