"""Python's own and the standard library: what pickle 5 takes, by what becomes of it here."""

from __future__ import annotations

import abc
import argparse
import array
import asyncio
import calendar
import cmath
import collections
import collections.abc
import contextlib
import copy
import csv
import ctypes
import dataclasses
import datetime
import decimal
import difflib
import dis
import email
import email.policy
import enum
import functools
import graphlib
import http
import http.client
import http.cookies
import inspect
import io
import itertools
import json
import logging
import math
import numbers
import operator
import optparse
import os
import pathlib
import pickle
import platform
import plistlib
import pstats
import queue
import random
import re
import reprlib
import resource
import signal
import socket
import sqlite3
import ssl
import statistics
import string
import struct
import subprocess
import tarfile
import textwrap
import threading
import time
import tokenize
import traceback
import types
import typing
import urllib.error
import urllib.parse
import uuid
import xml.dom.minidom
import xml.etree.ElementTree
import zipfile
import zlib
import zoneinfo
from collections.abc import Callable
from typing import Any


def moved(iterator: Any, n: int = 1) -> Any:
    """The iterator, `n` items on."""
    for _ in range(n):
        next(iterator)
    return iterator


def spent(iterator: Any) -> Any:
    """The iterator at its end."""
    for _ in iterator:
        pass
    return iterator


