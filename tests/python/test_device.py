"""Memory of GPUs in messages, on its host twin: what no GPU is needed for. tests/gpu has the rest, with the libraries."""

import copy
import ctypes
import gc
import pickle
import sys
import threading
import weakref

import msgpack
import numpy as np
import pytest

import transload
from transload import _core
from transload.adapters import _device
from transload.adapters import torch as torch_adapter
from transload.adapters.cupy import _decode_array, _decode_sparse

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
    return _device.parts_of(twin, twin.array.dtype, twin.__cuda_array_interface__, _core.HOST_TWIN, lambda t: Twin(t.array.copy()))


def decode_twin(value):
    return Twin(_decode_array(value))


transload.register(Twin, name="test.twin", encode=encode_twin, decode=decode_twin)


def memory(content, readonly=False):
    owner = ctypes.create_string_buffer(bytes(content), len(content))
    return _core.DeviceMemory(ctypes.addressof(owner), len(content), _core.HOST_TWIN, owner, readonly=readonly)


def content(n, seed=0):
    return np.random.default_rng(seed + n).integers(0, 256, n, np.uint8).tobytes()


SIZES = [1, 5, 4096, 65_536, 65_537, 300_000, 3_000_000]


def test_larger_pieces_are_gathered_where_a_frame_costs_more_than_a_copy():
    sent = [memory(content(1_600_000, i)) for i in range(40)] + [memory(content(100, 7)), memory(content(5_000_000))]
    header, frames, _ = _core.encode(sent, ("cuda", "host"), device_pack=4 << 20)
    assert len(frames) == 5 and max(frame.nbytes for frame in frames) <= 16 << 20  # four packs, and what is larger than a piece
    got = transload.loads([header, *frames], device="host")
    assert [bytes(m.host_view()) for m in got] == [bytes(m.host_view()) for m in sent]
    few = [memory(content(800_000)), memory(content(900_000))]
    assert [frame.pointer for frame in _core.encode(few, ("cuda", "host"), device_pack=4 << 20)[1]] == [one.pointer for one in few]  # not worth a copy
    assert len(_core.encode(sent, ("cuda", "host"))[1]) == 42
    assert len(_core.encode(sent, ("host",), device_pack=4 << 20)[1]) == 42  # what comes to host memory goes as ever
    assert len(_core.encode(b"x" * 100_000, ("cuda", "host"), device_pack=4 << 20)[0]) < 60


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
        lambda a: (a * 1e9).astype("M8[ns]")[::2],
    ],
    ids=["C", "F", "strided", "negative", "both", "broadcast", "empty", "0-d", "structured", "bool", "complex", "sparse view", "dates"],
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


# ── headers by hand ──────────────────────────────────────────────────────────────────────────────────────────

TUPLE, DEVICE = 3, 30
A, B, C = b"a" * 100, b"b" * 100, b"c" * 50


def by_hand(kinds, sizes, root, frames, limits=(0, 100), names=()):
    return [msgpack.packb([1, {"!kinds": kinds}, list(names), [], list(limits), sizes, root]), *frames]


def node(payload, readonly=False):
    return [DEVICE, payload, readonly]


def test_split_memory_is_joined():
    got = transload.loads(by_hand([2, 2], [250, [0, 90, 20]], [TUPLE, node(0), node(1)], [A, B, C]), device="host")
    assert bytes(got[0].host_view()) == A + B + C and bytes(got[1].host_view()) == b"a" * 10 + b"b" * 10
    assert got[1].pointer == got[0].pointer + 90


PLACES = pytest.mark.parametrize("on_device", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)], ids=str)


@PLACES
@pytest.mark.parametrize("device", ["host", None])
def test_split_memory_of_which_some_lies_on_a_device_is_joined(on_device, device):
    frames = [memory(part) if i in on_device else part for i, part in enumerate((A, B, C))]
    got = transload.loads(by_hand([2, 2], [250, [0, 90, 120]], [TUPLE, node(1), node(0), node(0)], frames), device=device)
    assert bytes(got[0].host_view()) == (A + B + C)[90:210] and bytes(got[1].host_view()) == A + B + C == bytes(got[2].host_view())
    assert got[0].pointer == got[1].pointer + 90 == got[2].pointer + 90
    assert all(bytes(frames[i].host_view()) == (A, B, C)[i] for i in on_device)


