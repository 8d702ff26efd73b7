"""NumPy: dtypes, layouts, flags, windows, subclasses, scalars, random numbers."""

from __future__ import annotations

import tempfile
from typing import Any

import msgpack
import numpy as np
import pytest
from support.kinds import Signal
from support.same import difference
from support.trips import host, host_readonly, nbytes

import transload

DTYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "F", "D", "G", ">i4", ">f8", ">c16", "S5", "U5", ">U3", "V7", "M8[ns]", "M8[D]", "M8[25us]", "m8[s]", "m8[Y]", "M8", "S0", "U0",
    [("a", "i4"), ("b", "f8")], [("a", "i1"), ("n", [("x", ">f4"), ("y", "S3")]), ("s", "f4", (2, 3))], np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [4, 0], "itemsize": 12}), np.dtype([(("title", "a"), "i4")]), [],
]
LAYOUTS = {
    "1-d": lambda a: a, "0-d": lambda a: a[:1].reshape(()), "empty": lambda a: a[:0], "C": lambda a: a.reshape(2, 3, 4), "F": lambda a: np.asfortranarray(a.reshape(2, 3, 4)), "(2, 0)": lambda a: a[:0].reshape(2, 0),
    "(0, 2) F": lambda a: np.asfortranarray(a[:0].reshape(0, 2)), "reversed": lambda a: a[::-1], "strided": lambda a: a[::3], "transposed": lambda a: a.reshape(2, 3, 4).transpose(1, 0, 2), "both": lambda a: a.reshape(4, 6)[::-1, ::2],
    "broadcast": lambda a: np.broadcast_to(a[:6], (5, 6)), "one broadcast": lambda a: np.broadcast_to(a[0], (3, 4)), "inner slice": lambda a: a.reshape(4, 6)[1:3, 2:5], "many axes": lambda a: a.reshape((1,) * 10 + (24,)),
}


def _array(dtype: Any) -> np.ndarray[Any, Any]:
    dtype = np.dtype(dtype)
    if dtype.kind in "SU":
        return np.array([f"t{i}" for i in range(24)]).astype(dtype)
    raw = np.random.RandomState(0).randint(0, 2, size=24 * max(dtype.itemsize, 1)).astype("u1")
    return raw[: 24 * dtype.itemsize].view(dtype) if dtype.itemsize else np.zeros(24, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dtype_and_layout(dtype: Any, layout: str) -> None:
    array = LAYOUTS[layout](_array(dtype))
    for arrived in (host(array), host_readonly(array)):
        assert difference(array, arrived) is None
        assert arrived.flags.aligned or array.dtype.itemsize == 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("writable", [True, False])
def test_writable_flag_is_the_senders(layout: str, writable: bool) -> None:
    array = LAYOUTS[layout](np.arange(24.0))
    if array.flags.writeable:
        array.flags.writeable = writable
    assert host(array).flags.writeable is host_readonly([array])[0].flags.writeable is array.flags.writeable


@pytest.mark.parametrize("layout", ["1-d", "0-d", "empty", "C", "F", "reversed", "strided", "(2, 0)"])
def test_arrays_of_objects(layout: str) -> None:
    items = np.empty(24, object)
    items[:] = [None, 1, "a", [2], (3,), 2**70, np.arange(3), {4: 5}] * 3
    assert difference(LAYOUTS[layout](items), host(LAYOUTS[layout](items))) is None


@pytest.mark.parametrize("dtype", [np.dtypes.StringDType(), np.dtypes.StringDType(na_object=None), np.dtypes.StringDType(na_object=np.nan), np.dtypes.StringDType(coerce=False)], ids=["plain", "None", "nan", "no coercion"])
def test_string_dtype(dtype: Any) -> None:
    array = np.array(["a", "x" * 100, "", "日本"], dtype=dtype)
    arrived = host(array)
    assert arrived.dtype == dtype and arrived.tolist() == array.tolist() and host(dtype) == dtype


def test_window_sends_its_base_once() -> None:
    base = np.arange(100_000)
    windows = np.lib.stride_tricks.sliding_window_view(base, 100)
    assert nbytes(windows) < base.nbytes + 500 and np.array_equal(host(windows), windows)


@pytest.mark.parametrize("view", [lambda b: b, lambda b: b[::-1], lambda b: b[:, ::-1], lambda b: b.T])
def test_broadcast_sends_its_base(view: Any) -> None:
    array = view(np.broadcast_to(np.arange(500.0), (400, 500)))
    assert nbytes(array) < 5000 and np.array_equal(host(array), array)


def test_small_slice_of_a_large_array_sends_the_slice() -> None:
    assert nbytes(np.arange(10_000_000)[5:15]) < 200 and nbytes(np.zeros((1000, 1000))[:10, :10]) < 1200


# ── Subclasses ───────────────────────────────────────────────────────────────────────────────────────────────


@transload.trust
class Tagged(np.ndarray):  # type: ignore[type-arg]
    """Leaves copying to ndarray; has an attribute."""

    tag: Any = None


def test_subclass_keeps_class_and_attributes() -> None:
    tagged, signal = np.arange(6).view(Tagged), np.arange(6.0).reshape(2, 3).view(Signal)
    tagged.tag, signal.rate = {"unit": "m"}, 44_100
    first, second = host([tagged, signal])
    assert type(first) is Tagged and first.tag == {"unit": "m"} and np.array_equal(first, tagged)
    assert type(second) is Signal and second.rate == 44_100 and np.array_equal(second, signal)


def test_large_subclass_is_borrowed() -> None:
    array = np.arange(100_000).view(Tagged)
    assert np.shares_memory(np.frombuffer(transload.dumps(array)[1], array.dtype), array)


def test_numpys_own_subclasses() -> None:
    record = np.rec.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])
    things = [record, np.matrix([[1, 2]]), np.char.array(["a", "bc"]), record[0]]
    for thing, arrived in zip(things, host(things), strict=True):
        assert type(arrived) is type(thing) and arrived.dtype == thing.dtype and arrived.dtype.type is thing.dtype.type and np.all(arrived == thing)


