"""Hostile messages and hostile objects: what tried to crash, to hang, to take memory or to change what others hold."""

from __future__ import annotations

import ast
import collections
import functools
import http
import pathlib
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

import transload

REF, VALUE, LIST, TUPLE, SET, FROZENSET = 0, 1, 2, 3, 4, 5
NAME, REDUCE, NEW, ADAPTED, BIGINT = 8, 9, 10, 12, 13
BYTES, BYTEARRAY, SLICE, RANGE, FLOATS, ARRAY, OBJECT_ARRAY, DTYPE, LAST = 16, 17, 19, 20, 21, 22, 23, 25, 29
MARK = 0x40
ENDLESS = [RANGE, 0, 1 << 62, 1]
EIGHT = [bytes(8)]


def message(root: Any, names: list[str] = (), frames: list[Any] = (), meta: Any = None) -> list[Any]:  # type: ignore[assignment]
    """By hand: docs/format.md, "The header"."""
    sizes = [len(frame) for frame in frames]
    return [msgpack.packb([1, meta or {}, list(names), [], [0, 1 << 40] if sizes else None, sizes, root]), *frames]


def shown(n: int, dtype: str = "<i8") -> list[Any]:
    """An array that shows the first item of frame 0 `n` times."""
    return [ARRAY, dtype, 0, n, 0, [0], 0]


def span(n: int) -> list[Any]:
    return [ADAPTED, 0, [TUPLE, "RangeIndex", {"start": 0, "stop": n, "step": 1, "name": None}]]


# ── Chains by reference: flat bytes, deep objects ────────────────────────────────────────────────────────────

_LINKS: dict[str, tuple[Callable[[int], Any], list[str]]] = {
    "slice": (lambda i: [MARK | SLICE, [REF, i], None, None], []),
    "tuple": (lambda i: [MARK | TUPLE, [REF, i]], []),
    "object array": (lambda i: [MARK | OBJECT_ARRAY, 1, 0, [REF, i]], []),
    "deque": (lambda i: [MARK | REDUCE, 0, [], None, [[REF, i]]], ["collections:deque"]),
    "defaultdict": (lambda i: [MARK | REDUCE, 0, [], None, None, [1, [REF, i]]], ["collections:defaultdict"]),
    "alias": (lambda i: [MARK | REDUCE, 0, [[NAME, 1], [TUPLE, [REF, i]]]], ["types:GenericAlias", "builtins:list"]),
    "itemgetter": (lambda i: [MARK | REDUCE, 0, [[REF, i]]], ["operator:itemgetter"]),
    "struct_time": (lambda i: [MARK | REDUCE, 0, [[TUPLE, [REF, i], *[1] * 8]]], ["time:struct_time"]),
}


def chain(link: Callable[[int], Any], n: int, last: Any = None) -> list[Any]:
    return [LAST, [MARK | TUPLE, 1], *(link(i) for i in range(n - 1)), *([last] if last is not None else [])]


@pytest.mark.parametrize("kind", _LINKS)
def test_chain_that_cannot_be_freed_is_refused(kind: str) -> None:
    link, names = _LINKS[kind]
    with pytest.raises(transload.Malformed, match="chain of references"):
        transload.loads(message(chain(link, 100_000), names))
    transload.loads(message(chain(link, 1000), names))  # and is freed


def test_chain_of_object_arrays_by_nesting_is_refused() -> None:
    root: Any = None
    for _ in range(400):
        root = [OBJECT_ARRAY, 1, 0, root]
    transload.loads(message(root))
    body = b"\x94\x17\x01\x00" * 5000 + b"\xc0"
    with pytest.raises(transload.Malformed, match="chain of references"):
        transload.loads([b"\x97\x01\x80\x90\x90\xc0\x90" + body])


def test_chain_of_tuples_is_not_hashed() -> None:
    with pytest.raises(transload.Malformed, match="chain of references"):
        transload.loads(message(chain(_LINKS["tuple"][0], 300_000, [SET, [REF, 299_999]])))


def test_chain_that_python_frees_without_recursion_may_be_long() -> None:
    transload.trust(f"{__name__}:_Link")
    links = [_Link(None)]
    for _ in range(50_000):
        links.append(_Link(links[-1]))
    there = transload.loads(transload.dumps(links, ("host",)))
    assert there[-1].before is there[-2]
    nested: Any = [MARK | LIST]
    lists = transload.loads(message([LIST, nested, *([MARK | LIST, [REF, i]] for i in range(50_000))]))
    assert lists[-1][0] is lists[-2]


class _Link:
    def __init__(self, before: Any) -> None:
        self.before = before


def test_chain_on_a_thread_with_a_small_stack() -> None:
    said: list[str] = []

    def run() -> None:
        try:
            transload.loads(message(chain(_LINKS["defaultdict"][0], 5000), ["collections:defaultdict"]))
        except transload.Malformed as error:
            said.append(str(error))

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert "chain of references" in said[0]


# ── Few bytes, much memory or time ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("op", [BYTES, BYTEARRAY, FLOATS])
def test_payload_is_not_copied_again_and_again(op: int) -> None:
    frame = bytearray(8000)
    assert len(transload.loads(message([op, 0], frames=[frame]))) in (1000, 8000)
    with pytest.raises(transload.Malformed, match="copy their payloads"):
        transload.loads(message([LIST, [op, 0], [op, 0]], frames=[frame]))


