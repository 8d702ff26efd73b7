"""Memory of GPUs in messages, on its host twin: what no GPU is needed for. tests/gpu has the rest, with the libraries."""

import ctypes

import numpy as np
import pytest

import transload
from transload import _core
from transload.adapters import _device
from transload.adapters.cupy import _decode_array

BOTH = pytest.mark.parametrize("families", [("cuda", "host"), ("host",)], ids=["cuda", "host"])


class Twin:
    """An array in host memory that stands in for a GPU's."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        a = self.array
        return {
            "version": 3,
            "typestr": a.dtype.str,
            "shape": a.shape,
            "strides": None if a.flags.c_contiguous else a.strides,
            "data": (a.ctypes.data, not a.flags.writeable),
            "stream": None,
        }


def encode_twin(twin):
    parts = _device.parts_of(twin, twin.__cuda_array_interface__, _core.HOST_TWIN, lambda t: Twin(t.array.copy()))
    return parts[0], twin.array.dtype, *parts[2:]


def decode_twin(value):
    return Twin(_decode_array(value))


transload.register(Twin, name="test.twin", encode=encode_twin, decode=decode_twin)


def memory(content, readonly=False):
    owner = ctypes.create_string_buffer(bytes(content), len(content))
    return _core.DeviceMemory(ctypes.addressof(owner), len(content), _core.HOST_TWIN, owner, readonly=readonly)


def content(n, seed=0):
    return np.random.default_rng(seed + n).integers(0, 256, n, np.uint8).tobytes()


SIZES = [1, 5, 4096, 65_536, 65_537, 300_000, 3_000_000]


@BOTH
@pytest.mark.parametrize("sizes", [[1], [3_000_000], SIZES, [80_000] * 400, [7] * 3000], ids=str)
def test_memory_goes_there_and_back(families, sizes):
    sent = [memory(content(n, i)) for i, n in enumerate(sizes)]
    message = transload.serialize({"gpu": sent, "host": np.arange(100_000.0)}, families)
    on_device = [isinstance(frame, _core.DeviceMemory) for frame in message.frames]
    assert any(on_device) == ("cuda" in families) and message.families == (("host", "cuda") if "cuda" in families else ("host",))
    assert len(message.frames) < 170 + len(sizes) // 50
    got = transload.deserialize(message, device="host")
    assert np.array_equal(got["host"], np.arange(100_000.0))
    assert [bytes(m.host_view()) for m in got["gpu"]] == [bytes(m.host_view()) for m in sent]
    for m in got["gpu"]:
        assert m.nbytes < 4096 or m.pointer % 64 == 0 or "cuda" in families


@BOTH
def test_packs_are_of_bounded_size(families):
    message = transload.serialize([memory(content(60_000, i)) for i in range(1000)], families)
    sizes = [frame.nbytes for frame in message.frames]
    assert max(sizes) <= 16 << 20 and len(sizes) == 4
    got = transload.deserialize(message, device="host")
    assert all(bytes(m.host_view()) == content(60_000, i) for i, m in enumerate(got))


def test_the_gaps_of_a_pack_are_zero():
    transload.serialize([memory(b"\xff" * 9000)], ("host",))  # leaves the pool a block that is not zero
    sizes = [1, 4096, 3, 4100, 16]
    (frame,) = transload.serialize([memory(b"\xff" * n) for n in sizes], ("host",)).frames
    expected = bytearray(frame.nbytes)
    at = 0
    for n in sizes:
        align = 64 if n >= 4096 else min(n & -n, 16)
        at = (at + align - 1) // align * align
        expected[at : at + n] = b"\xff" * n
        at += n
    assert bytes(frame) == bytes(expected) and at == frame.nbytes


@BOTH
def test_memory_that_is_shared_is_sent_once_and_shared_on_arrival(families):
    whole = memory(content(200_000))
    sent = [whole, whole.window(100_000, 50_000), whole, whole.window(0, 10)]
    message = transload.serialize(sent, families)
    assert message.nbytes < 201_000
    got = transload.deserialize(message, device="host")
    assert got[0] is got[2]
    assert got[1].pointer == got[0].pointer + 100_000 and got[3].pointer == got[0].pointer
    overlapping = [whole.window(0, 120_000), whole.window(100_000, 100_000)]
    got = transload.deserialize(transload.serialize(overlapping, families), device="host")
    assert got[1].pointer == got[0].pointer + 100_000 and bytes(got[1].host_view()) == content(200_000)[100_000:]


@BOTH
def test_readonly_and_empty(families):
    got = transload.deserialize(transload.serialize([memory(content(9), readonly=True), memory(b"")], families), device="host")
    assert got[0].readonly and got[0].host_view().readonly and got[1].nbytes == 0 and bytes(got[1].host_view()) == b""


def test_large_memory_of_family_cuda_is_borrowed_and_kept():
    sent = memory(content(1_000_000))
    message = transload.serialize(sent, ("cuda",))
    (frame,) = message.frames
    assert frame.pointer == sent.pointer
    del sent
    assert bytes(transload.deserialize(message).host_view()) == content(1_000_000)


def test_bytes_in_host_memory_need_a_gpu_or_the_word():
    message = transload.serialize({"a": [memory(content(9))]}, ("host",))
    if transload.device_count():
        pytest.skip("a GPU is here")
    with pytest.raises(transload.Unsupported, match=r"\['a'\]\[0\].*no GPU can be used here.*device=\"host\""):
        transload.deserialize(message)
    with pytest.raises(ValueError, match="neither a number"):
        transload.deserialize(message, device="gpu")


@BOTH
@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        lambda a: np.asfortranarray(a),
        lambda a: a[::2, 1:],
        lambda a: a[::-1],
        lambda a: a[:, ::-3],
        lambda a: np.broadcast_to(a[:1], (4, 80)),
        lambda a: a[:0],
        lambda a: a[3, 4],
        lambda a: a.astype([("x", "<i4"), ("y", "<f8", (2,))]),
        lambda a: a > 0.5,
        lambda a: a.astype("c16"),
        lambda a: a[::40, ::40],
    ],
    ids=["C", "F", "strided", "negative", "both", "broadcast", "empty", "0-d", "structured", "bool", "complex", "sparse view"],
)
def test_arrays_of_every_layout(families, make):
    array = np.asarray(make(np.random.default_rng(1).random((60, 80))))
    got = transload.deserialize(transload.serialize([Twin(array)], families), device="host")[0].array
    assert got.dtype == array.dtype and got.shape == array.shape
    assert got.tobytes() == array.tobytes()
    assert got.flags.f_contiguous == array.flags.f_contiguous or array.base is not None


def test_forwarded_saved_and_looked_at(tmp_path):
    transload.save(tmp_path / "x", [Twin(np.arange(50_000.0)), "rest"])
    got = transload.load(tmp_path / "x", device="host")
    assert np.array_equal(got[0].array, np.arange(50_000.0)) and got[1] == "rest"
    explained = transload.explain([Twin(np.arange(50_000.0))], ("host",))
    assert "device memory" in str(explained) and "family cuda is not among the families" in str(explained)


@BOTH
@pytest.mark.parametrize("options", [{"checksum": True}, {"compression": "lz4"}])
def test_checksums_and_compression_bring_the_bytes_to_host_memory(families, options):
    message = transload.serialize(Twin(np.zeros(50_000)), families, **options)
    assert not any(isinstance(frame, _core.DeviceMemory) for frame in message.frames)
    assert (transload.deserialize(message, device="host").array == 0).all()


LIES = {
    "shape": lambda m: (m, np.dtype("f8"), (11,)),
    "strides": lambda m: (m, np.dtype("f8"), (3, 3), (40, 8), 0),
    "offset": lambda m: (m, np.dtype("f8"), (10,), (8,), 1),
    "negative": lambda m: (m, np.dtype("f8"), (10,), (-8,), 0),
    "dtype": lambda m: (m, np.dtype("O"), (1,)),
    "memory": lambda m: (b"x" * 80, np.dtype("f8"), (10,)),
    "overflow": lambda m: (m, np.dtype("f8"), (1 << 61, 1 << 61)),
    "parts": lambda m: (m, np.dtype("f8")),
}


class Liar:
    def __init__(self, how):
        self.how = how


transload.register(Liar, name="test.liar", encode=lambda liar: LIES[liar.how](memory(content(80))), decode=decode_twin)


@pytest.mark.parametrize("how", LIES)
def test_arrays_outside_of_their_memory_are_refused(how):
    with pytest.raises(transload.Malformed):
        transload.loads(transload.dumps(Liar(how), ("host", "error")), device="host")


def test_frames_of_the_wrong_kind_are_refused():
    head, frame = transload.dumps(memory(content(100_000)), ("host",))
    with pytest.raises(transload.Malformed, match="no buffer of host memory"):
        transload.loads([*transload.dumps(np.zeros(50_000))[:1], memory(content(400_000))])
    with pytest.raises(transload.Malformed, match="99999 bytes came"):
        transload.loads([head, frame[1:]], device="host")
    with pytest.raises(transload.Malformed, match="99999 bytes came"):
        transload.loads([head, memory(content(99_999))], device="host")
    assert bytes(transload.loads([head, memory(content(100_000))]).host_view()) == content(100_000)  # it may come as it was


def test_every_change_of_the_header_is_noticed_or_harmless():
    head, *frames = transload.dumps([Twin(np.arange(20_000.0)), Twin(np.arange(10.0)[::2]), np.arange(5)], ("host",))
    rng = np.random.default_rng(3)
    for _ in range(3000):
        changed = bytearray(head)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(changed))] = rng.integers(256)
        try:
            transload.loads([bytes(changed), *frames], device="host")
        except transload.Error:
            pass
