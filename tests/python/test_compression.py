"""Compression and checksums: what is compressed, what is left alone, what is refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from support.memory import peak_growth
from support.same import difference

import transload

CODECS = ("auto", "lz4", "zstd")
RNG = np.random.default_rng(0)
TEXT = (" ".join(f"word{i % 700}" for i in range(200_000))).encode()
FLOATS = RNG.random(200_000)
WHOLES = RNG.integers(0, 1000, 200_000)
NIBBLES = (RNG.integers(0, 256, 1_000_000) * 24 // 256).astype("u1")  # lz4 finds nothing in it, zstd three bits of eight


def edited(header: Any, **meta: Any) -> bytes:
    """The header with facts put into its meta."""
    version, known, *rest = msgpack.unpackb(header, strict_map_key=False)
    return msgpack.packb([version, {**known, **meta}, *rest])


def objects() -> dict[str, object]:
    import pandas as pd
    import pyarrow as pa

    shared = np.arange(50_000)
    return {
        "array": WHOLES,
        "random array": FLOATS,
        "windows of one base": [shared[10:], shared[:-10]],
        "frozen": _frozen(np.arange(30_000)),
        "text frame": pd.DataFrame({"a": [f"name {i % 100}" for i in range(20_000)], "b": np.arange(20_000) % 7}),
        "table": pa.table({"x": list(range(50_000)), "y": ["é" * (i % 5) for i in range(50_000)]}),
        "bytes": TEXT,
        "floats": [1.5] * 20_000,
        "small": {"a": 1, "b": [2.5, "x"]},
        "nothing": None,
    }


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# ── What comes back ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("name", list(objects()))
def test_object_comes_back(name: str, compression: str, checksum: bool) -> None:
    obj = objects()[name]
    message = transload.serialize(obj, compression=compression, checksum=checksum)
    assert len(message.checksums) == (len(message.frames) if checksum else 0)
    assert difference(obj, transload.deserialize(message)) is None
    received = [bytes(message.header), *(bytearray(frame) for frame in message.frames)]
    assert difference(obj, transload.loads(received)) is None


def test_arrays_of_compressed_frames_are_writable_and_aligned() -> None:
    (array,) = transload.deserialize(transload.serialize([WHOLES], compression="lz4"))
    assert array.flags.writeable and array.flags.aligned and array.ctypes.data % 64 == 0
    array[0] = -1


def test_windows_of_one_base_still_share_memory() -> None:
    base = np.arange(50_000)
    a, b = transload.loads(transload.dumps([base[10:], base[:-10]], compression="auto"))
    a[0] = -1
    assert b[10] == -1


def test_what_is_pickled_is_compressed_too() -> None:
    table = {i: f"value {i}" for i in range(5000)}
    message = transload.serialize(lambda: table, compression="zstd")
    assert "pickle" in message.families
    assert transload.deserialize(message, ("host", "pickle"))()[77] == "value 77"


# ── What is compressed ───────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_compressed_or_summed_up_unless_asked() -> None:
    message = transload.serialize(np.zeros(100_000))
    assert message.codecs == () and message.checksums == () and message.nbytes == message.raw_nbytes
    assert msgpack.unpackb(message.header, strict_map_key=False)[1] == {}


def test_message_tells_what_was_done() -> None:
    message = transload.serialize([WHOLES, FLOATS, np.arange(100)], compression="auto", checksum=True)
    assert message.codecs == (None, "lz4", None)  # the pack, the integers, the floats
    assert message.raw_nbytes - message.nbytes > 0.3 * WHOLES.nbytes
    assert len(set(message.checksums)) == 3


def test_auto_takes_zstd_where_only_that_pays() -> None:
    assert transload.serialize(NIBBLES, compression="auto").codecs == ("zstd",)
    assert transload.serialize(NIBBLES, compression="lz4").codecs == ()


def test_frames_that_do_not_shrink_are_borrowed_as_ever() -> None:
    message = transload.serialize([FLOATS, WHOLES], compression="auto")
    assert np.shares_memory(np.frombuffer(message.frames[0], "u1"), FLOATS)
    assert not message.frames[0].readonly and message.frames[1].readonly


def test_a_frame_whose_sample_flatters_it_stays_as_it_is() -> None:
    """Zeros at 1/8 + 1/8 of it, in runs that a sample meets often; random bytes elsewhere."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = np.frombuffer(rng.bytes(1_000_000), "u1").copy()
        for start in rng.integers(0, 900_000, 3):
            frame[start : start + 80_000] = 0
        for compression in CODECS:
            (stored,) = transload.explain(frame, compression=compression).stored
            assert (stored.codec is None) == (stored.nbytes == stored.raw_nbytes)
            assert stored.codec is not None or stored.reason
            assert stored.nbytes <= 0.7 * stored.raw_nbytes or stored.codec is None