_SEEDS = "numpy.seeds"
_CSR = "scipy.csr_matrix"
_HUNGRY: dict[str, tuple[Any, list[str], list[Any]]] = {
    "deque of a range": ([REDUCE, 0, [ENDLESS]], ["collections:deque"], []),
    "short deque of a range": ([REDUCE, 0, [ENDLESS, 1]], ["collections:deque"], []),
    "deque of an array": ([REDUCE, 0, [shown(1 << 40)]], ["collections:deque"], EIGHT),
    "Counter": ([REDUCE, 0, [ENDLESS]], ["collections:Counter"], []),
    "OrderedDict": ([REDUCE, 0, [ENDLESS]], ["collections:OrderedDict"], []),
    "struct_time": ([REDUCE, 0, [ENDLESS]], ["time:struct_time"], []),
    "group": ([REDUCE, 0, ["x", ENDLESS]], ["builtins:ExceptionGroup"], []),
    "syntax error": ([REDUCE, 0, ["x", ENDLESS]], ["builtins:SyntaxError"], []),
    "enumeration": ([REDUCE, 0, [shown(1 << 40)]], ["http:HTTPStatus"], EIGHT),
    "old reconstructor": ([REDUCE, 0, [[NAME, 1], [NAME, 2], ENDLESS]], ["copyreg:_reconstructor", "builtins:object", "builtins:tuple"], []),
    "fraction": ([REDUCE, 0, ["1e1000000000"]], ["fractions:Fraction"], []),
    "fraction of a decimal": ([REDUCE, 0, [[REDUCE, 1, ["1e999999999"]]]], ["fractions:Fraction", "decimal:Decimal"], []),
    "fraction of large ints": ([REDUCE, 0, [[BIGINT, b"\x7f" * (1 << 20)], [BIGINT, b"\x5f" * (1 << 20)]]], ["fractions:Fraction"], []),
    "pattern of wide sets": ([REDUCE, 0, ["[\x00-\U0010ffff]" * 3000, 2 | 32]], ["re:_compile"], []),
    "pool of seeds": ([ADAPTED, 0, [TUPLE, 1, [TUPLE], 65536, 0]], [_SEEDS], []),
    "seeds of a range": ([ADAPTED, 0, [TUPLE, ENDLESS, [TUPLE], 4, 0]], [_SEEDS], []),
    "spawn key of a range": ([ADAPTED, 0, [TUPLE, 1, ENDLESS, 4, 0]], [_SEEDS], []),
    "large seed": ([ADAPTED, 0, [TUPLE, [BIGINT, b"\x7f" * (1 << 20)], [TUPLE], 4, 0]], [_SEEDS], []),
    "records without fields": ([ADAPTED, 0, [TUPLE, "fields", [DTYPE, ["struct", 1 << 30, False, []]], [TUPLE, 1 << 10], False, [LIST]]], ["numpy.ndarray"], []),
    "csr": ([ADAPTED, 0, {"_shape": [TUPLE, (1 << 33) - 1, 10], "data": shown(1 << 33), "indices": shown(1 << 33), "indptr": shown(1 << 33)}], [_CSR], EIGHT),
    "coo": ([ADAPTED, 0, {"_shape": [TUPLE, 1, 1], "data": shown(1 << 40), "coords": [TUPLE, shown(1 << 40), shown(1 << 40)]}], ["scipy.coo_matrix"], EIGHT),
    "intervals of ranges": ([ADAPTED, 0, [TUPLE, "IntervalIndex", {"left": span(1 << 40), "right": span(1 << 40), "closed": "right", "name": None}]], ["pandas.index"], []),
    "index of an array": ([ADAPTED, 0, [TUPLE, "Index", {"data": shown(1 << 40), "name": None}]], ["pandas.index"], EIGHT),
    "columns of a range": (
        [ADAPTED, 1, [TUPLE, [LIST, span(1 << 40), span(0)], [LIST, [TUPLE, [ARRAY, "<f8", b"", [1 << 40, 0]], [SLICE, 0, 1 << 40, 1], None]]]], ["pandas.index", "pandas.blocks"], []
    ),
    "holidays": ([REDUCE, 0, [1, False, "Mon", ENDLESS]], ["pandas._libs.tslibs.offsets:CustomBusinessDay"], []),
    "state of a range in a tuple": ([NEW, 0, [], [TUPLE, ENDLESS]], ["sklearn.cluster._birch:_CFSubcluster"], []),
    "state of a range": ([NEW, 0, [], ENDLESS], ["pandas:DateOffset"], []),
    "comparison with None": ([REDUCE, 0, [shown(1 << 40)]], ["uuid:UUID"], EIGHT),
    "tree of neighbours": ([ADAPTED, 0, ENDLESS], ["sklearn.neighbours"], []),
    "sparse index": ([ADAPTED, 0, ENDLESS], ["pandas.sparse_index"], []),
    "month, day, nano": ([ADAPTED, 0, ENDLESS], ["pyarrow.month_day_nano"], []),
    "metadata": ([ADAPTED, 0, [LIST, ENDLESS]], ["pyarrow.metadata"], []),
    "index by an array": ([ADAPTED, 0, [TUPLE, shown(1 << 40), 1]], ["pandas.sparse_index"], EIGHT),
    "dtype by an array": ([ADAPTED, 0, [TUPLE, *[shown(1 << 40)] * 4]], ["numpy.dtype"], EIGHT),
    "intervals of lists": ([ADAPTED, 0, [TUPLE, *[[LIST, ENDLESS]] * 3, None]], ["pandas.interval"], []),
    "FrozenList": ([REDUCE, 0, [ENDLESS]], ["pandas.core.indexes.frozen:FrozenList"], []),
}
_PRIME = (1 << 61) - 1  # ints that are equal modulo it have one hash


