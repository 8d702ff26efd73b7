"""What pickle 5 takes of Python and its library arrives as pickle would bring it; what stays pickle's says so."""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import enum
import functools
import importlib
import itertools
import operator
import pickle
import subprocess
import sys
import types
import typing
from typing import Any

import msgpack
import pytest
from support import objects_numpy, objects_python
from support.same import difference
from support.trips import host

import transload
from transload import _tables
from transload.trusted import standard

_VALUES = {**objects_python.values(), **objects_numpy.values()}
_PICKLED = {**objects_python.PICKLED, **objects_numpy.PICKLED}


def _no_longer_pickled(made: Any) -> bool:
    """Whether it holds iterators of itertools, whose reduce methods are gone from Python 3.14 on."""
    if sys.version_info < (3, 14):
        return False
    try:
        pickle.loads(pickle.dumps(made, 5))
    except TypeError:
        return True
    except pickle.PicklingError:
        return False
    return False


@pytest.mark.parametrize("label", _VALUES)
@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support:DeprecationWarning")
def test_object_arrives_as_pickle_would_bring_it(label: str) -> None:
    made = _VALUES[label]()
    if _no_longer_pickled(made):
        with pytest.raises((transload.Unsupported, TypeError)):
            host(made)
        return
    try:
        by_pickle = pickle.loads(pickle.dumps(made, 5))
    except pickle.PicklingError:  # reversed deques, from Python 3.12 on
        by_pickle = made
    arrived = host(made)
    found = difference(made, arrived)
    assert found is None or difference(by_pickle, arrived) is None, found
    assert transload.explain(made, families=("host",)).families == ("host",)


@pytest.mark.parametrize("label", [label for label in _VALUES if label.startswith("iterator") and "for ever" not in label])
def test_iterator_goes_on_where_it_stood(label: str) -> None:
    if _no_longer_pickled(_VALUES[label]()):
        pytest.skip("itertools say that they cannot be pickled, from Python 3.14 on")
    here, there = _VALUES[label](), host(_VALUES[label]())
    if label == "iterator: shared iterator":
        assert there[0] is there[1]
        return
    assert difference(list(itertools.islice(here, 20)), list(itertools.islice(there, 20))) is None


@pytest.mark.parametrize("label", _PICKLED)
@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support:DeprecationWarning")
def test_what_runs_or_belongs_to_a_process_is_pickles(label: str) -> None:
    make, reason = _PICKLED[label]
    if _no_longer_pickled(make()):
        with pytest.raises(transload.Unsupported):
            transload.dumps(make(), families=("host",))
        return
    pickle.loads(pickle.dumps(make(), 5))
    with pytest.raises(transload.Unsupported, match=reason):
        transload.dumps(make(), families=("host",))
    message = transload.dumps(make(), families=("host", "pickle"))
    with pytest.raises(transload.Untrusted):
        transload.loads(message, families=("host",))
    assert type(transload.loads(message, families=("host", "pickle"))) is type(pickle.loads(pickle.dumps(make(), 5)))
    assert any(reason in leaf.reason for leaf in transload.explain(make()).fallbacks)


# ── The reduce protocol: callables without a name ────────────────────────────────────────────────────────────


T = typing.TypeVar("T")
transload.trust(f"{__name__}:T")


@transload.trust
class Builder:
    """Reduces to what its test says."""

    def __init__(self, a: Any = None, b: Any = None) -> None:
        self.a, self.b = a, b

    def again(self, a: Any) -> Builder:
        return Builder(a, self.b)

    @classmethod
    def made(cls, a: Any) -> Builder:
        return cls(a, "made")

    def secret(self) -> Any:
        return self.a


transload.trust(f"{__name__}:Builder.again", f"{__name__}:Builder.made")


@transload.trust
class Reduces:
    """Reduces to a call."""

    call: Any = None

    def __reduce__(self) -> Any:
        return type(self).call


@pytest.mark.parametrize(
    ("call", "a", "b"),
    [
        ((functools.partial(Builder, b=2), (1,)), 1, 2), ((functools.partial(Builder, 1), (2,)), 1, 2), ((Builder(b=5).again, ([1],)), [1], 5), ((functools.partial(Builder(b=5).again, [1]), ()), [1], 5),
        ((Builder.made, (3,)), 3, "made"), ((functools.partial(Builder.made, 3), ()), 3, "made"), ((object.__new__, (Builder,), {"a": 1, "b": 2}), 1, 2),
    ],
)
def test_reduce_may_call_what_has_no_name(call: Any, a: Any, b: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reduces, "call", call)
    arrived = host(Reduces())
    assert (type(arrived), arrived.a, arrived.b) == (Builder, a, b)
    assert difference(pickle.loads(pickle.dumps(Reduces(), 5)), arrived) is None


