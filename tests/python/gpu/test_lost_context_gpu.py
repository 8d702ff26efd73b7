"""A process whose kernel trapped can use its GPU no more: device arrays are errors there, host messages go on, and the peer is well."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")

import dask
from distributed.comm import CommClosedError, listen
from distributed.protocol import to_serialize
from support.gpu_peer import told

pytestmark = pytest.mark.timeout(300)

WAYS = {
    "CUDA IPC": {},
    "staged, shared memory": {"transload.cuda-ipc": False},
    "staged, TCP": {"transload.cuda-ipc": False, "transload.local-streams": 0},
}
PROGRAM = Path(__file__).parents[1] / "support" / "lost_context.py"


@pytest.mark.parametrize("way", WAYS)
def test_a_lost_context_is_an_error_and_no_more(cp, way):
    ends = []

    async def handle(comm):
        while True:
            try:
                message = await comm.read()
                if message["op"] == "make":
                    await comm.write({"x": to_serialize(cp.arange(message["n"]))})
                else:
                    await comm.write(str(told(message["x"])))
            except CommClosedError:
                return ends.append("closed")

    async def main():
        async with listen("transload://127.0.0.1:0", handle) as listener:
            arguments = [str(PROGRAM), json.dumps(WAYS[way]), listener.contact_address]
            one = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
            said, _ = await asyncio.wait_for(one.communicate(), 240)
            for _ in range(200):
                if ends:
                    break
                await asyncio.sleep(0.05)
            return one.returncode, [json.loads(line) for line in said.decode().splitlines()]

    with dask.config.set(WAYS[way]):
        code, said = asyncio.run(main())
    import numpy as np

    arrays = [cp.arange(1000), cp.arange(4_000_000), [cp.arange(1000) for _ in range(200)]]
    assert [outcome for what, outcome in said if what == "before"] == [str(told(x)) for x in arrays]
    assert ["lost", "CUDARuntimeError"] in said
    outcomes = {what: [outcome for of, outcome in said if of == what] for what, _ in said}
    for refused in (*outcomes["send"], *outcomes["receive"]):
        assert refused.isidentifier() and refused != "TimeoutError", said  # an error's class, no bytes
    assert outcomes["host"] == [str(told(np.arange(1000)))] * 3, said
    assert outcomes["host after"][0] in (str(told(np.arange(1000))), "CommClosedError"), said
    assert code >= 0, said  # no signal
    assert ends == ["closed"]
    assert int(cp.arange(10).sum()) == 45
