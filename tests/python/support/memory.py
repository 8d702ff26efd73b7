"""How much memory a piece of a test takes."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator

import pytest


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise AssertionError(field)


@contextlib.contextmanager
def peak_growth() -> Iterator[Callable[[], int]]:
    """Yields a function that tells by how many bytes this process's memory grew at its peak since the block began."""
    gc.collect()
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pytest.skip("the kernel does not reset peaks here")
    before = _status("VmRSS")
    yield lambda: _status("VmHWM") - before
