"""Hostile messages and hostile objects: what tried to crash, to hang, to take memory or to change what others hold."""

from __future__ import annotations

import http
import subprocess
import sys
import threading
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


def message(root: Any, names: list[str] = (), frames: list[Any] = ()) -> list[Any]:  # type: ignore[assignment]
    """By hand: docs/format.md, "The header"."""
    sizes = [len(frame) for frame in frames]
    return [msgpack.packb([1, {}, list(names), [], [0, 1 << 40] if sizes else None, sizes, root]), *frames]


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


def test_object_keeps_its_class() -> None:
    with pytest.raises(transload.Malformed, match="keeps its class"):
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


def test_class_whose_lookup_fails_without_state_is_malformed() -> None:
    pytest.importorskip("sklearn")
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