def _int(n: int) -> list[Any]:
    return [BIGINT, n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)]


def doubled(n: int, last: Callable[[int], Any], op: int = TUPLE) -> list[Any]:
    """``last`` of an object whose parts are 2**n when each is counted as often as it is referred to."""
    return [LAST, [MARK | op, 1], *([MARK | op, [REF, i], [REF, i]] for i in range(n)), last(n)]


_COLLIDING = [_int(_PRIME * (i + 8)) for i in range(20_000)]
_HUNGRY |= {
    "keys of one hash": ([SET, *_COLLIDING], ["builtins:int"], []),
    "keys of one hash, frozen": ([FROZENSET, *_COLLIDING], ["builtins:int"], []),
    "keys of one hash in tuples": ([SET, *([TUPLE, key] for key in _COLLIDING)], ["builtins:int"], []),
    "keys of one hash as pairs": ([REDUCE, 0, [], None, None, [part for key in _COLLIDING for part in (key, None)]], ["collections:OrderedDict"], []),
    "keys of one hash as arguments": ([REDUCE, 0, [[LIST, *_COLLIDING]]], ["builtins:set"], []),
    "keys of one hash as pairs of arguments": ([REDUCE, 0, [[LIST, *([LIST, key, 1] for key in _COLLIDING)]]], ["collections:OrderedDict"], []),
    "keys of one hash, counted": ([REDUCE, 0, [[LIST, *_COLLIDING]]], ["collections:Counter"], []),
    "hash of a tuple of tuples": (doubled(60, lambda n: [SET, [REF, n]]), ["builtins:int"], []),
    "key of a tuple of tuples": (doubled(60, lambda n: [REDUCE, 0, [], None, None, [[REF, n], 1]]), ["collections:OrderedDict"], []),
    "words for a tuple of tuples": (doubled(60, lambda n: [REDUCE, 0, [[REF, n]]]), ["datetime:timedelta"], []),
    "words for a list of lists": (doubled(60, lambda n: [REDUCE, 0, ["x", [REF, n]]], LIST), ["zoneinfo:ZoneInfo._unpickle"], []),
    "partials of partials": ([LAST, [MARK | REDUCE, 0, [[NAME, 1]]], *([MARK | REDUCE, 0, [[REF, i], 1]] for i in range(9000))], ["functools:partial", "builtins:len"], []),
    "one list for many": ([LIST, [MARK | LIST, *[1] * 20_000], *[[REDUCE, 0, [[REF, 0]]]] * 20_000], ["collections:deque"], []),
    "one state for many": ([LIST, [MARK | VALUE, {str(i): 1 for i in range(10_000)}], *[[NEW, 0, [], [REF, 0]]] * 10_000], ["collections:UserList"], []),
    "one content for many": ([LIST, [MARK | VALUE, bytes(200_000)], *[[REDUCE, 0, [[NAME, 1], "B", 0, [REF, 0]]]] * 20_000], ["array:_array_reconstructor", "array:array"], []),
    "one array looked at by many": (
        [LIST, [MARK | VALUE, {"_shape": [TUPLE, 1, 1], "data": [ARRAY, "<f8", bytes(1 << 20), 1 << 17], "indices": [ARRAY, "<i4", bytes(1 << 19), 1 << 17], "indptr": [ARRAY, "<i4", bytes(8), 2]}],
         *[[ADAPTED, 0, [REF, 0]]] * 20_000], [_CSR], []
    ),
    "union of thousands": ([ADAPTED, 0, [TUPLE, *([REDUCE, 1, [[NAME, 2], [TUPLE, i]]] for i in range(30_000))]], ["standard.union", "types:GenericAlias", "builtins:list"], []),
    "large fraction": ([REDUCE, 0, [_int(3**400_000), _int(7**200_000)]], ["fractions:Fraction"], []),
    "words of an endless range": ([REDUCE, 0, [], [TUPLE, 3, ENDLESS, None]], ["random:Random"], []),
    "masked array of any shape": (
        [REDUCE, 0, [[NAME, 1], [TUPLE, 0], b"b"], [TUPLE, 1, [TUPLE, 10**9], [DTYPE, "|O"], False, [LIST], b"", None]], ["numpy._core.multiarray:_reconstruct", "numpy.ma:MaskedArray"], []
    ),
}
_LIMITED = """
import resource, sys
import transload
for module in sys.argv[1].split():
    __import__(module)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
parts = sys.stdin.buffer.read()
header, frames = parts[8:8 + int.from_bytes(parts[:8], "little")], parts[8 + int.from_bytes(parts[:8], "little"):]
try:
    transload.loads([header, frames] if frames else [header], ("host",))
except transload.Malformed as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("label", _HUNGRY)
def test_few_bytes_take_neither_memory_nor_time(label: str) -> None:
    root, names, frames = _HUNGRY[label]
    library = next((name for name in ("numpy", "pandas", "pyarrow", "scipy", "sklearn") if names[0].startswith(name)), "numpy")
    pytest.importorskip(library)
    header, *rest = message(root, names, frames)
    run = subprocess.run(
        [sys.executable, "-c", _LIMITED, library], input=len(header).to_bytes(8, "little") + header + b"".join(rest), check=False, capture_output=True, timeout=120
    )
    assert run.stdout.startswith(b"refused:"), run.stderr[-500:]


def test_view_of_rows_without_bytes() -> None:
    assert transload.loads(message([18, "3s", b"", [1000, 0], True])).shape == (1000, 0)
    for shape in ([1 << 40, 0], [0, 1 << 62, 1 << 62]):
        with pytest.raises(transload.Malformed):
            transload.loads(message([18, "3s", b"", shape, True]))


def test_long_dtype_that_is_named_often_is_made_once() -> None:
    fields = [[f"f{i}", 4 * i, "<i4"] for i in range(5000)]
    first, *others = transload.loads(message([LIST, *[[DTYPE, 0]] * 50_000], meta={"!dtypes": [["struct", 20_000, False, fields]]}))
    assert len(first.names) == 5000 and all(other is first for other in others)


def test_parts_that_many_share_are_fine_where_they_are_not_copied() -> None:
    """What the bounds above may not refuse."""
    shared = list(range(10_000))
    keys = [(i, str(i), (i, 1.5)) for i in range(5000)]
    objects = [[shared] * 10_000, {key: shared for key in keys}, [set(keys), frozenset(keys)], [ValueError(shared) for _ in range(1000)], [types.SimpleNamespace(x=shared) for _ in range(1000)],
               [functools.partial(max, shared, i) for i in range(1000)], {-1: 1, -2: 2, 2**70: 3}, [collections.Counter(keys), collections.OrderedDict.fromkeys(keys), collections.deque(keys)]]
    for obj in objects:
        there = transload.loads([bytes(part) for part in transload.dumps(obj, ("host",))], ("host",))
        assert type(there) is type(obj) and len(there) == len(obj)
    assert there == objects[-1]


# ── Shared objects, and what hands attributes on ─────────────────────────────────────────────────────────────


def test_members_of_an_enumeration_take_no_state() -> None:
    with pytest.raises(transload.Malformed, match="takes no state"):
        transload.loads(message([REDUCE, 0, [200], {"_value_": 500}], ["http:HTTPStatus"]))
    assert http.HTTPStatus(200)._value_ == 200


def test_singletons_take_no_state() -> None:
    state = [TUPLE, 1, [TUPLE, 3], [DTYPE, "<f8"], False, bytes(24), bytes(3), None]
    with pytest.raises(transload.Malformed, match="takes no state"):
        transload.loads(message([REDUCE, 0, [], state], ["numpy.ma.core:MaskedConstant"]))
    assert np.ma.masked.shape == ()


def test_class_that_its_user_trusts_may_share_itself() -> None:
    transload.trust(f"{__name__}:_Selfish")
    assert transload.loads(transload.dumps(_Selfish(), ("host",)), ("host",)).x == 5


class _Selfish:
    def __init__(self) -> None:
        self.me = self
        self.x = 5

    def __reduce__(self) -> Any:
        return _Selfish, (), {"x": self.x}


def test_array_is_not_written_to_once_it_was_looked_at() -> None:
    with pytest.raises(transload.Malformed, match="to be called"):
        transload.loads(message([LIST, [MARK | ARRAY, "<i8", bytes(8), 1], [REDUCE, 0, [[REF, 0]], None, None, [0, 77]]], ["collections:ChainMap"]))


def test_alias_does_not_reach_into_an_object() -> None:
    with pytest.raises(transload.Malformed, match="alias"):
        transload.loads(message([LIST, [MARK | LIST], [REDUCE, 0, [[REF, 0], [TUPLE]], None, [1, 2]]], ["types:GenericAlias"]))


_MEMORY = {"data": [TUPLE, 16, False], "shape": [TUPLE, 10], "typestr": "<f8", "version": 3}


@pytest.mark.parametrize("attribute", ["__array_interface__", "__array__", "__reduce_ex__", "__getstate__", "__dataframe__", "__dlpack__", "__arrow_c_array__", "_as_parameter_", "__dict__"])
@pytest.mark.parametrize(
    ("name", "kind"), [("types:SimpleNamespace", REDUCE), ("collections:UserList", NEW), ("builtins:ValueError", REDUCE), ("functools:partial", REDUCE), ("sklearn.model_selection._split:KFold", NEW), ("sklearn.LinearRegression", ADAPTED)]
)
def test_state_holds_data_and_not_what_libraries_look_for(name: str, kind: int, attribute: str) -> None:
    if name.startswith("sklearn"):
        pytest.importorskip("sklearn")
    arguments = [[NAME, 1]] if name == "functools:partial" else []
    state: Any = {attribute: _MEMORY}
    if name == "functools:partial":
        state = [TUPLE, [NAME, 1], [TUPLE], {}, state]
    with pytest.raises(transload.Malformed, match="bytes may set|where memory is"):
        transload.loads(message([ADAPTED, 0, state] if kind == ADAPTED else [kind, 0, arguments, state], [name, "builtins:len"]))
    if kind == NEW:
        parts = [1, {}, [name], [[0, attribute]], None, [], [7, 0, None]]
        with pytest.raises(transload.Malformed, match="bytes may set|where memory is"):
            transload.loads([msgpack.packb(parts)])


def test_items_that_show_as_attributes_are_data_too() -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(transload.Malformed, match="where memory is"):
        transload.loads(message([NEW, 0, [], None, None, ["__array_interface__", _MEMORY]], ["sklearn.utils._bunch:Bunch"]))
    assert transload.loads(message([REDUCE, 0, [], None, None, ["__reduce__", 1]], ["collections:OrderedDict"])) == {"__reduce__": 1}


@pytest.mark.parametrize(("name", "method"), [("collections:UserList", "append"), ("sklearn.LinearRegression", "predict"), ("sklearn.FeatureUnion", "transform"), ("sklearn.model_selection._split:KFold", "split"), ("builtins:ValueError", "add_note")])
def test_state_does_not_replace_a_method(name: str, method: str) -> None:
    pytest.importorskip("sklearn")
    kind = REDUCE if name.startswith("builtins") else NEW
    with pytest.raises(transload.Malformed, match=f"{method} is a method of"):
        transload.loads(message([kind, 0, [], {method: [NAME, 1]}] if ":" in name else [ADAPTED, 0, {method: [NAME, 1]}], [name, "builtins:max"]))


def test_slots_of_a_state_are_slots() -> None:
    pytest.importorskip("dateutil")
    weekday = transload.loads(message([NEW, 0, [], [TUPLE, None, {"weekday": 1, "n": 2}]], ["dateutil._common:weekday"]))
    assert weekday.weekday == 1 and weekday.n == 2
    with pytest.raises(transload.Malformed, match="no slot"):
        transload.loads(message([NEW, 0, [], [TUPLE, None, {"args": 1}]], ["collections:UserList"]))


def test_state_of_what_a_call_made_is_looked_at_by_its_class() -> None:
    state = [TUPLE, [NAME, 2], [TUPLE], {}]
    for root in ([REDUCE, 1, [[NAME, 2]], state], [REDUCE, 0, [[NAME, 1], [NAME, 2]], state]):
        with pytest.raises(transload.Malformed, match="state of a partial"):
            transload.loads(message(root, ["_operator:call", "functools:partial", "builtins:len"]))


@pytest.mark.parametrize("name", ["UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError"])
@pytest.mark.parametrize("places", [(-5 * 10**9, 1 - 5 * 10**9), (-1, 0), (0, 5), (7, 8)])
def test_places_of_a_unicode_error_are_in_its_text(name: str, places: tuple[int, int]) -> None:
    """str() of one read there: Python 3.11 and 3.12 before their last versions, anywhere."""
    text: Any = b"xyz" if name == "UnicodeDecodeError" else "xyz"
    arguments = [text, *places, "r"] if name == "UnicodeTranslateError" else ["utf-8", text, *places, "r"]
    with pytest.raises(transload.Malformed, match="place of a Unicode"):
        transload.loads(message([REDUCE, 0, arguments], [f"builtins:{name}"]))
    fine = [*arguments[:-3], 1, 2, "r"]
    assert str(transload.loads(message([REDUCE, 0, fine], [f"builtins:{name}"]))).endswith("r")
    with pytest.raises(transload.Malformed, match="own fields"):
        transload.loads(message([REDUCE, 0, fine, {"start": -9}], [f"builtins:{name}"]))


def test_error_of_an_import_names_no_module_to_look_into() -> None:
    """Python 3.12 and later import it when they print the error."""
    lost = transload.loads(message([REDUCE, 0, ["x"], {"name": "this", "name_from": "that", "note": 1}], ["builtins:ImportError"]))
    assert lost.name == "this" and lost.note == 1 and getattr(lost, "name_from", None) is None and "this" not in sys.modules
    kept = transload.loads(message([REDUCE, 0, ["x"], {"name": "sys", "name_from": "that"}], ["builtins:ImportError"]))
    assert kept.name_from == "that"


def test_flags_that_are_none_are_not_remembered() -> None:
    import re

    before = len(re.RegexFlag.__members__), len(re.RegexFlag._value2member_map_)
    for shift in range(40, 60):
        with pytest.raises(transload.Malformed, match="RegexFlag"):
            transload.loads(message([REDUCE, 0, [1 << shift]], ["re:RegexFlag"]))
    assert (len(re.RegexFlag.__members__), len(re.RegexFlag._value2member_map_)) == before


@pytest.mark.parametrize("key", ["zone.tab", "../../etc/passwd", "/etc/passwd", "a" * 200, "Europe/../../x", "", 5, None])
def test_zone_is_the_name_of_one(key: Any) -> None:
    with pytest.raises(transload.Malformed):
        transload.loads(message([REDUCE, 0, [key, True]], ["zoneinfo:ZoneInfo._unpickle"]))


def test_position_in_a_stream_is_near_its_end() -> None:
    """The next write takes memory up to there."""
    with pytest.raises(transload.Malformed, match="position of a BytesIO"):
        transload.loads(message([ADAPTED, 0, [TUPLE, b"abc", 1 << 40, None]], ["standard.bytes_io"]))
    with pytest.raises(transload.Malformed, match="position of a StringIO"):
        transload.loads(message([ADAPTED, 0, [TUPLE, "abc", "\n", 1 << 40, None]], ["standard.string_io"]))


def test_error_quotes_the_bytes_up_to_a_limit() -> None:
    with pytest.raises(transload.Malformed) as caught:
        transload.loads(message([REDUCE, 0, ["x" * 100_000, 1]], ["ipaddress:IPv4Network"]))
    assert len(str(caught.value)) < 4000


def test_nesting_that_no_path_shows_is_followed_to_a_depth() -> None:
    """The walk for the place of an untrusted name ran to the end of the stack."""
    header = b"\x97\x01\x80\x91\xa9os:system\x90\xc0\x90" + b"\x92\x1d" * 1_000_000 + b"\xc0"
    with pytest.raises(transload.Untrusted, match="os:system"):
        transload.loads([header])


def _hostile_method(name: str, method: Any, path: Any) -> list[Any]:
    import sklearn

    state = {"estimators_": [LIST, [REDUCE, 1, [str(path)]]], "estimators": [LIST], name: method, "passthrough": False, "final_estimator_": None, "n_features_in_": 1,
             "_sklearn_version": sklearn.__version__}
    return message([ADAPTED, 0, state], ["sklearn.StackingRegressor", "pathlib:PosixPath"])


def test_estimator_calls_no_method_that_the_bytes_name(tmp_path: Any) -> None:
    """`stack_method_` of "unlink" and a path for an estimator: `transform` removed the file."""
    pytest.importorskip("sklearn")
    victim = tmp_path / "victim"
    victim.touch()
    for method in ([LIST, "unlink"], [TUPLE, "unlink"], "unlink", [LIST, [LIST, "unlink"]]):
        with pytest.raises(transload.Malformed, match="stack_method_ names"):
            transload.loads(_hostile_method("stack_method_", method, victim))
    stacked = transload.loads(_hostile_method("stack_method_", [LIST, "predict"], victim))
    with pytest.raises(AttributeError):
        stacked.transform([[1.0]])
    assert victim.exists()


@pytest.mark.parametrize(
    ("name", "attribute"), [("sklearn.metrics._scorer:_Scorer", "_response_method"), ("sklearn.metrics._scorer:_CurveScorer", "_response_method")]
)
def test_scorer_calls_no_method_that_the_bytes_name(name: str, attribute: str) -> None:
    pytest.importorskip("sklearn")
    for method in ("unlink", [LIST, "predict", "rmdir"]):
        with pytest.raises(transload.Malformed, match=f"{attribute} names"):
            transload.loads(message([NEW, 0, [], {attribute: method}], [name]))


@pytest.mark.parametrize("wire_name", ["numpy.finfo", "numpy.masked", "numpy.subclass", "numpy.dtype", "numpy.ndarray", "numpy.bit_generator", "pandas.index", "pandas.array", "pandas.sparse_index",
                                       "pandas.interval", "scipy.csr_matrix", "scipy.dok_matrix", "sklearn.metric", "sklearn.neighbours", "standard.union", "standard.alias"])
def test_adapter_says_what_is_wrong_shortly(wire_name: str) -> None:
    """Texts of errors showed the value, whose repr doubles with each level."""
    pytest.importorskip(wire_name.partition(".")[0] if not wire_name.startswith("standard") else "numpy")
    wrong = [lambda n: [REF, n], lambda n: [TUPLE, [REF, n], [REF, n]], lambda n: [TUPLE, *[[REF, n]] * 4], lambda n: {"name": [REF, n]}]
    for root in wrong:
        for op in (TUPLE, LIST):
            with pytest.raises(transload.Error) as caught:
                transload.loads(message(doubled(60, lambda n, root=root: [ADAPTED, 0, root(n)], op), [wire_name]))
            assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("wire_name", ["numpy.masked", "pandas.sparse_index", "sklearn.neighbours", "pandas.blocks"])
def test_adapter_does_not_unpack_what_has_no_end(wire_name: str) -> None:
    pytest.importorskip(wire_name.partition(".")[0])
    endless = [ADAPTED, 1, [TUPLE, "count", [TUPLE, 0, 1], [TUPLE]]]
    for value in (endless, [TUPLE, [LIST, span(0), span(0)], endless]):
        with pytest.raises(transload.Malformed):
            transload.loads(message([ADAPTED, 0, value], [wire_name, "standard.iterator", "pandas.index"]))


def test_adapters_show_no_value_of_the_bytes_by_its_repr() -> None:
    """`words` of adapters._checks is bounded, a repr is not: an f-string with `!r` would be found by an attacker before it is found here."""
    folder = pathlib.Path(transload.__file__).parent / "adapters"
    shown = []
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FormattedValue) and node.conversion in (ord("r"), ord("s"), ord("a")):
                shown.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "!r}" in node.value:
                shown.append(f"{path.name}:{node.lineno}")
    assert not shown


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("CategoricalDtype", {"categories": 5, "ordered": False}), ("CategoricalDtype", {"categories": None, "ordered": ENDLESS}), ("DatetimeTZDtype", {"unit": "ns", "tz": "Europe/Paris"}),
        ("DatetimeTZDtype", {"unit": "week", "tz": None}), ("DatetimeTZDtype", {"unit": "ns"}), ("IntervalDtype", {"subtype": "int64", "closed": "right"}), ("IntervalDtype", {"subtype": None, "closed": "up"}),
        ("SparseDtype", {"_dtype": "f8", "_fill_value": 0}), ("SparseDtype", {"_dtype": [DTYPE, "<f8"], "_fill_value": [LIST]}), ("DateOffset", {"n": 1.5, "normalize": False}), ("DateOffset", {"n": 1, "normalize": False, "_offset": 5}),
    ],
)
def test_dtype_of_pandas_has_the_state_of_one(name: str, state: Any) -> None:
    pytest.importorskip("pandas")
    with pytest.raises(transload.Malformed):
        transload.loads(message([NEW, 0, [], state], [f"pandas:{name}"]))


def test_offsets_and_scalars_of_pandas_take_numbers_and_no_text_or_decimal() -> None:
    pytest.importorskip("pandas")
    large = [REDUCE, 1, ["1e999999"]]
    for name, arguments in (("pandas._libs.tslibs.offsets:Milli", [large]), ("pandas._libs.tslibs.offsets:MonthEnd", [large]), ("pandas:Period", ["2024-01-01", None, None]), ("pandas:Interval", ["a", "b"]),
                            ("pandas:PeriodDtype", ["D" * 1000]), ("pandas:StringDtype", ["python", [LIST]])):
        with pytest.raises(transload.Malformed):
            transload.loads(message([REDUCE, 0, arguments], [name, "decimal:Decimal"]))


def test_exception_gets_its_arguments_when_it_is_made() -> None:
    """Set later, any iterable is listed: a range of 2**62."""
    with pytest.raises(transload.Malformed, match="state: args"):
        transload.loads(message([REDUCE, 0, ["x"], {"args": ENDLESS}], ["builtins:ValueError"]))


def test_object_keeps_its_class() -> None:
    with pytest.raises(transload.Malformed, match="keeps its class|__class__ is no attribute"):
        transload.loads(message([NEW, 0, [], [TUPLE, None, {"__class__": [NAME, 1]}]], ["collections:UserList", "builtins:object"]))


def test_stand_in_is_called_and_not_handed_on() -> None:
    import collections

    there = transload.loads(transload.dumps([collections.deque, collections.deque([1], 3), collections.OrderedDict], ("host",)), ("host",))
    assert there == [collections.deque, collections.deque([1], 3), collections.OrderedDict]


def test_boosting_does_not_ask_a_start_that_calls_functions() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    x = np.random.default_rng(0).random((20, 2))
    start = make_pipeline(FunctionTransformer(np.log1p), __import__("sklearn.linear_model").linear_model.LinearRegression()).fit(x, x[:, 0])
    model = ensemble.GradientBoostingRegressor(n_estimators=2, init=start).fit(x, x[:, 0])
    calls = transload.serialize(model)
    assert "pickle" in calls.families or calls.families == ("host",)
    state = model.__getstate__()
    from transload import _tables

    with pytest.raises(ValueError, match="init_ is a Pipeline"):
        _tables.adapters_by_name["sklearn.GradientBoostingRegressor"](state)


def test_class_whose_lookup_fails_without_state_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    from transload import _tables

    monkeypatch.setitem(_tables.trusted, "sklearn.frozen._frozen:FrozenEstimator", _tables.MAKE)
    with pytest.raises(transload.Malformed, match="RecursionError"):
        transload.loads(message([NEW, 0, [], None, [1, 2]], ["sklearn.frozen._frozen:FrozenEstimator"]))


# ── Hostile objects ──────────────────────────────────────────────────────────────────────────────────────────


def test_exceptions_go_one_way_whoever_else_pickles_them() -> None:
    script = "import transload\nimport tblib.pickling_support as t\nt.install()\nprint(transload.loads(transload.dumps(ValueError('x'), ('host',)), ('host',)).args)"
    pytest.importorskip("tblib")
    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert run.stdout == "('x',)\n", run.stderr


class _Small:
    pass


transload.trust(f"{__name__}:_Small")


class _Acts:
    """Does something when the walk asks for its parts."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def __reduce__(self) -> Any:
        given = self.act()
        return (_Small, ()) if given is None else given


