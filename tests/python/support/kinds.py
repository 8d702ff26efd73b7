"""Other cases of each kind of fault in docs/cases.md: classes, holders and objects, for the tests here and on a cluster."""

from __future__ import annotations

import array
import collections
import copyreg
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import mmap
import pathlib
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp
from numpy.ma import mrecords
from pyarrow import fs

import transload

# ── Classes of a user ────────────────────────────────────────────────────────────────────────────────────────


@transload.trust
class Bag:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@transload.trust
@dataclasses.dataclass
class Part:
    a: Any
    b: Any = None


@transload.trust
@dataclasses.dataclass(slots=True)
class SlotPart:
    a: Any
    b: Any = None


@transload.trust
@dataclasses.dataclass(frozen=True)
class FrozenPart:
    a: Any
    b: Any = None


@transload.trust
class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any = None) -> None:
        self.a, self.b = a, b


@transload.trust
class Reduced:
    def __init__(self, a: Any, b: Any = None) -> None:
        self.a, self.b = a, b

    def __reduce__(self) -> Any:
        return Reduced, (self.a, self.b)


@transload.trust
class WithState:
    def __init__(self, a: Any, b: Any = None) -> None:
        self.a, self.b = a, b

    def __getstate__(self) -> Any:
        return {"a": self.a, "b": self.b}

    def __setstate__(self, state: Any) -> None:
        self.a, self.b = state["a"], state["b"]


class Stranger:
    """Trusted nowhere."""

    def __init__(self, a: Any = None, b: Any = None) -> None:
        self.a, self.b = a, b


class OldReduce(Stranger):
    """Trusted nowhere, and by way of `copyreg._reconstructor`."""

    def __reduce__(self) -> Any:
        return super().__reduce__()


Pair = collections.namedtuple("Pair", "a b")
transload.trust(Pair)


@transload.trust
class MyList(list):  # type: ignore[type-arg]
    pass


@transload.trust
class MyDict(dict):  # type: ignore[type-arg]
    pass


@transload.trust
class MyTuple(tuple):  # type: ignore[type-arg]
    pass


@transload.trust
class Colour(str, enum.Enum):
    RED = "r"


@transload.trust
class Key:
    """Equal by value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Key and other.value == self.value


@transload.trust
class Tagged(np.ndarray):  # type: ignore[type-arg]
    pass


@transload.trust
class Noted(np.ndarray):  # type: ignore[type-arg]
    def __array_finalize__(self, other: Any) -> None:
        self.note = getattr(other, "note", "default")


@transload.trust
class Clinging(np.ndarray):  # type: ignore[type-arg]
    """Keeps its class when it is viewed as another, as astropy's masked arrays do."""

    def view(self, *arguments: Any, **keywords: Any) -> Any:
        return super().view(Clinging)


@transload.trust
class Slotted(np.ndarray):  # type: ignore[type-arg]
    __slots__ = ("unit", "unset")


@transload.trust
class Signal(np.ndarray):  # type: ignore[type-arg]
    """Carries its attribute through a reduce method of its own."""

    rate: Any = None

    def __reduce__(self) -> Any:
        function, arguments, state = super().__reduce__()
        return function, arguments, (state, self.rate)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[0])
        self.rate = state[1]


@transload.trust
class MaskedTagged(np.ma.MaskedArray):  # type: ignore[type-arg]
    pass


@transload.trust
class Vector(array.array):  # type: ignore[type-arg]
    pass


@transload.trust
class Measured(pd.DataFrame):
    _metadata = ["unit"]

    @property
    def _constructor(self) -> Any:
        return Measured


@transload.trust
class MyCsr(sp.csr_matrix):
    pass


class UserType(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self, scale: int = 1) -> None:
        self.scale = scale
        super().__init__(pa.int32(), "transload.test.kinds")

    def __arrow_ext_serialize__(self) -> bytes:
        return str(self.scale).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> UserType:
        return cls(int(serialized))