@pytest.mark.parametrize(
    "call",
    [(list, ([1, [2]],)), (tuple, ([1],)), (dict, ([("a", 1)],)), (dict, ({"a": 1},)), (set, ([1],)), (frozenset, ([1],)), (str, ("abc",)), (bytes, (b"x",)), (bytes, ([1, 2],)), (bytearray, (b"x",)), (int, ("5",)), (float, ("1.5",)), (bool, (1,)),
     (collections.defaultdict, (list,), None, None, iter([("a", [1])])), (collections.OrderedDict, ([("b", 1)],)), (collections.deque, ([1], 3)), (complex, (1, 2))],
)  # fmt: skip
def test_reduce_may_call_a_value_s_own_class(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = (*call[:3], *(iter(list(part)) if part is not None else None for part in call[3:]))
    monkeypatch.setattr(Reduces, "call", fresh)
    arrived = host(Reduces())
    if len(call) < 4:
        assert difference(pickle.loads(pickle.dumps(Reduces(), 5)), arrived) is None
    else:
        assert arrived == {"a": [1]}


def test_partial_of_a_function_off_the_list_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reduces, "call", (functools.partial(eval, "1"), ()))
    with pytest.raises(transload.Unsupported, match="builtins:eval is not trusted to be called"):
        transload.dumps(Reduces(), families=("host",))
    monkeypatch.setattr(Reduces, "call", (functools.partial(abs, -1), ()))  # may be handed on, not called
    with pytest.raises(transload.Unsupported, match="builtins:abs is not trusted to be called"):
        transload.dumps(Reduces(), families=("host",))
    assert transload.loads(transload.dumps(Reduces(), families=("host", "pickle")), families=("host", "pickle")) == 1


# ── Methods ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_method_of_an_object_keeps_its_object() -> None:
    builder = Builder(1, 2)
    arrived, method = host([builder, builder.again])
    assert method.__self__ is arrived and method("x").b == 2 and method.__func__ is Builder.again


def test_object_that_holds_its_own_method() -> None:
    builder = Builder()
    builder.a = builder.again
    arrived = host(builder)
    assert arrived.a.__self__ is arrived


def test_class_method_goes_by_name() -> None:
    assert host(Builder.made)(1).b == "made"


def test_method_off_the_list_says_which() -> None:
    with pytest.raises(transload.Unsupported, match=r'method .*:Builder\.secret is not on the trust list; transload\.trust\(".*:Builder\.secret"\)'):
        transload.dumps({"f": Builder().secret}, families=("host",))
    with pytest.raises(transload.Unsupported, match=r"builtins:list\.append"):
        transload.dumps([].append, families=("host",))


# ── Generics ─────────────────────────────────────────────────────────────────────────────────────────────────


@transload.trust
class Box(typing.Generic[T]):
    """A generic class of the user."""

    def __init__(self, content: T) -> None:
        self.content = content


@transload.trust
class Greedy:
    """Not typing's own way of subscription."""

    def __class_getitem__(cls, item: Any) -> Any:
        return item


def test_generic_class_and_its_instances() -> None:
    alias, plain, made = host([Box[int], Box(1), Box[list[int]]([2])])
    assert alias == Box[int] and plain.content == 1 and made.content == [2]
    assert made.__orig_class__ == Box[list[int]]
    assert host(Box[T]) == Box[T] and host(T) is T


@pytest.mark.parametrize(
    "arguments",
    [([1, 2], 0), ({"a": 1}, "a"), (typing.List, "int"), (typing.List, ("__import__('os')",)), (typing.Optional, 5), (typing.Annotated, (int,)), (Greedy, int), (int, int), (typing.Literal, ([1],)), (typing.List, [["x"]])],  # noqa: UP006
)
def test_subscription_is_of_typings_forms_and_of_types(arguments: Any) -> None:
    host(typing.List[int])  # noqa: UP006
    with pytest.raises((ValueError, TypeError)):
        _tables.overrides["_operator:getitem"](*arguments)


# ── Corrupt ──────────────────────────────────────────────────────────────────────────────────────────────────