def test_error_shows_a_key_that_is_gone() -> None:
    rubbish: list[str] = []

    def act() -> Any:
        d.clear()
        rubbish.extend("y" * 40 + str(i) for i in range(10_000))
        return 5

    d: dict[Any, Any] = {}
    d["secret" + str(len(d)) + "z" * 30] = _Acts(act)
    with pytest.raises(transload.Unsupported, match="secret0zzz"):
        transload.dumps(d, ("host",))


def test_keyword_arguments_that_grow_meanwhile() -> None:
    import copyreg

    kwargs: dict[str, Any] = {"b": 2}
    kwargs["a"] = _Acts(lambda: kwargs.update({str(i): i for i in range(100)}))
    with pytest.raises(transload.Failed, match="changed"):
        transload.dumps(_Acts(lambda: (copyreg.__newobj_ex__, (_Small, (), kwargs))), ("host",))  # type: ignore[attr-defined]


def test_list_that_shrinks_meanwhile() -> None:
    things: list[Any] = [1, None, 3]
    things[1] = _Acts(lambda: things.__delitem__(slice(2, None)))
    with pytest.raises(transload.Failed, match="changed"):
        transload.dumps(things, ("host",))


def test_record_whose_keys_change_meanwhile() -> None:
    changes: dict[str, Any] = {"a": 0, "b": 1}

    def act() -> None:
        del changes["b"]
        changes["c"] = 1

    changes["a"] = _Acts(act)
    with pytest.raises(transload.Failed, match="changed"):
        transload.dumps([{"a": 1, "b": 2}, {"a": 1, "b": 2}, changes], ("host",))