class UnregisteredType(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(pa.int32(), "transload.test.unregistered")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> UnregisteredType:
        return cls()


pa.register_extension_type(UserType())


class Image:
    """Has an adapter; `calls` notes its use."""

    calls: list[str] = []

    def __init__(self, pixels: Any) -> None:
        self.pixels = pixels


def _encode_image(image: Image) -> Any:
    Image.calls.append("encode")
    return image.pixels


def _decode_image(pixels: Any) -> Image:
    Image.calls.append("decode")
    return Image(pixels)


transload.register(Image, name="test.kinds.image", encode=_encode_image, decode=_decode_image)


# ── Objects that count how often they are asked for their state ──────────────────────────────────────────────


class Counted:
    calls = 0
    HOW: dict[str, Any] = {}

    @staticmethod
    def asked() -> None:
        Counted.calls += 1


def _counted(cls: Any) -> Any:
    Counted.HOW[cls.__name__] = transload.trust(cls)
    return cls


class _Content:
    def __init__(self, content: Any = None) -> None:
        self.content = content


@_counted
class getstate(_Content):
    def __getstate__(self) -> Any:
        Counted.asked()
        return self.__dict__


@_counted
class setstate(getstate):
    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


@_counted
class reduce(_Content):
    def __reduce__(self) -> Any:
        Counted.asked()
        return type(self), (self.content,)


@_counted
class reduce_ex(_Content):
    def __reduce_ex__(self, protocol: Any) -> Any:
        Counted.asked()
        return type(self), (self.content,)


@_counted
class getnewargs(_Content):
    def __new__(cls, content: Any = None) -> Any:
        return object.__new__(cls)

    def __getnewargs__(self) -> Any:
        Counted.asked()
        return (self.content,)


@_counted
class getnewargs_ex(_Content):
    def __new__(cls, content: Any = None) -> Any:
        return object.__new__(cls)

    def __getnewargs_ex__(self) -> Any:
        Counted.asked()
        return (), {"content": self.content}


@_counted
class slots:
    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def __getstate__(self) -> Any:
        Counted.asked()
        return None, {"content": self.content}


@_counted
class items(list):  # type: ignore[type-arg]
    def __init__(self, content: Any = None) -> None:
        self.content = content

    def __getstate__(self) -> Any:
        Counted.asked()
        return self.__dict__


@_counted
class from_copyreg(_Content):
    pass


def _reduce_counted(obj: Any) -> Any:
    Counted.asked()
    return from_copyreg, (obj.content,)


copyreg.pickle(from_copyreg, _reduce_counted)


# ── Holders: where an object sits in another one ─────────────────────────────────────────────────────────────


def object_array(*items: Any) -> Any:
    made = np.empty(len(items), object)
    for i, item in enumerate(items):
        made[i] = item
    return made


def _series(*items: Any) -> Any:
    return pd.Series(object_array(*items), dtype=object)


def _subclass(a: Any, b: Any) -> Any:
    made = np.arange(3).view(Tagged)
    made.held = a, b
    return made


HOLDERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], tuple[Any, Any]]]] = {
    "list": (lambda a, b: [a, None, b], lambda y: (y[0], y[2])),
    "tuple": (lambda a, b: (1.0, a, b), lambda y: y[1:]),
    "dict": (lambda a, b: {"a": a, 1: b}, lambda y: (y["a"], y[1])),
    "dicts with the same keys": (lambda a, b: [{"k": 0}, {"k": a}, {"k": b}], lambda y: (y[1]["k"], y[2]["k"])),
    "attributes": (lambda a, b: Bag(a=a, b=b), lambda y: (y.a, y.b)),
    "dataclass": (Part, lambda y: (y.a, y.b)),
    "dataclass with slots": (SlotPart, lambda y: (y.a, y.b)),
    "slots": (Slots, lambda y: (y.a, y.b)),
    "namedtuple": (Pair, tuple),
    "reduce": (Reduced, lambda y: (y.a, y.b)),
    "getstate": (WithState, lambda y: (y.a, y.b)),
    "list subclass": (lambda a, b: MyList([a, b]), tuple),
    "dict subclass": (lambda a, b: MyDict(a=a, b=b), lambda y: (y["a"], y["b"])),
    "deque": (lambda a, b: collections.deque([a, b]), tuple),
    "defaultdict": (lambda a, b: collections.defaultdict(list, a=a, b=b), lambda y: (y["a"], y["b"])),
    "OrderedDict": (lambda a, b: collections.OrderedDict(a=a, b=b), lambda y: (y["a"], y["b"])),
    "UserList": (lambda a, b: collections.UserList([a, b]), tuple),
    "namespace": (lambda a, b: types.SimpleNamespace(a=a, b=b), lambda y: (y.a, y.b)),
    "mapping proxy": (lambda a, b: types.MappingProxyType({"a": a, "b": b}), lambda y: (y["a"], y["b"])),
    "partial": (lambda a, b: functools.partial(len, a, k=b), lambda y: (y.args[0], y.keywords["k"])),
    "exception": (lambda a, b: ValueError(a, b), lambda y: y.args),
    "object array": (object_array, tuple),
    "object column": (_series, lambda y: (y.iloc[0], y.iloc[1])),
    "attribute of an array": (_subclass, lambda y: y.held),
    "deep": (lambda a, b: Bag(q=[{"k": (Part(a), Slots(b))}]), lambda y: (y.q[0]["k"][0].a, y.q[0]["k"][1].a)),
}


# ── Objects ──────────────────────────────────────────────────────────────────────────────────────────────────