@pytest.mark.parametrize("device", ["host", None])
def test_split_memory_beside_other_frames_is_joined(device):
    frames = [memory(A), memory(B), B, memory(A), memory(C)]
    header = by_hand([2, 2, 2, 2], [100, 200, [1, 50, 100], 150], [TUPLE, *map(node, range(4))], frames)
    got = transload.loads(header, device=device)
    assert [bytes(m.host_view()) for m in got] == [A, B + B, B, A + C]
    assert got[0].pointer == frames[0].pointer and got[2].pointer == got[1].pointer + 50


def test_split_memory_that_lies_in_one_piece_is_not_copied():
    whole, alive = owned(250)
    pieces = [whole.window(0, 100), whole.window(100, 100), whole.window(200, 50)]
    header, *_ = by_hand([2], [250], node(0), [])
    got = transload.loads([header, *pieces])
    assert got.pointer == whole.pointer and got.nbytes == 250 and not got.readonly
    del whole, pieces
    gc.collect()
    assert alive() is not None and bytes(got.host_view()) == content(250)
    del got
    gc.collect()
    assert alive() is None


def test_split_memory_of_several_devices_is_refused_in_words():
    frames = [memory(A), _core.DeviceMemory(1 << 40, 100, 99, None), C]
    with pytest.raises(transload.Unsupported, match="frame 1: memory of device 99, and other frames of the same payload are on device -1"):
        transload.loads(by_hand([2], [250], node(0), frames))