def test_slot_that_goes_meanwhile() -> None:
    slots = _Slots()
    slots.a, slots.b = _Acts(lambda: delattr(slots, "b")), 2
    with pytest.raises(transload.Failed, match="changed"):
        transload.dumps(slots, ("host",))


class _Slots:
    __slots__ = ("a", "b")


transload.trust(f"{__name__}:_Slots")


@pytest.mark.parametrize("place", [{"__module__": "\ud800"}, {"__module__": 5}, {"__module__": __name__, "__qualname__": "\udc00"}])
def test_class_whose_name_is_none(place: dict[str, Any]) -> None:
    with pytest.raises(transload.Unsupported):
        transload.dumps(type("Nameless", (), place)(), ("host",))


# ── Memory under arrays and messages ─────────────────────────────────────────────────────────────────────────


def test_frame_is_held_while_an_array_lies_in_it() -> None:
    import mmap

    header, frame = transload.dumps(np.arange(100_000))
    received = bytearray(frame)
    mapped = mmap.mmap(-1, len(received))
    mapped[:] = bytes(received)
    for memory, take_away in ((received, received.clear), (mapped, mapped.close)):
        array = transload.loads([header, memory])
        with pytest.raises(BufferError):
            take_away()
        assert array[-1] == 99_999
        del array
        take_away()