def test_memmap_arrives_as_memory() -> None:
    with tempfile.NamedTemporaryFile() as file:
        array = np.memmap(file.name, "f8", "w+", shape=(5,))
        array[:] = 3
        arrived = host(array)
        assert type(arrived) is np.memmap and arrived.tolist() == [3.0] * 5 and arrived.filename is None


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "u2", "?", "f4", "i8", "S3", "M8[s]"])
@pytest.mark.parametrize("mask", [False, "some"])
def test_masked_arrays(dtype: str, mask: Any) -> None:
    array = np.ma.MaskedArray(np.arange(6).astype(dtype), mask=[0, 1, 0, 0, 1, 0] if mask else False)
    assert difference(array, host(array)) is None


def test_masked_fill_hard_mask_shared_mask_and_attributes() -> None:
    array = np.ma.array([1, 2, 3], mask=[0, 1, 0], fill_value=-7, hard_mask=True)
    array.note = "n"
    arrived = host(array)
    arrived[1] = 5
    assert arrived.fill_value == -7 and arrived.hardmask and arrived.mask[1] and arrived.note == "n"


def test_masked_structures_and_the_masked_constant() -> None:
    array = np.ma.array([(1, 2.0), (3, 4.0)], dtype="i4,f8", mask=[(1, 0), (0, 1)])
    arrived, item, constant = host([array, array[0], np.ma.masked])
    assert difference(array, arrived) is None and item.mask.tolist() == (True, False) and constant is np.ma.masked


# ── Scalars, dtypes, functions ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "scalar",
    [np.float64(1.5), np.float32("nan"), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True), np.complex64(1j), np.longdouble(1) / 3, np.float16(2), np.str_("ä"), np.bytes_(b"x"), np.datetime64("2024-01-01T00", "h"),
     np.datetime64("NaT"), np.timedelta64(3, "D"), np.void(b"ab"), np.zeros(1, "i4,f8")[0], np.array([(1, "x")], dtype=[("a", "i4"), ("b", "O")])[0]],
    ids=repr,
)
def test_scalars(scalar: Any) -> None:
    arrived = host(scalar)
    assert type(arrived) is type(scalar) and arrived.dtype == scalar.dtype and repr(arrived) == repr(scalar)


