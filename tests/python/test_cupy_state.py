"""CuPy beside its arrays, without a GPU: what must stay in its process, ufuncs, kernels, damaged generators."""

import importlib
import inspect
import pickle
import sys
import threading
import types

import numpy as np
import pytest

import transload
from transload import _tables
from transload.adapters import cupy_state

ALL = ("cuda", "host", "pickle")


@pytest.fixture(scope="module")
def cp():
    return pytest.importorskip("cupy")


def stand_in(name):
    """An instance of a class that goes by CuPy's name."""
    module, _, kind = name.partition(":")
    return type(kind, (), {"__module__": module})()


HANDLES = [
    *cupy_state._names(cupy_state._HANDLES),
    *cupy_state._names(cupy_state._MEMORY),
    "cupy.random._generator:RandomState",
]


@pytest.mark.parametrize("families", [ALL, ("host",)], ids=str)
@pytest.mark.parametrize("name", HANDLES)
def test_what_means_nothing_elsewhere_is_refused_whatever_is_allowed(name, families):
    kind = name.partition(":")[2]
    with pytest.raises(transload.Unsendable, match=rf"^obj\['a'\]\[1\]: CuPy's {kind}[ :]"):
        transload.serialize({"a": [0, stand_in(name)]}, families)


def test_the_refusal_arrives_where_it_is_asked_for():
    message = transload.serialize([stand_in("cupy.cuda.stream:Stream")], (*ALL, "error"))
    assert message.families == ("error",)
    with pytest.raises(transload.Error, match="CuPy's Stream is a handle of this process"):
        transload.deserialize(message)


def forged(name, value):
    """Bytes that say another adapter's name over `value`."""
    cls = type("Forged", (), {})
    _tables.adapters_by_type[cls] = (name, lambda _: value)
    try:
        return transload.dumps(cls(), ("host",))
    finally:
        del _tables.adapters_by_type[cls]


@pytest.mark.parametrize("name", ["cupy.handle", "cupy.memory", "cupy.random_state"])
def test_what_is_never_sent_does_not_arrive(name):
    with pytest.raises(transload.Malformed, match="cannot arrive"):
        transload.loads(forged(name, 4096))


def test_every_class_of_cupy_with_an_address_is_refused(cp):
    """What CuPy's own pickles would send as a number. A class that is new there fails here, and is to be judged."""
    plain = {
        "cupy.cuda.memory:OutOfMemoryError",
        "cupy.cuda.texture:ChannelFormatDescriptor",
        "cupy.cuda.texture:TextureDescriptor",
        "cupy.cuda.function:CUIntMax",
        "cupy.cuda.function:CIntptr",
        "cupy.cuda.function:CNumpyArray",
        "cupy.cuda.cufft:CuFFTError",
        "cupy.cuda.device:Device",
        "cupyx.cusparse:MatDescriptor",  # makes itself anew
    }
    plain |= {f"cupy.cuda.{module}:_ThreadLocal" for module in ("stream", "device")} | {
        "cupy.cuda.device:_ThreadLocalStack"
    }
    found = set()
    for module in {name.partition(":")[0] for name in HANDLES} - {
        "cupy.random._generator",
        "cupy_backends.cuda.libs.nccl",
    }:
        for cls in vars(importlib.import_module(module)).values():
            if inspect.isclass(cls) and cls.__module__ == module:
                found.add(f"{module}:{cls.__qualname__}")
    assert found - set(HANDLES) - plain == set()


def test_cupys_own_pickles_hold_addresses(cp):
    """Why they are refused."""
    memory = cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(4096, 100, None, 0), 8)
    assert pickle.loads(pickle.dumps(memory)).ptr == 4104
    with pytest.raises(transload.Unsendable, match="CuPy's MemoryPointer is an address"):
        transload.serialize([memory], ALL)
    with pytest.raises(transload.Unsendable, match="CuPy's ExternalStream is a handle"):
        transload.serialize([cp.cuda.ExternalStream(4096, 0)], ALL)
    with pytest.raises(transload.Unsendable, match="CuPy's RandomState: cuRAND does not tell"):
        transload.serialize([cp.random.RandomState.__new__(cp.random.RandomState)], ALL)