REF, LIST, TUPLE, NAME, REDUCE, NEW, ADAPTED, RANGE, MARK = 0, 2, 3, 8, 9, 10, 12, 20, 0x40
ENDLESS = [RANGE, 0, 1 << 62, 1]


def message(root: Any, *names: str, replace: Any = None) -> list[bytes]:
    """By hand: docs/format.md, "The header"; the text "scalar key" becomes the node `replace`."""
    packed: bytes = msgpack.packb([1, {}, list(names), [], None, [], root])
    return [packed if replace is None else packed.replace(msgpack.packb("scalar key"), msgpack.packb(replace))]


def iterator(kind: Any, arguments: Any, *state: Any) -> list[bytes]:
    return message([ADAPTED, 0, [TUPLE, kind, arguments, [TUPLE, *state]]], "standard.iterator", "builtins:abs")


_BAD_ITERATORS: dict[str, tuple[Any, ...]] = {
    "unknown": ("tee", [TUPLE, [LIST]]), "no text": (5, [TUPLE]), "no arguments": ("iter", 5), "two states": ("iter", [TUPLE, [LIST]], 1, 2), "state of an array": ("iter", [TUPLE, [LIST, 1]], [22, "<i8", bytes(8), 1]),
    "state that is no number": ("iter", [TUPLE, [LIST, 1]], "x"), "of a number": ("iter", [TUPLE, 5]), "of an object": ("iter", [TUPLE, [NAME, 1]]), "that calls": ("iter", [TUPLE, [NAME, 1], 1]), "reversed dict": ("reversed", [TUPLE, {}]),
    "deque of a list": ("_deque_iterator", [TUPLE, [LIST], 0]), "enumerate of a list": ("enumerate", [TUPLE, [LIST], 0]), "zip of ranges": ("zip", [TUPLE, ENDLESS]), "zip that is nearly strict": ("zip", [TUPLE], 1),
    "count of text": ("count", [TUPLE, "x"]), "cycle of a range": ("cycle", [TUPLE, ENDLESS]), "cycle over a range": ("cycle", [TUPLE, [ADAPTED, 0, [TUPLE, "iter", [TUPLE, [LIST]], [TUPLE]]]], [TUPLE, ENDLESS, 0]),
    "chain of a range": ("chain", [TUPLE], [TUPLE, ENDLESS]), "compress of ranges": ("compress", [TUPLE, ENDLESS, ENDLESS]), "slice of a range": ("islice", [TUPLE, ENDLESS, 1]),
    "product of a range": ("product", [TUPLE, ENDLESS]), "product of places": ("product", [TUPLE, [TUPLE, 1]], [TUPLE, "x"]), "product of too many places": ("product", [TUPLE, [TUPLE, 1]], [TUPLE, 0, 0]),
    "permutations of a range": ("permutations", [TUPLE, ENDLESS, 2]), "long permutations": ("permutations", [TUPLE, [TUPLE, 1], 1 << 40]), "permutations of places": ("permutations", [TUPLE, [TUPLE, 1, 2], 2], [TUPLE, [TUPLE, 9], [TUPLE]]),
    "long combinations": ("combinations_with_replacement", [TUPLE, [TUPLE, 1], 1 << 40]), "combinations of no places": ("combinations", [TUPLE, [TUPLE, 1], 1], [TUPLE]), "accumulate by a function": (
        "accumulate", [TUPLE, [ADAPTED, 0, [TUPLE, "iter", [TUPLE, [LIST]], [TUPLE]]], [NAME, 1]]), "repeat less than nothing": ("repeat", [TUPLE, 1, -5]), "count state": ("count", [TUPLE, 1], 5),
}  # fmt: skip


@pytest.mark.parametrize("label", _BAD_ITERATORS)
def test_iterator_of_something_else_is_refused(label: str) -> None:
    with pytest.raises(transload.Malformed):
        transload.loads(iterator(*_BAD_ITERATORS[label]))


@pytest.mark.parametrize("place", [-5, 1 << 40, -(1 << 62)])
@pytest.mark.parametrize("kind", ["iter", "reversed"])
def test_place_outside_of_a_list_is_its_end(kind: str, place: int) -> None:
    assert len(list(transload.loads(iterator(kind, [TUPLE, [LIST, 1, 2]], place)))) <= 2


