"""Two ends of `transload://` in one event loop or two processes: messages, addresses, ends of connections."""

import array
import asyncio
import contextlib
import errno
import functools
import gc
import logging
import mmap
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import dask
import msgpack
import numpy as np
import pandas as pd
import pytest
from dask._task_spec import DataNode, List, Task, TaskRef
from distributed.comm import CommClosedError, connect, listen
from distributed.comm.core import FatalCommClosedError
from distributed.comm.registry import get_backend
from distributed.protocol import Pickled, Serialized, ToPickle, to_serialize

import transload
from transload import _core
from transload.dask import _messages
from transload.dask import comm as ours
from transload.dask._counters import counters, links

pytestmark = pytest.mark.timeout(60)

A = "transload://127.0.0.1:0"


def in_a_loop(test):
    """Run a coroutine as a test, in an event loop of its own that is checked for tasks left behind."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        async def whole():
            await asyncio.wait_for(test(*args, **kwargs), 40)
            for _ in range(50):
                left = asyncio.all_tasks() - {asyncio.current_task()}
                if not left:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError(f"left behind: {left}")

        asyncio.run(whole())

    return run


@contextlib.asynccontextmanager
async def pair(address=A, deserialize=True, **connection_args):
    """The two ends of a connection: (connecting, listening)."""
    come = asyncio.get_running_loop().create_future()
    held = asyncio.Event()

    async def handle(comm):
        come.set_result(comm)
        await held.wait()

    listener = await listen(address, handle, deserialize=deserialize)
    connecting = await connect(listener.contact_address, deserialize=deserialize, **connection_args)
    listening = await come
    try:
        yield connecting, listening
    finally:
        held.set()
        listener.stop()
        connecting.abort()
        listening.abort()


@pytest.fixture
def apart():
    """Frames of ends in one process go over the wire, as between two processes."""
    import dask

    with dask.config.set({"transload.same-process": False}):
        yield


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────


@in_a_loop
async def test_messages_come_in_order_both_ways_at_once(apart):
    async with pair() as (a, b):

        async def talk(one):
            for i in range(200):
                await one.write({"op": "count", "i": i, "x": to_serialize(np.full(i * 37 % 5000, i))})

        async def hear(one):
            for i in range(200):
                message = await one.read()
                assert message["i"] == i
                assert (message["x"] == i).all() and len(message["x"]) == i * 37 % 5000

        await asyncio.gather(talk(a), talk(b), hear(a), hear(b))


@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4096, 70_000, 6_000_000, 40_000_000])
@in_a_loop
async def test_arrays_of_every_size_arrive_aligned_and_writable(apart, nbytes):
    array = np.random.default_rng(1).integers(0, 255, nbytes, np.uint8)
    async with pair() as (a, b):
        write = asyncio.ensure_future(a.write({"x": to_serialize(array), "y": to_serialize(array[1:])}))
        message = await b.read()
        await write
        assert np.array_equal(message["x"], array) and np.array_equal(message["y"], array[1:])
        for got in message.values():
            assert got.flags.writeable
            assert got.nbytes < 4096 or got.ctypes.data % 64 == 0


@in_a_loop
async def test_ten_thousand_frames_in_a_message(apart):
    async with pair() as (a, b):
        parts = [bytes([i % 251]) * (i % 7) for i in range(10_000)]
        write = asyncio.ensure_future(a.write([to_serialize(part) for part in parts]))
        assert list(await b.read()) == parts
        await write


@in_a_loop
async def test_frames_stay_closed_where_nobody_opens_them(apart):
    """As in a scheduler: what it passes on it neither opens nor copies into other frames."""
    array = np.arange(100_000.0)
    async with pair(deserialize=False) as (a, b):
        await a.write({"op": "scatter", "x": to_serialize(array)})
        message = await b.read()
        assert isinstance(message["x"], Serialized)
        nframes = len(message["x"].frames)
        await b.write(message)
        back = await a.read()
        assert isinstance(back["x"], Serialized) and len(back["x"].frames) == nframes
        assert sum(memoryview(f).nbytes for f in back["x"].frames) >= array.nbytes
        assert np.array_equal(transload.loads(back["x"].frames), array)


@in_a_loop
async def test_a_value_that_cannot_be_sent_leaves_the_connection_usable(apart):
    class Stubborn:
        def __reduce__(self):
            raise RuntimeError("not for travel")

    async with pair() as (a, b):
        with pytest.raises(Exception, match="not for travel"):
            await a.write({"x": to_serialize(Stubborn())}, on_error="raise")
        await a.write("after")
        assert await b.read() == "after"


@in_a_loop
async def test_a_value_that_cannot_be_opened_leaves_the_connection_usable(apart):
    async with pair() as (a, b):
        await a.write({"x": to_serialize(np.arange(3))}, serializers=["dask"])
        with pytest.raises(TypeError, match="only able to deserialize"):
            await b.read(deserializers=["msgpack"])
        await a.write("after")
        assert await b.read() == "after"


@in_a_loop
async def test_truncated_data_ends_the_connection(apart):
    async with pair() as (a, b):
        await a.write({"x": to_serialize(EndsEarly())}, serializers=["pickle"])
        with pytest.raises(CommClosedError):
            await b.read()
        assert b.closed()


class EndsEarly:
    def __reduce__(self):
        return raise_eof, ()


def raise_eof():
    raise EOFError


@in_a_loop
async def test_large_messages_are_made_and_opened_beside_the_loop(apart, monkeypatch):
    threads = set()
    for name in ("dumps", "loads"):
        stock = getattr(_messages.codec, name)

        def watched(*args, stock=stock, name=name, **kwargs):
            threads.add((name, threading.current_thread() is threading.main_thread()))
            return stock(*args, **kwargs)

        monkeypatch.setattr(_messages.codec, name, watched)
    async with pair() as (a, b):
        threads.clear()
        for array in (np.zeros(1000), np.zeros(3_000_000)):  # Dask's threshold is 10 MiB
            write = asyncio.ensure_future(a.write(to_serialize(array)))
            await b.read()
            await write
            assert threads == {("dumps", len(array) == 1000), ("loads", len(array) == 1000)}
            threads.clear()
        a.allow_offload = b.allow_offload = False
        write = asyncio.ensure_future(a.write(to_serialize(array)))
        await b.read()
        await write
        assert threads == {("dumps", True), ("loads", True)}


def half(a, k=0):
    return a[::2] + k


@contextlib.contextmanager
def no_pickle(monkeypatch):
    """Let no pickle be written or read, by Dask or by us."""

    def never(*args, **kwargs):
        raise AssertionError("a pickle")

    from distributed.protocol import pickle

    with monkeypatch.context() as patch:
        for name in ("dumps", "loads"):
            patch.setattr(pickle, name, never)
        yield


@in_a_loop
async def test_tasks_and_plain_objects_travel_without_pickle(apart, monkeypatch):
    """What Dask sends as `__Pickled__`: the scheduler's tasks with their arguments, values of Variables and Queues."""
    array = np.arange(10_000.0)
    task = Task(("y", 1), half, TaskRef(("x", 0)), List(array, array), k=DataNode("n", pd.Timestamp("2026-01-02")))
    async with pair() as (a, b):
        for strict in (False, True):  # its names need no trust, and no pickle
            transload.strict(strict)
            try:
                with no_pickle(monkeypatch):
                    await a.write([{"op": "compute-task", "run_spec": ToPickle(task)}, {"op": "variable_set", "data": {"s": {1, 2}}}])
                    first, second = await b.read()
            finally:
                transload.strict(False)
            assert second["data"] == {"s": {1, 2}} and type(second["data"]["s"]) is set
            came = first["run_spec"]
            assert type(came) is Task and came.key == ("y", 1) and came.func is half
            assert came.dependencies == task.dependencies == {("x", 0)}
            x, y = came.args[1].args
            assert x is y and np.array_equal(x, array) and x.ctypes.data % 64 == 0
            assert repr(came) == repr(task)


@in_a_loop
async def test_tasks_that_only_pickle_takes_go_its_way_whole(apart):
    counters.reset()
    shared = []
    task = Task("t", lambda: (shared, shared))
    inner = Task("t", functools.partial(half, k=lambda: 1), 2)
    async with pair() as (a, b):
        await a.write({"run_spec": ToPickle(task), "inner": ToPickle(inner)})
        came = await b.read()
        x, y = came["run_spec"]()
        assert x is y == []
        assert came["inner"].func.keywords["k"]() == 1
    seen = counters.snapshot()
    assert seen["own"]["graphs"][0] == 2
    assert not [row for row in seen["data"] if row[1] == "control"]


class Answers:
    """Has every attribute, or raises what `getattr` does not take for a missing one."""

    def __init__(self, known):
        self.known = known

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__") and name != "__qualname__":
            raise AttributeError(name)
        return self.__dict__["known"][name]


@in_a_loop
async def test_objects_that_answer_oddly_travel(apart):
    task = Task("t", Answers({"__qualname__": 5}))
    async with pair() as (a, b):
        await a.write({"value": ToPickle(Answers({"a": 1})), "run_spec": ToPickle(task)})
        came = await b.read()
    assert came["value"].a == 1 and came["run_spec"].func.known == {"__qualname__": 5}


@in_a_loop
async def test_a_sub_header_of_no_known_form_is_refused(apart):
    async with pair() as (a, b):
        for header, parts, text in (
            ({"serializer": "transload/99"}, [b""], "transload/99"),
            ({}, [b""], "None"),
            ({"serializer": f"transload/{transload.FORMAT_VERSION}"}, [], "pickle belongs"),
        ):
            await a.write({"x": Pickled({**header, "num-sub-frames": len(parts)}, parts)})
            with pytest.raises(transload.Malformed, match=text):
                await b.read()
        head, _, _ = _core.encode(lambda: 1, ("host", "pickle"))
        header = {"serializer": f"transload/{transload.FORMAT_VERSION}", "num-sub-frames": 1}
        await a.write({"x": Pickled(header, [head])})
        with pytest.raises(transload.Untrusted, match="pickle"):
            await b.read()
        await a.write("and on")
        assert await b.read() == "and on"


def test_the_size_of_a_plain_message_is_told_without_dasks_samples():
    def size(message):
        return _core.quick_nbytes(message, _messages._WRAPPERS)

    assert size({"op": "put", "x": to_serialize(np.zeros(1_000_000)), "keys": ["a", ("b", 1)]}) == pytest.approx(8e6, rel=0.01)
    assert size(None) < 100  # an answer without a value
    assert size([{"op": "x", "bytes": bytes(1000), "n": None, "f": 1.5}]) == pytest.approx(1000, abs=400)
    for message in (
        to_serialize(np.array([{}], object)),  # Dask looks into it
        {"op": {1}},
        to_serialize(object()),
        [0] * 1000,
        functools.reduce(lambda inner, _: [inner], range(100), 0),
    ):
        assert size(message) is None


def test_what_stays_in_a_gpus_memory_is_no_work_for_another_thread():
    memory = _core.DeviceMemory(64, 1 << 30, _core.HOST_TWIN, None)
    assert _core.quick_nbytes(to_serialize([memory] * 2000), _messages._WRAPPERS) is None
    assert _core.quick_nbytes(to_serialize([memory] * 2000), _messages._WRAPPERS, False) < 100_000
    for module, told in (("cudf.core.dataframe", True), ("cuml.linear_model.ridge", True), ("cudfless", False)):
        frame = type("Frame", (), {"__module__": module})()
        assert (_core.quick_nbytes(to_serialize([frame]), _messages._WRAPPERS, False) is not None) == told


def bytes_with_others():
    return [os.urandom(6 << 20), np.arange(700_000.0), os.urandom(5000), b"", bytearray(b"y" * 300_000), os.urandom(5 << 20)]


def watched_receive(comm):
    """Note what the connection gives to `comm`: each message's frames."""
    came = []
    connection = comm._connection

    def receive(_):
        frames = connection.receive()
        if frames is not None:
            came.append(list(frames))
        return frames

    comm._received = receive
    return came


@pytest.mark.parametrize("streams", [{"transload.local-streams": 2}, {"transload.local-streams": 0, "transload.streams": 2}])
@in_a_loop
async def test_large_bytes_land_in_the_object_that_arrives(apart, streams):
    """A bytes object that is filled from a frame needs its memory twice."""
    with dask.config.set(streams):
        async with pair() as (a, b):
            b.allow_offload = False  # the thread that opens it may hold its frames a moment longer
            came = watched_receive(b)
            sent = bytes_with_others()
            for _ in range(3):
                writing = asyncio.ensure_future(a.write({"x": to_serialize(sent), "y": to_serialize(sent[0])}))
                message = await b.read()
                await writing
                got = message["x"]
                assert all(type(x) is type(y) for x, y in zip(got, sent, strict=True))
                assert got[0] == message["y"] == sent[0] and got[2:] == sent[2:] and np.array_equal(got[1], sent[1])
                landed = {id(frame) for frame in came.pop()}
                assert id(got[0]) in landed and id(got[5]) in landed
                assert got[0] is not sent[0]
                references = sys.getrefcount(got[5])
                assert references == 2


@in_a_loop
async def test_in_one_process_bytes_are_the_same_object():
    async with pair() as (a, b):
        big = os.urandom(1 << 20)
        await a.write(to_serialize({"big": big, "view": memoryview(big)[1:]}))
        got = await b.read()
        assert got["big"] is big and got["view"] == big[1:]


@in_a_loop
async def test_bytes_on_their_way_are_let_go_with_the_connection(apart):
    """Aborted while their memory is asked for, while they come, and when they came and nobody took them."""
    big = os.urandom(100 << 20)
    refs = sys.getrefcount(big)
    for delay in (0, 0.002, 0.01, 0.3):
        async with pair() as (a, b):
            writing = asyncio.ensure_future(a.write(to_serialize(big)))
            reading = asyncio.ensure_future(b.read())
            await asyncio.sleep(delay)
            reading.cancel()
            b.abort()
            with contextlib.suppress(CommClosedError):
                await writing
            with contextlib.suppress(CommClosedError, asyncio.CancelledError):
                assert await reading == big
        del writing, reading
        for _ in range(100):
            await asyncio.sleep(0.02)
            gc.collect()
            if sys.getrefcount(big) == refs:
                break
        assert sys.getrefcount(big) == refs


def test_landing_bytes_again_and_again_keeps_no_memory():
    async def check():
        big = os.urandom(32 << 20)
        async with pair() as (a, b):
            for i in range(24):
                if i == 4:
                    before = resident()
                writing = asyncio.ensure_future(a.write(to_serialize(big)))
                assert await b.read() == big
                await writing
            assert resident() - before < 80 << 20

    with dask.config.set({"transload.same-process": False}):
        asyncio.run(check())


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@in_a_loop
async def test_in_one_process_frames_are_not_copied():
    array = np.zeros(1_000_000)
    async with pair() as (a, b):
        assert a.extra_info["path"] == "process"
        await a.write(to_serialize(array))
        got = await b.read()
        assert np.shares_memory(got, array)
        gone = weakref.ref(array)
        del array
        gc.collect()
        assert gone() is not None and (got == 0).all()
        del got
        await a.write("next")  # lets go of what was returned
        assert await b.read() == "next"
        gc.collect()
        assert gone() is None


def frames_of_every_kind():
    a = np.arange(200_000, dtype="u1")
    locked = a.copy()
    locked.flags.writeable = False
    mapped = mmap.mmap(-1, 100_000)
    mapped[:3] = b"abc"
    return {
        "bytes": b"x" * 100_000,
        "bytearray": bytearray(b"y" * 100_000),
        "read-only": locked,
        "empty": b"",
        "empty, of several dimensions": np.empty((0, 3)),
        "of no dimension": memoryview(np.array(5.0)),
        "2-d": np.arange(12_000.0).reshape(30, -1),
        "every second": memoryview(a[::2]),
        "from the end": memoryview(a[::-1]),
        "a part of rows": memoryview(np.arange(120_000.0).reshape(300, 400)[:, :7]),
        "mapped": mapped,
        "array": array.array("d", range(20_000)),
        "structured": np.zeros(9000, [("a", "i4"), ("b", "f8")]),
        "other byte order": np.arange(90_000, dtype=">i4"),
        "a part of a part": memoryview(memoryview(b"abc" * 30_000))[5:70_005],
    }


@pytest.mark.parametrize("same_process", [False, True])
@in_a_loop
async def test_frames_of_every_kind_arrive_as_their_bytes(same_process):
    """Those that are not contiguous were refused with a BufferError; Dask's tcp:// copies them."""
    with dask.config.set({"transload.same-process": same_process}):
        async with pair(deserialize=False) as (a, b):
            for kind, frame in frames_of_every_kind().items():
                for n in (1, 3):
                    writing = asyncio.ensure_future(a.write({"v": Serialized({"serializer": "any"}, [frame] * n)}))
                    came = (await b.read())["v"].frames
                    await writing
                    assert [bytes(one) for one in came] == [memoryview(frame).tobytes()] * n, kind
            columns = np.asfortranarray(np.arange(12_000.0).reshape(30, -1))
            writing = asyncio.ensure_future(a.write({"v": Serialized({"serializer": "any"}, [memoryview(columns)])}))
            assert bytes((await b.read())["v"].frames[0]) == columns.tobytes("A")  # as it lies, as Dask has it
            await writing


@in_a_loop
async def test_small_arrays_may_be_changed_after_they_are_written(apart):
    """Messages up to 64 KiB are copied, also while the peer does not read; larger ones are lent, as Dask lends all."""
    x = np.zeros(7000)
    async with pair() as (a, b):

        async def talk():
            for i in range(300):
                x[:] = i
                await a.write({"i": i, "x": to_serialize(x)})
                x[:] = -1

        talking = asyncio.ensure_future(talk())
        await asyncio.sleep(0.2)
        assert not talking.done()  # more waits than may
        for i in range(300):
            message = await b.read()
            assert message["i"] == i and (message["x"] == i).all()
        await talking


# ── writing, reading and their ends ──────────────────────────────────────────────────────────────────────────


@in_a_loop
async def test_a_slow_reader_holds_the_writer_back(apart):
    async with pair() as (a, b):
        block = to_serialize(np.zeros(1 << 20, np.uint8))
        written = 0

        async def write():
            nonlocal written
            for _ in range(100):
                await a.write(block)
                written += 1

        writing = asyncio.ensure_future(write())
        await asyncio.sleep(0.5)
        assert written < 30 and not writing.done()
        assert a.extra_info["nbytes_waiting"] < 20 << 20
        for _ in range(100):
            await b.read()
        await writing


@in_a_loop
async def test_a_first_large_write_does_not_wait_for_its_reader(apart):
    """A server writes its answer and reads the next request on one connection; both ends may do so at once."""
    async with pair() as (a, b):
        big = to_serialize(np.zeros(60 << 20, np.uint8))
        await asyncio.gather(a.write(big), b.write(big))
        await asyncio.gather(a.read(), b.read())


@in_a_loop
async def test_a_read_that_is_cancelled_leaves_its_message_to_the_next(apart):
    async with pair() as (a, b):
        for size in (10, 30_000_000):  # the second one is asked for, and comes in many pieces
            reading = asyncio.ensure_future(b.read())
            await asyncio.sleep(0.05)
            writing = asyncio.ensure_future(a.write(to_serialize(np.full(size, 7, np.uint8))))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert not b.closed()
            got = await b.read()
            assert len(got) == size and (got == 7).all()
            await writing


@in_a_loop
async def test_a_read_that_is_cancelled_while_its_message_is_opened_leaves_it_to_the_next(apart, monkeypatch):
    """It was lost: large ones are opened by another thread, for which the read waits."""
    begun, go_on = threading.Event(), threading.Event()
    loads = _messages.codec.loads

    def slow(*args, **kwargs):
        begun.set()
        go_on.wait(10)
        return loads(*args, **kwargs)

    async with pair() as (a, b):
        monkeypatch.setattr(_messages.codec, "loads", slow)
        writing = asyncio.ensure_future(a.write(to_serialize(np.full(20 << 20, 7, np.uint8))))
        reading = asyncio.ensure_future(b.read())
        while not begun.is_set():
            await asyncio.sleep(0.001)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        go_on.set()
        await writing
        await a.write("next")
        got = await b.read()
        assert len(got) == 20 << 20 and (got == 7).all()
        assert await b.read() == "next"


@in_a_loop
async def test_random_cancellations_of_both_ends_keep_messages_whole_and_in_order(apart):
    chance = random.Random(5)
    count, size = 500, 1 << 20

    async def perhaps_cancelled(call):
        task = asyncio.ensure_future(call)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice((0, 0, 0.0002, 0.001, 0.003)))
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return None

    async def talk(comm, certain):
        for i in range(count):
            fill = i % 251
            value = to_serialize(np.full(size, fill, np.uint8)) if i % 2 else bytes([fill]) * size
            if await perhaps_cancelled(comm.write({"i": i, "x": value})) is not None:
                certain.add(i)
        await comm.write({"i": count})

    async def hear(comm, came):
        while True:
            message = await perhaps_cancelled(comm.read())
            if message is None:
                continue
            if message["i"] == count:
                return
            assert not came or message["i"] > came[-1]
            came.append(message["i"])
            x = np.frombuffer(message["x"], np.uint8)
            assert len(x) == size and (x == message["i"] % 251).all()

    async with pair() as (a, b):
        certain, came = set(), []
        await asyncio.gather(talk(a, certain), hear(b, came))
        assert certain <= set(came) and len(certain) < count


@in_a_loop
async def test_a_write_that_is_cancelled_arrives_whole_or_not_at_all(apart):
    async with pair() as (a, b):
        big = np.full(20 << 20, 3, np.uint8)
        await a.write(to_serialize(big))
        writing = asyncio.ensure_future(a.write(to_serialize(big)))
        await asyncio.sleep(0.05)
        assert not writing.done()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        last = asyncio.ensure_future(a.write("last"))
        got = [await b.read()]
        while not isinstance(got[-1], str):
            got.append(await b.read())
        await last
        assert len(got) in (2, 3)
        assert all((one == 3).all() for one in got[:-1])


@in_a_loop
async def test_a_second_reader_is_refused(apart):
    async with pair() as (a, b):
        first = asyncio.ensure_future(b.read())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="somebody reads here already"):
            await b.read()
        await a.write("for the first")
        assert await first == "for the first"


@in_a_loop
async def test_several_writers_may_wait(apart):
    async with pair() as (a, b):
        block = to_serialize(np.zeros(10 << 20, np.uint8))
        writing = [asyncio.ensure_future(a.write(block)) for _ in range(6)]
        for _ in range(6):
            await b.read()
        await asyncio.gather(*writing)


@pytest.mark.parametrize("nbytes", [1000, 3_000_000])
@in_a_loop
async def test_close_hands_on_what_was_written(apart, nbytes):
    async with pair() as (a, b):
        for i in range(3):
            await a.write([i, to_serialize(np.zeros(nbytes, np.uint8))])
        closing = asyncio.ensure_future(a.close())
        assert [(await b.read())[0] for _ in range(3)] == [0, 1, 2]
        await closing
        with pytest.raises(CommClosedError, match="closed by the peer"):
            await b.read()
        assert a.closed() and b.closed()
        for call in (a.read(), a.write(1), b.read(), b.write(1)):
            with pytest.raises(CommClosedError):
                await call
        await a.close()
        a.abort()


@in_a_loop
async def test_a_closed_peer_is_noticed_without_reading(apart):
    async with pair() as (a, b):
        await a.close()
        for _ in range(100):
            if b.closed():
                break
            await asyncio.sleep(0.01)
        assert b.closed()


@in_a_loop
async def test_closing_wakes_a_reader_and_abort_wakes_both_ends(apart):
    for end in ("close", "abort"):
        async with pair() as (a, b):
            reading = [asyncio.ensure_future(one.read()) for one in (a, b)]
            await asyncio.sleep(0.01)
            closed = getattr(a, end)()
            if closed is not None:
                await closed
            for one in reading:
                with pytest.raises(CommClosedError):
                    await one


@in_a_loop
async def test_abort_wakes_a_writer(apart):
    async with pair() as (a, b):
        big = to_serialize(np.zeros(20 << 20, np.uint8))
        await a.write(big)
        writing = asyncio.ensure_future(a.write(big))
        await asyncio.sleep(0.05)
        assert not writing.done()
        b.abort()
        with pytest.raises(CommClosedError):
            await writing


@in_a_loop
async def test_a_dropped_connection_is_told_and_ended(apart, caplog):
    async with pair() as (a, b):
        with caplog.at_level(logging.WARNING, "distributed.comm.transload"):
            dropped = await connect(b.local_address)
            del dropped
            gc.collect()
        assert "Closing dangling connection in <TransloadComm" in caplog.text


@in_a_loop
async def test_what_was_written_right_before_a_close_is_counted(apart):
    """The counts were taken when the close began; the message was not under way then."""
    async with pair() as (a, b):
        data = np.zeros(8_000_000)
        await a.write({"x": to_serialize(data)})
        closing = asyncio.ensure_future(a.close())
        await b.read()
        await closing
        assert a.extra_info["nbytes_sent"] > data.nbytes
        assert any(row["peer"] == a.peer_address and row["nbytes_sent"] > data.nbytes for row in links.rows())


@in_a_loop
async def test_a_bell_that_nobody_watches_is_not_kept(monkeypatch):
    """It was, and who connected next waited for ever."""
    loop = asyncio.get_running_loop()

    def full(*args):
        raise OSError(errno.ENOSPC, "no more watches")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no more watches"):
        patched.setattr(loop, "add_reader", full)
        ours._bell()
    async with pair() as (a, b):
        await a.write("x")
        assert await b.read() == "x"


@in_a_loop
async def test_without_descriptors_connecting_fails_as_dask_expects_it():
    """Dask tries again after an OSError alone; it was a RuntimeError."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        with pytest.raises(CommClosedError, match="no descriptor"):
            await ours.TransloadConnector().connect("127.0.0.1:1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("name, value", [("streams", 1e12), ("stall_timeout", float("inf")), ("hello_timeout", 1e300)])
@in_a_loop
async def test_options_of_any_size_are_taken(apart, monkeypatch, name, value):
    """A timeout of for ever was over at once, as it was cut to what a number of milliseconds holds."""
    options = ours._options(True)
    monkeypatch.setattr(ours, "_options", lambda deserialize: {**options, name: value})
    async with pair() as (a, b):
        await a.write("x")
        assert await b.read() == "x"


@in_a_loop
async def test_extra_info_tells_path_and_bytes(apart):
    async with pair() as (a, b):
        writing = asyncio.ensure_future(a.write(to_serialize(np.zeros(4 << 20, np.uint8))))
        await b.read()
        await writing
        info = b.extra_info
        assert info["path"] in ("shared memory", "tcp") and info["nbytes_received"] >= 4 << 20
        assert info["messages_received"] == 2  # the handshake, and ours
        await b.close()
        assert b.extra_info["nbytes_received"] == info["nbytes_received"]


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────────────────


@in_a_loop
async def test_addresses_and_repr(apart):
    async with pair() as (a, b):
        assert a.peer_address == b.local_address and a.local_address == b.peer_address
        assert a.peer_address.startswith("transload://127.0.0.1:")
        assert repr(a) == f"<TransloadComm  local={a.local_address} remote={a.peer_address}>"
        assert a.same_host and b.same_host
        await a.close()
        assert "(closed)" in repr(a)


@pytest.mark.parametrize("where", ["127.0.0.1", "localhost", ":0", ""])
@in_a_loop
async def test_a_listener_needs_no_port(where):
    async with pair(f"transload://{where}") as (a, b):
        await a.write("hello")
        assert await b.read() == "hello"


@in_a_loop
async def test_ipv6():
    async with pair("transload://[::1]:0") as (a, b):
        assert a.peer_address.startswith("transload://[::1]:")
        await a.write("hello")
        assert await b.read() == "hello"


class Member:
    """Listens, and has a scheduler somewhere."""

    def __init__(self, scheduler):
        self.scheduler = scheduler

    async def handle(self, comm):
        comm.abort()


@pytest.mark.parametrize(
    "bound, scheduler, expected",
    [
        ("transload://", "transload://127.0.0.1:8786", "127.0.0.1"),
        ("transload://0.0.0.0:0", "tcp://127.0.0.1:8786", "127.0.0.1"),
        ("transload://", "transload://[::1]:8786", "::1"),
        ("transload://[::]:0", "transload://[::1]:8786", "::1"),
        ("transload://127.0.0.1:0", "transload://192.0.2.1:8786", "127.0.0.1"),
    ],
)
@in_a_loop
async def test_contact_address_of_a_wildcard_is_the_one_towards_the_scheduler(bound, scheduler, expected):
    class Scheduler:
        address = scheduler

    member = Member(Scheduler())
    listener = await listen(bound, member.handle)
    host, port = get_backend("transload").get_address_host_port(listener.contact_address.partition("://")[2])
    assert host == expected and port > 0
    listener.stop()


@in_a_loop
async def test_nobody_answers():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"transload://127.0.0.1:{unused.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(OSError, match="Timed out trying to connect"):
            await connect(address, timeout=0.5)
        assert time.monotonic() - began < 5


@in_a_loop
async def test_a_connect_that_is_cancelled_keeps_no_socket():
    """Dask cancels its attempts, and tries again, while a listener is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"transload://127.0.0.1:{silent.getsockname()[1]}"
        connector = get_backend("transload").get_connector()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(connector.connect(address), 0.02)
        for _ in range(100):
            if len(os.listdir("/proc/self/fd")) <= before + 3:  # the loop's bell and the engine's own
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{len(os.listdir('/proc/self/fd'))} descriptors, {before} before")


