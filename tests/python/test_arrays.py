"""Arrays of registered classes, by DLPack and by CUDA's array interface; a GPU is the host twin, device -1."""

import ctypes
import gc
import itertools
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import transload
from transload import _core
from transload.adapters import arrays

BOTH = pytest.mark.parametrize("families", [("cuda", "host"), ("host",)], ids=["cuda", "host"])

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
FORMS = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}


def form_of(dtype):
    return FORMS[dtype.kind], dtype.itemsize * 8, 1


class Array:
    """A producer of DLPack over an ndarray: in host memory, or as if it lay on a GPU."""

    def __init__(self, array, device=(CPU, 0), form=None, versioned=True):
        self.array, self.device, self.form, self.versioned = array, device, form or form_of(array.dtype), versioned
        self.asked = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, **more):
        if more and not self.versioned:
            raise TypeError(f"unexpected keyword arguments {list(more)}")
        self.asked.append((stream, more))
        a = self.array
        readonly = not a.flags.writeable and self.versioned
        return _core.dlpack_capsule(
            self,
            a.ctypes.data,
            self.device,
            self.form,
            a.shape,
            tuple(n // a.itemsize for n in a.strides),
            readonly,
            self.versioned,
        )


class Received:
    def __init__(self, exported):
        self.exported = exported


transload.register_array(Array, name="test.array", decode=Received)


def trip(obj, families=("host",), **kwargs):
    return transload.deserialize(transload.serialize([obj], families), **kwargs)[0]


def as_numpy(received):
    return np.from_dlpack(received.exported)


LAYOUTS = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "strided": lambda a: a[::2, 1:],
    "negative": lambda a: a[::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], (4, 80)),
    "empty": lambda a: a[:0],
    "0-d": lambda a: a[3, 4].copy(),
    "sparse view": lambda a: a[::40, ::40],
    "large": lambda a: np.tile(a, (4, 40)),
}
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_in_host_memory_stay_there(layout, versioned):
    array = np.asarray(LAYOUTS[layout](np.random.default_rng(1).random((60, 80))))
    message = transload.serialize(Array(array, versioned=versioned))
    assert message.families == ("host",) and not any(isinstance(frame, _core.DeviceMemory) for frame in message.frames)
    for device in (None, "host"):
        got = as_numpy(transload.deserialize(message, device=device))
        assert got.dtype == array.dtype and got.shape == array.shape and np.array_equal(got, array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    array = (np.random.default_rng(1).random(300) * 3).astype(dtype)
    received = trip(Array(array))
    assert received.exported.dtype == str(array.dtype) and np.array_equal(as_numpy(received), array)
    assert np.array_equal(trip(Array(array, (CUDA, -1)), device="host"), array)


@BOTH
@pytest.mark.parametrize("kind", [CUDA, CUDA_MANAGED])
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("sparse view", "broadcast")])
def test_arrays_of_a_gpu_come_as_numpys_where_host_memory_is_asked_for(families, kind, layout):
    array = np.asarray(LAYOUTS[layout](np.random.default_rng(1).random((60, 80))))
    message = transload.serialize([Array(array, (kind, -1))], families)
    assert any(isinstance(frame, _core.DeviceMemory) for frame in message.frames) == (
        "cuda" in families and array.size > 0
    )
    (got,) = transload.deserialize(message, device="host")
    assert (
        type(got) is np.ndarray and got.dtype == array.dtype and got.shape == array.shape and np.array_equal(got, array)
    )
    assert array.size == 0 or got.strides == array.strides or array.flags.c_contiguous


@pytest.mark.parametrize("name", arrays._NAMES)
def test_dtypes_that_numpy_has_not(name, monkeypatch):
    code, bits = arrays._NAMES[name]
    array = np.arange(24, dtype=f"u{bits // 8}").reshape(4, 6).T
    exported = trip(Array(array, form=(code, bits, 1))).exported
    _, device, form, shape, strides, _ = _core.dlpack_tensor(exported.__dlpack__())
    assert (
        exported.dtype == name
        and device == (CPU, 0)
        and form == (code, bits, 1)
        and shape == (6, 4)
        and strides == (1, 6)
    )
    message = transload.serialize({"x": Array(array, (CUDA, -1), (code, bits, 1))}, ("host",))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(transload.Unsupported, match=rf"obj\['x'\].*NumPy has no {name} without ml_dtypes"):
        transload.deserialize(message, device="host")
    there = types.ModuleType("ml_dtypes")
    setattr(there, name, array.dtype.type)
    monkeypatch.setitem(sys.modules, "ml_dtypes", there)
    assert np.array_equal(transload.deserialize(message, device="host")["x"], array)


