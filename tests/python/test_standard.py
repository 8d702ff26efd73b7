"""Built-in values and the standard library: equal, and of the very same class."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import http
import io
import ipaddress
import itertools
import math
import operator
import pathlib
import random
import re
import time
import types
import uuid
import zoneinfo
from typing import Any

import pytest
from support.same import difference
from support.trips import host

import transload


@transload.trust
class Color(enum.Enum):
    RED = 1
    BLUE = "b"


@transload.trust
class Number(enum.IntEnum):
    ONE = 1


@transload.trust
class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


Point = transload.trust(collections.namedtuple("Point", "x y"))

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

VALUES: dict[str, Any] = {
    "none": None, "true": True, "false": False, "zero": 0, "small ints": [1, -1, 127, 128, 255, 256, -128, -129, 65535, -32769],
    "edge ints": [2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1], "big ints": [10**100, -(10**1000), 2**127, -(2**127), 2**128],
    "floats": [0.0, 1.5, -2.25, 1e308, 5e-324, math.inf, -math.inf], "nan": math.nan, "many floats": [x / 7 for x in range(1000)], "sixteen floats": [1.0] * 16, "fifteen floats": [1.0] * 15,
    "almost floats": [1.0] * 20 + [1], "bools and floats": [1.0] * 20 + [True], "complex": [1 + 2j, complex(math.inf, -0.0), complex(-0.0, 0.0)],
    "bytes": [b"", b"x", b"\0\xff", b"a" * 1000], "large bytes": b"y" * 100_000, "bytearray": [bytearray(), bytearray(b"x"), bytearray(b"z" * 5000)],
    "text": ["", "a", "äöü", "日本", "😀", "\0", "line\nend"], "surrogates": ["\ud800", "a\udfffb", "\ud83d\ude00"[0]], "long text": "x" * 100_000,
    "tuple": [(), (1,), (1, (2, [3])), ((),)], "list": [[], [1], [[[]]]], "set": [set(), {1, 2}, {"a", (1, 2)}], "frozenset": [frozenset(), frozenset({1, frozenset({2})})],
    "dict": [{}, {"a": 1}, {"b": 1, "a": 2}], "keys": {1: "int", "1": "str", 1.5: "float", None: "none", (1, "a"): "tuple", b"b": "bytes", frozenset({1}): "set", -1: "minus", 2**70: "big"},
    "bool keys": {True: 1, False: 2}, "key like a tagged node": {"__transload__": 1, "op": 2}, "lists like tagged nodes": [[0, 5], [1, {"a": 1}], [64, 0], [27, b"x"], [127]],
    "many equal dicts": [{"a": i, "b": str(i)} for i in range(10)], "long dict": {str(i): i for i in range(1000)}, "range": [range(5), range(2, 10, 3), range(0), range(2**70, 2**71)],
    "slice": [slice(None), slice(1, 2, 3), slice("a", None)], "ellipsis": [..., NotImplemented], "memoryview": [memoryview(b"abc"), memoryview(bytearray(b"abc")), memoryview(b"x" * 5000)],
    "date": [datetime.date(2024, 2, 29), datetime.date.min, datetime.date.max], "datetime": [datetime.datetime(2024, 1, 1, 12, 30, 15, 123456), datetime.datetime.max],
    "aware": [datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)],
    "zones": [datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-3), "X"), BERLIN, zoneinfo.ZoneInfo("UTC")], "time": [datetime.time(1, 2, 3, 4), datetime.time(1, tzinfo=datetime.UTC, fold=1)],
    "timedelta": [datetime.timedelta(-1, 5, 7), datetime.timedelta.max], "decimal": [decimal.Decimal("1.50"), decimal.Decimal("-0"), decimal.Decimal("Infinity"), decimal.Decimal("1E+500")],
    "fraction": fractions.Fraction(-3, 7), "uuid": [uuid.UUID(int=5), uuid.uuid1()], "path": [pathlib.Path("/a/b"), pathlib.PurePosixPath("x"), pathlib.PureWindowsPath("c:\\x")],
    "enum": [Color.RED, Color.BLUE, Number.ONE, Access.READ | Access.WRITE, http.HTTPStatus.OK, re.I | re.M], "namedtuple": Point(1, [2]), "deque": [collections.deque([1, 2], 3), collections.deque()],
    "OrderedDict": collections.OrderedDict([("b", 1), ("a", 2)]), "defaultdict": collections.defaultdict(list, {1: [2]}), "Counter": collections.Counter("abca"),
    "ChainMap": collections.ChainMap({1: 2}, {3: 4}), "User containers": [collections.UserDict({1: 2}), collections.UserList([1]), collections.UserString("x")],
    "partial": functools.partial(int, base=2), "nested partial": functools.partial(functools.partial(max, 1), 2, key=abs), "SimpleNamespace": types.SimpleNamespace(a=1, b=[2]), "GenericAlias": list[int],
    "union": int | str | None, "mapping proxy": types.MappingProxyType({"a": [1]}), "array": [array.array("d", [1, 2]), array.array("b"), array.array("u", "ä"), array.array("q", range(10_000))],
    "pattern": [re.compile("a+(?P<n>b)", re.I), re.compile(b"x")], "addresses": [ipaddress.ip_address("1.2.3.4"), ipaddress.ip_network("fe80::/64"), ipaddress.ip_interface("10.0.0.1/8")],
    "types": [int, str, list, dict, object, type(None), type(...), collections.OrderedDict, datetime.datetime, ValueError], "functions": [len, max, sum, operator.add], "itemgetter": operator.itemgetter(1, 2),
    "exceptions": [ValueError("x", 1), KeyError("k"), FileNotFoundError(2, "no", "f"), UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), ExceptionGroup("g", [ValueError("y")])],
    "random": random.Random(3), "struct_time": time.gmtime(0), "streams": [io.BytesIO(b"abc"), io.StringIO("text")], "safe uuid": uuid.SafeUUID.safe,
}


@pytest.mark.parametrize("label", VALUES)
def test_value_arrives_whole(label: str) -> None:
    value = VALUES[label]
    if label in ("streams", "exceptions", "random", "struct_time", "pattern"):
        assert repr(_seen(host(value))) == repr(_seen(value)) and type(host(value)) is type(value)
    else:
        assert difference(value, host(value)) is None


def _seen(value: Any) -> Any:
    """What tells such objects apart."""
    if isinstance(value, list):
        return [_seen(part) for part in value]
    if isinstance(value, (io.BytesIO, io.StringIO)):
        return type(value), value.getvalue(), value.tell()
    if isinstance(value, BaseException):
        return type(value), value.args, [_seen(part) for part in getattr(value, "exceptions", ())], getattr(value, "filename", None)
    if isinstance(value, random.Random):
        return value.getstate()
    return value


@pytest.mark.parametrize("label", [label for label in VALUES if label not in ("namedtuple", "enum")])
def test_value_needs_nothing_but_the_default_list(label: str) -> None:
    assert transload.serialize(VALUES[label], families=("host",)).families == ("host",)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (2, 3), (1, 1, 1)])
@pytest.mark.parametrize("form", ["B", "i", "d", "?"])
def test_memoryview_keeps_shape_and_format(shape: tuple[int, ...], form: str) -> None:
    import numpy as np

    view = memoryview(np.zeros(shape, form))
    arrived = host(view)
    assert (arrived.shape, arrived.format, arrived.readonly, arrived.tobytes()) == (view.shape, form, False, view.tobytes())


def test_strided_memoryview_is_compact_on_arrival() -> None:
    view = memoryview(b"abcdef")[::-2]
    assert host(view).tobytes() == b"fdb" and host(view).contiguous


def test_negative_zero_and_nan_keep_their_bits() -> None:
    import struct

    weird = struct.unpack("<d", b"\x01\0\0\0\0\0\xf8\x7f")[0]
    for value in (-0.0, weird):
        assert struct.pack("<d", host(value)) == struct.pack("<d", value)
        assert struct.pack("<d", host([value] * 20)[3]) == struct.pack("<d", value)


def test_signalling_decimal_survives() -> None:
    assert host(decimal.Decimal("sNaN")).is_snan()


def test_dict_order_is_kept() -> None:
    keys = random.Random(1).sample(range(1000), 1000)
    assert list(host(dict.fromkeys(keys))) == keys


def test_singletons_stay_singletons() -> None:
    assert host([None, ..., NotImplemented, int, Color.RED, datetime.timezone.utc]) == [None, ..., NotImplemented, int, Color.RED, datetime.timezone.utc]
    assert host(Color.RED) is Color.RED and host(BERLIN) is BERLIN


@pytest.mark.parametrize("value", [map(abs, [1]), operator.attrgetter("a"), operator.methodcaller("x"), [].append, getattr, eval, exec, open, __import__, compile, type, print, input, breakpoint, globals])
def test_what_calls_or_reaches_at_will_stays_out_of_family_host(value: Any) -> None:
    with pytest.raises(transload.Unsupported):
        transload.dumps(value, families=("host",))


# ── Stand-ins ────────────────────────────────────────────────────────────────────────────────────────────────


def _stand_in(name: str) -> Any:
    from transload import _tables

    host([re.compile("a"), types.MappingProxyType({})])
    return _tables.overrides[name]


@pytest.mark.parametrize("arguments", [("a" * 20_000, 0), (["a"], 0), ("a", 1 << 40), ("a", -1), ("a", int(re.DEBUG)), ("a", "x")])
def test_pattern_is_bounded(arguments: Any) -> None:
    with pytest.raises(ValueError):
        _stand_in("re:_compile")(*arguments)


@pytest.mark.parametrize("arguments", [(pathlib.Path, object, None), (int, object, None), (str, int, None), (type, type, None), ("x", object, None)])
def test_reconstructor_makes_trusted_classes_only(arguments: Any) -> None:
    with pytest.raises(ValueError):
        _stand_in("copyreg:_reconstructor")(*arguments)


@pytest.mark.parametrize("arguments", [(array.array, "x", 0, b""), (array.array, "d", 99, b""), (array.array, "d", 16, "text"), (list, "d", 16, b"")])
def test_array_is_of_a_known_format(arguments: Any) -> None:
    with pytest.raises(ValueError):
        _stand_in("array:_array_reconstructor")(*arguments)