def with_attributes(thing: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(thing, name, value)
    return thing


def _attributed(thing: Any) -> Any:
    thing.attrs.update({"unit": "m", "nested": {"k": [1, (2,)]}, 5: np.arange(3)})
    return thing


def nested(wrap: Callable[[Any], Any], depth: int) -> Any:
    made: Any = "core"
    for _ in range(depth):
        made = wrap(made)
    return made


def subclasses() -> dict[str, Any]:
    """b01"""
    record = np.rec.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])
    return {
        "attribute": with_attributes(np.arange(6.0).view(Tagged), unit=[1, {"a": 2}]),
        "0-d": with_attributes(np.array(3.0).view(Tagged), unit="m"),
        "empty": with_attributes(np.zeros((2, 0)).view(Tagged), unit="m"),
        "Fortran order": with_attributes(np.asfortranarray(np.arange(6.0).reshape(2, 3)).view(Tagged), unit="m"),
        "strided": with_attributes(np.arange(20.0)[::-3].view(Tagged), unit="m"),
        "of objects": with_attributes(np.array([1, "a", None], object).view(Tagged), unit="m"),
        "of structures": with_attributes(np.zeros(2, "i4,f8").view(Tagged), unit="m"),
        "of times": with_attributes(np.array(["2020", "NaT"], "M8[D]").view(Tagged), unit="m"),
        "broadcast": with_attributes(np.broadcast_to(np.arange(5.0), (4, 5)).view(Tagged), unit="m"),
        "finalize sets it": with_attributes(np.arange(3).view(Noted), note={"k": 1}),
        "finalize's default": np.arange(3).view(Noted),
        "slots": with_attributes(np.arange(3.0).view(Slotted), unit="m"),
        "view of its own": with_attributes(np.arange(3.0).view(Clinging), mask=np.array([True, False, False])),
        "reduce of its own": with_attributes(np.arange(6.0).reshape(2, 3).view(Signal), rate=44_100),
        "recarray": record,
        "record": record[0],
        "matrix": np.matrix([[1, 2], [3, 4]]),
        "chararray": np.char.array(["a", "bc"]),
        "masked": with_attributes(np.ma.array([1, 2], mask=[0, 1]).view(MaskedTagged), unit="m"),
        "array.array": with_attributes(Vector("d", [1.0, 2.0]), scale=3),
        "frame": with_attributes(Measured({"a": [1, 2]}), unit="m"),
        "sparse": with_attributes(MyCsr(sp.eye(3)), unit="m"),
    }


MASKED_DTYPES: list[Any] = ["?", "u1", "i1", "u2", "i2", "u4", "i8", "f2", "f4", "g", "c8", "S3", "U2", "M8[s]", "m8[D]", "O", "V4", [("a", "u1"), ("b", "f4")], [("a", "i1", (2,))]]


def masked() -> dict[str, Any]:
    """b03"""
    made: dict[str, Any] = {}
    for dtype in MASKED_DTYPES:
        values = np.zeros(10, dtype) if isinstance(dtype, list) else np.array(list("abcdefghij"), dtype) if dtype in ("S3", "U2", "O") else np.arange(10).astype(dtype)
        some = np.ma.masked_array(values, mask=np.arange(10) % 3 == 0)
        made |= {f"{dtype} some": some, f"{dtype} none": np.ma.masked_array(values), f"{dtype} all": np.ma.masked_array(values, mask=True), f"{dtype} strided": some[::-2]}
        made[f"{dtype} items"] = [some[0], some[1]]
        made[f"{dtype} transposed"] = some.reshape(2, 5).T
    hard = np.ma.masked_array(np.arange(6, dtype="u1"), [1, 0, 0, 0, 0, 1], fill_value=7)
    hard.harden_mask()
    records = mrecords.fromarrays([np.ma.array([1, 2], "u1", mask=[1, 0]), np.ma.array([1.0, 2])], names="a,b")
    notes = np.ma.array([1, 2], "i1", mask=[0, 1])
    notes._optinfo["made by"] = ["hand"]
    return {**made, "hard": hard, "records": records, "of a matrix": np.ma.masked_array(np.matrix([[1, 2]], "u1"), [[0, 1]]), "notes": notes, "constant": [np.ma.masked, np.ma.nomask]}


