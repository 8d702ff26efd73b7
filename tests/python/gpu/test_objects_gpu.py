"""Objects of GPU libraries in messages: equal after the trip, in the family named."""

import subprocess
import sys

import numpy as np
import pytest

import transload
from transload import _core

BOTH = pytest.mark.parametrize("families", [("cuda", "host"), ("host",)], ids=["cuda", "host"])


def trip(obj, families, **kwargs):
    message = transload.serialize(obj, families)
    assert set(message.families) <= {"host", "cuda"}
    for frame in message.frames:
        assert "cuda" in families or not isinstance(frame, _core.DeviceMemory)
    return transload.deserialize(message, **kwargs)


def layouts(cp):
    base = cp.random.random((60, 80))
    return {
        "C": base,
        "F": cp.asfortranarray(base),
        "strided": base[::2, 1:],
        "negative": base[::-1],
        "both": base[:, ::-3],
        "broadcast": cp.broadcast_to(base[:1], (4, 80)),
        "empty": cp.zeros((0, 3)),
        "0-d": cp.asarray(3.0),
        "transposed": cp.random.random((3, 4, 5)).transpose(1, 2, 0),
        "sparse view": cp.random.random((4000, 4000))[::100, ::100],
        "large": cp.random.random(3_000_000),
        **{f"dtype {t}": (base * 100).astype(t) for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")},
    }


NAMES = [
    "C", "F", "strided", "negative", "both", "broadcast", "empty", "0-d", "transposed", "sparse view", "large",
    *[f"dtype {t}" for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")],
]  # fmt: skip


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_cupy_arrays(cp, families, name):
    x = layouts(cp)[name]
    y = trip({"x": [x]}, families)["x"][0]
    assert type(y) is cp.ndarray and y.dtype == x.dtype and y.shape == x.shape
    assert bool((y == x).all())
    if name in ("C", "F", "large"):
        assert y.flags.c_contiguous == x.flags.c_contiguous and y.flags.f_contiguous == x.flags.f_contiguous
    assert np.array_equal(trip(x, ("host",), device="host"), x.get())


@BOTH
def test_structured(cp, families):
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    x = cp.arange(12_000, dtype="u1").view(dtype)
    y = trip(x, families)
    assert y.dtype == x.dtype and y.get().tobytes() == x.get().tobytes()


@BOTH
def test_many_arrays_and_one_object(cp, families):
    class Holder:
        pass

    arrays = [cp.full(10_000, i, "f8") for i in range(1000)]
    got = trip({"arrays": arrays, "host": np.arange(5), "first": arrays[0]}, families)
    assert all(int(y[0]) == i == int(y[-1]) and y.shape == (10_000,) for i, y in enumerate(got["arrays"]))
    assert got["first"] is got["arrays"][0]
    holder = Holder()
    holder.x, holder.rest = cp.arange(1 << 20), ["text", (1, 2.5)]
    holder.again = holder.x
    message = transload.serialize(holder, (*families, "pickle"))
    back = transload.deserialize(message, ("cuda", "host", "pickle"))
    assert bool((back.x == holder.x).all()) and back.again is back.x and back.rest == holder.rest


@BOTH
def test_views_share_memory_on_arrival(cp, families):
    base = cp.arange(100_000.0)
    whole, view = trip([base, base[50_000:]], families)
    view[0] = -1
    assert float(whole[50_000]) == -1
    assert transload.serialize([base, base[50_000:]], families).nbytes < base.nbytes + 1000


@BOTH
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia"])
def test_cupyx_sparse(cp, families, form):
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    x = sparse.random(1000, 300, 0.05, format="csr", dtype="f4")
    x = sparse.eye(50, 60, k=3, format="dia") if form == "dia" else x.asformat(form)
    if form in ("csr", "csc"):
        _ = x.has_canonical_format
    y = trip([x], families)[0]
    assert type(y) is type(x) and y.shape == x.shape and y.dtype == x.dtype
    assert abs((x.tocsr() - y.tocsr())).sum() == 0
    if form in ("csr", "csc", "coo"):
        assert y.has_canonical_format == x.has_canonical_format
    assert float((y @ y.T).sum()) == pytest.approx(float((x @ x.T).sum()), rel=1e-4)
    host = trip(x, ("host",), device="host")
    assert type(host).__module__.startswith("scipy.sparse") and abs(host - x.get()).sum() == 0


def test_sparse_indices_outside_of_the_matrix_are_refused(cp):
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    for change in ("indices", "indptr"):
        x = sparse.random(100, 100, 0.1, format="csr", dtype="f4")
        getattr(x, change)[-1] = 1_000_000
        with pytest.raises(transload.Malformed, match=r"index"):
            trip(x, ("host",))


@BOTH
def test_numba_arrays(cp, families):
    cuda = pytest.importorskip("numba.cuda")
    for x in (cuda.to_device(np.arange(10_000.0).reshape(100, 100)), cuda.to_device(np.asfortranarray(np.random.rand(30, 40))), cuda.to_device(np.arange(100))[::2], cuda.to_device(np.arange(100_000))[::100]):
        y = trip([x], families)[0]
        assert type(y) is type(x) and y.dtype == x.dtype and np.array_equal(y.copy_to_host(), x.copy_to_host())


@BOTH
def test_rmm_buffers(cp, families):
    rmm = pytest.importorskip("rmm")
    x = rmm.DeviceBuffer.to_device(np.arange(100_000, dtype="u1").tobytes())
    y = trip([x], families)[0]
    assert type(y) is rmm.DeviceBuffer and y.tobytes() == x.tobytes()
    assert trip(rmm.DeviceBuffer(size=0), families).size == 0


@BOTH
def test_torch_tensors(cp, families):
    torch = pytest.importorskip("torch")
    base = torch.arange(12_000, dtype=torch.float32, device="cuda").reshape(100, 120)
    leaf = torch.ones(50, device="cuda", requires_grad=True)
    sent = [base, base.t(), base[::2, 1:], base.to(torch.bfloat16), leaf, torch.zeros((0, 4), device="cuda"), base.expand(3, 100, 120), base.to(torch.complex64), base > 5]
    got = trip(sent, families)
    for x, y in zip(sent, got, strict=True):
        assert y.is_cuda and y.dtype == x.dtype and y.shape == x.shape and y.stride() == x.stride() and torch.equal(x, y)
    assert got[4].requires_grad and got[4].is_leaf
    got[1][0, 0] = 77
    assert float(got[0][0, 0]) == 77  # one storage
    cpu = transload.deserialize(transload.serialize(torch.ones(3), ("host", "pickle")), ("host", "pickle"))
    assert not cpu.is_cuda and torch.equal(cpu, torch.ones(3))


@BOTH
@pytest.mark.parametrize("kind", ["non-blocking", "null", "per-thread", "blocking"])
def test_a_kernel_that_still_runs_is_waited_for(cp, families, kind):
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void slow(double* x, int n, long long cycles) {
          long long const begin = clock64();
          while (clock64() - begin < cycles) {}
          for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 42;
        }
        """,
        "slow",
    )
    x, small = cp.zeros(100_000), cp.zeros(100)
    cp.cuda.Device().synchronize()
    stream = {
        "non-blocking": lambda: cp.cuda.Stream(non_blocking=True),
        "null": lambda: cp.cuda.Stream.null,
        "per-thread": lambda: cp.cuda.Stream.ptds,
        "blocking": lambda: cp.cuda.Stream(),
    }[kind]()
    with stream:
        kernel((1,), (256,), (x, 100_000, 500_000_000))  # a quarter of a second
        kernel((1,), (256,), (small, 100, 10))
        message = transload.serialize([x, small], families)
        got = transload.deserialize(message)
        assert bool((got[0] == 42).all()) and bool((got[1] == 42).all())
    got = transload.deserialize(message)  # on another stream
    assert bool((got[0] == 42).all())


def test_without_room_on_the_device_nothing_is_lost(cp, monkeypatch):
    monkeypatch.delitem(sys.modules, "rmm", raising=False)  # CuPy's pool has a limit
    x = cp.zeros(50_000_000, "u1")
    message = transload.serialize({"small": cp.arange(10), "x": x}, ("host",))
    pool = cp.get_default_memory_pool()
    del x
    pool.free_all_blocks()
    pool.set_limit(size=20_000_000)
    try:
        used = pool.used_bytes()
        with pytest.raises(transload.Exhausted, match="no room for 50000000 bytes"):
            transload.deserialize(message)
        assert pool.used_bytes() == used
    finally:
        pool.set_limit(size=0)
    assert transload.deserialize(message)["x"].shape == (50_000_000,)


def test_ten_thousand_messages_keep_nothing(cp):
    x, y = cp.arange(300.0), cp.arange(30_000.0)
    pool = cp.get_default_memory_pool()
    for i in range(10_000):
        families = ("cuda", "host") if i % 2 else ("host",)
        got = transload.deserialize(transload.serialize([x, y], families))
        del got
        if i == 1000:
            before = pool.total_bytes(), _core.staging_stats()
    assert (pool.total_bytes(), _core.staging_stats()) == before


@pytest.mark.parametrize("library", ["cupy", "numba", "rmm"])
def test_frames_may_come_as_arrays_of_any_library(cp, library):
    """UCX gives what Dask's allocator made."""
    header, frame = transload.dumps(cp.arange(100_000.0), ("cuda",))
    if library == "cupy":
        frame = cp.asarray(frame)
    elif library == "numba":
        frame = pytest.importorskip("numba.cuda").to_device(cp.asarray(frame).get())
    else:
        frame = pytest.importorskip("rmm").DeviceBuffer.to_device(cp.asarray(frame).get().tobytes())
    assert _core.frames_nbytes([header, frame]) == len(header) + 800_000
    assert bool((transload.loads([header, frame]) == cp.arange(100_000.0)).all())


def test_frames_of_another_process(cp, tmp_path):
    transload.save(tmp_path / "x", {"a": cp.arange(1_000_000), "b": [cp.ones((3, 4))]})
    program = "import sys, transload, cupy; x = transload.load(sys.argv[1]); print(int(x['a'].sum()), x['b'][0].sum())"
    out = subprocess.run([sys.executable, "-c", program, tmp_path / "x"], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["499999500000", "12.0"]


def test_cuda_in_a_forked_child_is_refused(cp):
    import os

    message = transload.serialize(cp.arange(100_000), ("host",))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            transload.deserialize(message)
            text = "no error"
        except Exception as error:
            text = repr(error)
        os.write(write, text.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 10_000).decode().startswith("Unsupported('GPUs cannot be used in a process that was forked")


def test_frames_on_a_device_come_to_host_memory_where_that_is_asked_for(cp):
    sent = {
        "large": cp.arange(1_000_000),
        "small": [cp.full(10, i) for i in range(50)],
        "strided": cp.random.random((600, 800))[::2, 1:],
        "host": np.arange(50_000),
    }
    message = transload.serialize(sent, ("cuda", "host"))
    assert any(isinstance(frame, _core.DeviceMemory) for frame in message.frames)
    got = transload.deserialize(message, device="host")
    assert np.array_equal(got["large"], np.arange(1_000_000)) and np.array_equal(got["host"], sent["host"])
    assert all(type(a) is np.ndarray and a.tolist() == [i] * 10 for i, a in enumerate(got["small"]))
    assert np.array_equal(got["strided"], sent["strided"].get()) and got["strided"].strides == sent["strided"].strides
    got["large"][0] = 7
    again = transload.deserialize(message)
    assert type(again["large"]) is cp.ndarray and int(again["large"][0]) == 0 and bool((again["strided"] == sent["strided"]).all())


def test_frames_that_are_still_written_come_to_host_memory_when_they_are(cp):
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void slow(double* x, int n, long long cycles) {
          long long const begin = clock64();
          while (clock64() - begin < cycles) {}
          for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 42;
        }
        """,
        "slow",
    )
    x = cp.zeros(100_000)
    cp.cuda.Device().synchronize()
    writes = cp.cuda.Stream(non_blocking=True)
    with writes:
        kernel((1,), (256,), (x, 100_000, 500_000_000))  # a quarter of a second
        message = transload.serialize(x, ("cuda",))
    assert (transload.deserialize(message, device="host") == 42).all()


@pytest.mark.parametrize("in_host_memory", [(), (0,), (1,), (2,), (0, 2)], ids=str)
@pytest.mark.parametrize("device", [None, "host"])
def test_split_memory_is_joined_on_its_device(cp, in_host_memory, device):
    msgpack = pytest.importorskip("msgpack")
    parts = [np.random.default_rng(i).integers(0, 256, n, np.uint8) for i, n in enumerate((100_000, 100_000, 50_000))]
    frames = [part.tobytes() if i in in_host_memory else cp.asarray(part) for i, part in enumerate(parts)]
    header = msgpack.packb([1, {"!kinds": [2, 2]}, [], [], [0, 100_000], [250_000, [0, 90_000, 20_000]], [3, [30, 0, False], [30, 1, False]]])
    whole, window = transload.loads([header, *frames], device=device)
    assert whole.device == (_core.HOST_TWIN if device == "host" else cp.cuda.Device().id) and window.pointer == whole.pointer + 90_000
    content = np.concatenate(parts).tobytes()
    assert bytes(whole.to_host()) == content and bytes(window.to_host()) == content[90_000:110_000]


def test_split_memory_in_one_piece_is_not_copied(cp):
    msgpack = pytest.importorskip("msgpack")
    x = cp.arange(250_000, dtype="u1")
    header = msgpack.packb([1, {"!kinds": [2]}, [], [], [0, 100_000], [250_000], [30, 0, False]])
    pointer = x.data.ptr
    got = transload.loads([header, x[:100_000], x[100_000:200_000], x[200_000:]])
    del x
    assert got.pointer == pointer and bytes(got.to_host()) == np.arange(250_000, dtype="u1").tobytes()
