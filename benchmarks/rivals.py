"""What the benchmarks share: the rivals, how they take turns, what a machine is, and where results go."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import datetime
import gc
import importlib.metadata
import json
import os
import pickle
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

# ── Rivals: an object to [header, *frames] and back ──────────────────────────────────────────────────────────


class Ours:
    """transload with every check. `families` is what the receiver allows."""

    name = "transload"

    def __init__(self, families: tuple[str, ...] = ("host",)) -> None:
        self.families = families

    def dumps(self, obj: object) -> list[Any]:
        import transload

        return transload.dumps(obj, ("host",))

    def loads(self, frames: list[Any]) -> Any:
        import transload

        return transload.loads(frames, self.families)


class Pickle5:
    """pickle 5 with out-of-band buffers."""

    name = "pickle 5"

    def dumps(self, obj: object) -> list[Any]:
        return pickle5_dumps(obj)

    def loads(self, frames: list[Any]) -> Any:
        return pickle5_loads(frames)


class DaskSerialize:
    """Dask as shipped: `serialize` and `deserialize`, which leave the header a Python dict."""

    name = "Dask, serialize"

    def dumps(self, obj: object) -> list[Any]:
        from distributed.protocol import serialize

        header, frames = serialize(obj)
        return [header, *frames]

    def loads(self, frames: list[Any]) -> Any:
        from distributed.protocol import deserialize

        return deserialize(frames[0], frames[1:])


class DaskWorkers:
    """Dask as shipped, as one worker sends to another on its host: `to_serialize` in a message, no compression, 64 MiB shards."""

    name = "Dask, between workers"

    def dumps(self, obj: object) -> list[Any]:
        from distributed.protocol import dumps, to_serialize

        return dumps({"op": "put", "x": to_serialize(obj)}, context={"compression": None, "pickle-protocol": 5}, frame_split_size=64 << 20)

    def loads(self, frames: list[Any]) -> Any:
        from distributed.protocol import loads

        return loads(frames)["x"]


class MsgPack:
    """msgpack-python's C extension, for what it can hold."""

    name = "msgpack"

    def dumps(self, obj: object) -> list[Any]:
        import msgpack

        return [msgpack.packb(obj)]

    def loads(self, frames: list[Any]) -> Any:
        import msgpack

        return msgpack.unpackb(frames[0])


def pickle5_dumps(obj: object) -> list[Any]:
    buffers: list[pickle.PickleBuffer] = []
    header = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
    return [header, *(buffer.raw() for buffer in buffers)]


def pickle5_loads(frames: list[Any]) -> Any:
    return pickle.loads(frames[0], buffers=frames[1:])


def arrived(frames: list[Any]) -> list[Any]:
    """The frames as a receiver has them: fresh writable memory of its own."""
    header = frames[0] if isinstance(frames[0], dict) else bytes(memoryview(frames[0]))
    return [header, *(memoryview(bytearray(frame)) for frame in frames[1:])]


CACHED = 16 << 20  # larger messages leave the caches while they arrive


def just_received(frames: list[Any]) -> list[Any]:
    """The frames written anew, as a socket has just done. A header dict is new, too: Dask takes it apart while it reads it."""
    header = copy.deepcopy(frames[0]) if isinstance(frames[0], dict) else frames[0]
    return [header, *frames[1:]] if nbytes(frames) > CACHED else arrived([header, *frames[1:]])


def nbytes(frames: list[Any]) -> int:
    """Bytes on the wire; a header dict counts as Dask packs it."""
    if isinstance(frames[0], dict):
        import msgpack

        return len(msgpack.packb(frames[0])) + sum(memoryview(frame).nbytes for frame in frames[1:])
    return sum(memoryview(frame).nbytes for frame in frames)


# ── Turns ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Call:
    """What is timed: `run(argument)`; with `fresh`, each time on `fresh(argument)`, which is not timed."""

    run: Callable[[Any], Any]
    argument: Any
    fresh: Callable[[Any], Any] | None = None


def interleaved(calls: dict[str, Call], runs: int, *, number: int = 1, budget: float = 6.0, clock: str = "wall") -> dict[str, list[float]]:
    """Seconds of each call, `runs` times, taking turns, so that a noisy minute hits all alike.

    `clock` is "wall", or "cpu" for what this process's threads spend together. A shot is `number` calls, and what is returned is divided by it. Who has used up `budget` seconds sits out the rest, after three shots at least.
    """
    now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
    times: dict[str, list[float]] = {name: [] for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    for turn in range(-1, runs):  # the first only warms up
        for name, call in calls.items():
            if turn >= 3 and spent[name] > budget:
                continue
            result = arguments = argument = None  # what is let go of belongs to nobody's time
            gc.collect()
            arguments = [call.fresh(call.argument) if call.fresh else call.argument for _ in range(number if turn >= 0 else 1)]
            start = now()
            for argument in arguments:
                result = call.run(argument)
            seconds = now() - start
            del result
            spent[name] += seconds
            if turn >= 0:
                times[name].append(seconds / number)
    return times


def summary(seconds: list[float]) -> dict[str, float]:
    """Median, best and worst; to four digits, as more are noise."""
    figures = {"median": statistics.median(seconds), "best": min(seconds), "worst": max(seconds)}
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


# ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────


def parser(doc: str | None, runs: int) -> argparse.ArgumentParser:
    """What every benchmark takes; scripts/bench hands its arguments to all of them."""
    arguments = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    arguments.add_argument("--runs", type=int, default=runs, help="shots of each rival")
    arguments.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: on a machine that is busy with other work; a helping thread's time is added, not hidden")
    arguments.add_argument("--json", type=Path, metavar="FOLDER", help="also write the results there")
    return arguments


def machine() -> dict[str, Any]:
    """What the figures depend on. No host name: results are committed."""
    with open("/proc/cpuinfo") as file:
        cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), platform.machine())
    names = ("numpy", "pandas", "pyarrow", "scikit-learn", "distributed", "msgpack")
    versions = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}
    return {"cpu": cpu, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "versions": versions}


def result(what: str, runs: int, clock: str = "wall", **rest: Any) -> dict[str, Any]:
    import transload

    return {"what": what, "transload": transload.__version__, "date": datetime.date.today().isoformat(), "machine": machine(), "runs": runs, "clock": clock, **rest}


def keep(folder: Path | None, found: dict[str, Any]) -> None:
    """Writes the result as FOLDER/WHAT.json, where a folder was given."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{found['what']}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


class Peak:
    """Growth of this process's peak memory over the block, in bytes."""

    def __enter__(self) -> Self:
        gc.collect()
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.growth = _status("VmHWM") - self._before


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0