# ── ufuncs and kernels ───────────────────────────────────────────────────────────────────────────────────────


def test_ufuncs_go_by_name(cp):
    special = pytest.importorskip("cupyx.scipy.special")
    sent = [cp.sqrt, cp.divide, cp.degrees, cp.bitwise_not, special.gammaln, cp.sqrt]
    message = transload.serialize(sent, ("host",))
    got = transload.deserialize(message)
    assert all(a is b for a, b in zip(got, sent, strict=True))


def test_ufuncs_without_a_name_are_refused(cp):
    with pytest.raises(transload.Unsendable, match="the ufunc mine has no name in cupy"):
        transload.serialize(cp._core.create_ufunc("mine", ("d->d",), "out0 = in0"), ALL)


@pytest.mark.parametrize(
    "value",
    [
        5,
        ("cupy",),
        ("cupy", 5),
        ("os", "system"),
        ("cupy", "asarray"),
        ("cupy", "nothing"),
        ("cupyx.scipy.special", "__name__"),
    ],
    ids=str,
)
def test_ufuncs_that_are_none_are_refused(cp, value):
    with pytest.raises(transload.Malformed):
        transload.loads(forged("cupy.ufunc", value))


KERNELS = {
    "elementwise": lambda cp: cp.ElementwiseKernel(
        "T x, raw float32 z", "T y", "y = x * q(z[i])", "mine", preamble="float q(float x);", loop_prep="// none"
    ),
    "reduction": lambda cp: cp.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "mine"),
    "raw": lambda cp: cp.RawKernel('extern "C" __global__ void f() {}', "f", ("-DX=1",)),
    "module": lambda cp: cp.RawModule(code='extern "C" __global__ void f() {}'),
}


@pytest.mark.parametrize("which", KERNELS)
def test_kernels_are_code_which_goes_where_pickle_may(cp, which):
    kernel = KERNELS[which](cp)
    with pytest.raises(transload.Unsupported, match="not on the trust list"):
        transload.serialize(kernel, ("host",))
    got = transload.deserialize(transload.serialize([kernel]), ("host", "pickle"))[0]
    parts = {
        "elementwise": ("operation", "name", "preamble", "kwargs", "params"),
        "reduction": ("map_expr", "reduce_expr", "identity", "in_params"),
    }
    assert type(got) is type(kernel)
    for part in parts.get(which, ("code", "options", "backend")):
        assert getattr(got, part) == getattr(kernel, part)


def test_what_was_compiled_stays_in_its_process(cp):
    kernel = KERNELS["elementwise"](cp)
    compiled = cp.cuda.function.Function.__new__(cp.cuda.function.Function)
    kernel._elementwise_kernel_memo["key"] = compiled
    kernel._cached_codes["key"] = "code"
    got = transload.deserialize(transload.serialize(kernel), ("host", "pickle"))
    assert got._elementwise_kernel_memo == {} == got._cached_codes and got.kwargs == kernel.kwargs
    assert kernel._elementwise_kernel_memo == {"key": compiled}


# ── generators, over a stand-in for CuPy ─────────────────────────────────────────────────────────────────────


class Device:
    entered = ()

    def __init__(self, number=0):
        self.id = number

    def __enter__(self):
        Device.entered = (*Device.entered, self.id)

    def __exit__(self, *_):
        pass


class Array:
    dtype, ndim = np.dtype("i1"), 1

    def __init__(self, content, number=3):
        self.content, self.nbytes, self.device = content, len(content), Device(number)

    def copy(self):
        return Array(bytes(self.content), self.device.id)


class BitGenerator:
    def _type_size(self):
        return 48