HEADERS = {
    "a kind that is none": ([1], [100], node(0), [A], "!kinds: 1 is no kind"),
    "a kind above": ([3], [100], node(0), [A], "!kinds"),
    "too few kinds": ([2], [100, 100], node(0), [A, B], "!kinds: 1 entries, 2"),
    "too many kinds": ([2, 2], [100], node(0), [A], "!kinds: 2 entries, 1"),
    "a window of the other kind": ([2, 0], [100, [0, 0, 5]], node(0), [A], "another kind"),
    "a window past the end": ([2, 2], [100, [0, 50, 51]], node(1), [A], "bytes 50 . 51 of payload 0"),
    "a window of itself": ([2], [[0, 0, 0]], node(0), [], "no bytes of its own"),
    "host memory as a GPU's": ([0], [100], node(0), [A], "payload 0 is host memory"),
    "a GPU's as host memory": ([2], [100], [16, 0], [A], "payload 0 is a GPU's memory"),
    "a payload that is none": ([2], [100], node(1), [A], "payload 1 of 1"),
    "a payload below 0": ([2], [100], node(-1), [A], "DEVICE payload"),
    "a payload in words": ([2], [100], node("0"), [A], "DEVICE payload"),
    "readonly is a number": ([2], [100], node(0, 1), [A], "DEVICE readonly"),
    "a field too few": ([2], [100], [DEVICE, 0], [A], "DEVICE: 1 fields"),
    "a field too many": ([2], [100], [*node(0), 1], [A], "DEVICE: 3 fields"),
    "more bytes than there are": ([2], [1 << 62], node(0), [A], "sizes.0."),
    "more bytes than a frame has": ([2], [99], node(0), [A], "99"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_that_lie_are_refused_in_words(what):
    kinds, sizes, root, frames, words = HEADERS[what]
    with pytest.raises(transload.Malformed, match=words):
        transload.loads(by_hand(kinds, sizes, root, frames), device="host")


@pytest.mark.parametrize("sizes", [[1 << 24], [1 << 24, 1], [1, 1 << 24, 1], [(1 << 24) - 64, 64, 64], [(1 << 24) + 1, 1], [1 << 23, 1 << 23, 0, 1]], ids=str)
def test_packs_end_at_16_mib(sizes):
    limits = (1 << 25, 1 << 25)
    packs, nbytes = [], 0
    for n in sizes:
        start = -(-nbytes // (64 if n >= 4096 else 1)) * (64 if n >= 4096 else 1) if nbytes else 0
        if nbytes and start + n > 1 << 24:
            packs.append(nbytes)
            start = 0
        nbytes = start + n
    packs.append(nbytes)
    got = transload.loads(by_hand([2] * len(sizes), sizes, [TUPLE, *map(node, range(len(sizes)))], [bytes(n) for n in packs], limits), device="host")
    assert [m.nbytes for m in got] == sizes and all(not any(m.host_view()) for m in got)


# ── frames here and there ────────────────────────────────────────────────────────────────────────────────────


def test_frames_on_a_device_do_not_make_host_memory_of_the_others():
    head, first, second = transload.dumps([memory(content(300_000)), memory(content(300_000, 1))], ("host",))
    there = _core.DeviceMemory(1 << 40, 300_000, 99, None)
    if not transload.device_count():
        for frames in ([there, second], [first, there]):  # the bytes of the one cannot be had, those of the other need no GPU
            with pytest.raises(transload.Unsupported, match="CUDA|GPU|device"):
                transload.loads([head, *frames], device="host")
        twin = memory(bytes(first))
        assert [m.pointer == twin.pointer for m in transload.loads([head, twin, second], device="host")] == [True, False]
        with pytest.raises(transload.Unsupported, match=r"obj\[1\].*no GPU can be used here"):
            transload.loads([head, there, second])


@BOTH
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_memory_that_host_and_device_see_is_sent_as_both(families, order):
    """As CUDA's managed memory."""
    array = np.arange(100_000.0)
    sent = [Twin(array[:60_000]), array[10_000:]]
    got = transload.deserialize(transload.serialize([sent[i] for i in order], families), device="host")
    twin, host = (got[order.index(i)] for i in (0, 1))
    assert np.array_equal(twin.array, array[:60_000]) and np.array_equal(host, array[10_000:])


@pytest.mark.parametrize(("pointer", "nbytes"), [(0, 1), (2**64 - 8, 9)])
def test_memory_that_cannot_be_is_refused(pointer, nbytes):
    with pytest.raises(ValueError, match="bytes"):
        _core.DeviceMemory(pointer, nbytes, _core.HOST_TWIN, None)


def test_a_machine_without_a_gpu_says_so():
    if transload.device_count():
        pytest.skip("a GPU is here")
    with pytest.raises(transload.Unsupported):
        _core.current_device()
    with pytest.raises(transload.Unsupported):
        transload.serialize(_core.DeviceMemory(4096, 1000, 0, None), ("host",))


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, *(lambda m, n=n: pickle.loads(pickle.dumps(m, n)) for n in range(2, 6))],
    ids=["copy", "deepcopy", "2", "3", "4", "5"],
)
def test_messages_with_frames_on_a_device_are_copied_and_pickled(again):
    sent = {"large": memory(content(300_000)), "small": Twin(np.arange(10.0)), "host": np.arange(50_000)}
    message = transload.serialize(sent)
    assert any(isinstance(frame, _core.DeviceMemory) for frame in message.frames)
    got = again(message)
    assert got.nbytes == message.nbytes and got.families == message.families
    back = transload.deserialize(got, device="host")
    assert bytes(back["large"].host_view()) == content(300_000)
    assert np.array_equal(back["small"].array, np.arange(10.0)) and np.array_equal(back["host"], np.arange(50_000))


def test_frames_out_of_band():
    message = transload.serialize(memory(content(300_000)))
    buffers = []
    whole = pickle.dumps(message, 5, buffer_callback=buffers.append)
    assert len(whole) < 1000 and len(buffers) == 1
    got = transload.deserialize(pickle.loads(whole, buffers=buffers), device="host")
    assert bytes(got.host_view()) == content(300_000)


# ── lifetimes ────────────────────────────────────────────────────────────────────────────────────────────────


class Owner:
    def __init__(self, array):
        self.array = array


def owned(n):
    owner = Owner(np.frombuffer(content(n), np.uint8).copy())
    return _core.DeviceMemory(owner.array.ctypes.data, n, _core.HOST_TWIN, owner), weakref.ref(owner)


def test_owners_live_as_long_as_the_frames_that_show_their_memory():
    (sent, alive) = owned(300_000)
    message = transload.serialize([sent.window(0, 200_000), sent.window(100_000, 200_000)], ("cuda",))
    del sent
    (frame,) = message.frames
    got = transload.deserialize(message)
    del message, frame
    assert alive() is not None and bytes(got[1].window(1, 199_999).window(1, 5).host_view()) == content(300_000)[100_002:100_007]
    view = got.pop().window(5, 100).host_view()
    del got
    assert alive() is not None and bytes(view) == content(300_000)[100_005:100_105]
    del view
    assert alive() is None


@pytest.mark.parametrize("families", [("host",), ("cuda",)], ids=str)
@pytest.mark.parametrize("n", [1000, 300_000])
def test_owners_of_what_was_copied_are_let_go_of(families, n):
    sent, alive = owned(n)
    message = transload.serialize([sent, sent.window(5, 10)], families)
    del sent
    assert (alive() is None) == (families == ("host",) or n == 1000)
    got = transload.deserialize(message, device="host")
    del message
    assert bytes(got[1].host_view()) == content(n)[5:15]
    del got
    assert alive() is None


def test_cycles_through_memory_are_collected():
    sent, alive = owned(300_000)
    alive().back = sent
    alive().message = transload.serialize([sent])
    del sent
    assert alive() is not None
    gc.collect()
    assert alive() is None


def test_encoding_and_decoding_leave_no_references():
    owner = object()
    array = np.arange(50_000.0)
    before = sys.getrefcount(owner)
    for families in (("host",), ("cuda",)):
        for _ in range(50):
            sent = _core.DeviceMemory(array.ctypes.data, array.nbytes, _core.HOST_TWIN, owner)
            transload.deserialize(transload.serialize([sent, sent.window(8, 80)], families), device="host")
            with pytest.raises(transload.Unsupported):
                transload.serialize([sent, lambda: 0], (*families, "host"))
    del sent
    gc.collect()
    assert sys.getrefcount(owner) == before


def test_threads_encode_and_decode_the_same_memory():
    sent = [memory(content(n, 5)) for n in SIZES] + [memory(content(80_000, i)) for i in range(50)]
    expected = [bytes(m.host_view()) for m in sent]
    failures = []

    def work(families):
        try:
            for _ in range(5):
                message = transload.serialize(sent, families)
                got = transload.deserialize(message, device="host")
                assert [bytes(m.host_view()) for m in got] == expected
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(families,)) for families in (("host",), ("cuda",)) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and not any(thread.is_alive() for thread in threads)