_BAD_CALLS: dict[str, tuple[Any, ...]] = {
    "eval by a partial": ([REDUCE, 0, [[REDUCE, 1, [[NAME, 2]], [TUPLE, [NAME, 2], [TUPLE, "1"], {}, None]]]], "_operator:call", "functools:partial", "builtins:abs"),
    "call of a list": ([REDUCE, 0, [[LIST]]], "_operator:call"), "call of nothing": ([REDUCE, 0, []], "_operator:call"), "call of a class to be handed on": ([REDUCE, 0, [[NAME, 1], 5]], "_operator:call", "builtins:range"),
    "method of another class": ([ADAPTED, 0, [TUPLE, [NAME, 1], 5]], "standard.method", "builtins:str.upper"), "method that is a function": ([ADAPTED, 0, [TUPLE, [NAME, 1], 5]], "standard.method", "statistics:mean"),
    "method that is a class": ([ADAPTED, 0, [TUPLE, [NAME, 1], 5]], "standard.method", "builtins:int"), "method off the list": ([ADAPTED, 0, [TUPLE, [NAME, 1], [LIST]]], "standard.method", "builtins:list.append"),
    "method of no pair": ([ADAPTED, 0, [TUPLE, [NAME, 1]]], "standard.method", "builtins:str.upper"), "object of a class that may not be made": ([REDUCE, 0, [[NAME, 1]]], "builtins:object.__new__", "pathlib:Path"),
    "bytes of a number": ([REDUCE, 0, [1 << 40]], "builtins:bytes"), "bytearray of a number": ([REDUCE, 0, [1 << 40]], "builtins:bytearray"), "list of a range": ([REDUCE, 0, [ENDLESS]], "builtins:list"),
    "tuple of a range": ([REDUCE, 0, [ENDLESS]], "builtins:tuple"), "dict of ranges": ([REDUCE, 0, [[LIST, ENDLESS]]], "builtins:dict"), "set of a range": ([REDUCE, 0, [ENDLESS]], "builtins:set"),
    "int of a decimal": ([REDUCE, 0, [[REDUCE, 1, ["1e999999999"]]]], "builtins:int", "decimal:Decimal"), "text of a list": ([REDUCE, 0, [[LIST]]], "builtins:str"), "defaultdict of a dict": ([REDUCE, 0, [None, {}]], "collections:defaultdict"),
    "logger of a long name": ([REDUCE, 0, ["a" * 1000]], "logging:getLogger"), "logger of a number": ([REDUCE, 0, [5]], "logging:getLogger"), "logger with a state": ([REDUCE, 0, ["a"], {"x": 1}], "logging:getLogger"),
    "signature of a range": ([REDUCE, 0, [ENDLESS]], "inspect:Signature"), "parameter of no kind": ([REDUCE, 0, ["a", 1]], "inspect:Parameter"), "namespace of a dict": ([REDUCE, 0, [{}]], "types:SimpleNamespace"),
    "record of a range": ([REDUCE, 0, [ENDLESS, {}]], "os:stat_result"), "text of lines that is a list": ([REDUCE, 0, ["x", [LIST], 1]], "json.decoder:JSONDecodeError"), "pattern that is a range": ([REDUCE, 0, ["x", ENDLESS, 1]], "re:error"),
    "elements that are none": ([ADAPTED, 0, [TUPLE, "a", {}, None, None, [LIST, 5]]], "standard.element"), "elements of a range": ([ADAPTED, 0, [TUPLE, "a", {}, None, None, ENDLESS]], "standard.element"),
    "element of no parts": ([ADAPTED, 0, ENDLESS], "standard.element"), "stream of text": ([ADAPTED, 0, [TUPLE, "x", 0, None]], "standard.bytes_io"), "stream before its start": ([ADAPTED, 0, [TUPLE, b"x", -1, None]], "standard.bytes_io"),
    "stream of bytes": ([ADAPTED, 0, [TUPLE, b"x", "", 0, None]], "standard.string_io"), "stream of odd lines": ([ADAPTED, 0, [TUPLE, "x", "y", 0, None]], "standard.string_io"), "alias of text": ([ADAPTED, 0, [TUPLE, "x", [TUPLE], False]], "standard.alias"),
    "alias of a range": ([ADAPTED, 0, [TUPLE, None, ENDLESS, False]], "standard.alias"), "exception that changes its class": ([REDUCE, 0, [], {"__class__": [NAME, 1]}], "queue:Full", "struct:error"),
    "member of no number": ([REDUCE, 0, [[LIST]]], "socket:AddressFamily"), "member that is none": ([REDUCE, 0, [1 << 40]], "socket:AddressFamily"), "deque iterator by its class": ([REDUCE, 0, [ENDLESS]], "_collections:_deque_iterator"),
}  # fmt: skip


