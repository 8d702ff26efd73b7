"""Frames: where they lie, what is copied, what is refused."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from support.trips import host

import transload

lz4_frame = pytest.importorskip("lz4.frame")


def _edited(header: Any, **meta: Any) -> bytes:
    """The header with facts added to its meta."""
    version, known, *rest = msgpack.unpackb(header, strict_map_key=False)
    return msgpack.packb([version, {**known, **meta}, *rest])


def _address(buffer: Any) -> int:
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])


# ── Where bytes lie ──────────────────────────────────────────────────────────────────────────────────────────


def test_large_array_is_borrowed_and_rebuilt_in_place() -> None:
    array = np.arange(100_000)
    header, frame = transload.dumps(array)
    assert _address(frame) == array.__array_interface__["data"][0]
    received = bytearray(frame)
    assert transload.loads([header, received]).__array_interface__["data"][0] == _address(received)


def test_small_payloads_share_one_frame() -> None:
    arrays = [np.arange(1000) + i for i in range(100)]
    header, *frames = transload.dumps(arrays)
    assert len(frames) == 1
    assert all(np.array_equal(a, b) for a, b in zip(arrays, transload.loads([header, *frames]), strict=True))


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16", "g", "M8[ns]", "U3"])
@pytest.mark.parametrize("before", [1, 3, 7])
def test_arrays_are_aligned_in_the_pack_and_on_arrival(dtype: str, before: int) -> None:
    small, large = np.zeros(5, dtype), np.zeros(5000, dtype)
    _, arrived_small, arrived_large = host([np.zeros(before, "u1"), small, large])
    for arrived in (arrived_small, arrived_large):
        assert arrived.flags.aligned
        assert arrived.__array_interface__["data"][0] % min(arrived.dtype.alignment, 16) == 0


@pytest.mark.parametrize("shift", [1, 4, 8])
def test_frame_off_alignment_is_copied_once(shift: int) -> None:
    array = np.arange(100_000.0)
    header, frame = transload.dumps(array)
    received = memoryview(bytearray(shift) + bytes(frame))[shift:]
    arrived = transload.loads([header, received])
    assert arrived.flags.aligned and np.array_equal(arrived, array)


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("frames_writable", [True, False])
def test_the_senders_flag_decides_and_costs_a_copy_only_where_it_must(writable: bool, frames_writable: bool) -> None:
    array = np.arange(50_000)
    array.flags.writeable = writable
    header, frame = transload.dumps([array])
    received = bytearray(frame) if frames_writable else bytes(frame)
    (arrived,) = transload.loads([header, received])
    assert arrived.flags.writeable is writable
    shares = np.shares_memory(arrived, np.frombuffer(received, np.uint8))
    assert shares is (frames_writable or not writable)


def test_frames_live_as_long_as_the_array_needs_them() -> None:
    header, frame = transload.dumps(np.arange(100_000))
    arrived = transload.loads([header, bytearray(frame)])
    del frame
    assert arrived.sum() == sum(range(100_000))


def test_frames_outlive_the_object() -> None:
    array = np.arange(100_000)
    message = transload.serialize({"x": array})
    total = int(array.sum())
    del array
    assert transload.deserialize(message)["x"].sum() == total


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(bytes(b), "u1"), lambda b: np.frombuffer(bytes(b), "u1").reshape(2, -1)])
def test_frames_of_any_kind_of_buffer(kind: Any) -> None:
    header, frame = transload.dumps(np.arange(100_000))
    assert transload.loads([bytes(header), kind(frame)])[-1] == 99_999
    assert transload.loads((bytearray(header), kind(frame)))[-1] == 99_999


def test_same_message_is_read_twice() -> None:
    message = transload.serialize({"a": np.arange(5), "b": [1]})
    first, second = transload.deserialize(message), transload.deserialize(message)
    assert np.array_equal(first["a"], second["a"]) and first["b"] == second["b"] and first["b"] is not second["b"]


# ── Number and size ──────────────────────────────────────────────────────────────────────────────────────────


def _message() -> list[Any]:
    return [bytes(part) for part in transload.dumps([np.arange(10_000), np.arange(20_000.0), np.arange(7, dtype="u1")])]


@pytest.mark.parametrize(
    "change",
    [
        lambda frames: frames[:-1], lambda frames: [*frames, b""], lambda frames: [*frames, b"x"], lambda frames: frames[::-1], lambda frames: [],
        lambda frames: [frames[0][:-1], *frames[1:]], lambda frames: [frames[0] + b"\0", *frames[1:]], lambda frames: [b"", *frames[1:]],
    ],
)
def test_frames_that_are_not_those_of_the_header_are_refused(change: Any) -> None:
    header, *frames = _message()
    with pytest.raises(transload.Malformed, match=r"frame"):
        transload.loads([header, *change(frames)])


@pytest.mark.parametrize("frame", ["text", 5, None, object()])
def test_what_is_no_buffer_is_refused(frame: Any) -> None:
    header, *frames = _message()
    with pytest.raises((transload.Malformed, TypeError)):
        transload.loads([header, frame, *frames[1:]])


def test_scattered_buffer_is_refused() -> None:
    header, *frames = _message()
    with pytest.raises(transload.Malformed, match="contiguous"):
        transload.loads([header, np.zeros(2 * len(frames[0]), "u1")[::2], *frames[1:]])


def test_no_frames_at_all_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="header"):
        transload.loads([])


# ── Compressed and checksummed ───────────────────────────────────────────────────────────────────────────────


def test_lz4_frames_are_opened() -> None:
    header, *frames = _message()
    packed = [lz4_frame.compress(frame) for frame in frames]
    arrived = transload.loads([_edited(header, **{"!codec": ["lz4"] * len(frames)}), *packed])
    assert np.array_equal(arrived[1], np.arange(20_000.0)) and arrived[1].flags.writeable


def test_some_frames_compressed_some_not() -> None:
    header, *frames = _message()
    packed = [lz4_frame.compress(frames[0]), *frames[1:]]
    assert len(frames) > 1
    arrived = transload.loads([_edited(header, **{"!codec": ["lz4", *[None] * (len(frames) - 1)]}), *packed])
    assert np.array_equal(arrived[0], np.arange(10_000))


@pytest.mark.parametrize("codec", ["brotli", "snappy", "", "lz5"])
def test_codec_that_is_missing_is_named(codec: str) -> None:
    header, *frames = _message()
    names = [codec or "x" * 300] * len(frames)
    with pytest.raises(ValueError, match="compressed with .* missing here"):
        transload.loads([_edited(header, **{"!codec": names}), *frames])


@pytest.mark.parametrize("change", [lambda f: f[:-5], lambda f: f + b"\0", lambda f: f[:20] + b"\xff" * 8 + f[28:], lambda f: b"", lambda f: lz4_frame.compress(b"short"), lambda f: lz4_frame.compress(bytes(10**7))])
def test_compressed_frame_that_is_wrong_is_refused(change: Any) -> None:
    header, *frames = _message()
    packed = [lz4_frame.compress(frame) for frame in frames]
    with pytest.raises(transload.Malformed, match="frame 0"):
        transload.loads([_edited(header, **{"!codec": ["lz4"] * len(frames)}), change(packed[0]), *packed[1:]])


def test_checksum_in_the_header_is_compared() -> None:
    header, *frames = _message()
    with pytest.raises(transload.Malformed, match="checksum"):
        transload.loads([_edited(header, xxh3=[1] * len(frames)), *frames])


def test_unknown_meta_is_skipped_unless_it_must_be_known() -> None:
    header, *frames = _message()
    assert transload.loads([_edited(header, later=[1, {"x": 2}]), *frames])
    with pytest.raises(transload.Malformed, match="!later"):
        transload.loads([_edited(header, **{"!later": 1}), *frames])