def test_small_frames_are_left_alone() -> None:
    assert transload.serialize(b"\0" * 8191, compression="auto").codecs == ()
    assert transload.serialize(b"\0" * 8192, compression="auto").codecs == ("lz4",)


def test_a_higher_level_of_zstd_is_smaller() -> None:
    sizes = [transload.serialize(TEXT, compression="zstd", level=level).nbytes for level in (-5, 1, 9)]
    assert sizes[0] > sizes[1] > sizes[2]


def test_the_same_object_is_stored_alike_each_time() -> None:
    first, second = (transload.dumps([TEXT, WHOLES, FLOATS], compression="auto", checksum=True) for _ in range(2))
    assert [bytes(part) for part in first] == [bytes(part) for part in second]


@pytest.mark.parametrize("wrong", [{"compression": "gzip"}, {"compression": ""}, {"compression": "zstd", "level": 99}, {"compression": "lz4", "level": 3}, {"level": 3}])
@pytest.mark.parametrize("verb", [transload.serialize, transload.dumps, transload.explain])
def test_what_is_no_compression_is_named(verb: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, transload.Unsupported), match="compression .* none of|level"):
        verb(TEXT, **wrong)


def test_explain_tells_what_was_saved_and_why_not() -> None:
    found = transload.explain({"text": TEXT, "floats": FLOATS, "small": np.arange(10)}, compression="auto")
    pack, text, floats = found.stored
    assert (pack.codec, pack.reason) == (None, "below 8192 bytes")
    assert text.codec == "lz4" and text.reason == "" and text.nbytes < 0.5 * text.raw_nbytes == 0.5 * len(TEXT)
    assert floats.codec is None and floats.reason.startswith("lz4 leaves 10") and "zstd leaves 9" in floats.reason
    assert found.saved_nbytes == text.raw_nbytes - text.nbytes
    assert found.frame_nbytes == [80, len(TEXT), FLOATS.nbytes]
    assert f"{found.saved_nbytes:,} saved by compression" in str(found)
    assert transload.explain(TEXT).stored == []


def test_explain_and_serialize_store_alike() -> None:
    for compression in CODECS:
        found = transload.explain([TEXT, FLOATS], compression=compression)
        message = transload.serialize([TEXT, FLOATS], compression=compression)
        assert [frame.nbytes for frame in found.stored] == [memoryview(frame).nbytes for frame in message.frames]
        assert found.header_nbytes == memoryview(message.header).nbytes


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("compression", CODECS)
def test_file_is_smaller_and_comes_back(tmp_path: Path, compression: str, check: bool) -> None:
    obj = {"text": TEXT, "floats": FLOATS, "whole": WHOLES}
    plain = transload.save(tmp_path / "plain.tld", obj)
    small = transload.save(tmp_path / "small.tld", obj, compression=compression)
    assert small < 0.8 * plain and (tmp_path / "small.tld").stat().st_size < 0.8 * (tmp_path / "plain.tld").stat().st_size
    assert difference(obj, transload.load(tmp_path / "small.tld", check=check)) is None


