"""Many threads, many processes, many rounds: nothing is mixed up, nothing leaks."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from support.corpus import corpus, kinds
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


_FIRST_TOGETHER = """
import sys, threading, transload
assert "struct" not in sys.modules
MESSAGE
barrier, good = threading.Barrier(8), []
def work():
    barrier.wait()
    good.append(WORK == b"abc")
threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
[t.start() for t in threads]
[t.join(30) for t in threads]
assert good == [True] * 8, good
"""


@pytest.mark.parametrize("decode", [False, True])
def test_threads_meet_the_first_memoryview_together(decode: bool) -> None:
    # The first of them imports struct, which gives the GIL away; the others waited for its result without giving the GIL back.
    if decode:
        parts = [bytes(part) for part in transload.dumps(memoryview(b"abc"), families=("host",))]
        code = _FIRST_TOGETHER.replace("MESSAGE", f"message = {parts!r}").replace("WORK", "transload.loads(message)")
    else:
        code = _FIRST_TOGETHER.replace("MESSAGE", "").replace("WORK", "transload.loads(transload.dumps(memoryview(b'abc'), families=('host',)))")
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], check=True, timeout=100)


# ── Objects that change while they are encoded ───────────────────────────────────────────────────────────────


class _Switches:
    """Lets other threads run while it is encoded."""

    def __init__(self, i: int) -> None:
        self.i = i

    def __reduce__(self) -> Any:
        time.sleep(0)
        return _Switches, (self.i,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Switches) and other.i == self.i

    def __hash__(self) -> int:
        return self.i


class _Open:
    pass


class _Slotted:
    __slots__ = ("__dict__", "a", "b", "c")


transload.trust(_Switches, _Open, _Slotted)


def _changing() -> dict[str, tuple[Any, Any]]:
    """Objects, and who changes them (told how often it was called)."""
    items = [_Switches(i) for i in range(40)]
    a_list, a_dict, by_object, a_set, an_open, a_slotted = list(items), {f"key {i}": x for i, x in enumerate(items)}, {x: [x] for x in items}, set(items), _Open(), _Slotted()
    records = [{"a": x, "b": 1} for x in items]
    objects = np.array(items, object)
    numbers, raw = np.arange(40_000), bytearray(5000)
    vars(an_open).update({f"attribute {i}": x for i, x in enumerate(items[:20])})

    def change_list(i: int) -> None:
        a_list[i % 3 :] = [_Switches(i), 2**70 + i, f"text {i}" * 3, [i]] * (i % 12)

    def change_dict(i: int) -> None:
        a_dict.pop(next(iter(a_dict), ""), None)
        a_dict[f"new {i}"] = [i, _Switches(i)]
        if i % 50 == 0:
            a_dict.clear()

    def change_by_object(i: int) -> None:
        while len(by_object) > 40:
            by_object.pop(next(iter(by_object)))
        by_object[_Switches(i)] = [2**70 + i]
        by_object[2**80 + i] = (i,)

    def change_set(i: int) -> None:
        while len(a_set) > 40:
            a_set.pop()
        a_set.update({_Switches(i), (i, "x")})

    def change_open(i: int) -> None:
        delattr(an_open, next(iter(vars(an_open))))
        setattr(an_open, f"new {i}", [_Switches(i)])

    def change_slotted(i: int) -> None:
        name = "abc"[i % 3]
        if hasattr(a_slotted, name):
            delattr(a_slotted, name)
        else:
            setattr(a_slotted, name, [_Switches(i)])
        vars(a_slotted)[f"x {i % 5}"] = i
        vars(a_slotted).pop(f"x {(i + 2) % 5}", None)

    def change_records(i: int) -> None:
        records[i % 40].pop("a" if i % 2 else "b", None)
        records[(i + 7) % 40].update(a=[i], b=_Switches(i))

    def change_objects(i: int) -> None:
        objects[:] = [[i], 2**70 + i, f"text {i}" * 2, _Switches(i)] * 10

    def change_arrays(i: int) -> None:
        with contextlib.suppress(ValueError):  # somebody holds it
            numbers.resize(30_000 + i % 20_000)
        with contextlib.suppress(BufferError):
            raw.extend(b"x" * (i % 100))
        with contextlib.suppress(BufferError):
            del raw[5000:]

    return {
        "list": (a_list, change_list), "dict": (a_dict, change_dict), "dict of objects": (by_object, change_by_object), "set": (a_set, change_set),
        "attributes": ([an_open, an_open], change_open), "slots": ([_Switches(0), a_slotted, _Switches(1)] * 5, change_slotted), "records": (records, change_records),
        "object array": (objects, change_objects), "arrays": ([_Switches(0), numbers, raw, _Switches(1), numbers, raw] * 5, change_arrays),
    }  # fmt: skip


@pytest.mark.parametrize("kind", _changing())
def test_object_that_another_thread_changes_is_sent_or_refused(kind: str) -> None:
    thing, change = _changing()[kind]
    end = False

    def changes() -> None:
        i = 0
        while not end:
            change(i := i + 1)

    changer = threading.Thread(target=changes)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    sent = refused = 0
    try:
        changer.start()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            try:
                message = transload.dumps(thing, families=("host",))
            except (transload.Error, RuntimeError):
                refused += 1
            else:
                assert type(transload.loads(message)) is type(thing)
                sent += 1
    finally:
        end = True
        changer.join()
        sys.setswitchinterval(interval)
    assert sent + refused > 10


def test_adapter_that_is_registered_anew_in_mid_walk() -> None:
    # The walk keeps the function that it began with; it had kept its address alone.
    class Registered:
        pass

    def register() -> None:
        def encode(thing: Any) -> Any:
            register()
            return [1]

        transload.register(Registered, name="test.registered", encode=encode, decode=lambda value: Registered())

    register()
    back = host([Registered() for _ in range(200)])
    assert {type(thing) for thing in back} == {Registered}


class _Forgets:
    """Asked for a slot that is empty, it drops its attributes."""

    __slots__ = ("__dict__", "missing")

    def __getattr__(self, name: str) -> Any:
        if name == "missing":
            vars(self).clear()
            self.junk = [f"{i} other text of this length" for i in range(200)]
        raise AttributeError(name)


transload.trust(_Forgets)


def test_attributes_that_go_while_slots_are_asked_for() -> None:
    thing = _Forgets()
    for i in range(50):
        setattr(thing, f"{i} attribute of this length", i)
    with contextlib.suppress(transload.Failed):
        transload.dumps(thing, families=("host",))


class _Cleaner:
    """Garbage that empties a list when it is collected, and leaves more of its kind."""

    def __init__(self, items: list[Any], left: int) -> None:
        self.items, self.left, self.ring = items, left, self

    def __del__(self) -> None:
        if self.left == 0:
            self.items[:] = [2**90] * 3
        elif self.left > 0:
            _Cleaner(self.items, self.left - 1)


@pytest.mark.parametrize("when", range(12))
def test_list_that_a_collection_of_garbage_empties(when: int) -> None:
    things = [[2**70 + i for i in range(20)], ["\ud800 %d" % i for i in range(20)], {2**70 + i: [i] for i in range(20)}]
    for thing in things:
        items = thing if isinstance(thing, list) else [thing]
        thresholds = gc.get_threshold()
        gc.collect()
        gc.disable()
        _Cleaner(items, when)
        gc.set_threshold(1, 1, 1)
        gc.enable()
        try:
            message = transload.dumps([items], families=("host",))
        except transload.Failed:
            message = transload.dumps(1)
        finally:
            gc.set_threshold(*thresholds)
        transload.loads(message)


def test_header_that_changes_while_it_is_read() -> None:
    # A header in shared memory: the sender puts another name in its place as soon as the first was found to be trusted.
    header = bytearray(transload.dumps([_Switches(1)], families=("host",))[0])
    other = f"{__name__}:_Another".encode()
    known = f"{__name__}:_Switches".encode()
    place = header.index(known)
    assert len(other) == len(known) - 1

    seen = []

    def importer() -> None:
        seen.append(1)
        header[place : place + len(known)] = other + b"s"

    transload.register_lazy(__name__.partition(".")[0], importer)
    back = transload.loads([header])
    assert seen and back == [_Switches(1)]


# ── The same on many threads ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds())
def test_threads_walk_all_objects_at_once(kind: str) -> None:
    things = [(label, thing, host(thing)) for label, thing in corpus(kind)]
    interval = sys.getswitchinterval()

    def work(i: int) -> None:
        for k in range(len(things)):
            label, thing, back = things[(k * 7 + i * 11) % len(things)]
            found = difference(back, host(thing))
            assert found is None, f"{label}: {found}"

    sys.setswitchinterval(1e-5)
    try:
        assert _in_threads(work, 4) == []
    finally:
        sys.setswitchinterval(interval)


def test_arrays_and_frames_are_freed() -> None:
    import resource

    thing = np.zeros(4_000_000)  # 32 MB
    host([thing])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(30):
        host([thing])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB
