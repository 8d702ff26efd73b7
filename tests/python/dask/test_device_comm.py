"""A GPU's memory over `transload://`, on its host twin: which way it goes, who takes it, and what is told of that."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
from distributed.comm import connect, listen
from distributed.protocol import Serialized, to_serialize

from transload import _core, _gpu
from transload.dask import _wire

pytestmark = pytest.mark.timeout(60)

WAYS = {
    "CUDA IPC": {},
    "staged, shared memory": {"transload.cuda-ipc": False, "transload.local-streams": 2},
    "staged, TCP": {"transload.cuda-ipc": False, "transload.local-streams": 0, "transload.streams": 2},
    "host": {"transload.cuda-ipc": False, "transload.local-streams": 0, "transload.streams": 0},
}
TWIN = {"transload.same-process": False, "transload.device": _core.HOST_TWIN}


def device_memory(n, seed=0):
    array = np.random.default_rng(seed).integers(0, 256, n, "u1")
    return _core.DeviceMemory(array.ctypes.data, n, _core.HOST_TWIN, array)


def content(memory):
    return bytes(memory.host_view())


def talk(test, config, deserialize=True):
    """Run `test(connecting, listening)` over a connection, the listening end with `deserialize`."""

    async def main():
        come = asyncio.get_running_loop().create_future()
        held = asyncio.Event()

        async def handle(comm):
            come.set_result(comm)
            await held.wait()

        async with listen("transload://127.0.0.1:0", handle, deserialize=deserialize) as listener:
            connecting = await connect(listener.contact_address)
            listening = await come
            try:
                await asyncio.wait_for(test(connecting, listening), 40)
            finally:
                held.set()
                connecting.abort()
                listening.abort()

    with dask.config.set({**TWIN, **config}):
        asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_memory_arrives_on_the_device_and_the_way_is_told(way):
    async def test(a, b):
        for seed, n in enumerate((200_000, 3_000_000, 20_000_000)):
            sent = {"large": device_memory(n, seed), "small": [device_memory(1000, i) for i in range(50)], "host": np.arange(n), "empty": device_memory(0)}
            for one, other in ((a, b), (b, a)):
                writing = asyncio.ensure_future(one.write({"x": to_serialize(sent)}))
                got = (await other.read())["x"]
                await writing
                assert content(got["large"]) == content(sent["large"]) and got["large"].device == _core.HOST_TWIN
                assert [content(x) for x in got["small"]] == [content(x) for x in sent["small"]]
                assert np.array_equal(got["host"], sent["host"]) and got["empty"].nbytes == 0
        ways = {(place, choice) for place, choice, _, taken in b.extra_info["decisions"] if place.startswith("device") and taken}
        out = "staged" if way == "host" else way.partition(",")[0]
        assert ways == {("device frames out", out), ("device frames in", way.partition(",")[0])}
        assert b.extra_info["device_path"] == out and b.extra_info["takes_device"]

    talk(test, WAYS[way])


def test_little_memory_goes_with_the_message():
    async def test(a, b):
        await a.write({"x": to_serialize([device_memory(_wire.DEVICE_LEAST - 1)])})
        (got,) = (await b.read())["x"]
        assert content(got) == content(device_memory(_wire.DEVICE_LEAST - 1))
        assert a.extra_info["device_path"] == ""

    talk(test, {})


def test_in_one_process_it_is_handed_over_by_reference():
    async def test(a, b):
        sent = device_memory(1_000_000)
        await a.write({"x": to_serialize(sent)})
        assert (await b.read())["x"].pointer == sent.pointer
        assert a.extra_info["device_path"] == "process"

    talk(test, {"transload.same-process": True})


def test_who_only_forwards_gets_host_memory():
    async def test(a, b):
        await a.write({"x": to_serialize(device_memory(1_000_000))})
        x = (await b.read())["x"]
        assert isinstance(x, Serialized) and not any(isinstance(frame, _core.DeviceMemory) for frame in x.frames)
        await b.write({"x": x})  # and hands it on
        assert content((await a.read())["x"]) == content(device_memory(1_000_000))
        assert not a.extra_info["takes_device"]

    talk(test, {}, deserialize=False)


def test_a_receiver_may_want_host_memory():
    async def test(a, b):
        assert not a.extra_info["takes_device"]
        await a.write({"x": to_serialize(device_memory(1_000_000))})
        assert content((await b.read())["x"]) == content(device_memory(1_000_000))

    talk(test, {"transload.device": "host"})


@pytest.mark.parametrize("setting", ["gpu", 1.5, "0", True, -2])
def test_a_setting_that_is_none_is_refused_in_words(setting):
    async def test(a, b):
        raise AssertionError("connected")

    with pytest.raises(ValueError, match="transload.device"):
        talk(test, {"transload.device": setting})


def test_a_read_that_is_cancelled_leaves_the_message_to_the_next():
    async def test(a, b):
        for seed in range(20):
            reading = asyncio.ensure_future(b.read())
            writing = asyncio.ensure_future(a.write({"x": to_serialize(device_memory(2_000_000, seed))}))
            await asyncio.sleep(0.0003 * seed)
            reading.cancel()
            (result,) = await asyncio.gather(reading, return_exceptions=True)
            message = await b.read() if isinstance(result, BaseException) else result
            await writing
            assert content(message["x"]) == content(device_memory(2_000_000, seed))

    for config in WAYS.values():
        talk(test, config)


def test_host_frames_that_are_not_in_one_piece_go_with_a_gpus_memory():
    """The copy that is made of them was made of the GPU's memory, too: a TypeError."""

    async def test(a, b):
        columns, memory = np.arange(200_000.0).reshape(400, -1)[:, :7], device_memory(1_000_000)
        writing = asyncio.ensure_future(a.write({"x": Serialized({"serializer": "any"}, [memoryview(columns), memory])}))
        frames = (await b.read())["x"].frames
        await writing
        assert bytes(frames[0]) == columns.tobytes() and bytes(frames[1]) == content(memory)

    talk(test, {}, deserialize=False)