def memoryviews() -> dict[str, memoryview]:
    """b05"""
    made = {f"{dtype} {shape}": memoryview(np.zeros(shape, dtype)) for dtype in ("f8", "?", "u1", "c16", "S3", "U2", "f2", "g", "O", ">i4", "i4,f8") for shape in ((0,), (2, 0), (0, 3), (1, 0, 2), (2, 3), ())}
    plane = np.arange(24.0).reshape(4, 6)
    made |= {
        "no bytes": memoryview(b""), "of a bytearray": memoryview(bytearray(b"abc")), "cut": memoryview(bytearray(range(200)))[10:50:3], "reversed": memoryview(bytes(range(200)))[::-1],
        "cast": memoryview(b"abcdef").cast("B", shape=[2, 3]), "chars": memoryview(b"abc").cast("c"), "array": memoryview(array.array("i", [1, 2])), "no array": memoryview(array.array("d")),
        "ctypes": memoryview((ctypes.c_short * 2 * 3)()), "mmap": memoryview(mmap.mmap(-1, 100)), "Fortran order": memoryview(np.asfortranarray(plane)), "transposed": memoryview(plane.T),
        "negative strides": memoryview(plane[::-1, ::-2]), "read-only": memoryview(bytearray(b"abc")).toreadonly(), "large": memoryview(bytearray(300_000)), "large, read-only": memoryview(bytes(300_000)),
        "large, strided": memoryview(np.zeros((400, 300)))[::2], "32 dimensions": memoryview(np.zeros((1,) * 32)),
        "broadcast": memoryview(np.broadcast_to(np.arange(500.0), (400, 500))), "windows": memoryview(np.lib.stride_tricks.sliding_window_view(np.arange(1e4), 100)),
    }  # fmt: skip
    return made


def windows() -> dict[str, Any]:
    """b07 and b08: arrays that show more than they have."""
    to, slide = np.broadcast_to, np.lib.stride_tricks.sliding_window_view
    base, line = np.arange(500.0), np.arange(1e4)
    mesh = np.meshgrid(np.arange(300.0), np.arange(300.0), copy=False)
    return {
        "plain": to(base, (400, 500)), "reversed": to(base, (400, 500))[:, ::-1], "reversed outside": to(base, (400, 500))[::-1], "swapped": to(base[:, None], (500, 400)).T[::-1],
        "scalar": to(np.float32(1), (300, 300)), "in the middle": to(base[:, None, None], (500, 20, 20)), "two axes": to(base.reshape(5, 1, 100), (5, 80, 100)), "step": to(base, (400, 500))[:, ::3],
        "bool": to(np.array([True, False]), (9000, 2)), "times": to(np.array(["2020"], "M8[D]"), (300, 300)), "text": to(np.array(["abc", "d"]), (9000, 2)), "bytes": to(np.array([b"abc"]), (9000, 9)),
        "structure": to(np.zeros(3, "i4,f8"), (9000, 3)), "record": to(np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), (9000, 1)), "big-endian": to(np.arange(3, dtype=">i4"), (9000, 3)),
        "long double": to(np.ones(1, "g"), (9000,)), "strided base": to(np.arange(1000.0)[::2], (400, 500)), "texts": to(np.array(["a", "bcd"], np.dtypes.StringDType()), (9000, 2)),
        "objects": to(np.array([1, "a", None], object), (9000, 3)), "objects swapped": to(object_array([1], 2), (9000, 2)).T[::-1], "no rows": to(np.float64(1), (0, 1000)), "mesh": mesh[0], "other mesh": mesh[1],
        "windows": slide(line, 100), "windows of a plane": slide(line.reshape(100, 100), (10, 10)), "reversed windows": slide(line, 100)[::-1, ::-1], "every second": slide(line, 100)[::2],
        "windows with gaps": slide(line, 100)[:, ::3], "windows transposed": slide(line, 100).T, "windows of bytes": slide(np.arange(10_000, dtype="i1"), 100), "along an axis": slide(line.reshape(1000, 10), 20, axis=0),
        "writable windows": slide(line, 100, writeable=True), "windows of a slice": slide(np.arange(1e5)[::10], 100), "windows of objects": slide(np.array(list(range(300)), object), 100),
        "windows of objects, reversed": slide(np.array(list(range(300)), object), 100)[::-1], "masked": np.ma.masked_array(to(base, (400, 500)), mask=to(base > 3, (400, 500))),
        "subclass": to(base, (400, 500)).view(Tagged), "frame": pd.DataFrame(to(base, (400, 500)), copy=False),
    }  # fmt: skip


KEYS: list[Any] = [
    (1, 2), ((1, 2), 3), (), ((),), None, 7, True, 0, -1, 2**70, -(2**63), 2**64 - 1, 1.5, float("inf"), 2 + 1j, b"x", b"", "s", "", "\ud800", "é", "a" * 5000, (1,) * 300, frozenset([1]), frozenset([(1, frozenset([2]))]),
    np.int64(5), np.float32(2.5), np.str_("np"), np.bool_(False), np.datetime64("2020"), datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc), datetime.timedelta(3),
    decimal.Decimal("1.25"), fractions.Fraction(1, 3), uuid.UUID(int=5), pathlib.PurePosixPath("/a"), zoneinfo.ZoneInfo("Europe/Berlin"), Colour.RED, Pair(5, 6), MyTuple((9, 9)), Key((1, "k")), range(3), int, len, Ellipsis,
    pd.Timestamp("2020"), pd.Timestamp("2021", tz="UTC"), pd.Timedelta(3), pd.Period("2020", "M"), pd.Interval(0, 1), pd.NA, np.dtype("f8"), pa.int32(),
    # Ours and Dask's own marks.
    (0, 5), (1, "v"), (12, 0, None), ("__ndarray__", 1), "is-collection", "__Serialized__", "__Set__", "!codec", "families",
]  # fmt: skip

