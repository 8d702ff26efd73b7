"""What Dask is given of a GPU's memory, on its host twin: frames on the device where the connection takes them, else in host memory."""

from __future__ import annotations

import dask
import numpy as np
import pytest

import transload
from transload import _core
from transload.dask import _wire
from transload.dask._counters import counters

CUDA = ["cuda", "dask", "pickle", "error", _wire.MARKER]
HOST = ["dask", "pickle", "error", _wire.MARKER]
TAKES = {"format": transload.FORMAT_VERSION, "push": True, "publish": True}


def memory(n: int) -> _core.DeviceMemory:
    array = np.arange(n, dtype="u1")
    return _core.DeviceMemory(array.ctypes.data, n, _core.HOST_TWIN, array)


def never(*args: object, **kwargs: object) -> None:
    raise AssertionError("Dask was asked")


def to(address: str, **more: object) -> dict[str, object]:
    return {"recipient": {"address": address, _wire.KEY: TAKES}, **more}


ROADS = {
    "UCX names no connection": (CUDA, None, True),
    "UCX that does": (CUDA, to("ucxx://a:1"), True),
    "nobody asked, on UCX": (None, to("ucx://a:1"), True),
    "UCX, compressed": (CUDA, to("ucxx://a:1", compression="lz4"), False),
    "UCX, who asked takes host memory": (HOST, to("ucxx://a:1"), False),
    "who asked takes host memory": (HOST, None, False),
    "a list for all connections, on tcp": (CUDA, to("tcp://a:1"), False),
    "on tls": (CUDA, to("tls://a:1"), False),
    "on tcp, compressed": (CUDA, to("tcp://a:1", compression="lz4"), False),
    "on transload": (CUDA, to("transload://a:1", **{_wire.KEY: True}), False),
    "nobody asked, on tcp": (None, to("tcp://a:1"), False),
}


@pytest.mark.parametrize("road", ROADS)
def test_frames_lie_where_the_connection_takes_them(road: str) -> None:
    serializers, context, on_device = ROADS[road]
    counters.reset()
    value = {"large": memory(300_000), "small": memory(100), "host": np.arange(50_000)}
    header, parts = _wire.encode(never, value, serializers, "raise", context, None, speaking=True)
    assert [isinstance(part, _core.DeviceMemory) for part in parts].count(True) == (2 if on_device else 0)
    rows = {family: counts for (way, _, family), counts in counters._data.items() if way == "encode"}
    assert list(rows) == ["transload:host+cuda" if on_device else "transload:host"]
    stored = _core.frames_nbytes(parts)
    assert stored in list(rows.values())[0] and (stored > 700_000 or "compressed" in road)
    if on_device:
        got = _wire.decode(header, parts)
        assert bytes(got["large"].host_view()) == bytes(value["large"].host_view())
        assert bytes(got["small"].host_view()) == bytes(value["small"].host_view())


def test_what_is_spilled_is_in_host_memory() -> None:
    header, parts = _wire.encode_spilled(never, [memory(300_000)], {"on_error": "raise"}, speaking=True)
    assert not any(isinstance(part, _core.DeviceMemory) for part in parts)
    head, *frames = [part for part in parts if memoryview(part).nbytes]
    (got,) = transload.loads([head, *frames], device="host")
    assert bytes(got.host_view()) == bytes(memory(300_000).host_view())


@pytest.mark.skipif(transload.device_count() > 0, reason="a GPU is here")
def test_without_a_gpu_the_configuration_leaves_its_memory_in_host_memory() -> None:
    header, frames = _wire.encode(never, [memory(100_000), "rest"], HOST, "raise", to("tcp://a:1"), None, speaking=True)
    with pytest.raises(transload.Unsupported, match="no GPU can be used here"):
        _wire.decode(header, frames)
    with dask.config.set({"transload.device": "host"}):
        got, rest = _wire.decode(header, frames)
    assert bytes(got.host_view()) == bytes(memory(100_000).host_view()) and rest == "rest"


class Handle:
    """Means nothing in another process, and pickle would take it."""


def refuse(handle: Handle) -> None:
    raise transload.Unsendable("a handle of this process")


transload.register(Handle, name="test.handle", encode=refuse, decode=lambda value: Handle())


@pytest.mark.parametrize("serializers", [CUDA, HOST, None], ids=str)
def test_what_means_nothing_elsewhere_is_not_pickled_by_dask(serializers: list[str] | None) -> None:
    with pytest.raises(transload.Unsendable, match=r"obj\[0\]: a handle of this process"):
        _wire.encode(never, [Handle()], serializers, "raise", to("tcp://a:1"), None, speaking=True)
    header, frames = _wire.encode(never, [Handle()], serializers, "message", to("tcp://a:1"), None, speaking=True)
    with pytest.raises(transload.Unsendable, match=r"obj\[0\]: a handle of this process"):
        _wire.decode(header, frames)
    with pytest.raises(transload.Unsendable, match=r"obj\[0\]: a handle of this process"):
        _wire.encode_spilled(never, [Handle()], {"on_error": "raise"}, speaking=True)