@pytest.mark.parametrize("dtype", [*DTYPES, "O", [("a", "O")], np.dtype(("f8", (2,))), np.dtype("f8", metadata={"unit": "m"}), np.dtype((np.record, [("a", "i4")]))], ids=str)
def test_dtypes(dtype: Any) -> None:
    dtype = np.dtype(dtype)
    arrived = host(dtype)
    assert arrived == dtype and arrived.isalignedstruct == dtype.isalignedstruct and arrived.fields == dtype.fields and arrived.metadata == dtype.metadata and arrived.type is dtype.type


def test_array_of_a_dtype_with_metadata() -> None:
    array = np.arange(3.0).astype(np.dtype("f8", metadata={"unit": "m"}))
    assert host(array).dtype.metadata == array.dtype.metadata == {"unit": "m"}


def test_functions_and_scalar_classes_go_by_name() -> None:
    things = [np.log1p, np.mean, np.add, np.float64, np.int8, np.datetime64]
    assert all(a is b for a, b in zip(host(things), things, strict=True))


@pytest.mark.parametrize("thing", [np.ndarray, np.recarray, np.void, np.record, np.memmap, np.load, np.save, np.fromfile, np.frombuffer, np.loadtxt, np.vectorize, np.lib.stride_tricks.as_strided, np.frompyfunc, np.random.RandomState, np.ctypeslib.as_array])
def test_what_reads_memory_or_files_stays_out_of_family_host(thing: Any) -> None:
    with pytest.raises(transload.Unsupported):
        transload.dumps([thing], families=("host",))


# ── Random numbers ───────────────────────────────────────────────────────────────────────────────────────────

GENERATORS = [np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64]


@pytest.mark.parametrize("cls", GENERATORS)
def test_generator_goes_on_where_it_was(cls: Any) -> None:
    generator = np.random.Generator(cls(3))
    generator.random(3), generator.integers(3, dtype="u4")
    arrived, bits = host([generator, generator.bit_generator])
    assert arrived.bit_generator is bits
    assert np.array_equal(arrived.random(1000), generator.random(1000))
    spawned = [[s.generate_state(2).tolist() for s in g.bit_generator.seed_seq.spawn(2)] for g in (arrived, generator)]
    assert spawned[0] == spawned[1]


@pytest.mark.parametrize("cls", GENERATORS)
def test_random_state_goes_on_where_it_was(cls: Any) -> None:
    state = np.random.RandomState(cls(3))
    state.randn(3)
    first, second = host([state, state])
    assert first is second and np.array_equal(first.randn(1000), state.randn(1000))


def test_seed_sequence() -> None:
    seeds = np.random.SeedSequence([1, 2], spawn_key=(3,), pool_size=8)
    seeds.spawn(2)
    arrived = host(seeds)
    assert arrived.state == seeds.state and arrived.generate_state(4).tolist() == seeds.generate_state(4).tolist()


def _decode(name: str, value: Any) -> Any:
    from transload import _tables

    host(np.random.default_rng(1))
    return _tables.adapters_by_name[name](value)


