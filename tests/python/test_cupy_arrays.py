"""CuPy's arrays are written and made in C++. With CuPy itself, over host memory that passes for a GPU's; no GPU is needed."""

import gc
import types
import weakref

import numpy as np
import pytest

import transload
from transload import _core, _tables
from transload.adapters import cupy as adapter

LARGE = 40_000  # items; what is not packed needs no copy


class Block:
    """Memory that passes for device 0's."""

    def __init__(self, nbytes):
        self.bytes = np.zeros(nbytes, np.uint8)


@pytest.fixture
def cp(monkeypatch):
    cupy = pytest.importorskip("cupy")
    streams = types.SimpleNamespace(asked=0)

    def current():
        streams.asked += 1
        return types.SimpleNamespace(ptr=0)

    monkeypatch.setattr(cupy.cuda, "get_current_stream", current)
    cupy.streams = streams
    return cupy


def array(cp, shape, dtype="f8", strides=None, block=None, at=0):
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = block or Block(max(nbytes, 1))
    memory = cp.cuda.UnownedMemory(block.bytes.ctypes.data, block.bytes.nbytes, block, 0)
    return cp.ndarray(shape, dtype, cp.cuda.MemoryPointer(memory, at), strides)


def layout(a):
    return a.data.ptr, a.data.device_id, a.dtype, a.shape, a.strides, a.flags.c_contiguous


def objects(cp):
    one, block = array(cp, (LARGE,)), Block(8 * LARGE)
    return {
        "one": one,
        "the same again": one,
        "many": [array(cp, (LARGE,), dtype) for dtype in ("f8", "f4", "i8", "c16", "f8")],
        "of one block": [array(cp, (LARGE - i,), block=block, at=8 * i) for i in range(3)],
        "shapes": [array(cp, shape) for shape in ((200, 200), (LARGE, 1), (1, 2, 3, LARGE))],
        "no bytes": [array(cp, (0,)), array(cp, (3, 0, LARGE))],
        "columns": array(cp, (200, 200), strides=(8, 1600)),
        "every second": array(cp, (LARGE // 2,), strides=(16,), block=block),
        "backwards": array(cp, (LARGE,), strides=(-8,), block=block, at=8 * (LARGE - 1)),
    }


def test_the_bytes_are_those_of_the_adapter(cp, monkeypatch):
    sent = objects(cp)

    def written():
        message = transload.serialize(sent)
        return bytes(message.header), [(f.pointer, f.nbytes, f.device, f.stream) for f in message.frames]

    in_core = written()
    monkeypatch.delattr(adapter._encode_array, "stream_of_message")
    assert in_core == written()


@pytest.mark.parametrize("way", ["in C++", "by the adapter"])
def test_arrays_arrive_as_they_were(cp, monkeypatch, way):
    if way == "by the adapter":
        monkeypatch.delattr(adapter._decode_array, "classes")
    sent = objects(cp)
    del sent["no bytes"]  # which take a GPU
    got = transload.deserialize(transload.serialize(sent))
    assert got["one"] is got["the same again"]
    for name, arrays in sent.items():
        arrays, received = ([a] if type(a) is cp.ndarray else a for a in (arrays, got[name]))
        assert all(type(a) is cp.ndarray for a in received)
        assert [layout(a) for a in received] == [layout(a) for a in arrays]


def test_the_stream_is_asked_once_a_message(cp):
    sent = [array(cp, (LARGE,)) for _ in range(5)]
    message = transload.serialize(sent)
    assert cp.streams.asked == 1
    assert {frame.stream for frame in message.frames} == {1}


def test_a_stream_that_cannot_be_told_is_an_error_with_its_place(cp, monkeypatch):
    def broken():
        raise RuntimeError("no context")

    monkeypatch.setattr(cp.cuda, "get_current_stream", broken)
    with pytest.raises(RuntimeError, match="no context") as caught:
        transload.serialize({"a": [array(cp, (LARGE,))]})
    assert "obj['a'][0]" in caught.value.__notes__[0]


def test_memory_lives_as_long_as_its_arrays(cp):
    block = Block(8 * LARGE)
    sent = [array(cp, (LARGE,), block=block), array(cp, (10_000,), block=block, at=8000)]
    gone = weakref.ref(block)
    del block
    got = transload.deserialize(transload.serialize(sent))
    del sent
    assert got[0].data.mem is got[1].data.mem  # one owner for what lies in one frame
    del got[0]
    gc.collect()
    assert gone() is not None
    del got
    gc.collect()
    assert gone() is None


def test_a_record_tells_what_it_told(cp, monkeypatch):
    sent = objects(cp)
    told = str(transload.explain(sent))
    monkeypatch.delattr(adapter._encode_array, "stream_of_message")
    assert told == str(transload.explain(sent))


# ── values that no array has ─────────────────────────────────────────────────────────────────────────────────


class Value:
    """Written under the wire name of CuPy's arrays as it stands."""

    def __init__(self, *parts):
        self.parts = parts


@pytest.fixture
def values(monkeypatch):
    monkeypatch.setitem(_tables.adapters_by_type, Value, ("cupy.ndarray", lambda value: value.parts))


def on(device, nbytes=8 * LARGE):
    block = Block(nbytes)
    return _core.DeviceMemory(block.bytes.ctypes.data, nbytes, device, block)


F8 = np.dtype("f8")
WRONG = {
    "too long": (F8, (LARGE + 1,)),
    "far too long": (F8, (1 << 61, 1 << 61, 1 << 61)),
    "beyond": (F8, (1 << 62,)),
    "negative": (F8, (-1,)),
    "of objects": (np.dtype("O"), (1,)),
    "no dtype": ("f8", (1,)),
    "no shape": (F8, [1]),
    "a flag for a length": (F8, (True,)),
    "many dimensions": (F8, (1,) * 65),
    "four parts": (F8, (1,), (8,)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_as_by_the_adapter(cp, values, monkeypatch, name):
    message = transload.serialize([Value(on(0), *WRONG[name])])
    with pytest.raises(transload.Malformed) as fast:
        transload.deserialize(message)
    monkeypatch.delattr(adapter._decode_array, "classes")
    with pytest.raises(transload.Malformed) as slow:
        transload.deserialize(message)
    assert str(fast.value) == str(slow.value)


def test_a_dtype_is_looked_at_each_time(cp, values):
    message = transload.serialize([Value(on(0), F8, (LARGE,)), Value(on(0), np.dtype("c16"), (LARGE,))])
    with pytest.raises(transload.Malformed, match="does not fit"):
        transload.deserialize(message)


def test_the_value_itself_cannot_be_referred_to(cp, values):
    memory = on(0)
    message = transload.serialize([Value(memory, F8, (LARGE,)), (memory, F8)])  # which the value and the list share
    first, (shared, dtype) = transload.deserialize(message)
    assert type(first) is cp.ndarray and shared.pointer == first.data.ptr and dtype == F8


@pytest.mark.parametrize("device", [None, "host"])
def test_host_memory_makes_numpys_arrays(values, device):
    (got,) = transload.deserialize(transload.serialize([Value(on(_core.HOST_TWIN), F8, (200, 200))]), device=device)
    assert type(got) is np.ndarray and got.shape == (200, 200) and not got.any()


def test_without_cupy_the_receiver_says_what_it_needs(values, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    adapter._classes.cache_clear()
    try:
        with pytest.raises(transload.Unsupported, match=r'adapter cupy\.ndarray: .*device="host"'):
            transload.deserialize(transload.serialize([Value(on(0), F8, (LARGE,))]))
    finally:
        adapter._classes.cache_clear()