# ── adapters ─────────────────────────────────────────────────────────────────────────────────────────────────


class Sparse:
    """Stands for a matrix of cupyx: its parts as they are sent."""

    def __init__(self, *parts):
        self.parts = parts


transload.register(Sparse, name="test.sparse", encode=lambda s: s.parts, decode=lambda value: _decode_sparse(value))


class Tensor(Sparse):
    pass


transload.register(Tensor, name="test.tensor", encode=lambda t: t.parts, decode=lambda value: torch_adapter._decode(value))


@BOTH
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia"])
@pytest.mark.parametrize("shape", [(50, 70), (1, 1), (0, 5), (7, 0)], ids=str)
def test_sparse_matrices_come_as_scipys(families, form, shape):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    matrix = scipy_sparse.random(*shape, density=0.2 if min(shape) else 0, random_state=1, format=form)
    names = {"coo": ("data", "row", "col"), "dia": ("data", "offsets")}.get(form, ("data", "indices", "indptr"))
    sent = Sparse(f"{form}_matrix", shape, tuple(Twin(getattr(matrix, name)) for name in names), {"_has_canonical_format": True})
    parts = transload.deserialize(transload.serialize(sent.parts, families), device="host")
    got = _decode_sparse((*parts[:2], tuple(twin.array for twin in parts[2]), parts[3]))
    assert type(got) is type(matrix) and got.shape == shape and got.dtype == matrix.dtype
    assert np.array_equal(got.toarray(), matrix.toarray())


def indices(*values, dtype="i4"):
    return np.array(values, dtype)