CONTAINERS: dict[str, Any] = {
    "list": [1, [2, (3, [4])]], "tuple": (1, (2, [3])), "of one": ((1,), [(2,)], {(3,): [4]}), "empty": [[], (), {}, set(), frozenset(), "", b"", bytearray()], "set": {1, (2, 3), frozenset({4})},
    "subclasses": [MyList([1, [2]]), MyTuple((1, 2)), MyDict(a=1)], "namedtuple": Pair([1], (2,)), "member": [Colour.RED, "r"], "deque": collections.deque([1, [2]], 3), "Counter": collections.Counter("abca"),
    "ChainMap": collections.ChainMap({"a": 1}, {"b": [2]}), "defaultdict": collections.defaultdict(list, a=[1]), "numbers": [True, 1, 1.0, 0, False, 0.0, -0.0, np.float64(1), np.int8(1), np.bool_(True), 1 + 0j],
    "texts": ["a", b"a", bytearray(b"a"), np.str_("a"), np.bytes_(b"a")], "ranges": [range(3), slice(1, None, 2)], "UserList": collections.UserList([MyList([2])]), "None": (None, [None], (None,)),
}  # fmt: skip


def empties() -> dict[str, Any]:
    """b22: what has no bytes."""
    frame = pd.DataFrame
    made: dict[str, Any] = {
        f"{dtype} {shape}": np.zeros(shape, dtype) for dtype in ("f8", "?", "c16", "M8[ns]", "S3", "U3", "V4", "O", "g", "i4,f8", "i4,O", np.dtypes.StringDType()) for shape in ((0,), (4, 0), (0, 3), (1, 0, 5))
    }
    made |= {
        "Fortran order": np.zeros((0, 3), order="F"), "items of no bytes": np.zeros(5, "S0"), "structure without fields": np.zeros(5, []), "cut": np.arange(10)[5:5], "broadcast": np.broadcast_to(np.zeros((1, 0)), (5, 0)),
        "masked": np.ma.masked_array(np.zeros(0), mask=np.zeros(0, bool)), "recarray": np.recarray(0, dtype=[("a", "i4")]), "matrix": np.matrix(np.zeros((0, 3))),
        "frame": frame(), "frame of rows": frame(index=range(5)), "frame of columns": frame(columns=["a", "b"]), "0 × 3": frame(np.zeros((0, 3))), "no rows left": frame({"a": [1], "b": ["x"]}).iloc[:0], "no columns left": frame({"a": [1]}).iloc[:, :0],
        "MultiIndex": frame(index=pd.MultiIndex.from_arrays([[], []], names=["a", "b"])), "zone": frame({"a": []}, index=pd.DatetimeIndex([], tz="UTC", freq="D")), "nothing but missing": frame({"a": [None, None]}),
        "csr": sp.csr_matrix((3, 4)), "csr of no rows": sp.csr_array((0, 4)), "coo": sp.coo_array((5,)), "lil": sp.lil_matrix((3, 0)), "dok": sp.dok_array((0, 3)), "dia": sp.dia_matrix((2, 2)), "bsr": sp.bsr_array((2, 2)),
        "table": pa.table({}), "table of no rows": pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.list_(pa.int8()))}), "chunked": pa.chunked_array([], pa.int64()), "batch": pa.record_batch([], []), "schema": pa.schema([]),
        "buffer": pa.py_buffer(b""), "struct of nothing": pa.array([{}, {}], pa.struct([])), "array.array": array.array("d"), "object": Bag(), "tuples": [(), [()], {(): []}], "float": [],
        "mixed": [np.zeros(0), np.ones(3), np.zeros((2, 0)), b"", "x", bytearray(), np.zeros(100_000), np.zeros(0, "i1")],
    }  # fmt: skip
    for dtype in ("i4", "M8[ns, UTC]", "category", "Int64", "str", "Sparse[float]", "period[M]", "interval[int64, right]", "boolean", object, "int64[pyarrow]", "string[pyarrow]", pd.StringDtype("python"), "timedelta64[s]"):
        made[f"series {dtype}"] = pd.Series([], dtype=dtype)
    for index in (pd.Index([]), pd.RangeIndex(0), pd.period_range("2020", periods=0, freq="M"), pd.IntervalIndex([]), pd.CategoricalIndex([], ["a"]), pd.TimedeltaIndex([])):
        made[f"index {type(index).__name__}"] = frame({"a": []}, index=index)
    return made