@in_a_loop
async def test_an_address_that_is_taken():
    listener = await listen(A, lambda comm: None)
    with pytest.raises(OSError, match="Address already in use") as raised:
        await listen(listener.listen_address, lambda comm: None)
    assert raised.value.errno == errno.EADDRINUSE  # Dask looks at it where it has a range of ports
    listener.stop()
    again = await listen(listener.listen_address, lambda comm: None)
    again.stop()


# ── strangers ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "sends, named",
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(16), "TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
        (bytes(range(64)), "00"),
    ],
)
@in_a_loop
async def test_strangers_are_refused_with_one_line(sends, named, caplog):
    listener = await listen(A, lambda comm: None)
    host, port = listener.contact_address.rpartition("/")[2].split(":")
    with caplog.at_level(logging.WARNING, "distributed.comm.transload"):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sends)
        assert await reader.read() == b""  # hears nothing
        writer.close()
        await asyncio.sleep(0.1)
    lines = [r.getMessage() for r in caplog.records if r.name == "distributed.comm.transload"]
    assert len(lines) == 1 and lines[0].startswith("refused 127.0.0.1:") and named in lines[0]
    listener.stop()


LIAR = {
    "version": [1, 1],
    "software": "a liar",
    "host": {"boot": "", "net": 0, "uid": 0, "pid": 1, "process": bytes(16)},
    "frames": 1000,
    "message-bytes": 1 << 30,
    "window": 1 << 20,
    "streams": 0,
    "local-streams": 0,
    "same-process": False,
}


@in_a_loop
async def test_a_peer_that_lies_ends_the_connection_for_writers_too(monkeypatch):
    """A write raised `Malformed`, which Dask does not take for the end of a connection."""
    comms = asyncio.Queue()

    async def on_connection(self, comm, handshake_overrides=None):
        await comms.put(comm)

    monkeypatch.setattr(ours.TransloadListener, "on_connection", on_connection)
    listener = await listen(A, lambda comm: None)
    _, peer = await asyncio.open_connection("127.0.0.1", int(listener.contact_address.rpartition(":")[2]))
    said = msgpack.packb(LIAR)
    peer.write(bytes.fromhex("8e544c570d0a1a00") + len(said).to_bytes(4, "little") + said)
    peer.write(bytes([9]) + bytes(23))  # a record of no known type
    comm = await comms.get()
    while not comm.closed():
        await asyncio.sleep(0.01)
    with pytest.raises(CommClosedError, match="record type 9"):
        await comm.write("x")
    peer.close()
    listener.stop()


@in_a_loop
async def test_a_liar_in_the_handshake_is_refused_with_one_line(caplog):
    """Nobody awaits the task that serves a connection: what it raised came up later, as a traceback."""
    listener = await listen(A, lambda comm: None)
    said = msgpack.packb(LIAR)
    message = bytes([1, 1]) + bytes(22)  # of no frames
    with caplog.at_level(logging.WARNING):
        _, peer = await asyncio.open_connection("127.0.0.1", int(listener.contact_address.rpartition(":")[2]))
        peer.write(bytes.fromhex("8e544c570d0a1a00") + len(said).to_bytes(4, "little") + said + message)
        while "no frames" not in caplog.text:
            await asyncio.sleep(0.01)
        peer.close()
        gc.collect()
        await asyncio.sleep(0.05)
    listener.stop()
    lines = [r for r in caplog.records if r.name == "distributed.comm.transload"]
    assert ["no frames" in r.getMessage() for r in lines] == [True]
    assert "never retrieved" not in caplog.text


@in_a_loop
async def test_tcp_and_transload_do_not_take_each_other_for_their_own():
    tcp = await listen("tcp://127.0.0.1:0", lambda comm: None)
    mine = await listen(A, lambda comm: None)
    with pytest.raises(FatalCommClosedError, match="not a transload peer"):
        await connect(tcp.contact_address.replace("tcp:", "transload:"), timeout=5)
    with pytest.raises(OSError):
        await connect(mine.contact_address.replace("transload:", "tcp:"), timeout=1)
    tcp.stop()
    mine.stop()


# ── what is left behind ──────────────────────────────────────────────────────────────────────────────────────


def open_now():
    """(descriptors, threads, bytes of shared memory mapped)."""
    with open("/proc/self/maps") as maps:
        shared = sum("memfd:" in line for line in maps)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), shared


