"""Compression of the wire and of spilled values, as Dask's configuration has it, and how it is counted."""

import ctypes

import dask
import numpy as np
import pytest
from distributed import protocol
from distributed.protocol import Serialize, ToPickle, core
from distributed.protocol.serialize import serialize_and_split

import transload
import transload.dask
from transload import _core
from transload.dask import _process, _wire
from transload.dask._counters import FIELDS, counters

WHOLES = np.arange(200_000) % 1000
NOISE = np.random.default_rng(0).random(100_000)


def context(codec):
    """What a connection between two hosts hands to `dumps`, once its handshake has agreed on `codec`."""
    return {
        "compression": codec,
        "recipient": {"address": "tcp://10.0.0.1:1", _wire.KEY: _wire.announcement(push=True)},
    }


@pytest.fixture
def on():
    """Transload is on in this process."""

    class Owner:
        status = "running"

    owner = Owner()
    _process.join(owner)
    counters.reset()
    yield
    _process.leave(owner)


def row(road="other", family="transload:host", way="encode"):
    """The counts of a road, by name."""
    (found,) = [r[3:] for r in counters.snapshot()["data"] if r[:3] == [way, road, family]]
    return dict(zip(FIELDS, found, strict=True))


def frames_of(parts):
    """The header of the message's one value, and its frames."""
    import msgpack

    sub = msgpack.loads(parts[1], use_list=False)
    return sub, parts[2:]


@pytest.mark.parametrize(("codec", "setting", "written"), [("lz4", "lz4", "lz4"), ("lz4", "auto", "lz4"), ("zstd", "zstd", "zstd")])
def test_lz4_and_zstd_are_written_by_us_and_nothing_is_compressed_twice(on, monkeypatch, codec, setting, written):
    seen = []
    ours = core.maybe_compress
    monkeypatch.setattr(core, "maybe_compress", lambda frame, **how: seen.append(memoryview(frame).nbytes) or ours(frame, compression=None))
    with dask.config.set({"distributed.comm.compression": setting}):
        parts = protocol.dumps({"x": Serialize([WHOLES, NOISE, "text"])}, context=context(codec))
    sub, frames = frames_of(parts)
    message = transload.Message(frames[0], frames[2:])
    assert message.codecs == (written, None)
    assert seen == [memoryview(frames[0]).nbytes], "Dask sees our header and no frame"
    assert sub["compression"] == (None, False, False, False)
    back = protocol.loads(parts)["x"]
    assert np.array_equal(back[0], WHOLES) and np.array_equal(back[1], NOISE) and back[0].flags.writeable
    counts = row()
    assert counts["nbytes"] == WHOLES.nbytes + NOISE.nbytes + memoryview(transload.dumps([WHOLES, NOISE, "text"])[0]).nbytes
    assert counts["stored"] == sum(memoryview(frame).nbytes for frame in frames)
    assert row("other", "transload", "decode")["nbytes"] == counts["nbytes"]
    assert row("other", "transload", "decode")["stored"] == counts["stored"]


def test_level_of_zstd_is_dasks(on):
    sizes = []
    for level in (1, 19):
        with dask.config.set({"distributed.comm.zstd.level": level}):
            _, frames = _wire.encode(serialize_and_split, Serialize(WHOLES[:50_000] ** 3), None, "raise", context("zstd"), None, speaking=True)
        sizes.append(memoryview(frames[-1]).nbytes)
    assert sizes[1] < sizes[0]


def test_what_dask_compresses_with_a_codec_of_its_own_stays_dasks(on):
    parts = protocol.dumps({"x": Serialize([WHOLES, NOISE])}, context=context("zlib"))
    sub, frames = frames_of(parts)
    assert sub["compression"] == (None, None, "zlib", None)
    assert np.array_equal(protocol.loads(parts)["x"][0], WHOLES)
    assert row()["stored"] == sum(memoryview(frame).nbytes for frame in frames) < 0.7 * row()["nbytes"]


def test_without_an_agreement_nothing_is_compressed(on):
    parts = protocol.dumps({"x": Serialize([WHOLES, NOISE])}, context=context(None))
    _, frames = frames_of(parts)
    assert transload.Message(frames[0], frames[2:]).codecs == ()
    assert row()["stored"] == row()["nbytes"] == sum(memoryview(frame).nbytes for frame in frames)


def test_a_large_header_is_compressed_by_dask_as_ever(on):
    """A dict of small values lies in the header, which the format leaves raw."""
    values = {f"key {i}": i % 7 for i in range(20_000)}
    parts = protocol.dumps({"x": Serialize(values)}, context=context("lz4"))
    sub, frames = frames_of(parts)
    assert sub["compression"] == ("lz4",)
    assert protocol.loads(parts)["x"] == values
    assert row()["stored"] == memoryview(frames[0]).nbytes < 0.5 * row()["nbytes"]


def test_frames_cut_for_tls_are_left_alone_piece_by_piece(on, monkeypatch):
    monkeypatch.setattr(_wire, "TLS_FRAME_LIMIT", 100_000)
    there = context("lz4")
    there["recipient"]["address"] = "tls://10.0.0.1:1"
    parts = protocol.dumps({"x": Serialize([WHOLES, NOISE])}, context=there)
    sub, frames = frames_of(parts)
    assert len(frames) > 10 and sub["compression"] == (None, *[False] * (len(frames) - 1))
    back = protocol.loads(parts)["x"]
    assert np.array_equal(back[0], WHOLES) and np.array_equal(back[1], NOISE)