def pandas_metadata() -> dict[str, Any]:
    """b44"""
    frame, dates = pd.DataFrame, pd.date_range
    made: dict[str, Any] = {
        "concat": pd.concat([frame({"v": [1, 2, 3]}, index=[1, 1, 3])], keys=["A"], names=["ID", "d"]), "names thrice the same": frame({"k": [1]}, index=pd.MultiIndex.from_arrays([[1], [2], [3]], names=["a", "a", "a"])),
        "names of all kinds": frame({"k": [1]}, index=pd.MultiIndex.from_arrays([[1], [2], [3]], names=[("a", 1), None, 0])), "levels that are not used": frame({"k": [1, 2]}, index=pd.MultiIndex.from_product([[1, 2, 3], ["a", "b"]])[:2]),
        "missing in levels": frame({"k": [1, 2]}, index=pd.MultiIndex.from_arrays([[1, np.nan], [None, "x"]])), "sorted order": frame({"k": [1, 2, 3]}, index=pd.MultiIndex([[1, 2], [3, 4]], [[0, 0, 1], [0, 1, 0]], sortorder=1)),
        "categories": frame({"c": pd.Categorical(["b", None, "a"], ["c", "b", "a"], ordered=True)}), "categories of times": frame({"c": pd.Categorical(dates("2020", periods=2, tz="UTC"))}), "cut": frame({"c": pd.cut([1, 2, 3], 2)}),
        "flags and attrs": _attributed(frame({"a": [1]}).set_flags(allows_duplicate_labels=False)), "attrs of a series": _attributed(pd.Series([1], name=("n", 1))), "attrs inside": frame({"k": object_array(_attributed(frame({"z": [1]})))}),
        "columns twice": frame([[1, "x"]], columns=["a", "a"]), "columns of all kinds": frame([[1, 2, 3, 4]], columns=["a", 1, (2, 3), None]), "columns of times": frame([[1, 2]], columns=dates("2020", periods=2, freq="D", tz="UTC")),
        "columns named": frame([[1]], columns=pd.Index(["a"], name="n")), "columns of categories": frame([[1, 2]], columns=pd.CategoricalIndex(["a", "b"])), "units": frame({unit: dates("2020", periods=2, unit=unit) for unit in ("s", "ms", "us", "ns")}),
        "aggregated": frame({"a": [1, 1, 2], "b": [1, 2, 3]}).groupby("a").agg({"b": ["sum", "mean"]}), "resampled": pd.Series(range(5), index=dates("2020", periods=5)).resample("2D").sum(), "subclass": with_attributes(Measured({"a": [1]}), unit="m"),
        "intervals": frame({"v": [1, 2]}, index=pd.IntervalIndex.from_breaks(dates("2020", periods=3, tz="UTC"), closed="neither", name="i")), "extension": frame({"a": pd.array([1, None], "Int8"), "b": pd.array(["a", None], "string[pyarrow]")}),
    }  # fmt: skip
    zones: list[Any] = ["Europe/Berlin", datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=5, minutes=30), "IST"), zoneinfo.ZoneInfo("Asia/Tokyo")]
    for zone in [*zones, *_dateutil_zones()]:
        made[f"zone {zone!r}"] = frame({"v": 1}, index=dates("2024-03-30", periods=4, freq="12h", tz=zone, name="t"))
    for freq in ("D", "B", "W-WED", "ME", "QE-NOV", "YS-FEB", "h", "2D", "-1D", "BME", "SME", "bh", "C", "15min", "WOM-2TUE", "us"):
        made[f"freq {freq}"] = pd.Series(range(5), index=dates("2020-01-31", periods=5, freq=freq))
    for freq in ("D", "M", "Q-NOV", "Y-MAR", "W-SAT", "h"):
        made[f"period {freq}"] = pd.Series(range(3), index=pd.period_range("2020", periods=3, freq=freq, name="p"))
    return made


def _dateutil_zones() -> list[Any]:
    from dateutil import tz

    return [tz.UTC, tz.tzoffset("X", 3600), tz.tzoffset(None, -1800)]


def extension_types() -> dict[str, Any]:
    """b37"""
    tensor = pa.fixed_shape_tensor
    types_ = {
        "tensor": tensor(pa.int32(), (2, 2)), "tensor with names": tensor(pa.int32(), (2, 2), dim_names=["h", "w"]), "tensor permuted": tensor(pa.float32(), (2, 3, 4), permutation=[2, 0, 1], dim_names=["a", "b", "c"]),
        "tensor of nothing": tensor(pa.float64(), (0, 3)), "uuid": pa.uuid(), "json": pa.json_(), "bool8": pa.bool8(), "opaque": pa.opaque(pa.int32(), "type", "vendor"), "a user's": UserType(7),
    }  # fmt: skip
    return {f"{name}, {form}": made for name, type_ in types_.items() for form, made in forms_of(type_).items()}