@pytest.mark.parametrize("label", _BAD_CALLS)
def test_call_that_no_reduce_method_gives_is_refused(label: str) -> None:
    root, *names = _BAD_CALLS[label]
    with pytest.raises(transload.Malformed):
        transload.loads(message(root, *names))


_COPIES: dict[str, tuple[Any, Any, str]] = {
    "deque": ([LIST, *[0] * 50_000], [REDUCE, 0, [[REF, 0]]], "collections:deque"), "OrderedDict": ({str(i): 0 for i in range(20_000)}, [REDUCE, 0, [[REF, 0]]], "collections:OrderedDict"),
    "list": ([LIST, *[0] * 50_000], [REDUCE, 0, [[REF, 0]]], "builtins:list"), "array": (bytes(50_000), [REDUCE, 0, [[NAME, 1], "b", 1, [REF, 0]]], "array:_array_reconstructor"),
    "group": ([LIST, *[[REDUCE, 1, []]] * 20_000], [REDUCE, 0, ["x", [REF, 0]]], "builtins:ExceptionGroup"), "decimal": ("1" * 50_000, [REDUCE, 0, [[REF, 0]]], "decimal:Decimal"), "path": ("a" * 50_000, [REDUCE, 0, [[REF, 0]]], "pathlib:PurePath"),
    "permutations": ([TUPLE, *[0] * 50_000], [ADAPTED, 0, [TUPLE, "permutations", [TUPLE, [REF, 0], 50_000], [TUPLE]]], "standard.iterator"), "stream": ("a" * 50_000, [ADAPTED, 0, [TUPLE, [REF, 0], "", 0, None]], "standard.string_io"),
    "element": ([LIST, *[[ADAPTED, 0, [TUPLE, "a", {}, None, None, [LIST]]]] * 5_000], [ADAPTED, 0, [TUPLE, "a", {}, None, None, [REF, 0]]], "standard.element"),
}  # fmt: skip


@pytest.mark.parametrize("label", _COPIES)
def test_part_that_is_referred_to_is_not_copied_again_and_again(label: str) -> None:
    part, copy, name = _COPIES[label]
    second = {"array": "array:array", "group": "builtins:ValueError"}.get(label, "builtins:int")
    marked = [MARK | part[0], *part[1:]] if isinstance(part, list) else [MARK | 1, part]
    transload.loads(message([LIST, marked, copy], name, second))
    with pytest.raises(transload.Malformed, match="copy what they are made of"):
        transload.loads(message([LIST, marked, *[copy] * 100], name, second))


def test_message_makes_a_limited_number_of_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    from transload.adapters import standard as adapters

    host(logging.getLogger("transload.test.known"))
    monkeypatch.setattr(adapters, "_MOST_LOGGERS", len(logging.root.manager.loggerDict))
    assert host(logging.getLogger("transload.test.known")) is logging.getLogger("transload.test.known")
    with pytest.raises(transload.Malformed, match="loggers"):
        transload.loads(message([REDUCE, 0, ["transload.test.unknown"]], "logging:getLogger"))


# ── Addresses ────────────────────────────────────────────────────────────────────────────────────────────────

OBJECT, NEW_KW, SCALAR = 7, 11, 24
_ADDRESS = {"data": [TUPLE, 16, True], "shape": [TUPLE, 1000], "typestr": "<i8", "version": 3}
_NAMED = "__array_interface__"


@pytest.mark.parametrize("name", [_NAMED, "__array_struct__", "__cuda_array_interface__"])
@pytest.mark.parametrize(
    ("root", "names"),
    [
        (lambda name: [REDUCE, 0, [], {name: _ADDRESS}], ["types:SimpleNamespace"]), (lambda name: [NEW, 0, [], {name: _ADDRESS}], ["argparse:Namespace"]), (lambda name: [NEW, 0, [], [TUPLE, None, {name: _ADDRESS}]], ["argparse:Namespace"]),
        (lambda name: [NEW, 0, [], [TUPLE, {name: _ADDRESS}, {}]], ["argparse:Namespace"]), (lambda name: [REDUCE, 0, ["x"], {name: _ADDRESS}], ["builtins:ValueError"]), (lambda name: [NEW, 0, [], None, None, [name, _ADDRESS]], ["http.cookies:SimpleCookie"]),
        (lambda name: [REDUCE, 0, [[NAME, 1]], [TUPLE, [NAME, 1], [TUPLE], {}, {name: _ADDRESS}]], ["functools:partial", "builtins:int"]), (lambda name: [ADAPTED, 0, [TUPLE, b"", 0, {name: _ADDRESS}]], ["standard.bytes_io"]),
        (lambda name: [NEW, 0, [], {"data": 1, name: _ADDRESS}], ["collections:UserDict"]),
    ],
)  # fmt: skip
def test_attribute_that_says_where_memory_is_is_refused(name: str, root: Any, names: list[str]) -> None:
    with pytest.raises(transload.Malformed, match="where memory is"):
        transload.loads(message(root(name), *names))