def test_other_bytes_that_dask_compresses_are_not_counted_as_the_values(on):
    protocol.dumps({"x": Serialize([WHOLES])}, context=context("lz4"))
    before = row()
    protocol.dumps({"graph": ToPickle([bytearray(100_000)])}, context=context("lz4"))
    core.maybe_compress(bytes(100_000), compression="lz4")
    assert row() == before


def test_stock_values_are_counted_before_and_after_too(on):
    class Owner:
        status = "running"

    _process.measure(owner := Owner(), True)
    try:
        peer = context("lz4")
        del peer["recipient"][_wire.KEY]  # a stock peer
        protocol.dumps({"x": Serialize(WHOLES)}, context=peer)
        counts = row(family="dask")
        assert counts["nbytes"] == WHOLES.nbytes and counts["stored"] < 0.7 * WHOLES.nbytes
    finally:
        _process.measure(owner, False)


# ── Real clusters ────────────────────────────────────────────────────────────────────────────────────────────

# Dask compresses between hosts only, and takes two addresses of the loopback net for two hosts.
HOSTS = {"a": "127.0.0.2", "b": "127.0.0.3"}


def totals(client, road):
    rows = [row for (on, _), row in transload.dask.report(client).rows().items() if on == road]
    return sum(row["nbytes"] for row in rows), sum(row["stored"] for row in rows)


@pytest.mark.parametrize("setting", ["auto", "lz4", "zstd", "false"])
def test_the_clusters_setting_is_honoured_between_hosts(make_cluster, setting):
    if setting == "zstd":
        pytest.importorskip("zstandard")  # without it Dask refuses the setting
    with (
        dask.config.set({"distributed.comm.compression": False if setting == "false" else setting}),
        make_cluster("with", DASK_DISTRIBUTED__COMM__COMPRESSION=setting) as cluster,
    ):
        for name, host in HOSTS.items():
            cluster.worker(name, "with", host=host)
        with cluster.client() as client:
            transload.dask.enable(client)
            try:
                transload.dask.report(client, reset=True)
                a, b = (cluster.addresses(client)[name] for name in "ab")
                there = client.submit(lambda: np.arange(500_000) % 1000, workers=a, pure=False)
                assert client.submit(lambda x: int(x.sum()), there, workers=b, pure=False).result() == 249_750_000
                assert np.array_equal(there.result(), np.arange(500_000) % 1000)
                assert client.gather(client.scatter(b"text " * 100_000, workers=[b], direct=True), direct=True) == b"text " * 100_000
                report = transload.dask.report(client)
                for road in ("worker to worker", "gather", "scatter"):
                    before, after = totals(client, road)
                    assert before > 400_000
                    assert after == before if setting == "false" else after < 0.6 * before, (road, report)
                assert (report.wire[1] < 6_000_000) is (setting != "false")
                assert ("compressed" in str(report).splitlines()[0]) and (f"{after:,}" in str(report))
            finally:
                transload.dask.disable(client)


def test_on_one_host_nothing_is_compressed(make_cluster):
    with make_cluster("with", {"a": "with"}, DASK_DISTRIBUTED__COMM__COMPRESSION="lz4") as cluster, cluster.client() as client:
        transload.dask.enable(client)
        transload.dask.report(client, reset=True)
        assert len(client.submit(lambda: np.zeros(500_000)).result()) == 500_000
        before, after = totals(client, "gather")
        assert before == after > 4_000_000
        transload.dask.disable(client)


@pytest.mark.parametrize("setting", ["lz4", "zlib", "false"])
def test_spilled_values_are_compressed_as_dasks_setting_says(make_cluster, setting):
    with make_cluster("with", {"a": "with"}, DASK_DISTRIBUTED__WORKER__MEMORY__SPILL_COMPRESSION=setting) as cluster, cluster.client() as client:
        transload.dask.enable(client)
        transload.dask.report(client, reset=True)
        future = client.submit(lambda: [np.zeros(500_000), np.random.default_rng(0).random(100_000)])
        future.result()
        transload.dask.report(client, reset=True)

        def spill(dask_worker):
            while dask_worker.data.fast:
                assert dask_worker.data.evict() != -1
            return dask_worker.data.spilled_total.disk

        (on_disk,) = client.run(spill).values()
        counts = transload.dask.report(client).rows()["spill", "transload:host"]
        assert counts["nbytes"] > 4_800_000
        assert 0 <= on_disk - counts["stored"] < 1000, "what is counted is what lies on the disk"
        assert (counts["stored"] < 1_000_000) is (setting != "false")
        assert client.submit(lambda x: float(x[0].sum()) + len(x[1]), future).result() == 100_000
        transload.dask.disable(client)


def test_a_gpus_frames_are_not_compressed(on):
    """Dask's own looks at every frame as host memory, unless the header says that it is not to. UCX names no connection."""
    owner = ctypes.create_string_buffer(300_000)
    memory = _core.DeviceMemory(ctypes.addressof(owner), 300_000, _core.HOST_TWIN, owner)
    parts = core.dumps({"x": Serialize([memory, WHOLES])}, serializers=["cuda", "dask", "pickle", "error", _wire.MARKER])
    header, frames = frames_of(parts)
    on_device = [frame for frame in frames if isinstance(frame, _core.DeviceMemory)]
    assert len(on_device) == 1 and on_device[0].pointer == memory.pointer
    assert len([name for name in header["compression"] if name]) == 1  # of the array in host memory
    got, whole = core.loads(parts, deserializers=[_wire.MARKER])["x"]
    assert got.pointer == memory.pointer and np.array_equal(whole, WHOLES)
