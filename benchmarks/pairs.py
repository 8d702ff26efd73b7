"""Pairs of processes, a sender and a receiver for each rival, which take turns, transfer by transfer.

A receiver listens (`serve`), a sender connects to it and does what the benchmark's own process tells it through a pipe (`drive`).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

WARM_UPS = 2


async def serve(
    conn: Any,
    address: str,
    answer: Callable[[Any, Any], Awaitable[None]],
    deserializers: list[str] | None = None,
    **listen_args: Any,
) -> None:
    """Listen, tell `conn` where, and give each message to `answer(comm, message)` until one says "stop"."""
    from distributed.comm import listen

    done = asyncio.Event()

    async def handle(comm: Any) -> None:
        while (message := await comm.read(deserializers))["op"] != "stop":
            await answer(comm, message)
            del message
        await comm.close()
        done.set()

    async with listen(address, handle, **listen_args) as listener:
        conn.send(listener.contact_address)
        await done.wait()


async def drive(
    conn: Any,
    comm: Any,
    objects: Callable[[], Mapping[str, Callable[[], object]]],
    serializers: list[str] | None = None,
    others: Mapping[str, Callable[[object], Awaitable[Any]]] | None = None,
) -> None:
    """Make each of `objects` that `conn` names, send it when `conn` says "go" (with a number: so often in a row), and do the benchmark's `others`."""
    from distributed.protocol import to_serialize

    obj: object = None
    while (order := conn.recv()) != "stop":
        if order.startswith("go"):
            seconds = []
            for _ in range(int(order.partition(" ")[2] or 1)):
                start = time.perf_counter()
                await comm.write({"op": "put", "x": to_serialize(obj)}, serializers=serializers)
                await comm.read()
                seconds.append(time.perf_counter() - start)
            conn.send(seconds)
            await asyncio.sleep(0.01)
        elif others and order in others:
            conn.send(await others[order](obj))
        else:
            obj = objects()[order]()
            conn.send("ready")
    await comm.write({"op": "stop"})
    await comm.close()


class Pairs:
    """The pairs of `rivals`, `{name: arguments}`: of each one process runs `receiver(conn, *arguments)`, the other
    `sender(conn, address, *arguments)`."""

    def __init__(self, receiver: Callable[..., None], sender: Callable[..., None], rivals: Mapping[str, tuple[Any, ...]]) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[Any] = []
        self.names = list(rivals)
        self._senders = {}
        for name, arguments in rivals.items():
            address = self._start(receiver, *arguments).recv()
            self._senders[name] = self._start(sender, address, *arguments)

    def __enter__(self) -> Pairs:
        return self

    def __exit__(self, *_: object) -> None:
        for sender in self._senders.values():
            sender.send("stop")
        for process in self._processes:
            process.join(10)

    def _start(self, main: Callable[..., None], *arguments: Any) -> Any:
        here, there = self._context.Pipe()
        self._processes.append(self._context.Process(target=main, args=(there, *arguments), daemon=True))
        self._processes[-1].start()
        return here

    def ask(self, name: str, order: str) -> Any:
        """Return what the sender of a pair answers to an order."""
        self._senders[name].send(order)
        return self._senders[name].recv()

    def transfers(self, payload: str, runs: int, budget: float, in_a_row: int = 1) -> dict[str, list[float]]:
        """Return the seconds of each rival's transfers of a payload; who has used up `budget` seconds is measured often enough.

        Where a turn is several transfers `in_a_row`, the first of them, which finds sleeping processes, does not count.
        """
        for name in self.names:
            self.ask(name, payload)
        seconds: dict[str, list[float]] = {name: [] for name in self.names}
        for i in range(runs + WARM_UPS):
            for name, taken in seconds.items():
                if len(taken) >= 3 and sum(taken) > budget:
                    continue
                row = self.ask(name, f"go {in_a_row}")
                if i >= WARM_UPS:
                    taken += row[1:] or row
        return seconds


def scatter_and_gather(client: Any, obj: object, runs: int) -> dict[str, list[float]]:
    """Return the seconds of scatter and gather, direct and through the scheduler, by way."""
    seconds: dict[str, list[float]] = {}
    for direct in (True, False):
        way = "direct" if direct else "through the scheduler"
        for _ in range(runs):
            start = time.perf_counter()
            future = client.scatter(obj, hash=False, direct=direct)
            middle = time.perf_counter()
            client.gather(future, direct=direct)
            end = time.perf_counter()
            seconds.setdefault(f"scatter, {way}", []).append(middle - start)
            seconds.setdefault(f"gather, {way}", []).append(end - middle)
            del future
            time.sleep(0.05)
    return seconds