@pytest.mark.parametrize(("cls", "field", "value"), [(np.random.MT19937, "pos", 625), (np.random.MT19937, "pos", -1), (np.random.Philox, "buffer_pos", 5), (np.random.Philox, "buffer_pos", -1), (np.random.PCG64, "bit_generator", "os")])
def test_position_outside_of_a_state_is_refused(cls: Any, field: str, value: Any) -> None:
    state = cls(1).state
    (state["state"] if field == "pos" else state)[field] = value
    with pytest.raises(ValueError):
        _decode("numpy.bit_generator", (state, None))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numpy.generator", 5), ("numpy.generator", [1]), ("numpy.random_state", (5, 0, 0.0)), ("numpy.random_state", (np.random.PCG64(1), 2, 0.0)), ("numpy.random_state", (np.random.PCG64(1), 0, "0")), ("numpy.seeds", (1, (), 1 << 40, 0)),
        ("numpy.seeds", (1, (), 0, 0)), ("numpy.subclass", (int, np.zeros(1), None)), ("numpy.subclass", ("os", np.zeros(1), None)), ("numpy.subclass", (Tagged, [1], None)),
        ("numpy.masked", (np.zeros(3), np.zeros(2, bool), None, False, False, None)), ("numpy.masked", (np.zeros(3), np.zeros(3, int), None, False, False, None)), ("numpy.masked", ([1], None, None, False, False, None)),
        ("numpy.scalar", np.zeros(3)), ("numpy.ndarray", ("text", np.dtype("O"), (1,), False, [1])), ("numpy.ndarray", ("text", np.dtypes.StringDType(), (3,), False, ["a"])),
        ("numpy.ndarray", ("fields", np.dtype([("a", "O")]), (2,), False, [np.zeros(2)])), ("numpy.ndarray", ("fields", np.dtype([("a", "O")]), (-2,), False, [np.zeros(2, object)])),
        ("numpy.ndarray", ("view", np.dtype([("a", "O")]), (2,), False, [np.zeros(2, "V8")])), ("numpy.ndarray", ("view", np.dtype("O"), (2,), False, [np.zeros(2, "u8")])),
    ],
)
def test_parts_that_do_not_fit_are_refused(name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        _decode(name, value)


@pytest.mark.parametrize("arguments", [(int, (0,), b"b"), (np.ndarray, (5,), b"b"), (np.ndarray, (0,), b"O"), ("x", (0,), b"b")])
def test_array_is_begun_empty_and_of_bytes(arguments: Any) -> None:
    from transload import _tables

    host(np.arange(3).view(Signal))
    with pytest.raises(ValueError):
        _tables.overrides["numpy._core.multiarray:_reconstruct"](*arguments)


@pytest.mark.parametrize("state", [(1, (2,), np.dtype("O"), False, b"A" * 16), (1, (2,), np.dtype([("a", "O")]), False, b"A" * 16), (1, (10**12,), np.dtype("f8"), False, b"A" * 16), (1, (-2,), np.dtype("f8"), False, b"A" * 16)])
def test_state_of_a_subclass_with_raw_bytes_for_objects_is_refused(state: Any) -> None:
    array = np.ndarray.__new__(Signal, (0,), "b")
    with pytest.raises((TypeError, ValueError, MemoryError)):
        array.__setstate__((state, 1))


def test_a_long_dtype_is_written_once():
    dtype = np.dtype([(f"field_{i}", "<f8") for i in range(10)])
    one, many = (transload.dumps([np.zeros(1, np.dtype(dtype.descr)) for _ in range(n)])[0] for n in (1, 100))
    assert len(many) < len(one) + 100 * 16
    back = transload.loads(transload.dumps([np.zeros(1, np.dtype(dtype.descr)), np.ones((), dtype)[()], dtype]))
    assert back[0].dtype == back[1].dtype == back[2] == dtype


@pytest.mark.parametrize("entry", ["|O", 0, None, [], ["sub", 0, [1]], ["struct", 8, False, [["a", 0, "|O"]]]], ids=repr)
def test_a_bad_entry_in_the_table_of_dtypes(entry):
    header = msgpack.packb([1, {"!dtypes": [entry]}, [], [], [0, 1 << 40], [8], [22, 0, 0, 1]])
    with pytest.raises(transload.Malformed, match="dtype"):
        transload.loads([header, bytes(8)])


@pytest.mark.parametrize("number", [1, -1, 1 << 40, 1.5])
def test_an_index_outside_the_table_of_dtypes(number):
    for node in ([22, number, 0, 1], [25, number], [24, number, bytes(8)]):
        header = msgpack.packb([1, {"!dtypes": ["<f8"]}, [], [], [0, 1 << 40], [8], node])
        with pytest.raises(transload.Malformed, match="header byte .*dtype"):
            transload.loads([header, bytes(8)])