TWO = np.array([1.0, 2.0])
SPARSE = {
    "index too large": ("csr_matrix", (2, 3), (TWO, indices(0, 3), indices(0, 1, 2)), {}),
    "index below 0": ("csr_matrix", (2, 3), (TWO, indices(0, -1), indices(0, 1, 2)), {}),
    "index behind a mask": ("csr_matrix", (2, 3), (TWO, np.ma.MaskedArray(indices(0, 10**6), mask=[0, 1]), indices(0, 1, 2)), {}),
    "indices of a byte": ("csr_matrix", (2, 3), (TWO, indices(0, 2, dtype="i1"), indices(0, 1, 2, dtype="i1")), {}),
    "indices of the other order": ("csr_matrix", (2, 3), (TWO, indices(0, 2, dtype=">i4"), indices(0, 1, 2, dtype=">i4")), {}),
    "indices of two kinds": ("csr_matrix", (2, 3), (TWO, indices(0, 2), indices(0, 1, 2, dtype="i8")), {}),
    "indices without end": ("coo_matrix", (2, 3), tuple(np.broadcast_to(a, 1 << 50) for a in (TWO[:1], indices(0), indices(0))), {}),
    "columns first": ("dia_matrix", (3, 3), (np.ones((2, 3), order="F"), indices(0, 1)), {}),
    "pointers decrease": ("csr_matrix", (2, 3), (TWO, indices(0, 2), indices(0, 3, 2)), {}),
    "pointers begin late": ("csc_matrix", (3, 2), (TWO, indices(0, 2), indices(1, 1, 2)), {}),
    "pointers end late": ("csc_matrix", (3, 2), (TWO, indices(0, 2), indices(0, 1, 3)), {}),
    "no pointers": ("csr_matrix", (0, 0), (TWO[:0], indices(), indices()), {}),
    "a diagonal far away": ("dia_matrix", (3, 3), (np.ones((1, 3)), indices(2**31 - 1)), {}),
    "a diagonal that has no opposite": ("dia_matrix", (3, 3), (np.ones((1, 3)), indices(-(2**31))), {}),
    "objects": ("csr_matrix", (2, 3), (TWO.astype(object), indices(0, 2), indices(0, 1, 2)), {}),
    "no arrays": ("csr_matrix", (2, 3), (1, 2, 3), {}),
    "memory": ("csr_matrix", (2, 3), (memory(bytes(8)),) * 3, {}),
    "two places": ("csr_matrix", (2, 3), (TWO, memory(bytes(8)), indices(0, 1, 2)), {}),
    "flags": ("csr_matrix", (2, 3), (TWO, indices(0, 2), indices(0, 1, 2)), {"_descr": True}),
    "no flags": ("csr_matrix", (2, 3), (TWO, indices(0, 2), indices(0, 1, 2)), None),
    "a class": ("lil_matrix", (2, 3), (TWO, indices(0, 2), indices(0, 1, 2)), {}),
    "a shape": ("csr_matrix", (2, -3), (TWO, indices(0, 2), indices(0, 1, 2)), {}),
}


@pytest.mark.parametrize("how", SPARSE)
def test_sparse_matrices_that_lie_are_refused(how):
    pytest.importorskip("scipy")
    with pytest.raises(transload.Malformed):
        transload.loads(transload.dumps(Sparse(*SPARSE[how]), ("host",)), device="host")


def test_sparse_matrices_from_few_bytes_do_not_take_more_memory_than_they_may():
    pytest.importorskip("scipy")
    n = 100_000
    zeros = np.zeros(n, "i8")
    parts = np.zeros(n), zeros, zeros
    with pytest.raises(transload.Malformed, match="copy what they are made of"):
        transload.loads(transload.dumps([Sparse("coo_matrix", (1, 1), parts, {}) for _ in range(100)], ("host",)), device="host")


@BOTH
def test_tensors_come_as_arrays(families):
    array = np.arange(24.0, dtype="f4").reshape(4, 6)
    sent = Tensor(memory(array.tobytes()), "float32", (6, 4), (1, 6), True)
    assert np.array_equal(transload.deserialize(transload.serialize(sent, families), device="host"), array.T)


TENSORS = {
    "shape": ("float64", (11,), (1,), False),
    "strides": ("float64", (3, 3), (5, 1), False),
    "negative": ("float64", (3,), (-1,), False),
    "overflow": ("float64", (1 << 59, 1 << 59), (1 << 59, 1), False),
    "lengths": ("float64", (2, 2), (1,), False),
    "dtype": ("object", (1,), (1,), False),
    "dtype is an array": (np.array(["float64", "x"]), (1,), (1,), False),
    "gradient": ("float64", (1,), (1,), 1),
    "bool": ("float64", (True,), (1,), False),
}


