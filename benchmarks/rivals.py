"""What the benchmarks share: rivals, timing, payloads, and one way to print a row."""

from __future__ import annotations

import gc
import os
import pickle
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

MiB = 2**20


def pickle5_dumps(obj: object) -> list[Any]:
    buffers: list[pickle.PickleBuffer] = []
    header = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
    return [header, *(buffer.raw() for buffer in buffers)]


def pickle5_loads(frames: list[Any]) -> Any:
    return pickle.loads(frames[0], buffers=frames[1:])


def arrived(frames: list[Any]) -> list[Any]:
    """The frames as a receiver has them: fresh writable memory of its own."""
    return [bytes(frames[0]), *(memoryview(bytearray(frame)) for frame in frames[1:])]


def interleaved(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, list[float]]:
    """Seconds of each call, `runs` times, taking turns, so that a noisy minute hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(runs):
        for name, call in calls.items():
            gc.collect()
            start = time.perf_counter()
            result = call()
            times[name].append(time.perf_counter() - start)
            del result
    return times


def spread(seconds: list[float], unit: float = 1e3) -> str:
    """Median, best and worst."""
    return f"{statistics.median(seconds) * unit:.2f} ({min(seconds) * unit:.2f}–{max(seconds) * unit:.2f})"


def ratio(rival: list[float], ours: list[float]) -> str:
    """How many times faster we are: by the medians, and by the best of each."""
    return f"{statistics.median(rival) / statistics.median(ours):.2f}x ({min(rival) / min(ours):.2f}x)"


def machine() -> str:
    load = os.getloadavg()[0]
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f} at the start"


def forest(rows: int = 20_000, columns: int = 32, trees: int = 100) -> Any:
    """The forest of issue 3: 100 trees on 20 000 x 32."""
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    x = rng.random((rows, columns))
    y = (x[:, 0] + 0.6 * rng.standard_normal(rows) > 0.5).astype(int)
    return RandomForestClassifier(trees, random_state=0, n_jobs=2).fit(x, y)


class Peak:
    """Growth of this process's peak memory over the block, in bytes."""

    def __enter__(self) -> Peak:
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
