"""Plain Python by itself and inside one another: values of every built-in kind, the standard library, and classes that use the reduce protocol in each way."""

from __future__ import annotations

import array
import collections
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import operator
import pathlib
import re
import types
import uuid
import zoneinfo
from collections.abc import Iterator
from typing import Any, NamedTuple

import transload


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any = 0


@dataclasses.dataclass
class Mutable:
    a: Any
    b: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any = None


class Slotted:
    __slots__ = ("__dict__", "a", "never_set")

    def __init__(self, a: Any) -> None:
        self.a = a
        self.in_dict = [a]


class Stateful:
    def __init__(self, a: Any) -> None:
        self.a = a

    def __getstate__(self) -> Any:
        return ("state", self.a)

    def __setstate__(self, state: Any) -> None:
        self.a = state[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stateful) and self.a == other.a

    __hash__ = None  # type: ignore[assignment]


class NewArgs:
    def __new__(cls, a: Any, *, b: Any = 0) -> NewArgs:
        self = super().__new__(cls)
        self.made = (a, b)
        return self

    def __getnewargs_ex__(self) -> Any:
        return (self.made[0],), {"b": self.made[1]}


class Rows(list):  # type: ignore[type-arg]
    pass


class Table(dict):  # type: ignore[type-arg]
    pass


class Reduced:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __reduce__(self) -> Any:
        return Reduced, self.parts, {"extra": list(self.parts)}


class ByTable:
    def __init__(self, a: Any) -> None:
        self.a = a


copyreg.pickle(ByTable, lambda made: (ByTable, (made.a,)))

TRUSTED = (Colour, Access, Point, Mutable, Frozen, Slotted, Stateful, NewArgs, Rows, Table, Reduced, ByTable)
transload.trust(*TRUSTED)


def objects() -> Iterator[tuple[str, Any]]:
    """All of them with a label."""
    yield "numbers", [0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, -(2**70), 1.5, float("inf"), -0.0, 1 + 2j, True, None, ..., NotImplemented]
    yield "texts", ["", "a", "ä" * 40, "\U0001f600", "\ud800 alone", "x" * 100_000, b"", b"\0" * 3, b"y" * 100_000, bytearray(b"z" * 5000)]
    yield "containers", {"list": [1, [2]], "tuple": (1, (2,), ()), "set": {1, "a", (2, 3)}, "frozenset": frozenset({1, 2}), "dict": {1: 2, (3, "k"): {None: 1.5}}}
    yield "keys", {None: 1, 1.5: 2, b"k": 3, frozenset({1}): 4, "t": 5, Colour.RED: 6, 2**70: 7, "\udc80": 8}
    yield "views", [memoryview(b"abc"), memoryview(array.array("d", range(500))), memoryview(bytes(24)).cast("i", (2, 3)), memoryview(bytes(range(20)))[::3]]
    yield "ranges", [range(5), range(5, -5, -2), slice(1, None, 2), slice("a", None)]
    yield "floats", [[float(i) for i in range(n)] for n in (0, 15, 16, 300, 40_000)]
    yield "dates", [datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 1, 12, fold=1), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(1, 2, 3),
                    datetime.time(1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2), "x")), datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("UTC"))]  # fmt: skip
    yield "library numbers", [decimal.Decimal("1.50"), decimal.Decimal("NaN"), fractions.Fraction(1, 3), uuid.UUID(int=7), ipaddress.ip_address("::1"), ipaddress.ip_network("10.0.0.0/8")]
    yield "library containers", [collections.deque([1, 2], 3), collections.OrderedDict(b=1, a=2), collections.defaultdict(list, a=[1]), collections.Counter("aab"),
                                 collections.ChainMap({"a": 1}, {"b": 2}), array.array("i", [1, 2]), types.SimpleNamespace(a=1), types.MappingProxyType({"a": 1})]  # fmt: skip
    yield "library objects", [pathlib.PurePosixPath("/a/b"), re.compile("a+", re.I), functools.partial(Point, 1), operator.itemgetter(1, "a"), ValueError("bad", 1), KeyError("k")]
    yield "names", [int, dict, Point, Colour, datetime.datetime]
    yield "enumerations", [Colour.RED, Colour.BLUE, Access.READ | Access.WRITE]
    yield "classes", [Point(1, [2]), Mutable(1, Mutable(2)), Frozen({"a": 1}), Slotted(3), Stateful([1]), NewArgs(1, b=2), Rows([1, Rows([2])]), Table(a=Table(b=1)), Reduced(1, "two"), ByTable(4)]
    yield "many of a class", [Mutable(i, str(i)) for i in range(500)]
    yield "records", [{"a": i, "b": str(i), "c": None} for i in range(500)]
    shared = [1, 2]
    loop: list[Any] = [shared, shared, Mutable(shared)]
    loop.append(loop)
    ring = Mutable(None)
    ring.a = {"ring": ring, "tuple": (ring,)}
    yield "shared and round", [loop, ring]
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep, {"k": (deep,)}]
    yield "deep", deep