@pytest.mark.parametrize("how", TENSORS)
def test_tensors_that_lie_are_refused(how):
    with pytest.raises(transload.Malformed, match="tensor"):
        transload.loads(transload.dumps(Tensor(memory(content(80)), *TENSORS[how]), ("host",)), device="host")


@BOTH
def test_what_numpy_has_not_is_unsupported_in_host_memory(families):
    message = transload.serialize({"x": [Tensor(memory(content(80)), "bfloat16", (40,), (1,), False)]}, families)
    with pytest.raises(transload.Unsupported, match=r"^obj\['x'\]\[0\]: adapter test.tensor: NumPy has no bfloat16"):
        transload.deserialize(message, device="host")


class Fails:
    """Its adapter raises what it is given."""

    def __init__(self, how):
        self.how = how


FAILURES = {
    "missing": (ModuleNotFoundError("No module named 'cupy'"), transload.Unsupported, "ModuleNotFoundError: No module named 'cupy'"),
    "not implemented": (NotImplementedError("not on this one"), transload.Unsupported, "NotImplementedError: not on this one"),
    "unsupported": (transload.Unsupported("no such dtype"), transload.Unsupported, "no such dtype"),
    "exhausted": (transload.Exhausted("no room"), transload.Exhausted, "^no room"),
    "value": (ValueError("a shape"), transload.Malformed, "ValueError: a shape"),
    "other": (RuntimeError("something"), transload.Malformed, "RuntimeError: something"),
}


def fail(how):
    raise FAILURES[how][0]


transload.register(Fails, name="test.fails", encode=lambda fails: fails.how, decode=fail)


@pytest.mark.parametrize("how", FAILURES)
def test_what_an_adapter_cannot_do_here_is_unsupported_and_what_it_refuses_malformed(how):
    error, kind, words = FAILURES[how]
    with pytest.raises(kind, match=words) as caught:
        transload.loads(transload.dumps({"a": [Fails(how)]}, ("host",)))
    assert type(caught.value) is kind
    if kind is not transload.Exhausted:
        assert "obj['a'][0]" in str(caught.value) and "adapter test.fails" in str(caught.value) and caught.value.__cause__ is error


@pytest.mark.parametrize("adapter", ["cupy", "numba", "rmm", "torch"])
def test_libraries_that_the_receiver_lacks_are_named(adapter, monkeypatch):
    import importlib

    for name in [adapter, *(name for name in sys.modules if name.startswith(f"{adapter}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    module = importlib.import_module(f"transload.adapters.{adapter}")
    there = _core.DeviceMemory(4096, 80, 5, None)
    value = {"rmm": there, "torch": (there, "float64", (10,), (1,), False)}.get(adapter, (there, np.dtype("f8"), (10,)))
    decode = module._decode_array if adapter == "cupy" else module._decode
    with pytest.raises(transload.Unsupported, match=rf"{adapter}.*device=.host."):
        decode(value)


def test_numba_views_that_show_little_of_their_memory_are_made_compact(monkeypatch):
    import types

    from transload.adapters import numba as adapter

    class Array(Twin):
        """As numba's, which copies from a device what is strided, and to one only what is contiguous."""

        def __init__(self, array):
            super().__init__(array)
            self.dtype = array.dtype
            self.gpu_data = types.SimpleNamespace(context=types.SimpleNamespace(device=types.SimpleNamespace(id=_core.HOST_TWIN)))

        def copy_to_host(self):
            return self.array

        def copy_to_device(self, other):
            assert other.array.flags.c_contiguous
            self.array[...] = other.array

    cuda = types.ModuleType("numba.cuda")
    cuda.to_device = lambda array: Array(array.copy())
    numba = types.ModuleType("numba")
    numba.cuda = cuda
    monkeypatch.setitem(sys.modules, "numba", numba)
    monkeypatch.setitem(sys.modules, "numba.cuda", cuda)
    array = np.arange(1_000_000.0).reshape(1000, 1000)[::100, ::100]
    parts = adapter._encode(Array(array))
    assert parts[0].nbytes == array.nbytes
    assert np.array_equal(adapter._decode(parts), array)