def test_attribute_that_says_where_memory_is_is_refused_in_a_shape_and_by_a_scalar_of_text() -> None:
    header = msgpack.packb([1, {}, ["argparse:Namespace"], [[0, _NAMED]], None, [], [OBJECT, 0, _ADDRESS]])
    with pytest.raises(transload.Malformed, match="where memory is"):
        transload.loads([header])
    scalar = [SCALAR, f"<U{len(_NAMED)}", _NAMED.encode("utf-32-le")]
    with pytest.raises(transload.Malformed, match="where memory is"):
        transload.loads(message([NEW, 0, [], {"scalar key": 1}], "argparse:Namespace", replace=scalar))


def test_dict_may_have_such_a_key() -> None:
    import numpy as np

    assert host({_NAMED: np.arange(3).__array_interface__})[_NAMED]["typestr"] == "<i8"


def test_texts_of_an_array_are_texts() -> None:
    texts = [ADAPTED, 0, [TUPLE, "textC", [ADAPTED, 1, [TUPLE, "text", True, False, None]], [TUPLE, 1], False, [LIST, [LIST, 1]]]]
    with pytest.raises(transload.Malformed, match="a text is a list"):
        transload.loads(message(texts, "numpy.ndarray", "numpy.dtype"))


# ── The list ─────────────────────────────────────────────────────────────────────────────────────────────────


def _classes(homes: dict[str, str]) -> list[tuple[str, type]]:
    found: list[tuple[str, type]] = []
    for module, names in homes.items():
        for name in names.split():
            try:
                cls = getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):  # another version's
                continue
            if cls.__module__ == module:
                found.append((f"{module}:{name}", cls))
    return found


@pytest.mark.parametrize(("name", "cls"), _classes(standard.EXCEPTIONS))
def test_exception_leaves_its_making_to_the_interpreter(name: str, cls: Any) -> None:
    assert issubclass(cls, BaseException)
    for base in cls.__mro__:
        for method in ("__init__", "__new__", "__setstate__", "__reduce__", "__reduce_ex__", "__setattr__"):
            assert not isinstance(base.__dict__.get(method), (types.FunctionType, staticmethod, classmethod)), f"{name}: {base.__qualname__}.{method}"


@pytest.mark.parametrize(("name", "cls"), _classes(standard.ENUMERATIONS))
def test_member_of_the_library_is_the_same_here(name: str, cls: Any) -> None:
    assert issubclass(cls, enum.Enum)
    for member in cls:
        assert host(member) is member, name


def test_what_has_a_stand_in_loads_it_first() -> None:
    host(iter([]))
    toplevel = {name.partition(":")[0].partition(".")[0] for name in _tables.overrides}
    code = "import transload._tables as t\nprint(*t.lazy)"
    waiting = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert toplevel <= set(waiting)


def test_extension_code_is_no_different() -> None:
    copyreg.add_extension(__name__, "Coded", 0x7A11)
    try:
        assert host([Coded(1), Coded]) == [Coded(1), Coded]
    finally:
        copyreg.remove_extension(__name__, "Coded", 0x7A11)


@transload.trust
@dataclasses.dataclass
class Coded:
    """Has an extension code in copyreg."""

    x: int


@pytest.mark.parametrize("state", [7, True, 1.5, "text", b"bytes", (), 0])
def test_state_of_any_plain_kind(state: Any) -> None:
    assert host(Keeps(state)).state == ("set", state)


@transload.trust
class Keeps:
    """Its state is what it was given."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __getstate__(self) -> Any:
        return self.state

    def __setstate__(self, state: Any) -> None:
        self.state = ("set", state)


def test_operators_that_change_are_not_handed_on() -> None:
    for function in (operator.iadd, operator.setitem, operator.delitem, operator.call, operator.getitem):
        with pytest.raises(transload.Unsupported):
            transload.dumps(function, families=("host",))