def forms_of(type_: Any) -> dict[str, Any]:
    """A type where it may sit."""
    values = pa.ExtensionArray.from_storage(type_, pa.array([None, None], type_.storage_type))
    return {
        "type": type_, "field": pa.field("x", type_, nullable=False, metadata={"k": "v"}), "schema": pa.schema([("x", type_)], metadata={"k": "v"}), "array": values, "slice": values[1:], "no rows": values[:0], "chunked": pa.chunked_array([values, values]),
        "table": pa.table({"x": values}), "batch": pa.record_batch([values], ["x"]), "scalar": values[0], "list": pa.list_(type_), "struct": pa.struct([("a", type_)]), "dictionary": pa.dictionary(pa.int8(), type_), "map": pa.map_(pa.string(), type_),
        "array of lists": pa.ListArray.from_arrays(pa.array([0, 1]), values), "array of structs": pa.StructArray.from_arrays([values], ["a"]), "pandas": pd.ArrowDtype(type_),
    }  # fmt: skip


def file_infos() -> dict[str, Any]:
    """b30: fs objects that hand out what is no buffer."""
    info = fs.FileInfo
    return {
        "file": info("a/ä.parquet", size=2**40, mtime_ns=10**18), "directory": info("a", type=fs.FileType.Directory), "absent": info("a", type=fs.FileType.NotFound), "no path": info("", size=0), "before 1970": info("a", mtime_ns=-5),
        "types": [fs.FileType.File, fs.FileType.Unknown], "selector": fs.FileSelector("a/b", allow_not_found=True, recursive=True),
    }  # fmt: skip


def sparse() -> dict[str, Any]:
    """b48"""
    made: dict[str, Any] = {}
    base = sp.random(50, 40, 0.1, format="coo", random_state=0) * 100
    for form in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok"):
        for kind in ("matrix", "array"):
            for dtype in ("f8", "f4", "i8", "i1", "u2", "c16", "g"):
                made[f"{form}_{kind} {dtype}"] = getattr(sp, f"{form}_{kind}")(base.astype(dtype))
            made[f"{form}_{kind} attribute"] = with_attributes(getattr(sp, f"{form}_{kind}")(sp.eye(3, 4)), note="n")
    for cls in (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array):
        unsorted = cls((np.ones(5), np.array([2, 0, 1, 1, 0]), np.array([0, 2, 5, 5])), shape=(3, 3))
        unsorted.indices, unsorted.indptr = unsorted.indices.astype("i8"), unsorted.indptr.astype("i8")
        rest = cls((np.ones(8), np.array([2, 0, 1, 1, 0, 1, 1, 1]), np.array([0, 2, 5, 5])), shape=(3, 3))
        ordered = unsorted.copy()
        ordered.sort_indices()
        summed = unsorted.copy()
        summed.sum_duplicates()
        made |= {f"{cls.__name__} {name}": value for name, value in {"unsorted": unsorted, "sorted": ordered, "summed": summed, "values to spare": rest, "transposed": unsorted.T}.items()}
    for n in (1, 3, 4):
        made[f"coo of {n} dimensions"] = sp.coo_array((np.ones(3), tuple(np.array([0, 1, 1]) for _ in range(n))), shape=(5,) * n)
    made |= {"huge shape": sp.csr_array((2, 2**40)), "csr of 1 dimension": sp.csr_array(np.array([0, 1.0, 0, 2])), "dok of 1 dimension": sp.dok_array(np.array([0, 3.0]))}
    return made


