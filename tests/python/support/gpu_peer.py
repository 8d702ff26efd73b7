"""The other end of a connection, in a process of its own: tells what it has received, or sends until it is killed."""

import asyncio
import json
import sys
import zlib

import dask


def checksum(array):
    """Of an array in host or device memory."""
    import cupy as cp

    return zlib.crc32(memoryview(cp.asnumpy(array)).cast("B"))


def told(x):
    """What a receiver says of an object: of each array its checksum and library."""
    if isinstance(x, dict):
        return {name: told(value) for name, value in x.items()}
    if isinstance(x, (list, tuple)):
        return tuple(told(value) for value in x)
    if type(x).__module__.startswith("torch"):
        return checksum(x.detach().cpu().numpy()), "torch"
    return checksum(x), type(x).__module__.partition(".")[0]


def memory():
    """Bytes of device memory that this process keeps for arrays and copies, and what of others is open here."""
    import cupy as cp

    from transload import _core

    pool = cp.get_default_memory_pool()
    return {"used": pool.used_bytes(), "kept": pool.total_bytes(), "open": _core.nimported(), **_core.staging_stats()}


async def receive(address):
    import cupy as cp
    from distributed.comm import CommClosedError, listen
    from distributed.protocol import to_serialize

    import transload

    done = asyncio.Event()

    async def handle(comm):
        while True:
            try:
                message = await comm.read()
            except CommClosedError:
                return done.set()
            except transload.Error as error:
                await comm.write({"error": f"{type(error).__name__}: {error}"})
                continue
            op = message["op"]
            if op == "limit":
                cp.get_default_memory_pool().free_all_blocks()
                cp.get_default_memory_pool().set_limit(size=message["nbytes"])
                await comm.write("ok")
            elif op == "memory":
                message = None
                await comm.write(memory())
            elif op == "echo":
                await comm.write({"x": to_serialize(message["x"])})
            elif op == "kind":
                cp.cuda.Device().synchronize()
                await comm.write(type(message["x"]).__name__)
            elif op == "count":
                await comm.write(int(message["x"][-1]))
            else:
                await comm.write({"told": told(message["x"]), "way": comm.extra_info["device_path"], "decisions": comm.extra_info["decisions"]})
            message = None

    async with listen(address, handle) as listener:
        print(listener.contact_address, flush=True)
        await done.wait()


async def send(address, nbytes):
    """Send arrays of one value each, which is another one each time, from memory that is written anew as soon as it may be."""
    import cupy as cp
    from distributed.comm import connect
    from distributed.protocol import to_serialize

    comm = await connect(address)
    i = 0
    while True:
        await comm.write({"x": to_serialize(cp.full(nbytes // 8, i, "i8"))})
        i += 1


if __name__ == "__main__":
    order, config, *arguments = sys.argv[1:]
    dask.config.set(json.loads(config))
    asyncio.run({"receive": receive, "send": send}[order](arguments[0], *map(int, arguments[1:])))