def test_memory_is_free_again_after_a_failure_and_after_the_message() -> None:
    memory = bytearray(1 << 20)
    with pytest.raises(transload.Unsupported):
        transload.dumps([memory, memoryview(memory)[::2], lambda: 1], ("host",))
    memory.append(1)
    parts = transload.dumps(memory)
    with pytest.raises(BufferError):
        memory.append(1)
    del parts
    memory.append(1)
    header, *frames = transload.dumps([np.arange(100_000), 1])
    received = [bytearray(frame) for frame in frames]
    with pytest.raises(transload.Malformed):
        transload.loads([header[:-1], *received])
    for part in received:
        part.append(1)


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_paths_of_any_kind(tmp_path: Any) -> None:
    for name in (str(tmp_path / "text"), bytes(tmp_path / "bytes"), tmp_path / "path", str(tmp_path / "no text \udcff")):
        transload.save(name, [1])
        assert transload.load(name) == [1]
    for verb in (lambda path: transload.save(path, 1), transload.load):
        with pytest.raises(ValueError, match="null byte"):
            verb(str(tmp_path / "a\0b"))
    assert not (tmp_path / "a").exists()


def test_container_that_is_cut_or_changed(tmp_path: Any) -> None:
    path = tmp_path / "x"
    transload.save(path, {"a": np.arange(20_000), "b": "x" * 3000, "c": [np.arange(10)] * 3})
    whole = path.read_bytes()
    for end in (*range(0, 300, 7), len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(transload.Malformed):
            transload.load(path)
    for at in (*range(0, 400, 3), len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(transload.Malformed):
            transload.load(path)


def test_file_that_is_replaced_while_mapped_and_by_many(tmp_path: Any) -> None:
    path = tmp_path / "x"
    transload.save(path, np.zeros(50_000))
    mapped = transload.load(path)
    wrong: list[Any] = []

    def write(value: int) -> None:
        for _ in range(20):
            transload.save(path, np.full(50_000, float(value)))

    def read() -> None:
        for _ in range(40):
            array = transload.load(path)
            if not (array == array[0]).all():
                wrong.append(array)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(3)] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not mapped.any() and [p.name for p in tmp_path.iterdir()] == ["x"]


def test_disk_that_is_full_leaves_the_old_file(tmp_path: Any) -> None:
    path = tmp_path / "x"
    transload.save(path, 1)
    script = """
import resource, signal, sys, transload
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    transload.save(sys.argv[1], bytes(100_000))
except transload.Error:
    print("told")
"""
    run = subprocess.run([sys.executable, "-c", script, str(path)], check=False, capture_output=True, text=True, timeout=60)
    assert run.stdout == "told\n", run.stderr
    assert transload.load(path) == 1 and [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("text", ["a", "abc"])
def test_scalar_text_of_no_characters_is_told(text: str) -> None:
    # Of one such number NumPy says SystemError, of several it made a text that no Python function expects.
    parts = transload.dumps(np.str_(text), families=("host",))
    header = bytes(parts[0])
    place = header.index(text.encode("utf-32-le"))
    for number in (0x110000, 0x1000061, 0xFFFFFFFF):
        wrong = header[:place] + number.to_bytes(4, "little") + header[place + 4 :]
        with pytest.raises(transload.Malformed, match="SCALAR"):
            transload.loads([wrong])
    assert transload.loads([header[:place] + (0x10FFFF).to_bytes(4, "little") + header[place + 4 :]])[0] == "\U0010ffff"