@pytest.mark.parametrize(("kind", "stream"), [(CPU, None), (CUDA_HOST, None), (CUDA, 1), (CUDA_MANAGED, 1)])
def test_producers_are_told_the_stream_that_reads(kind, stream):
    new, old = Array(np.arange(5), (kind, -1)), Array(np.arange(5), (kind, -1), versioned=False)
    transload.serialize([new, old])
    assert new.asked == [(stream, {"max_version": (1, 0)})] and old.asked == [(stream, {})]


class Interface:
    """A producer of CUDA's array interface."""

    def __init__(self, array, version=3, **more):
        self.array = array
        self.__cuda_array_interface__ = {
            "version": version,
            "typestr": array.dtype.str,
            "shape": array.shape,
            "strides": None if array.flags.c_contiguous else array.strides,
            "data": (array.ctypes.data if array.size else 0, False),
            **more,
        }


transload.register_array(Interface, name="test.interface", decode=Received)


@pytest.fixture
def twin(monkeypatch):
    monkeypatch.setattr(_core, "device_of", lambda pointer: _core.HOST_TWIN)


@BOTH
@pytest.mark.parametrize(
    "more", [{"version": 2}, {}, {"stream": None}, {"stream": 1}, {"stream": 77}, {"mask": None}], ids=str
)
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "sparse view"])
def test_producers_of_cudas_array_interface(twin, families, more, layout):
    array = np.asarray(LAYOUTS[layout](np.random.default_rng(1).random((60, 80))))
    got = trip(Interface(array, **more), families, device="host")
    assert got.dtype == array.dtype and got.shape == array.shape and np.array_equal(got, array)


class Both(Interface):
    """DLPack that cannot, and CUDA's array interface."""

    error = BufferError

    def __dlpack_device__(self):
        return CUDA, -1

    def __dlpack__(self, **kwargs):
        raise self.error("not this one")


transload.register_array(Both, name="test.both", decode=Received)


def test_what_dlpack_cannot_say_goes_by_cudas_array_interface(twin):
    assert np.array_equal(trip(Both(np.arange(5)), device="host"), np.arange(5))


def reduced(array):
    return Plain, (array,)


class Plain:
    def __init__(self, array=None):
        self.array = array


class Half(Array):
    def __reduce__(self):
        return Plain, (self.array,)


transload.trust(Plain)
transload.register_array(Half, name="test.half_array", decode=Received, takes=lambda half: half.array.size < 10)


class Broken(Half):
    def __dlpack__(self, **kwargs):
        raise RuntimeError("UNIMPLEMENTED")


transload.register_array(Broken, name="test.broken", decode=Received)

