"""The other side of cpp_echo, over Dask's comm: `serve` takes readings from C++, `call HOST:PORT` sends some to `cpp_echo serve`."""

import asyncio
import sys

import numpy as np
from distributed.comm import CommClosedError, connect, listen
from distributed.protocol import to_serialize

from weather import Reading


async def serve() -> None:
    done = asyncio.Event()

    async def handle(comm) -> None:
        try:
            while True:
                reading = (await comm.read())["x"]
                assert type(reading) is Reading and reading.flags == {"calm": 1}, reading
                assert np.array_equal(reading.kelvin, np.arange(200.0, 1_000_200.0))
                reading.kelvin += 100  # where the engine put it: no copy, writable
                reading.station += " and Python"
                await comm.write({"x": to_serialize(reading)})
        except CommClosedError:
            done.set()

    async with listen("transload://127.0.0.1:0", handle) as listener:
        print(listener.contact_address.removeprefix("transload://"), flush=True)
        await done.wait()


async def call(address: str) -> None:
    comm = await connect(f"transload://{address}")
    reading = Reading("Python", np.linspace(200, 300, 3_000_000), {"windy": 2})
    for _ in range(3):
        await comm.write({"x": to_serialize(reading)})
        back = (await comm.read())["x"]
        assert type(back) is Reading and back.station == "Python" and back.flags == {"windy": 2}
        assert np.array_equal(back.kelvin, reading.kelvin)
    print(f"back from C++: {len(back.kelvin)} values, by {comm.extra_info['path']}")
    await comm.close()


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1] == "serve" else call(sys.argv[2]))