def arrow_arrays(n: int) -> dict[str, Any]:
    """b33: `n` rows of each layout that can hold them."""
    i = np.arange(n)
    text = pa.array(i.astype("U7"))
    tens = np.arange(0, n + 1, 10)
    return {
        "int64": pa.array(i), "bool": pa.array(i % 2 == 0), "nulls": pa.array(i, mask=i % 3 == 0), "null": pa.nulls(n), "string": text, "large_string": text.cast(pa.large_string()), "string_view": text.cast(pa.string_view()),
        "long views": pa.array(["x" * 20 + str(k) for k in range(n // 10)]).cast(pa.string_view()), "fixed": pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), n, [None, pa.py_buffer(i)]), "list": pa.ListArray.from_arrays(pa.array(tens), pa.array(i)),
        "list of texts": pa.ListArray.from_arrays(pa.array(tens), text), "fixed list": pa.FixedSizeListArray.from_arrays(pa.array(i), 10), "list view": pa.ListViewArray.from_arrays(pa.array(tens[:-1].astype("i4")), pa.array(np.full(n // 10, 10, "i4")), pa.array(i)),
        "struct": pa.StructArray.from_arrays([pa.array(i), text], ["a", "b"]), "map": pa.MapArray.from_arrays(pa.array(tens), text, pa.array(i)), "small dictionary": pa.array(i % 3).dictionary_encode(), "decimal": pa.array(i).cast(pa.decimal128(30, 2)),
        "times": pa.array(i).cast(pa.timestamp("us", "UTC")), "runs": pa.RunEndEncodedArray.from_arrays(pa.array(np.arange(10, n + 1, 10, dtype="i4")), pa.array(np.arange(n // 10))),
        "dense union": pa.UnionArray.from_dense(pa.array(np.zeros(n, "i1")), pa.array(np.arange(n, dtype="i4")), [pa.array(i), text]), "sparse union": pa.UnionArray.from_sparse(pa.array(np.zeros(n, "i1")), [pa.array(i), text]),
        "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), (2, 2)), pa.FixedSizeListArray.from_arrays(pa.array(i), 4)), "a user's": pa.ExtensionArray.from_storage(UserType(2), pa.array(i.astype("i4"))),
    }  # fmt: skip


def cut_from_large(n: int) -> dict[str, Any]:
    """b33, b34, b41: ten of `n` rows of whatever holds rows."""
    i = np.arange(n)
    text = i.astype("U7")
    arrow = pa.array(text)
    return {
        "table": pa.table({"a": i, "s": arrow}).slice(n // 2 + 1, 10), "batch": pa.record_batch([pa.array(i), arrow], ["a", "s"]).slice(5, 10), "chunked": pa.chunked_array([arrow[: n // 2], arrow[n // 2 :]]).slice(n // 2 - 5, 10), "array": arrow[5:15],
        "buffer": pa.py_buffer(bytes(8 * n)).slice(5, 10), "column of a table": pa.table({"a": i, "s": arrow}).slice(7, 10)["s"], "scalar": arrow[n // 2], "array of NumPy": i[10:20], "text of NumPy": text[10:20], "every so many": i[:: n // 10],
        "column of a plane": i.reshape(n // 100, 100)[:10, 5], "field": np.zeros(n, "i4,f8,S20")["f1"][:10], "records": np.zeros(n, "i4,f8").view(np.recarray)[5:15], "real part": np.zeros(n, "c16").real[:10], "masked": np.ma.masked_array(i, mask=i % 2 == 0)[10:20],
        "texts": text.astype(np.dtypes.StringDType())[10:20], "objects": text.astype(object)[10:20], "memoryview": memoryview(bytes(8 * n))[10:20], "memoryview, strided": memoryview(bytearray(8 * n))[:: 8 * n // 10], "array.array": array.array("q", i)[10:20],
        "csr": sp.csr_matrix((np.ones(n), i % 1000, np.arange(0, n + 1, 10)))[3:5], "frame": pd.DataFrame({"a": i, "s": text, "t": pd.to_datetime(i)}).iloc[10:20], "frame of one block": pd.DataFrame(np.zeros((n // 20, 20)))[[3, 4]].iloc[:10],
        "transposed": pd.DataFrame(np.zeros((20, n // 20))).T.iloc[:10], "str": pd.Series(text).iloc[10:20], "string[pyarrow]": pd.Series(text, dtype="string[pyarrow]").iloc[10:20], "large_string": pd.Series(text, dtype=pd.ArrowDtype(pa.large_string())).iloc[10:20],
        "python strings": pd.Series(text, dtype=pd.StringDtype("python")).iloc[10:20], "object column": pd.Series(text, dtype=object).iloc[10:20], "Int64": pd.Series(i, dtype="Int64").iloc[10:20], "bool[pyarrow]": pd.Series(i % 2 == 0, dtype="bool[pyarrow]").iloc[9:19],
        "category": pd.Series(pd.Categorical.from_codes(i % 3, ["a", "b", "c"])).iloc[10:20], "zone": pd.date_range("2020", periods=n, freq="s", tz="UTC")[10:20], "periods": pd.Series(pd.period_range("2020", periods=n, freq="s")).iloc[10:20], "sparse": pd.Series(pd.arrays.SparseArray(i % 7 == 0)).iloc[10:20],
        "MultiIndex": pd.MultiIndex.from_product([range(n // 100), range(100)])[10:20], "intervals": pd.interval_range(0, n)[10:20],
    }  # fmt: skip


TABLES: dict[str, Callable[[], dict[str, Any]]] = {
    "b01": subclasses, "b03": masked, "b07": windows, "b13": lambda: dict(CONTAINERS), "b22": empties, "b37": extension_types, "b44": pandas_metadata, "b48": sparse,
}  # fmt: skip
"""Objects that are compared to the last bit, by kind; the tables beside them need an eye of their own."""


def objects() -> Iterator[tuple[str, Any]]:
    """All of `TABLES` with a label."""
    for kind, table in TABLES.items():
        for label, thing in table().items():
            yield f"{kind} {label}", thing
