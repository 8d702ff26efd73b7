"""Dask's message codec: the same bytes as Dask's own code, read by either, and nothing in a header is run."""

from __future__ import annotations

import datetime
import enum
import importlib
import importlib.util
import os
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import distributed
import msgpack
import numpy as np
import pandas as pd
import pytest
from distributed.protocol import Serialized, to_serialize
from distributed.protocol import dumps as stock_dumps
from distributed.protocol import loads as stock_loads
from distributed.protocol.serialize import ToPickle
from distributed.protocol.utils import unpack_frames

import transload
from transload import _core
from transload.dask import codec

DATA = Path(__file__).parents[2] / "data" / "dask"
# Not imported as `golden`: tests/data/v1 has the module of that name, and its classes are in messages.
_spec = importlib.util.spec_from_file_location("golden_dask", DATA / "golden.py")
golden = importlib.util.module_from_spec(_spec)
sys.modules["golden_dask"] = golden
_spec.loader.exec_module(golden)

stock = importlib.import_module("distributed.protocol.serialize")
RAW = {"compression": None, "pickle-protocol": 5}


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.strides == b.strides and a.flags.writeable == b.flags.writeable
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b)
    else:
        assert a == b


def messages() -> dict[str, Any]:
    array = np.arange(1000, dtype="<f4")
    return {
        **{name: make() for name, make in golden.MESSAGES.items()},
        "none": None,
        "numbers": [0, -1, 127, 128, -32, -33, 2**15, 2**31, 2**32, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, float("inf")],
        "texts": ["", "é", "x" * 40, "y" * 300, "z" * 70_000],
        "bytes": [b"", b"a" * 300, bytearray(b"b"), memoryview(b"cd"), b"e" * 70_000],
        "containers": {"list": list(range(20)), "tuple": (1, (2,)), "empty": [(), {}, []], "long": {str(i): i for i in range(70_000)}},
        "keys": {1: "a", None: "b", ("x", (1, 2)): "c", 2.5: "d", b"e": "f", True: "g"},
        "set": {1, 2},
        "enum": distributed.core.Status.running,
        "integer enum": [enum.IntEnum("Small", "a b").b],
        "ext": {"ext": msgpack.ExtType(5, b"xyz"), "after": to_serialize(array)},
        "timestamp": msgpack.Timestamp(5, 6),
        "scalar": {"n": np.float64(0.5)},
        "frames of no bytes": to_serialize([np.empty((2, 0)), np.empty(0), b""]),
        "frame": {"df": to_serialize(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))},
        "dict without msgpack keys": to_serialize({datetime.date(2026, 1, 1): array}),
        "list of arrays": to_serialize([array] * 3),
        "shards": to_serialize(np.zeros(300)),
        "read-only": to_serialize(np.frombuffer(b"12345678", "u1")),
        "a pickle": {"x": ToPickle({"a": array})},
    }


@pytest.mark.parametrize("name", list(messages()))
@pytest.mark.parametrize("context", [None, RAW, {"compression": "zlib"}, {"compression": False}], ids=["auto", "raw", "zlib", "false"])
def test_either_reads_the_other(name, context):
    message = messages()[name]
    size = 256 if name == "shards" else None
    random.seed(0)
    theirs = stock_dumps(message, context=context, frame_split_size=size)
    random.seed(0)
    ours = codec.dumps(messages()[name], context=context, frame_split_size=size)
    if "pickle" not in name and name != "frame":
        assert [bytes(frame) for frame in ours] == [bytes(frame) for frame in theirs]
    got = stock_loads([bytearray(frame) for frame in theirs])
    same(codec.loads([bytearray(frame) for frame in theirs]), got)
    same(stock_loads([bytearray(frame) for frame in ours]), got)
    same(codec.loads([bytearray(frame) for frame in ours]), got)


@pytest.mark.parametrize("name", list(golden.MESSAGES))
def test_golden_frames(name):
    frames = unpack_frames(bytearray((DATA / f"{name}.frames").read_bytes()))
    same(codec.loads(frames), stock_loads(frames))
    if name != "pickled":
        assert [bytes(f) for f in codec.dumps(golden.MESSAGES[name](), context=golden.CONTEXT)] == [bytes(f) for f in frames]


def test_a_message_passes_a_scheduler_unopened():
    frames = [bytes(f) for f in codec.dumps(golden.arrays(), context=RAW)]
    held = codec.loads(frames, deserialize=False)
    assert isinstance(held["one"], Serialized)
    onward = codec.dumps(held)
    same(codec.loads(onward), codec.loads(frames))
    same(stock_loads(stock_dumps(stock_loads(frames, deserialize=False))), codec.loads(frames))


def test_a_header_is_read_twice():
    frames = codec.dumps({"x": to_serialize({"a": np.arange(3), "b": np.arange(4)})})
    same(codec.loads(frames), codec.loads(frames))
    header, parts = codec.serialize({"a": np.arange(3), "b": np.arange(4)})
    same(codec.deserialize(header, parts), codec.deserialize(header, parts))


def test_an_object_that_msgpack_does_not_know_sends_nothing_twice():
    big = np.zeros(1 << 20)
    frames = codec.dumps({"big": to_serialize(big), "odd": np.int64(5)}, context=RAW)
    assert sum(memoryview(f).nbytes for f in frames) < 1.01 * big.nbytes
    assert codec.loads(frames)["odd"] == np.int64(5)