def _with(obj: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(obj, name, value)
    return obj


def _noted(error: BaseException, *notes: str) -> BaseException:
    for note in notes:
        error.add_note(note)
    return error


def _itself(container: Any, put: str) -> Any:
    getattr(container, put)(*([container] if put == "append" else ["me", container]))
    return container


def _is_function(value: Any) -> bool:
    return isinstance(value, types.BuiltinFunctionType)


def _functions(module: Any, *without: str) -> list[Any]:
    return [value for name, value in vars(module).items() if _is_function(value) and name[0] != "_" and value.__name__ not in without]


_NO_OPERATORS = ("call", "getitem", "setitem", "delitem", *(f"i{name}" for name in (
    "add", "and", "concat", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor")))  # fmt: skip


def _iterators() -> dict[str, Callable[[], Any]]:
    of: dict[str, Callable[[], Any]] = {
        "list": lambda: [1, [2], 3], "tuple": lambda: (1, 2), "str": lambda: "aéb", "ascii": lambda: "abc", "bytes": lambda: b"abc", "bytearray": lambda: bytearray(b"abc"), "range": lambda: range(5),
        "long range": lambda: range(2**70, 2**70 + 5), "dict": lambda: {1: 2, 3: 4}, "values": lambda: {1: 2, 3: 4}.values(), "items": lambda: {1: 2, 3: 4}.items(),
        "array": lambda: array.array("i", [1, 2]), "deque": lambda: collections.deque([1, 2]), "OrderedDict": lambda: collections.OrderedDict(a=1, b=2), "frozenset": lambda: frozenset({1, 2}),
    }
    made: dict[str, Callable[[], Any]] = {}
    for label, container in of.items():
        made[f"iterator of {label}"] = lambda container=container: iter(container())
        made[f"iterator inside {label}"] = lambda container=container: moved(iter(container()))
        made[f"iterator at the end of {label}"] = lambda container=container: spent(iter(container()))
        if label not in ("frozenset",):
            made[f"reversed {label}"] = lambda container=container: moved(reversed(container()))
    tools: dict[str, Callable[[], Any]] = {
        "enumerate": lambda: enumerate(["a", "b"], 5), "enumerate from far": lambda: enumerate([1], 2**70), "zip": lambda: zip([1, 2], (3, 4)), "strict zip": lambda: zip([1, 2], (3, 4), strict=True),
        "count": lambda: itertools.count(5, 2), "count of floats": lambda: itertools.count(1.5, 0.5), "count of decimals": lambda: itertools.count(decimal.Decimal("0.1"), decimal.Decimal(2)),
        "count from far": lambda: itertools.count(2**70), "cycle": lambda: itertools.cycle([1, 2, 3]), "repeat": lambda: itertools.repeat([1], 5), "repeat for ever": lambda: itertools.repeat(None),
        "chain": lambda: itertools.chain([1, 2], "ab"), "chain of lists": lambda: itertools.chain.from_iterable([[1, 3], [2]]), "compress": lambda: itertools.compress([1, 2], [1, 0]),
        "islice": lambda: itertools.islice([1, 2, 3, 4], 0, 3), "product": lambda: itertools.product([1, 2], "ab"), "permutations": lambda: itertools.permutations([1, 2, 3], 2),
        "combinations": lambda: itertools.combinations([1, 2, 3], 2), "combinations again": lambda: itertools.combinations_with_replacement([1, 2], 3),
        "zip_longest": lambda: itertools.zip_longest([1], [2, 3], fillvalue="-"), "accumulate": lambda: itertools.accumulate([1, 2, 3]), "nested": lambda: enumerate(zip(itertools.count(), itertools.cycle("ab"), strict=False)),
    }  # fmt: skip
    for label, tool in tools.items():
        made[label] = tool
        made[f"{label}, moved"] = lambda tool=tool: moved(tool())
        if label not in ("count", "count of floats", "count of decimals", "count from far", "cycle", "repeat for ever", "nested", "strict zip", "repeat"):
            made[f"{label}, spent"] = lambda tool=tool: spent(tool())
    made["cycle, twice round"] = lambda: moved(itertools.cycle([1, 2]), 3)
    made["shared iterator"] = lambda: [iter([1])] * 2
    return made


def _functions_and_classes() -> dict[str, Callable[[], Any]]:
    return {
        "math": lambda: _functions(math), "cmath": lambda: _functions(cmath), "operators": lambda: _functions(operator, *_NO_OPERATORS),
        "statistics": lambda: [statistics.mean, statistics.median, statistics.stdev, statistics.NormalDist(1.0, 2.0), statistics.linear_regression([1, 2], [2, 4])],
        "builtins": lambda: [abs, all, any, ascii, bin, callable, chr, divmod, format, hash, hex, id, isinstance, issubclass, len, max, min, oct, ord, pow, repr, round, sorted, sum],
        "classes": lambda: [bool, bytearray, bytes, complex, dict, enumerate, float, frozenset, int, list, object, range, reversed, set, slice, str, tuple, zip, collections.Counter, pathlib.Path, re.Pattern],
        "abstract classes": lambda: [collections.abc.Sequence, collections.abc.Mapping, collections.abc.Callable, numbers.Number, numbers.Integral, abc.ABC, types.SimpleNamespace],
        "clocks": lambda: [time.time, time.monotonic, time.perf_counter_ns, uuid.uuid4],
        "methods of classes": lambda: [str.upper, str.split, bytes.fromhex, int.from_bytes, float.fromhex, dict.fromkeys, dict.get, list.index, datetime.datetime.now, datetime.date.fromisoformat, int.__add__],
        "methods of values": lambda: [", ".join, {"a": 1}.get, "abc".startswith, (1).__add__, {1: 2}.__getitem__, itertools.count().__next__, [1, 2].index, {1}.__contains__, datetime.date(2024, 1, 1).isoformat],
        "method and its object": lambda: (lambda d: [d, d.get])({"a": 1}), "defaultdict that counts": lambda: collections.defaultdict(itertools.count().__next__, a=5),
        "partial": lambda: _with(functools.partial(int, base=2), note=[1]), "partialmethod": lambda: functools.partialmethod(max, 3),
    }


def _typing() -> dict[str, Callable[[], Any]]:
    return {
        "aliases": lambda: [list[int], dict[str, list[int]], tuple[int, ...], tuple[()], type[int], collections.deque[int], re.Pattern[str], collections.abc.Sequence[int], next(iter(tuple[int, ...]))],
        "alias of Callable": lambda: [collections.abc.Callable[[int, str], bool], collections.abc.Callable[..., int], collections.abc.Callable[[], None]],
        "unions": lambda: [int | str, int | None, list[int] | None],
        "typing": lambda: [typing.List, typing.Dict, typing.Union, typing.Optional, typing.Callable, typing.Tuple, typing.Any, typing.Generic, typing.Sequence, typing.Literal, typing.Self, typing.Never],  # noqa: UP006
        "typing aliases": lambda: [
            typing.List[int], typing.Dict[str, typing.List[int]], typing.Union[int, str], typing.Optional[list[int]], typing.Callable[[int], str], typing.Callable[..., int], typing.Any,  # noqa: UP006, UP007
            typing.Tuple[int, ...], typing.Tuple[()], typing.Type[int], typing.ClassVar[int], typing.Literal[1, "a", b"b", None, True], typing.Annotated[int, "metres", {"a": 1}], typing.List[typing.AnyStr],  # noqa: UP006
        ],
    }


def _exceptions() -> dict[str, Callable[[], Any]]:
    return {
        "with notes": lambda: _noted(ValueError("x", [1]), "first", "second"), "with attributes": lambda: _with(ValueError("x"), part=[1]), "of the system": lambda: [OSError(2, "no", "f", None, "g"), BlockingIOError(11, "x", 5)],
        "syntax": lambda: SyntaxError("m", ("f", 1, 2, "text", 3, 4)), "import": lambda: ImportError("x", name="n", path="p"), "name": lambda: [NameError("x", name="n"), AttributeError("x", name="n", obj=[1])],
        "unicode": lambda: [UnicodeEncodeError("a", "b", 0, 1, "c"), UnicodeDecodeError("utf-8", b"x", 0, 1, "c"), UnicodeTranslateError("b", 0, 1, "c")], "group": lambda: _noted(ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [TypeError()])]), "n"),
        "json": lambda: json.JSONDecodeError("m", "doc\nument", 5), "process": lambda: [subprocess.CalledProcessError(1, ["cmd", "x"], b"out", "err"), subprocess.TimeoutExpired("c", 1.5)], "re": lambda: re.error("m", "p\nq", 2),
        "struct": lambda: struct.error("x"), "queues": lambda: [queue.Empty(), queue.Full(), asyncio.QueueEmpty()], "decimal": lambda: [decimal.InvalidOperation([decimal.ConversionSyntax]), decimal.DivisionByZero()],
        "asyncio": lambda: [asyncio.CancelledError("x"), asyncio.IncompleteReadError(b"x", 5), asyncio.LimitOverrunError("x", 5), asyncio.InvalidStateError()], "sockets": lambda: [socket.gaierror(1, "x"), socket.herror(2)],
        "http": lambda: [http.client.IncompleteRead(b"x", 5), http.client.BadStatusLine("x"), urllib.error.URLError("gone")], "sqlite": lambda: [sqlite3.OperationalError("x"), sqlite3.IntegrityError()], "ssl": lambda: ssl.SSLError(1, "x"),
        "archives": lambda: [zlib.error("x"), zipfile.BadZipFile("x"), tarfile.ReadError("x")], "pickle": lambda: [pickle.PicklingError("x"), pickle.UnpicklingError("y")], "others": lambda: [
            dataclasses.FrozenInstanceError("x"), statistics.StatisticsError("x"), csv.Error("x"), threading.BrokenBarrierError(), zoneinfo.ZoneInfoNotFoundError("x"), io.UnsupportedOperation("x"), copy.Error("x"),
            xml.etree.ElementTree.ParseError("x"), argparse.ArgumentTypeError("x"), tokenize.TokenError("x", (1, 2)), graphlib.CycleError("x", [1]), plistlib.InvalidFileException(),
        ],
    }  # fmt: skip


def _states() -> dict[str, Callable[[], Any]]:
    return {
        "namespaces": lambda: [argparse.Namespace(a=1, b=[2]), optparse.Values({"a": 1}), types.SimpleNamespace(a=1)], "log record": lambda: logging.LogRecord("n", 10, "p", 1, "m %s", ("a",), None, "f"),
        "loggers": lambda: [logging.getLogger("transload.test.a"), logging.getLogger()], "decimal context": lambda: decimal.Context(prec=5, rounding=decimal.ROUND_UP, traps=[decimal.Inexact], flags=[decimal.Rounded]),
        "template": lambda: string.Template("$a"), "calendars": lambda: [calendar.Calendar(2), calendar.TextCalendar(), calendar.HTMLCalendar()], "mail": lambda: email.message_from_string("From: a\nSubject: b\n\nbody"),
        "cookies": lambda: http.cookies.SimpleCookie('a=b; c="d"'), "elements": lambda: xml.etree.ElementTree.fromstring("<a x='1'>t<!-- c --><b>u</b>v<?p q?></a>"), "comments": lambda: [
            xml.etree.ElementTree.Comment("c"), xml.etree.ElementTree.ProcessingInstruction("p", "q")], "element tree": lambda: xml.etree.ElementTree.ElementTree(xml.etree.ElementTree.fromstring("<a/>")),
        "signature": lambda: inspect.signature(_signed), "parameter": lambda: inspect.Parameter("a", inspect.Parameter.KEYWORD_ONLY, default=[1], annotation=int), "empty": lambda: inspect.Parameter.empty, "uid": lambda: plistlib.UID(3),
        "contexts": lambda: [contextlib.nullcontext([1]), contextlib.suppress(ValueError)], "writers": lambda: [reprlib.Repr(), textwrap.TextWrapper(width=3)], "named tuples": lambda: [
            urllib.parse.urlparse("http://a/b?c#d"), urllib.parse.urlsplit(b"http://a"), urllib.parse.urldefrag("http://a#x"), difflib.Match(1, 2, 3), dis.Positions(1, 2, 3, 4),
            next(tokenize.generate_tokens(io.StringIO("x").readline))],
        "system": lambda: [os.stat("/"), os.statvfs("/"), os.uname(), os.times(), os.terminal_size((80, 24)), resource.getrusage(0), time.localtime(), time.gmtime(0)],
        "members": lambda: [
            socket.AF_INET, socket.SOCK_STREAM, signal.SIGTERM, signal.SIG_DFL, ssl.PROTOCOL_TLS, ssl.OP_ALL, http.HTTPMethod.GET, http.HTTPStatus.OK, inspect.Parameter.KEYWORD_ONLY, uuid.SafeUUID.unknown, enum.KEEP,
            pstats.SortKey.CALLS, plistlib.FMT_XML, re.I | re.M],
        "unnamed flags": lambda: [re.RegexFlag(1 << 14 | 2), ssl.Options(1 << 3)], "iso week": lambda: datetime.date(2024, 1, 1).isocalendar(), "zone without offset": lambda: datetime.tzinfo(),
        "streams": lambda: [moved_to(io.BytesIO(b"abc"), 2), moved_to(io.StringIO("a\r\nb", newline=""), 2), _with(io.BytesIO(), note=1), _with(io.StringIO("x"), note=[2]), moved_to(io.BytesIO(b"x" * 5000), 6000)],
        "deque of itself": lambda: _itself(collections.deque(), "append"), "UserList of itself": lambda: _itself(collections.UserList(), "append"), "namespace of itself": lambda: (lambda n: _with(n, me=n))(types.SimpleNamespace()),
        "random": lambda: [random.Random(3), (lambda r: (r.gauss(), r)[1])(random.Random(4))], "arrays": lambda: [array.array(code, "ab" if code in "uw" else [1, 2]) for code in array.typecodes],
        "nan in keys": lambda: {math.nan: 1}, "odd decimals": lambda: [decimal.Decimal("NaN123"), decimal.Decimal("-sNaN"), decimal.Decimal("0E-50")], "zone shared": lambda: (
            lambda zone: [datetime.datetime(2024, 1, 1, tzinfo=zone), datetime.datetime(2025, 1, 1, tzinfo=zone)])(datetime.timezone(datetime.timedelta(hours=1))),
        "addresses": lambda: [__import__("ipaddress").ip_address("::1%eth0"), __import__("ipaddress").ip_interface("fe80::1%a/64")],
        "encoder": lambda: json.JSONEncoder(indent=2),
    }  # fmt: skip


def moved_to(stream: Any, place: int) -> Any:
    """The stream at a place."""
    stream.seek(place)
    return stream


def _signed(a: int, /, b: Any = 1, *c: str, d: float, **e: Any) -> bool:
    return bool((a, b, c, d, e))


def values() -> dict[str, Callable[[], Any]]:
    """What travels in family host; each call makes a new one."""
    groups = {"iterator": _iterators, "named": _functions_and_classes, "typing": _typing, "exception": _exceptions, "object": _states}
    return {f"{kind}: {label}": make for kind, group in groups.items() for label, make in group().items()}


# What pickle 5 takes and family host does not, with the word of the reason (docs/objects.md).
PICKLED: dict[str, tuple[Callable[[], Any], str]] = {
    "map": (lambda: map(abs, [1]), "builtins:map"), "filter": (lambda: filter(None, [1]), "builtins:filter"), "iterator that calls": (lambda: iter(int, 1), "builtins:iter"),
    "starmap": (lambda: itertools.starmap(pow, [(1, 2)]), "itertools:starmap"), "accumulate by a function": (lambda: itertools.accumulate([1], operator.mul), "itertools:accumulate"),
    "groupby": (lambda: itertools.groupby([1]), "itertools:groupby"), "takewhile": (lambda: itertools.takewhile(bool, [1]), "itertools:takewhile"), "tee": (lambda: itertools.tee([1])[0], "itertools:"),
    "zip of a map": (lambda: zip([1], map(abs, [1]), strict=False), "builtins:zip"), "attrgetter": (lambda: operator.attrgetter("a"), "operator:attrgetter"),
    "methodcaller": (lambda: operator.methodcaller("a", 1), "operator:methodcaller"), "methodcaller with keywords": (lambda: operator.methodcaller("a", b=1), "operator:methodcaller"),
    "method that changes": (lambda: [].append, "builtins:list.append"), "method that changes, of a class": (lambda: list.append, "builtins:list.append"), "format": (lambda: str.format, "builtins:str.format"),
    "encode": (lambda: str.encode, "builtins:str.encode"), "random.random": (lambda: random.random, "Random.random"), "eval": (lambda: eval, "builtins:eval"), "open": (lambda: open, "open is not"), "getattr": (lambda: getattr, "getattr reaches everything"),
    "import": (lambda: __import__, "builtins:__import__"), "type": (lambda: type, "builtins:type"), "ABCMeta": (lambda: abc.ABCMeta, "abc:ABCMeta"), "NamedTuple": (lambda: typing.NamedTuple, "typing:NamedTuple"),
    "system": (lambda: os.system, "posix:system"), "sleep": (lambda: time.sleep, "time:sleep"), "call": (lambda: operator.call, "_operator:call"), "setitem": (lambda: operator.setitem, "_operator:setitem"),
    "program": (lambda: __import__("ast").parse("x = 1"), "ast:Module"), "frame of a traceback": (lambda: traceback.FrameSummary("f", 1, "n"), "traceback:FrameSummary"), "uname": (lambda: platform.uname(), "platform:uname_result"),
    "C number": (lambda: ctypes.c_int(3), "_ctypes:_unpickle"), "document": (lambda: xml.dom.minidom.parseString("<a/>"), "xml.dom.minidom:Document"), "handler": (lambda: logging.NullHandler(), "logging:NullHandler"),
    "new mail": (lambda: email.message_from_string("a: b", policy=email.policy.default), "email.message:EmailMessage"), "lock of asyncio": (lambda: asyncio.Lock(), "asyncio.locks:Lock"),
}  # fmt: skip