def test_frames_of_a_file_that_are_not_compressed_are_mapped(tmp_path: Path) -> None:
    transload.save(tmp_path / "x.tld", [TEXT, np.frombuffer(RNG.bytes(64 << 20), "u1")], compression="auto")
    with peak_growth() as grown:
        text, noise = transload.load(tmp_path / "x.tld", check=False)
    assert text == TEXT and grown() < 16 << 20
    assert len(noise) == 64 << 20


def test_command_line_shows_codecs(tmp_path: Path) -> None:
    transload.save(tmp_path / "x.tld", [TEXT, FLOATS], compression="lz4")

    def run(*arguments: str) -> str:
        return subprocess.run([sys.executable, "-m", "transload", "explain", *arguments], capture_output=True, text=True, check=True).stdout

    lines = run(str(tmp_path / "x.tld")).splitlines()
    assert any(line.startswith(f"  frame 0: {len(TEXT):,} bytes, stored in ") and line.endswith(" by lz4") for line in lines)
    assert any(line == f"  frame 1: {FLOATS.nbytes:,} bytes" for line in lines)
    assert "zstd" in run("-c", "bytes(100000)", "--compression", "zstd", "--level", "5")


# ── Bad input ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_any_damaged_byte_of_a_checked_message_is_refused(compression: str) -> None:
    header, *frames = [bytes(part) for part in transload.dumps(b"text " * 4000, compression=compression, checksum=True)]
    for at in range(len(frames[0])):
        damaged = frames[0][:at] + bytes([frames[0][at] ^ 1]) + frames[0][at + 1 :]
        with pytest.raises(transload.Malformed, match=r"frame 0: .*XXH3"):
            transload.loads([header, damaged])


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_any_damaged_byte_without_a_checksum_is_an_error_or_another_text(compression: str) -> None:
    header, frame = [bytes(part) for part in transload.dumps(b"text " * 4000, compression=compression)]
    refused = 0
    for at in range(len(frame)):
        for flip in (1, 0x80):
            damaged = frame[:at] + bytes([frame[at] ^ flip]) + frame[at + 1 :]
            try:
                assert len(transload.loads([header, damaged])) == 20_000
            except transload.Malformed as error:
                assert f"frame 0: {compression}, byte " in str(error)
                refused += 1
    assert refused > len(frame) / 4


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_frame_cut_anywhere_is_refused(compression: str) -> None:
    header, frame = [bytes(part) for part in transload.dumps(b"text " * 4000, compression=compression)]
    for n in range(len(frame)):
        with pytest.raises(transload.Malformed, match=rf"frame 0: {compression}, byte \d+"):
            transload.loads([header, frame[:n]])
    with pytest.raises(transload.Malformed, match="behind|byte"):
        transload.loads([header, frame + b"\0"])


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("claim", [1, 19_999, 20_001, 10**9, 2**62])
def test_frame_that_is_not_as_long_as_the_header_says_is_refused(compression: str, claim: int) -> None:
    header, frame = [bytes(part) for part in transload.dumps(b"text " * 4000, compression=compression)]
    parts = msgpack.unpackb(header, strict_map_key=False)
    parts[5] = [claim]
    parts[4] = [0, 2**62]
    with peak_growth() as grown, pytest.raises(transload.Malformed, match=rf"frame 0: {compression}, byte"):
        transload.loads([msgpack.packb(parts), frame])
    assert grown() < 16 << 20


def test_a_bomb_stops_at_the_limit_before_it_is_opened(tmp_path: Path) -> None:
    bomb = [bytes(part) for part in transload.dumps([bytes(64 << 20), bytes(64 << 20)], compression="zstd")]
    assert sum(map(len, bomb)) < 20_000
    transload.save(tmp_path / "bomb.tld", [bytes(64 << 20), bytes(64 << 20)], compression="zstd")
    with peak_growth() as grown:
        for call in (
            lambda most: transload.loads(bomb, most_nbytes=most),
            lambda most: transload.deserialize(transload.Message(bomb[0], bomb[1:]), most_nbytes=most),
            lambda most: transload.load(tmp_path / "bomb.tld", most_nbytes=most),
        ):
            with pytest.raises(transload.Exhausted, match=r"frame 1: .* claim 134217728 bytes, the limit is 100000000"):
                call(100_000_000)
    assert grown() < 16 << 20
    assert len(transload.loads(bomb, most_nbytes=128 << 20)[1]) == 64 << 20


