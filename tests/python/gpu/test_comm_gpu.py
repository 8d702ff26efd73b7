"""A GPU's memory over `transload://` between two processes: read where it lies, or staged; and what may go wrong on the way."""

import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")

import dask
from distributed.comm import CommClosedError, connect, listen
from distributed.protocol import to_serialize
from support.gpu_peer import checksum, memory, told

import transload

pytestmark = pytest.mark.timeout(180)

WAYS = {
    "CUDA IPC": {},
    "staged, shared memory": {"transload.cuda-ipc": False},
    "staged, TCP": {"transload.cuda-ipc": False, "transload.local-streams": 0},
}
PEER = Path(__file__).parents[1] / "support" / "gpu_peer.py"


@contextlib.contextmanager
def process(order, config, *arguments):
    command = [sys.executable, str(PEER), order, json.dumps(config), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        try:
            yield one
        finally:
            one.kill()


@contextlib.asynccontextmanager
async def receiver(config):
    """A connection to a process that tells what it receives."""
    with process("receive", config, "transload://127.0.0.1:0") as one:
        address = (await asyncio.to_thread(one.stdout.readline)).strip()
        comm = await connect(address)
        comm.peer_process = one
        try:
            yield comm
        finally:
            comm.abort()


async def ask(comm, x, op="tell"):
    await comm.write({"op": op, "x": to_serialize(x)})
    return await comm.read()


def run(test, config):
    with dask.config.set(config):
        asyncio.run(asyncio.wait_for(test(), 150))


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def test_bytes_arrive_as_they_were(cp, way):
    async def main():
        async with receiver(WAYS[way]) as comm:
            for n in (1000, 200_000, 5_000_001, 300_000_000):
                x = cp.random.randint(0, 256, n, "u1")
                answer = await ask(comm, {"x": x, "view": x[: n // 2 : 2], "host": x[:100].get()})
                assert answer["told"] == {"x": (checksum(x), "cupy"), "view": (checksum(x[: n // 2 : 2]), "cupy"), "host": (checksum(x[:100]), "numpy")}
            many = [cp.full(10_000, i, "f8") for i in range(1000)]
            assert (await ask(comm, many))["told"] == told(many)
            assert comm.extra_info["device_path"] == way.partition(",")[0]
            back = (await ask(comm, many, "echo"))["x"]
            assert told(back) == told(many)

    run(main, WAYS[way])


SLOW = r"""
extern "C" __global__ void slow(long long* x, long long n, long long value, long long wait) {
    long long start = clock64();
    while (clock64() - start < wait) {}
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = value;
}
"""


@pytest.mark.parametrize("stream", ["default", "blocking", "non-blocking", "per-thread"])
def test_a_kernel_that_still_runs_is_waited_for(cp, way, stream):
    kernel = cp.RawKernel(SLOW, "slow")
    streams = {"default": cp.cuda.Stream.null, "blocking": cp.cuda.Stream(), "non-blocking": cp.cuda.Stream(non_blocking=True), "per-thread": cp.cuda.Stream.ptds}

    async def main():
        async with receiver(WAYS[way]) as comm:
            for n, value in ((1000, 5), (4_000_000, 7)):
                x = cp.zeros(n, "i8")
                wanted = checksum(cp.full(n, value, "i8"))
                cp.cuda.Device().synchronize()
                with streams[stream]:
                    kernel((64,), (128,), (x, n, value, 400_000_000))
                    answer = await ask(comm, x)
                assert answer["told"][0] == wanted

    run(main, WAYS[way])


def test_memory_that_is_let_go_after_the_write_is_not_used_again_too_early(cp, way):
    async def main():
        async with receiver(WAYS[way]) as comm:
            n = 4_000_000
            for i in range(30):
                x = cp.full(n, i, "i8")
                await comm.write({"op": "tell", "x": to_serialize(x)})
                del x
                y = cp.full(n, -1, "i8")  # would lie where x lay
                assert (await comm.read())["told"][0] == checksum(cp.full(n, i, "i8"))
                del y

    run(main, WAYS[way])


def of_kind(cp, kind, n):
    if kind == "torch":
        torch = pytest.importorskip("torch")
        return torch.arange(n, dtype=torch.float64, device="cuda").reshape(2, -1).T
    allocators = {"async pool": lambda: cp.cuda.MemoryAsyncPool().malloc, "managed": lambda: cp.cuda.malloc_managed, "no pool": lambda: None}
    with cp.cuda.using_allocator(allocators[kind]()):
        return cp.arange(n, dtype="f8")


@pytest.mark.parametrize(("kind", "reason"), [("async pool", "cudaMallocAsync"), ("managed", "managed memory"), ("no pool", None), ("torch", None)])
def test_memory_of_every_kind_arrives_and_a_slow_way_is_told(cp, kind, reason):
    async def main():
        async with receiver({}) as comm:
            for n in (1_000, 2_000_000):
                x = of_kind(cp, kind, n)
                assert (await ask(comm, x))["told"] == told(x)
            ways = [(choice, why) for place, choice, why, _ in comm.extra_info["decisions"] if place == "device frames out"]
            assert ways == ([("CUDA IPC", "")] if reason is None else ways) and (reason is None or reason in ways[-1][1]), ways
            assert reason is None or ways[-1][0] == "staged"

    run(main, {})


def test_out_of_memory_at_the_receiver_is_an_error_and_the_connection_lives(cp, way):
    async def main():
        async with receiver(WAYS[way]) as comm:
            await comm.write({"op": "limit", "nbytes": 50 << 20})
            assert await comm.read() == "ok"
            for _ in range(3):
                assert "Exhausted" in (await ask(comm, cp.zeros(100 << 20, "u1")))["error"]
                x = cp.arange(1_000_000)
                assert (await ask(comm, x))["told"] == told(x)
            await comm.write({"op": "memory"})
            assert (await comm.read())["used"] == 0

    run(main, WAYS[way])


def test_a_receiver_needs_the_object_and_little_more(cp, way):
    async def main():
        async with receiver(WAYS[way]) as comm:
            assert (await ask(comm, cp.ones(1 << 30, "u1"), "count")) == 1
            await comm.write({"op": "memory"})
            found = await comm.read()
            assert found["kept"] + found["device_nbytes"] <= (1 << 30) + (64 << 20), found

    run(main, WAYS[way])


def test_ten_thousand_messages_leave_nothing_behind(cp, way):
    async def main():
        async with receiver(WAYS[way]) as comm:
            arrays = [cp.full(n, n, "i8") for n in (10, 100_000, 20_000, 300_000)]
            mine = theirs = None
            for i in range(10_000):
                x = arrays[i % len(arrays)]
                assert await ask(comm, x, "count") == len(x)
                if i in (1000, 9999):
                    await comm.write({"op": "memory"})
                    theirs, before = await comm.read(), theirs
                    mine, ours = memory(), mine
                    if before is not None:
                        assert theirs == {**before, "waits": theirs["waits"]}
                        assert mine == {**ours, "waits": mine["waits"]}

    run(main, WAYS[way])


def test_a_sender_that_is_killed_leaves_no_wrong_bytes(cp, way):
    """Whatever comes whole holds one value throughout; the connection ends, and the device goes on."""

    async def main():
        came = []
        for seed in range(6):
            got = asyncio.Queue()

            async def handle(comm, got=got):
                try:
                    while True:
                        x = (await comm.read())["x"]
                        assert bool((x == x[0]).all())
                        got.put_nowait(int(x[0]))
                except CommClosedError:
                    got.put_nowait("end")

            async with listen("transload://127.0.0.1:0", handle) as listener:
                with process("send", WAYS[way], listener.contact_address, 400 << 20) as sender:
                    first = await got.get()
                    await asyncio.sleep(random.Random(seed).random() * 0.05)
                    sender.send_signal(signal.SIGKILL)
                    values = [first]
                    while values[-1] != "end":
                        values.append(await got.get())
                    assert values[:-1] == list(range(len(values) - 1))
                    came.append(len(values))
        assert int(cp.arange(10).sum()) == 45
        assert max(came) > 1

    run(main, WAYS[way])


def test_a_receiver_that_is_killed_lets_the_memory_go(cp, way):
    async def main():
        pool = cp.get_default_memory_pool()
        before = pool.used_bytes()
        for seed in range(4):
            async with receiver(WAYS[way]) as comm:
                assert (await ask(comm, cp.ones(1000), "tell"))["way"] in ("", "host", way.partition(",")[0])
                with contextlib.suppress(CommClosedError):
                    for _ in range(3):
                        await comm.write({"op": "tell", "x": to_serialize(cp.ones(50 << 20, "u1"))})
                    await asyncio.sleep(random.Random(seed).random() * 0.02)
                    comm.peer_process.kill()
                    while True:
                        await comm.read()
        for _ in range(200):
            if pool.used_bytes() == before:
                break
            await asyncio.sleep(0.02)
        assert pool.used_bytes() == before
        assert transload.loads(transload.dumps(cp.arange(10)))[3] == 3

    run(main, WAYS[way])


def test_memory_of_others_is_closed_when_no_connection_is_left(cp):
    async def main():
        from transload import _core

        async with receiver({}) as comm:
            assert len((await ask(comm, cp.ones(1_000_000), "echo"))["x"]) == 1_000_000 and _core.nimported() >= 1
        for _ in range(60):
            await asyncio.sleep(0.1)
            if _core.nimported() == 0:
                return
        raise AssertionError(f"{_core.nimported()} allocations are still open")

    run(main, {})


def test_memory_of_others_is_closed_when_nobody_uses_it(cp):
    async def main():
        from transload import _core

        async with receiver({}) as comm:
            await ask(comm, cp.ones(1_000_000))
            back = (await ask(comm, cp.ones(1_000_000), "echo"))["x"]
            assert len(back) == 1_000_000 and _core.nimported() >= 1
            for _ in range(60):
                await asyncio.sleep(0.1)
                if _core.nimported() == 0:
                    return
            raise AssertionError(f"{_core.nimported()} allocations are still open")

    run(main, {})