def test_ints_outside_64_bits_raise_as_with_dask():
    for dumps in (stock_dumps, codec.dumps):
        with pytest.raises(OverflowError):
            dumps({"n": 2**64})


def test_nesting():
    deep: Any = None
    for _ in range(5000):
        deep = (deep,)
    document = _core.pack_document(deep, None)
    back = _core.unpack_document(document, dict)
    for _ in range(5000):
        assert type(back) is tuple and len(back) == 1
        (back,) = back
    assert back is None
    with pytest.raises(ValueError, match="recursion"):
        _core.unpack_document(b"\x91" * 20_000 + b"\xc0", dict)


@pytest.mark.parametrize("spilled", [np.arange(5), {"a": np.arange(5)}, "text", pd.DataFrame({"a": [1]})], ids=lambda x: type(x).__name__)
def test_spilled_bytes(spilled):
    same(codec.deserialize_bytes(codec.serialize_bytes(spilled)), spilled)
    same(stock.deserialize_bytes(codec.serialize_bytes(spilled)), spilled)
    same(codec.deserialize_bytes(stock.serialize_bytes(spilled)), spilled)


# ── What a stranger sends ────────────────────────────────────────────────────────────────────────────────────


class Runs:
    def __reduce__(self):
        return os.putenv, ("TRANSLOAD_CODEC_RAN", "1")


@pytest.mark.parametrize(
    "pickled",
    [
        pickle.dumps(Runs()),
        pickle.dumps(Runs(), 0),
        pickle.dumps(os.system),
        pickle.dumps([np.ndarray]),
        pickle.dumps(np.ndarray)[:-1],
        pickle.dumps(np.ndarray) + b".",
        b"",
        b".",
        b"\x80\x05.",
        b"cos\nsystem\n.",
        b"cnumpy\n\n.",
        b"\x80\x05\x8c\xffab",
        b"c__main__\nmissing\n.",
        "text",
    ],
    ids=repr,
)
def test_the_class_in_a_header_is_never_run(pickled, monkeypatch):
    def ran(*_):
        raise AssertionError("a pickle was run")

    header, frames = codec.serialize(np.arange(3))
    monkeypatch.setattr(pickle, "loads", ran)
    monkeypatch.setattr("distributed.protocol.pickle.loads", ran)
    with pytest.raises((transload.Error, TypeError)):
        codec.deserialize({**header, "type-serialized": pickled}, frames)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("cls", [np.ndarray, pd.DataFrame, datetime.timezone, enum.Enum])
def test_a_class_by_its_name(cls, protocol):
    assert codec.class_of(pickle.dumps(cls, protocol)) is cls


def test_a_module_is_imported_for_who_may():
    name = "this" if "this" not in sys.modules else "antigravity"
    pickled = f"c{name}\nMissing\n.".encode()
    with pytest.raises(transload.Untrusted, match=r"transload\.trust"):
        codec.class_of(pickled, pickle=False)
    assert name not in sys.modules


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"__Serialized__": 7}, "frame 7 of 2"),
        ({"__Pickled__": 7}, "frame 7 of 2"),
        ({"__Serialized__": 1}, "frame 1: 9 frames behind it"),
    ],
)
def test_frames_that_are_not_there(document, text):
    with pytest.raises(transload.Malformed, match=text):
        codec.loads([msgpack.packb(document), msgpack.packb({"num-sub-frames": 9})])


def test_a_codec_that_is_missing_is_named():
    frames = codec.dumps({"x": to_serialize(np.zeros(100_000))}, context={"compression": "zlib"})
    frames[1] = bytes(frames[1]).replace(b"zlib", b"zlop")
    with pytest.raises(transload.Malformed, match=r"sub-frame 0 is compressed with zlop.*known are.*zlib"):
        codec.loads(frames)


def test_a_family_that_is_unknown_is_named():
    frames = codec.dumps({"x": to_serialize("text")})
    frames[1] = bytes(frames[1]).replace(b"pickle", b"pockle")
    with pytest.raises(transload.Malformed, match="family 'pockle'"):
        codec.loads(frames)


def test_damaged_documents_are_told():
    """Every cut, and random changes: an error that is a ValueError or Dask's own, or a value; never a crash."""
    document = codec.dumps({**golden.control(), "x": {"__Set__": True, "as-list": [1]}})[0]
    for n in range(len(document)):
        with pytest.raises(ValueError, match="byte"):
            _core.unpack_document(document[:n], stock.msgpack_decode_default)
    rng = random.Random(5)
    for _ in range(20_000):
        damaged = bytearray(document)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            theirs = msgpack.loads(bytes(damaged), use_list=False, strict_map_key=False)
        except Exception:
            theirs = None
        try:
            ours = _core.unpack_document(bytes(damaged), lambda obj: obj)
        except NotImplementedError:
            continue
        except ValueError:
            assert theirs is None
            continue
        assert repr(ours) == repr(theirs)


def test_objects_that_change_while_they_are_written():
    class Grows:
        def __init__(self, holder):
            self.holder = holder

    def grow(obj):
        obj.holder["more"] = 1
        return 1

    holder: dict[str, Any] = {}
    holder["x"] = Grows(holder)
    with pytest.raises(RuntimeError, match="changed size"):
        _core.pack_document(holder, grow)
    shrinks: list[Any] = []
    shrinks += [Grows(shrinks), 2, 3]

    def shrink(obj):
        obj.holder.clear()
        return 1

    with pytest.raises((RuntimeError, IndexError)):
        _core.pack_document(shrinks, shrink)