@pytest.fixture
def fake(monkeypatch):
    cupy = types.ModuleType("cupy")
    cupy.ndarray = Array
    cupy.cuda = types.SimpleNamespace(Device=Device)
    names = {
        name: type(name, (BitGenerator,), {"__module__": "cupy.random._bit_generator"})
        for name in cupy_state._BIT_GENERATORS
    }

    class Generator:
        def __init__(self, bit_generator):
            self.bit_generator, self._binomial_state = bit_generator, None

    cupy.random = types.SimpleNamespace(BitGenerator=BitGenerator, Generator=Generator, **names)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    Device.entered = ()
    return cupy


def generator(cupy, name="XORWOW", size=10):
    made = getattr(cupy.random, name)()
    vars(made).update(
        lock=threading.Lock(),
        _seed_seq=np.random.SeedSequence(7),
        _current_device_id=3,
        _seed=np.uint32(9),
        _size=size,
        _state=Array(bytearray(range(48)) * size),
    )
    return made


@pytest.mark.parametrize("name", cupy_state._BIT_GENERATORS)
def test_generators_are_their_state(fake, name):
    sent = generator(fake, name)
    parts = cupy_state._encode_bit_generator(sent)
    sent._state.content[0] = 99  # the next numbers
    assert Device.entered == (3,) and parts[:3] == (name, 10, 9) and parts[4].content == bytes(range(48)) * 10
    got = cupy_state._decode_bit_generator(parts)
    assert vars(got).keys() == vars(sent).keys() and type(got) is type(sent)
    assert got._state is not parts[4] and got._state.content == parts[4].content  # of one message two may be made
    assert (
        got._current_device_id == 3
        and type(got._seed) is np.uint32
        and got._seed_seq.entropy == 7
        and not got.lock.locked()
    )


def test_generators_of_numbers_are_their_generators_of_bits(fake):
    sent = fake.random.Generator(generator(fake))
    assert cupy_state._encode_generator(sent) is sent.bit_generator
    assert cupy_state._decode_generator(sent.bit_generator).bit_generator is sent.bit_generator


def test_generators_that_hold_more_than_is_known_are_refused(fake):
    made = generator(fake)
    made.more = 1
    with pytest.raises(transload.Unsendable, match="attributes .*more"):
        cupy_state._encode_bit_generator(made)
    of_numbers = fake.random.Generator(made)
    of_numbers.more = 1
    with pytest.raises(transload.Unsendable, match="attributes .*more"):
        cupy_state._encode_generator(of_numbers)


SEEDS = np.random.SeedSequence(1)
LIES = {
    "no tuple": 5,
    "parts": ("XORWOW", 1, 1, SEEDS),
    "name": ("Generator", 1, 1, SEEDS, Array(bytes(48))),
    "name is no text": (5, 1, 1, SEEDS, Array(bytes(48))),
    "size": ("XORWOW", -1, 1, SEEDS, Array(bytes(48))),
    "size is no int": ("XORWOW", 1.0, 1, SEEDS, Array(bytes(48))),
    "seed": ("XORWOW", 1, 1 << 32, SEEDS, Array(bytes(48))),
    "seeds": ("XORWOW", 1, 1, 5, Array(bytes(48))),
    "state too short": ("XORWOW", 2, 1, SEEDS, Array(bytes(95))),
    "state too long": ("XORWOW", 2, 1, SEEDS, Array(bytes(97))),
    "no state": ("XORWOW", 1, 1, SEEDS, bytes(48)),
}


@pytest.mark.parametrize("how", LIES)
def test_generators_that_lie_are_refused(fake, how):
    with pytest.raises(ValueError, match="generator|size|seed|state|parts"):
        cupy_state._decode_bit_generator(LIES[how])
    with pytest.raises(ValueError, match="no generator"):
        cupy_state._decode_generator(5)


def test_generators_need_a_gpu():
    with pytest.raises(transload.Unsupported, match=r"obj: adapter cupy.bit_generator: CuPy's generators need a GPU"):
        transload.loads(forged("cupy.bit_generator", ("XORWOW", 1, 1, SEEDS, np.zeros(48, "i1"))), device="host")