def test_a_claim_beyond_the_machine_is_refused_without_being_told() -> None:
    """A frame of zstd that may well hold what it claims: 100 MB of it, 3 TB."""
    header, _ = transload.dumps(bytes(100_000), compression="zstd")
    parts = msgpack.unpackb(header, strict_map_key=False)
    parts[5] = [3 * 10**12]
    with pytest.raises(transload.Exhausted, match="claim 3000000000000 bytes"):
        transload.loads([msgpack.packb(parts), bytes(100_000_000)])


@pytest.mark.parametrize("name", ["brotli", "LZ4", "zstd ", "x" * 300])
def test_codec_that_is_missing_is_told_with_its_place(name: str) -> None:
    header, *frames = transload.dumps([TEXT, WHOLES], compression="lz4")
    with pytest.raises(transload.Malformed, match=r"byte \d+: meta !codec: frame 1: compressed with .*missing here"):
        transload.loads([edited(header, **{"!codec": ["lz4", name]}), *frames])


@pytest.mark.parametrize("meta", [{"!codec": ["lz4"]}, {"!codec": ["lz4"] * 3}, {"!codec": [1, 2]}, {"!codec": "lz4"}, {"!codec": ["lz4", ""]}, {"xxh3": [1]}, {"xxh3": [-1, 2]}, {"xxh3": [1.0, 2]}, {"xxh3": {}}])
def test_facts_that_are_not_one_a_frame_are_told_with_their_place(meta: dict[str, Any]) -> None:
    header, *frames = transload.dumps([TEXT, WHOLES], compression="lz4")
    with pytest.raises(transload.Malformed, match=r"byte \d+: .*(codec|xxh3)"):
        transload.loads([edited(header, **meta), *frames])


def test_checksum_is_compared_before_the_codec_sees_a_byte() -> None:
    header, frame = [bytes(part) for part in transload.dumps(TEXT, compression="zstd", checksum=True)]
    with pytest.raises(transload.Malformed, match="XXH3"):
        transload.loads([header, b"\0" * len(frame)])


def test_damaged_file_is_refused_before_its_frames_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "x.tld"
    transload.save(path, TEXT, compression="zstd")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(transload.Malformed, match="XXH3"):
        transload.load(path)


# ── Threads ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["compress", "open", "sum up"])
def test_other_threads_run_meanwhile(way: str) -> None:
    big = np.tile(WHOLES, 16)  # 25 MB
    frames = transload.dumps(big, compression="zstd", checksum=True)
    plain = transload.dumps(np.ones(64 << 20, "u1"), checksum=True)
    act = {
        "compress": lambda: transload.dumps(big, compression="zstd"),
        "open": lambda: [transload.loads(frames) for _ in range(4)],
        "sum up": lambda: [transload.loads(plain) for _ in range(8)],
    }[way]
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    def longest_share() -> float:
        """The longest time in which the other thread did nothing, of the whole."""
        ticks.clear()
        start = time.perf_counter()
        act()
        end = time.perf_counter()
        inside = [start, *(t for t in ticks if start <= t <= end), end]
        return max(b - a for a, b in itertools.pairwise(inside)) / (end - start)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        # One of a few tries must show it: the machine may be busy with other work.
        assert any(longest_share() < 0.5 for _ in range(10))
    finally:
        done.set()
        thread.join()


def test_many_threads_compress_and_open_at_once() -> None:
    wrong: list[object] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            obj = [rng.integers(0, 50, 30_000), rng.random(5000), TEXT[: int(rng.integers(10_000, 50_000))]]
            compression = CODECS[seed % 3]
            if difference(obj, transload.loads(transload.dumps(obj, compression=compression, checksum=True))):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