@pytest.fixture
def allocator():
    """Yields a list of errors that the next allocations raise."""
    errors = []

    def allocate(nbytes, device):
        if errors:
            raise errors.pop()
        return _gpu.allocate(nbytes, device)

    _core.set_device_hooks(allocate, _gpu.memory_of)
    yield errors
    _core.set_device_hooks(_gpu.allocate, _gpu.memory_of)


def test_an_interrupt_while_memory_is_made_is_the_readers_and_leaves_the_message(allocator):
    """It was swallowed, and the message came to host memory."""

    async def test(a, b):
        await a.write({"x": to_serialize(device_memory(1_000_000))})
        await asyncio.sleep(0.2)  # it has come but for the memory, and the read takes it at once
        allocator.append(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            await b.read()
        assert not allocator
        assert content((await b.read())["x"]) == content(device_memory(1_000_000))

    talk(test, WAYS["CUDA IPC"])


def test_an_interrupt_while_the_bell_is_answered_ends_the_loop(allocator):
    """It was shown as one that nobody can be told."""

    async def test(a, b):
        await a.write({"x": to_serialize(device_memory(1_000_000))})
        allocator.append(KeyboardInterrupt())
        await b.read()

    with pytest.raises(KeyboardInterrupt):
        talk(test, WAYS["staged, shared memory"])


def test_an_allocator_that_fails_lets_the_message_come_to_host_memory(allocator):
    async def test(a, b):
        for error in (MemoryError(), ValueError("what")):
            await a.write({"x": to_serialize(device_memory(1_000_000))})
            allocator.append(error)
            assert content((await b.read())["x"]) == content(device_memory(1_000_000))
            assert not allocator

    for config in WAYS.values():
        talk(test, config)