@pytest.mark.parametrize("same_process", [False, True])
def test_a_thousand_connections_leave_nothing_behind(same_process):
    import dask

    async def some(n):
        async def echo(comm):
            with contextlib.suppress(CommClosedError):
                while True:
                    await comm.write(await comm.read())

        listener = await listen(A, echo)
        for i in range(n):
            comm = await connect(listener.contact_address)
            await comm.write({"x": to_serialize(np.zeros(1_000_000 if i % 50 == 0 else 10, np.uint8))})
            await comm.read()
            if i % 2:
                await comm.close()
            else:
                comm.abort()
        listener.stop()
        await asyncio.sleep(0.2)

    with dask.config.set({"transload.same-process": same_process}):
        asyncio.run(some(60))
        gc.collect()
        before = open_now()
        asyncio.run(some(1000))
        gc.collect()
        for _ in range(100):
            after = open_now()
            if all(x <= y for x, y in zip(after, before, strict=True)):
                break
            time.sleep(0.05)
        assert all(x <= y for x, y in zip(after, before, strict=True)), (before, after)


def test_a_closed_loop_is_let_go_with_what_waited_in_it():
    """A connection that is being made when its loop closes kept the loop for good."""
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()

    async def leave_in_the_midst():
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        asyncio.ensure_future(ours.TransloadConnector().connect(address))
        await asyncio.sleep(0.05)
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(leave_in_the_midst()) for _ in range(3)]

    async def look():
        listener = await listen(A, lambda comm: None)
        listener.stop()

    asyncio.run(look())
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3
    silent.close()


def test_connections_of_a_loop_that_was_closed_under_them_are_ended():
    """Nobody cancelled their tasks: what these wait for kept the connections, which kept the loop."""
    with program(ECHO) as (_, address):

        async def leave_in_the_midst():
            comm = await connect(address)
            for _ in range(3):  # more than may wait
                asyncio.ensure_future(comm.write(to_serialize(np.zeros(20 << 20, np.uint8))))
            asyncio.ensure_future(comm.read())
            await asyncio.sleep(0.05)
            return weakref.ref(comm)

        left = []
        for _ in range(3):
            loop = asyncio.new_event_loop()
            left.append(loop.run_until_complete(leave_in_the_midst()))
            loop.close()
        del loop

        async def look():
            comm = await connect(address)
            await comm.close()

        asyncio.run(look())
        gc.collect()
        assert [comm() for comm in left] == [None] * 3


@pytest.mark.parametrize("option", ["window", "send-bound", "message-limit"])
@pytest.mark.parametrize("value", [-1, 1 << 63])
@in_a_loop
async def test_sizes_that_are_none_are_refused_at_once(option, value):
    with dask.config.set({f"transload.{option}": value}):
        with pytest.raises(ValueError, match=f"transload.{option}"):
            await listen(A, lambda comm: None)
        with pytest.raises(ValueError, match=f"transload.{option}"):
            await connect(f"{A}1", timeout=1)


def test_a_listener_of_a_closed_loop_takes_nobody():
    """Who connects to it is ended, and does not wait for ever."""

    async def leave():
        return await listen(A, lambda comm: None)

    listener = asyncio.run(leave())

    @in_a_loop
    async def call():
        with pytest.raises(OSError):
            await connect(listener.contact_address, timeout=5)

    call()
    listener.stop()


# ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────

ECHO = """
    import asyncio, sys
    from distributed.comm import listen
    async def echo(comm):
        try:
            while True:
                await comm.write(await comm.read())
        except OSError as error:
            print("ended:", error, file=sys.stderr, flush=True)
    async def main():
        listener = await listen("transload://127.0.0.1:0", echo)
        print(listener.contact_address, flush=True)
        await asyncio.Event().wait()
    asyncio.run(main())
"""


@contextlib.contextmanager
def program(text, *arguments):
    """Run a Python program; yields the process and the first line that it prints."""
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


STALLS = """
    import asyncio, os, signal, sys, threading, time
    from distributed.comm import listen
    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    def stop_in_the_midst():
        before = resident()
        while resident() < before + 30_000_000:
            time.sleep(0.0002)
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    async def take(comm):
        await comm.write(await comm.read())
        threading.Thread(target=stop_in_the_midst, daemon=True).start()
        await comm.read()
    async def main():
        listener = await listen("transload://127.0.0.1:0", take)
        print(listener.contact_address, flush=True)
        await asyncio.Event().wait()
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_peer_that_dies_or_stalls_in_the_midst_of_a_message_ends_the_connection(how):
    import dask

    @in_a_loop
    async def check(address):
        comm = await connect(address)
        await comm.write("begin")
        assert await comm.read() == "begin"
        big = np.zeros(300 << 20, np.uint8)
        began = time.monotonic()
        await comm.write(to_serialize(big))
        with pytest.raises(CommClosedError):
            await comm.write("the first of those that wait behind it")
        assert time.monotonic() - began < 15
        assert comm.extra_info["path"] == "shared memory"

    with dask.config.set({"distributed.comm.timeouts.tcp": "3s"}), program(STALLS, how) as (_, address):
        check(address)
    assert _until(lambda: open_now()[2] == 0)


def _until(condition, seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def shared_memory_files():
    """Without semaphores: those of other processes (`multiprocessing`) come and go."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def test_a_process_that_is_killed_leaves_no_shared_memory():
    before = shared_memory_files()
    with program(ECHO) as (process, address):

        @in_a_loop
        async def check():
            comm = await connect(address)
            await comm.write(to_serialize(np.zeros(8 << 20, np.uint8)))
            await comm.read()
            assert comm.extra_info["path"] == "shared memory"
            process.kill()
            with pytest.raises(CommClosedError):
                await comm.read()

        check()
    assert shared_memory_files() <= before
    assert _until(lambda: open_now()[2] == 0)


