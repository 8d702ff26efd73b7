"""One end of a connection whose context on the GPU is lost: a kernel traps. Prints what then becomes of messages, one JSON line each."""

import asyncio
import json
import sys

import cupy as cp
import dask
import numpy as np
from distributed.comm import connect
from distributed.protocol import to_serialize

TRAP = r'extern "C" __global__ void trap() { asm("trap;"); }'


def say(what, outcome):
    print(json.dumps([what, outcome]), flush=True)


async def attempt(what, call):
    """Say what came, or the class of the error; a hang is a TimeoutError."""
    try:
        say(what, await asyncio.wait_for(call, 40))
    except Exception as error:
        say(what, type(error).__name__)


async def tell(comm, x):
    await comm.write({"op": "tell", "x": to_serialize(x)})
    return await comm.read()


async def make(comm, n):
    await comm.write({"op": "make", "n": n})
    x = (await comm.read())["x"]
    return f"came: {type(x).__name__}"


async def main(address):
    comm = await connect(address)
    arrays = {n: cp.arange(n) for n in (1000, 4_000_000)}
    many = [cp.arange(1000) for _ in range(200)]
    for x in (*arrays.values(), many):
        await attempt("before", tell(comm, x))
    try:
        cp.RawKernel(TRAP, "trap")((1,), (1,), ())
        cp.cuda.Device().synchronize()
    except cp.cuda.runtime.CUDARuntimeError as error:
        say("lost", type(error).__name__)
    for x in (*arrays.values(), many):
        await attempt("send", tell(comm, x))
        await attempt("host", tell(comm, np.arange(1000)))
    await attempt("receive", make(comm, 4_000_000))
    await attempt("host after", tell(comm, np.arange(1000)))
    comm.abort()


if __name__ == "__main__":
    dask.config.set(json.loads(sys.argv[1]))
    asyncio.run(main(sys.argv[2]))
