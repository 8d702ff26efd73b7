"""Arrays of registered classes on a GPU: what libraries export, and what they make of ours."""

import gc

import numpy as np
import pytest

import transload
from transload import _core
from transload._gpu import memory_of

BOTH = pytest.mark.parametrize("families", [("cuda", "host"), ("host",)], ids=["cuda", "host"])

BFLOAT16 = 4, 16, 1


class Held:
    """An array of some library, held by a class that has no adapter of its own."""

    def __init__(self, array):
        self.array = array


class ByDlpack(Held):
    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class ByInterface(Held):
    @property
    def __cuda_array_interface__(self):
        return self.array.__cuda_array_interface__


class Bfloat16(ByDlpack):
    """bfloat16 over CuPy's unsigned integers."""

    def __dlpack__(self, *, stream=None, **kwargs):
        a = self.array
        return _core.dlpack_capsule(
            a, a.data.ptr, (2, a.device.id), BFLOAT16, a.shape, tuple(n // 2 for n in a.strides), False, True
        )


@pytest.fixture(params=[ByDlpack, ByInterface], ids=["dlpack", "interface"])
def kind(request, cp):
    cls = request.param
    make = cp.from_dlpack if cls is ByDlpack else cp.asarray
    transload.register_array(cls, name=f"test.{cls.__name__}", decode=lambda exported: cls(make(exported)))
    return cls


def trip(obj, families, **kwargs):
    message = transload.serialize([obj], families)
    for frame in message.frames:
        assert "cuda" in families or not isinstance(frame, _core.DeviceMemory)
    return transload.deserialize(message, **kwargs)[0]


LAYOUTS = {
    "C": lambda a, cp: a,
    "F": lambda a, cp: cp.asfortranarray(a),
    "strided": lambda a, cp: a[::2, 1:],
    "transposed": lambda a, cp: a.T,
    "empty": lambda a, cp: a[:0],
    "0-d": lambda a, cp: a[3, 4],
    "large": lambda a, cp: cp.tile(a, (40, 20)),
}


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(cp, kind, families, layout):
    x = LAYOUTS[layout](cp.random.random((60, 80)), cp)
    y = trip(kind(x), families)
    assert type(y) is kind and y.array.dtype == x.dtype and y.array.shape == x.shape and bool((y.array == x).all())
    assert x.size == 0 or y.array.strides == x.strides
    host = trip(kind(x), families, device="host")
    assert type(host) is np.ndarray and np.array_equal(host, x.get())


@BOTH
@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_dtypes(cp, kind, families, dtype):
    x = (cp.random.random(1000) * 3).astype(dtype)
    y = trip(kind(x), families)
    assert y.array.dtype == x.dtype and bool((y.array == x).all())


@BOTH
def test_bfloat16(cp, families):
    transload.register_array(Bfloat16, name="test.bfloat16", decode=lambda exported: exported)
    x = cp.arange(20_000, dtype="u2").reshape(100, 200)
    y = trip(Bfloat16(x), families)
    _, device, form, shape, strides, readonly = _core.dlpack_tensor(y.__dlpack__(stream=1))
    assert (device, form, shape, strides, readonly) == ((2, x.device.id), BFLOAT16, x.shape, (200, 1), False)
    assert y.dtype == "bfloat16" and not hasattr(y, "__cuda_array_interface__")
    assert bytes(y._owner.to_host()) == x.get().tobytes()


@BOTH
def test_torch_takes_what_arrives(cp, families):
    torch = pytest.importorskip("torch")
    transload.register_array(
        ByDlpack, name="test.ByDlpack", decode=lambda exported: ByDlpack(torch.from_dlpack(exported))
    )
    base = torch.arange(12_000, dtype=torch.float32, device="cuda").reshape(100, 120)
    for x in (base, base.t(), base.to(torch.bfloat16), base[::2, 1:]):
        y = trip(ByDlpack(x), families).array
        assert y.is_cuda and y.dtype == x.dtype and y.stride() == x.stride() and torch.equal(x, y)


@BOTH
def test_numba_takes_what_arrives(cp, families):
    cuda = pytest.importorskip("numba.cuda")
    transload.register_array(
        ByInterface, name="test.ByInterface", decode=lambda exported: ByInterface(cuda.as_cuda_array(exported))
    )
    x = cuda.to_device(np.arange(10_000.0).reshape(100, 100))
    y = trip(ByInterface(x), families).array
    assert type(y) is type(x) and np.array_equal(y.copy_to_host(), x.copy_to_host())


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    try:
        jax.devices("cuda")
    except RuntimeError:
        pytest.skip("JAX has no GPU here")
    transload.register_array(
        type(jax.numpy.zeros(0)),
        name="jax.array",
        decode=jax.dlpack.from_dlpack,
        takes=lambda array: not array.weak_type,
    )
    return jax


@BOTH
@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64", "float8_e4m3fn", "float8_e5m2"],
)
def test_jax_arrays(cp, jax, families, dtype):
    x = jax.numpy.asarray(np.random.default_rng(1).random((300, 400)) * 3).astype(dtype).T
    message = transload.serialize({"x": x}, families)
    assert any(isinstance(frame, _core.DeviceMemory) for frame in message.frames) == ("cuda" in families)
    y = transload.deserialize(message)["x"]
    assert type(y) is type(x) and y.devices() == x.devices() and y.dtype == x.dtype and y.shape == x.shape
    assert np.asarray(y).tobytes() == np.asarray(x).tobytes()
    host = transload.deserialize(message, device="host")["x"]  # JAX comes with ml_dtypes
    assert type(host) is np.ndarray and host.dtype == x.dtype and host.tobytes() == np.asarray(x).tobytes()


def test_jax_arrays_that_are_still_computed_are_waited_for(cp, jax):
    x = jax.jit(lambda a: a @ a @ a @ a)(jax.numpy.full((4000, 4000), 1 / 4000, "float32"))
    assert bool((trip(x, ("host",)) == x).all())


SLOW = r"""
extern "C" __global__ void slow(double* x, int n, long long cycles) {
  long long const begin = clock64();
  while (clock64() - begin < cycles) {}
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 42;
}
"""


@BOTH
def test_a_kernel_that_still_runs_is_waited_for(cp, kind, families):
    kernel = cp.RawKernel(SLOW, "slow")
    x = cp.zeros(100_000)
    cp.cuda.Device().synchronize()
    writes, reads = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with writes:
        kernel((1,), (256,), (x, 100_000, 500_000_000))  # a quarter of a second
        message = transload.serialize([kind(x)], families)
    with reads:
        assert bool((transload.deserialize(message)[0].array == 42).all())


def test_a_frame_that_is_still_written_is_waited_for(cp, kind):
    kernel = cp.RawKernel(SLOW, "slow")
    header, _ = transload.dumps(kind(cp.zeros(100_000)), ("cuda",))
    frame = cp.zeros(800_000, "u1")
    cp.cuda.Device().synchronize()
    writes, reads = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with writes:
        kernel((1,), (256,), (frame, 100_000, 500_000_000))
        memory = memory_of(frame)  # names this stream
    with reads:
        assert bool((transload.loads([header, memory]).array == 42).all())


def test_memory_goes_back_when_the_last_array_goes(cp, kind):
    pool = cp.get_default_memory_pool()
    gc.collect()
    before = pool.used_bytes()
    x = cp.arange(100_000.0)
    message = transload.serialize([kind(x)], ("cuda",))
    got = transload.deserialize(message)
    del x, message
    assert pool.used_bytes() > before and float(got[0].array[-1]) == 99_999
    del got
    gc.collect()
    assert pool.used_bytes() == before