REFUSED = {
    "its registration": lambda: Half(np.arange(10)),
    "type code 0, 4 bits": lambda: Half(np.arange(5), form=(0, 4, 1)),
    "4 lanes": lambda: Half(np.arange(5, dtype="f4"), form=(2, 32, 4)),
    "type code 3": lambda: Half(np.arange(5), form=(3, 64, 1)),
    "device type 10": lambda: Half(np.arange(5), (10, 0)),
    "UNIMPLEMENTED": lambda: Broken(np.arange(5)),
    "2 items in 80008 bytes": lambda: Half(np.arange(10001)[::10000], (CUDA, -1)),
    "bytes of 8": lambda: Half(np.broadcast_to(np.arange(1.0), (1 << 40,)), (CUDA, -1)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_exported_goes_by_its_reduce_method(why):
    obj = REFUSED[why]()
    if "its" not in why:
        transload.register_array(Half, name="test.half_array", decode=Received)
    try:
        assert why in str(transload.explain(obj, ("host",)))
        got = trip(obj)
        assert type(got) is Plain and np.array_equal(got.array[:5], obj.array[:5])
    finally:
        transload.register_array(Half, name="test.half_array", decode=Received, takes=lambda half: half.array.size < 10)


@pytest.mark.parametrize(
    ("array", "more"),
    [
        (np.arange(5), {"mask": np.ones(5)}),
        (np.zeros(5, [("a", "<i4")]), {}),
        (np.arange(5, dtype=">i4"), {}),
        (np.zeros(2, "M8[s]"), {}),
    ],
    ids=str,
)
def test_interfaces_with_more_than_plain_items_are_unsupported(twin, array, more):
    with pytest.raises(transload.Unsupported):
        transload.serialize(Interface(array, **more), ("host",))


def test_an_array_that_becomes_another_one_is_refused():
    class Narrow(Array):
        pass

    transload.register_array(Narrow, name="test.narrow", decode=lambda exported: np.from_dlpack(exported).astype("f4"))
    with pytest.raises(transload.Unsupported, match=r"obj\[0\].*float64 became one of float32"):
        trip(Narrow(np.arange(5.0)))
    assert trip(Narrow(np.arange(5, dtype="f4"))).dtype == np.float32


def test_registration_is_checked():
    with pytest.raises(TypeError, match="callable"):
        transload.register_array(Array, name="test.array", decode=None)
    with pytest.raises(TypeError, match="callable"):
        transload.register_array(Array, name="test.array", decode=Received, takes=3)
    with pytest.raises(ValueError, match="another class"):
        transload.register_array(Plain, name="test.array", decode=Received)


# ── hostile bytes ────────────────────────────────────────────────────────────────────────────────────────────


def memory(nbytes):
    owner = ctypes.create_string_buffer(nbytes)
    return _core.DeviceMemory(ctypes.addressof(owner), nbytes, _core.HOST_TWIN, owner)


F8, U2 = np.dtype("f8"), np.dtype("u2")
LIES = {
    "no tuple": lambda: 5,
    "one part": lambda: ("",),
    "name": lambda: ("float9", np.arange(5, dtype="u1")),
    "name is no text": lambda: (np.array(["bfloat16", "x"]), np.arange(5, dtype="u2")),
    "name of other size": lambda: ("bfloat16", np.arange(5, dtype="u1")),
    "name of floats": lambda: ("bfloat16", np.arange(5, dtype="f2")),
    "name on a GPU": lambda: ("bfloat16", (memory(80), F8, (10,))),
    "objects": lambda: ("", np.array([1, "x"], object)),
    "text": lambda: ("", np.array(["x"])),
    "order": lambda: ("", np.arange(5, dtype=">i4")),
    "long double": lambda: ("", np.ones(3, "g")),
    "structured": lambda: ("", np.zeros(3, [("a", "i4")])),
    "masked": lambda: ("", np.ma.MaskedArray([1, 2], [True, False])),
    "a list": lambda: ("", [1, 2]),
    "shape": lambda: ("", (memory(80), F8, (11,))),
    "negative": lambda: ("", (memory(80), F8, (-1,))),
    "strides": lambda: ("", (memory(80), F8, (3, 3), (40, 8), 0)),
    "offset": lambda: ("", (memory(80), F8, (10,), (8,), 1)),
    "dtype on a GPU": lambda: ("", (memory(80), np.dtype("S8"), (10,))),
    "no memory": lambda: ("", (b"x" * 80, F8, (10,))),
    "overflow": lambda: ("", (memory(80), F8, (1 << 61, 1 << 61))),
    "without end": lambda: ("", np.broadcast_to(np.arange(1.0), (1 << 50,))),
    "without end on a GPU": lambda: ("bfloat16", (memory(80), U2, (1 << 50,), (0,), 0)),
}


class Liar:
    def __init__(self, how):
        self.how = how


@pytest.mark.parametrize("how", LIES)
def test_arrays_that_lie_are_refused(how):
    transload.register(
        Liar, name="test.liar_array", encode=lambda liar: LIES[liar.how](), decode=arrays.decoder(Received)
    )
    with pytest.raises(transload.Malformed):
        trip(Liar(how), device="host")


def test_every_change_of_the_header_is_noticed_or_harmless():
    sent = [
        Array(np.arange(20_000.0)),
        Array(np.arange(10.0)[::2]),
        Array(np.arange(12, dtype="u2"), form=(4, 16, 1)),
        Array(np.arange(50.0), (CUDA, -1)),
    ]
    head, *frames = transload.dumps(sent, ("host",))
    rng = np.random.default_rng(3)
    for _ in range(2000):
        changed = bytearray(head)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(changed))] = rng.integers(256)
        try:
            got = transload.loads([bytes(changed), *frames], device="host")
        except transload.Error:
            continue
        for received in got if type(got) is list else ():
            if type(received) is Received and received.exported.dtype != "bfloat16":
                np.from_dlpack(received.exported).sum()


# ── capsules ─────────────────────────────────────────────────────────────────────────────────────────────────


class Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
ON_CAPSULE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Foreign:
    """A producer in another language, which counts how often its deleter is called."""

    def __init__(self, offset=0):
        self.content = (ctypes.c_double * 20_000)(*range(20_000))
        self.shape = (ctypes.c_int64 * 1)(20_000 - offset)
        self.freed = []
        self.deleter = DELETER(lambda managed: self.freed.append(threading.get_ident()))
        data = ctypes.addressof(self.content)
        self.tensor = Tensor(
            data, CPU, 0, 1, 2, 64, 1, self.shape, None, offset * 8, None, ctypes.cast(self.deleter, ctypes.c_void_p)
        )
        self.name = b"dltensor"

        def destroy(capsule):  # as the specification has it: nobody used the capsule
            self.deleter(ctypes.addressof(self.tensor))

        self.destroy = ON_CAPSULE(destroy)

    def __dlpack_device__(self):
        return CPU, 0

    def __dlpack__(self, *, stream=None):
        return api.PyCapsule_New(ctypes.addressof(self.tensor), self.name, ctypes.cast(self.destroy, ctypes.c_void_p))


transload.register_array(Foreign, name="test.foreign", decode=Received)


def test_a_producers_deleter_is_called_once_when_the_last_frame_goes():
    sent = Foreign(offset=5)
    message = transload.serialize([sent])
    got = transload.deserialize(message)
    array = as_numpy(got[0])
    del message, got
    gc.collect()
    assert sent.freed == [] and array[0] == 5 and array.ctypes.data == ctypes.addressof(sent.content) + 40
    del array
    gc.collect()
    assert sent.freed == [threading.get_ident()]


@pytest.mark.parametrize("families", [("host",), ("nothing",)], ids=str)
def test_a_deleter_is_called_once_after_an_error(families):
    sent = Foreign()
    with pytest.raises((transload.Unsupported, ValueError)):
        transload.serialize([sent, lambda: 0], families)
    gc.collect()
    assert len(sent.freed) == (1 if families == ("host",) else 0)


def test_capsules_that_were_used_are_refused():
    capsule = Array(np.arange(5)).__dlpack__(max_version=(1, 0))
    assert _core.dlpack_tensor(capsule)[3] == (5,)
    producer = Foreign()
    used = producer.__dlpack__()
    name = ctypes.create_string_buffer(b"used_dltensor")
    api.PyCapsule_SetName(used, name)
    for wrong in (used, object(), None):
        with pytest.raises(BufferError, match="no capsule of DLPack"):
            _core.dlpack_tensor(wrong)
    api.PyCapsule_SetName(used, producer.name)
    del used
    assert len(producer.freed) == 1


class Owner:
    pass


@pytest.mark.parametrize("versioned", [True, False])
def test_a_capsule_of_ours_keeps_its_owner_until_it_is_unused_or_used_up(versioned):
    content = np.arange(5.0)

    def capsule():
        owner = Owner()
        return _core.dlpack_capsule(
            owner, content.ctypes.data, (CPU, 0), (2, 64, 1), (5,), (1,), False, versioned
        ), weakref.ref(owner)

    unused, alive = capsule()
    assert alive() is not None
    del unused
    assert alive() is None

    class Once:
        __dlpack_device__ = staticmethod(lambda: (CPU, 0))

        def __init__(self, given):
            self.given = given

        def __dlpack__(self, **kwargs):
            return self.given

    taken, alive = capsule()
    array = np.from_dlpack(Once(taken))
    del taken
    gc.collect()
    assert alive() is not None and array[4] == 4
    del array
    gc.collect()
    assert alive() is None


def test_a_deleter_of_ours_takes_the_gil_itself():
    """ctypes calls it without, as XLA's threads do."""
    owner = Owner()
    alive = weakref.ref(owner)
    content = np.arange(5.0)
    capsule = _core.dlpack_capsule(owner, content.ctypes.data, (CPU, 0), (2, 64, 1), (5,), (1,), False, False)
    del owner
    managed = api.PyCapsule_GetPointer(capsule, b"dltensor")
    name = ctypes.create_string_buffer(b"used_dltensor")
    api.PyCapsule_SetName(capsule, name)
    deleter = DELETER(Tensor.from_address(managed).deleter)
    thread = threading.Thread(target=deleter, args=(managed,))
    thread.start()
    thread.join(60)
    del capsule
    assert alive() is None


# ── what decode gets ─────────────────────────────────────────────────────────────────────────────────────────


def exported(array, device=None, stream=0, readonly=False, name=""):
    """`array` as it arrives; `device`: as if it were a GPU's."""
    owner = (
        array
        if device is None
        else _core.DeviceMemory(array.ctypes.data, array.nbytes, device, array, stream, readonly)
    )
    return arrays.Exported(owner, array.ctypes.data, name, array.dtype, array.shape, array.strides, readonly)