FORKS = """
    import asyncio, os, sys, warnings
    import numpy as np
    from distributed.comm import connect, listen
    from distributed.protocol import to_serialize
    warnings.simplefilter("ignore")
    async def both(address):
        comm = await connect(address)
        for n in (10, 3_000_000):
            await comm.write(to_serialize(np.full(n, 5, np.uint8)))
            assert (await comm.read() == 5).all()
        return comm
    async def parent(address):
        comm = await both(address)
        child = os.fork()
        if child == 0:
            assert comm.closed()
            comm.abort()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        await comm.write("still here")
        assert await comm.read() == "still here"
        await comm.close()
    asyncio.run(parent(sys.argv[1]))
    child = os.fork()
    if child == 0:
        asyncio.run(both(sys.argv[1]))
        os._exit(0)
    print("ok" if os.waitpid(child, 0)[1] == 0 else "failed", flush=True)
"""


def test_fork_after_use():
    with program(ECHO) as (_, address), program(FORKS, address) as (process, said):
        assert said == "ok", process.communicate()[1]


EXITS = """
    import asyncio, sys
    import numpy as np
    from distributed.comm import connect
    from distributed.protocol import to_serialize
    async def main():
        comms = [await connect(sys.argv[1]) for _ in range(4)]
        for comm in comms:
            asyncio.ensure_future(comm.write(to_serialize(np.zeros(20_000_000, np.uint8))))
            asyncio.ensure_future(comm.read())
        await asyncio.sleep(float(sys.argv[2]))
        sys.exit(0)
    asyncio.run(main())
"""


@pytest.mark.parametrize("after", [0, 0.01, 0.05])
def test_the_interpreter_ends_with_bytes_under_way(after):
    with program(ECHO) as (_, address):
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(EXITS), address, str(after)], capture_output=True, timeout=30
            )
            assert done.returncode == 0, done.stderr.decode()


def test_names_are_found_by_entry_point():
    """What `LocalCluster(protocol=…)` and the command line do; nobody imports our module before."""
    text = """
        from distributed.comm.registry import get_backend
        for scheme in ("transload", "transload+tls"):
            print(type(get_backend(scheme)).__module__, end=" ")
        print()
    """
    with program(text) as (_, said):
        assert said == "transload.dask.comm transload.dask.comm"


# ── many ──────────────────────────────────────────────────────────────────────────────────────────────────────


@in_a_loop
async def test_five_hundred_connections_at_once_keep_their_messages_apart(apart):
    async def echo(comm):
        with contextlib.suppress(CommClosedError):
            while True:
                await comm.write(await comm.read())

    async def call(i):
        comm = await connect(listener.contact_address, timeout=30)
        for j in range(4):
            array = np.full(200_000 if (i + j) % 100 == 0 else 50, i * 10 + j)
            await comm.write({"i": i, "x": to_serialize(array)})
            back = await comm.read()
            assert back["i"] == i and np.array_equal(back["x"], array)
        await comm.close()

    listener = await listen(A, echo)
    await asyncio.gather(*(call(i) for i in range(500)))
    listener.stop()


@in_a_loop
async def test_many_small_messages_without_waiting_for_answers(apart):
    async with pair() as (a, b):

        async def talk():
            for i in range(100_000):
                await a.write(i)

        talking = asyncio.ensure_future(talk())
        for i in range(100_000):
            assert await b.read() == i
        await talking


# ── large ─────────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = 2**32 + 1_000_003
MARKS = {0: 1, 2**31 - 1: 2, 2**31: 3, 2**32 - 1: 4, 2**32: 5, 2**32 + 70_001: 6, LARGE - 1: 7}

TAKES_LARGE = """
    import asyncio, resource, sys
    import numpy as np
    from distributed.comm import listen
    async def take(comm):
        message = await comm.read()
        large = message.pop("large")
        found = {int(at): int(large[at]) for at in map(int, sys.argv[1:])}
        await comm.write({
            "nbytes": large.nbytes, "marks": list(found.items()), "nonzero": int(np.count_nonzero(large)),
            "aligned": large.ctypes.data % 64 == 0, "others": [*(x.nbytes for x in message["empty"]), *message["rest"]],
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        })
    async def main():
        listener = await listen("transload://127.0.0.1:0", take)
        print(listener.contact_address, flush=True)
        await asyncio.Event().wait()
    asyncio.run(main())
"""


def available_memory():
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("local_streams, path", [(0, "tcp"), (2, "shared memory")])
def test_a_frame_of_more_than_4_gib_beside_empty_ones(local_streams, path):
    """It is received into the memory where it stays: the other process never has it twice."""
    import dask

    if available_memory() < 10 << 30:
        pytest.skip("less than 10 GiB of memory are free")
    large = np.zeros(LARGE, np.uint8)  # all but the pages with marks are the system's one page of zeros
    for at, mark in MARKS.items():
        large[at] = mark
    empty = np.zeros(0, np.uint8)

    async def check(address):
        comm = await connect(address)
        both = [to_serialize(empty), to_serialize(empty)]
        await comm.write({"empty": both, "large": to_serialize(large), "rest": ["", "end"]})
        told = await comm.read()
        peak = told.pop("peak")
        assert told == {
            "nbytes": LARGE, "marks": tuple(MARKS.items()), "nonzero": len(MARKS), "aligned": True,
            "others": (0, 0, "", "end"),
        }  # fmt: skip
        assert LARGE < peak < LARGE + (512 << 20)
        assert comm.extra_info["path"] == path and comm.extra_info["nbytes_sent"] > LARGE
        await comm.close()

    with dask.config.set({"transload.local-streams": local_streams}):
        with program(TAKES_LARGE, *map(str, MARKS)) as (_, address):
            asyncio.run(asyncio.wait_for(check(address), 200))