def test_decode_gets_dlpack_and_on_a_gpu_cudas_array_interface():
    a = np.arange(12.0).reshape(3, 4).T
    there = exported(a, 5, 9)
    assert there.__dlpack_device__() == (CUDA, 5) and (there.dtype, there.shape, there.strides) == (
        "float64",
        (4, 3),
        (8, 32),
    )
    assert there.__cuda_array_interface__ == {
        "version": 3,
        "typestr": "<f8",
        "shape": (4, 3),
        "strides": (8, 32),
        "data": (a.ctypes.data, False),
        "stream": 9,
    }
    assert _core.dlpack_tensor(there.__dlpack__(stream=9)) == (
        a.ctypes.data,
        (CUDA, 5),
        (2, 64, 1),
        (4, 3),
        (1, 4),
        False,
    )
    assert _core.dlpack_tensor(there.__dlpack__(stream=-1, max_version=(1, 1), dl_device=(CUDA, 5), copy=False))[1] == (
        CUDA,
        5,
    )
    here = exported(a)
    assert here.__dlpack_device__() == (CPU, 0) and not hasattr(here, "__cuda_array_interface__")
    assert not hasattr(exported(np.arange(5, dtype="u2"), 5, name="bfloat16"), "__cuda_array_interface__")
    for wrong in ({"copy": True}, {"dl_device": (CPU, 0)}):
        with pytest.raises(BufferError, match="exported where it lies"):
            there.__dlpack__(**wrong)


def test_memory_that_is_still_written_is_waited_for():
    waited = []

    class Memory:
        device, nbytes, stream = 5, 80, 9

        def window(self, offset, nbytes):
            return self

        def to_host(self):
            waited.append(True)

    there = exported(np.arange(10.0), 5, 9)
    there._owner = Memory()
    for stream, expected in ((9, 0), (-1, 0), (1, 1), (None, 2), (77, 3)):
        there.__dlpack__(stream=stream)
        assert len(waited) == expected


def test_readonly_arrays_are_exported_where_that_can_be_said():
    a = np.arange(5.0)
    a.flags.writeable = False
    received = trip(Array(a))
    assert not as_numpy(received).flags.writeable and received.exported._readonly
    with pytest.raises(BufferError, match="read-only"):
        received.exported.__dlpack__()
    assert not trip(Array(np.arange(5.0))).exported._readonly


def test_threads_send_the_same_arrays():
    sent = [Array(np.arange(n, dtype=t)) for n, t in itertools.product((1, 100, 30_000), ("f4", "i8"))]
    failures = []

    def work():
        try:
            for _ in range(20):
                got = transload.deserialize(transload.serialize(sent))
                assert all(np.array_equal(as_numpy(r), s.array) for r, s in zip(got, sent, strict=True))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and not any(thread.is_alive() for thread in threads)


# ── JAX ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def jax():
    jax = pytest.importorskip("jax")
    transload.register_array(
        type(jax.numpy.zeros(0)),
        name="jax.array",
        decode=jax.dlpack.from_dlpack,
        takes=lambda array: not array.weak_type,
    )
    return jax


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "float16", "float32", "complex64", *arrays._NAMES]
)
def test_jax_arrays(jax, dtype):
    x = jax.numpy.asarray(np.random.default_rng(1).random((30, 40)) * 3).astype(dtype).T
    y = trip(x)
    assert (
        type(y) is type(x)
        and y.dtype == x.dtype
        and y.shape == x.shape
        and np.asarray(y).tobytes() == np.asarray(x).tobytes()
    )


def test_jax_arrays_that_are_still_computed_are_waited_for(jax):
    x = jax.jit(lambda a: a @ a @ a)(jax.numpy.ones((800, 800)))
    assert bool((trip(x) == x).all())


def test_jax_arrays_that_are_more_than_memory_go_by_their_reduce_method(jax):
    for x in (jax.numpy.asarray(3.0), jax.numpy.ones(5, "int4")):
        with pytest.raises(transload.Unsupported, match="_reconstruct_array"):
            transload.serialize(x, ("host",))
        y = transload.deserialize(transload.serialize(x), ("host", "pickle"))
        assert y.dtype == x.dtype and y.weak_type == x.weak_type and bool((y == x).all())


def test_jax_does_not_narrow_in_silence(jax):
    with jax.enable_x64(True):
        message = transload.serialize(jax.numpy.arange(5.0))
        assert transload.deserialize(message).dtype == np.float64
    with pytest.raises(transload.Unsupported, match="float64 became one of float32"):
        transload.deserialize(message)
