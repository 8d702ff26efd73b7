"""The kinds of fault that docs/cases.md lists, each tried on cases of our own: other dtypes, other libraries, other nesting, other ways."""

from __future__ import annotations

import array
import collections
import functools
import gc
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from support import kinds
from support.kinds import HOLDERS, Bag, Counted, Image, object_array
from support.same import difference
from support.trips import EVERY_WAY, host, host_readonly, host_uncopied, nbytes

import transload

pytestmark = pytest.mark.filterwarnings("ignore:future versions will not create a writeable array", "ignore:the matrix subclass")
LIMIT = 16_384  # bytes of ten rows, wherever they sit


def _same(made: Any, arrived: Any) -> None:
    assert (found := difference(made, arrived)) is None, found


# ── All kinds: each object, each way ─────────────────────────────────────────────────────────────────────────

_OBJECTS = dict(kinds.objects())


@pytest.mark.parametrize("label", _OBJECTS)
def test_object_arrives_whole_each_way(label: str) -> None:
    made = _OBJECTS[label]
    for trip in EVERY_WAY.values():
        _same(made, trip(made))


@pytest.mark.parametrize("kind", kinds.TABLES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_object_arrives_whole_wherever_it_sits(kind: str, holder: str) -> None:
    put, get = HOLDERS[holder]
    for label, made in kinds.TABLES[kind]().items():
        first, second = get(host(put(made, [made])))
        assert (found := difference(made, first)) is None, f"{label}: {found}"
        assert second[0] is first or isinstance(made, (int, float, bytes, str)), f"{label}: not the same twice"


# ── b01: the class of an array and what it was given ─────────────────────────────────────────────────────────


def test_b01_slot_that_is_not_set_stays_so() -> None:
    arrived = host(kinds.with_attributes(np.arange(3.0).view(kinds.Slotted), unit="m"))
    assert arrived.unit == "m" and not hasattr(arrived, "unset")


def test_b01_first_object_of_a_process_may_be_of_a_users_class() -> None:
    """The adapters of NumPy come with the first object of NumPy's own module; a user's class has another."""
    code = """
        import numpy as np, transload
        @transload.trust
        class Tagged(np.ndarray): pass
        @transload.trust
        class Masked(np.ma.MaskedArray): pass
        for cls, base in ((Tagged, np.arange(3)), (Masked, np.ma.array([1, 2], mask=[0, 1]))):
            made = base.view(cls)
            made.unit = "m"
            arrived = transload.loads(transload.dumps(made, ("host",)))
            assert type(arrived) is cls and arrived.unit == "m", arrived
    """
    for skip in (0, 1):
        program = textwrap.dedent(code).replace("for cls, base in (", f"for cls, base in (lambda *pairs: pairs[{skip}:])(")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_b01_untrusted_subclass_goes_by_name_where_pickle_may() -> None:
    class Local(np.ndarray):  # type: ignore[type-arg]
        pass

    Local.__qualname__ = "Strange"
    Local.__module__ = kinds.__name__
    kinds.Strange = Local  # type: ignore[attr-defined]
    made = kinds.with_attributes(np.arange(3).view(Local), unit="m")
    with pytest.raises(transload.Unsupported, match="Strange"):
        transload.dumps(made, ("host",))
    arrived = transload.loads(transload.dumps(made), ("host", "pickle"))
    assert type(arrived) is Local and arrived.unit == "m"


# ── b03: masked arrays of any dtype are filled alike ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", kinds.masked())
def test_b03_fills_as_it_did(label: str) -> None:
    made = kinds.masked()[label]
    if isinstance(made, np.ma.MaskedArray) and made.dtype.kind != "V":
        arrived = host(made)

        def filled(masked: Any) -> Any:
            try:
                return masked.filled().tolist()
            except (TypeError, OverflowError) as error:  # 999999 fits no small int
                return type(error)

        with np.errstate(all="ignore"):
            assert repr(filled(arrived)) == repr(filled(made)) and repr(arrived.fill_value) == repr(made.fill_value)


# ── b05: memoryviews of any shape and format ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", kinds.memoryviews())
def test_b05_memoryview_keeps_shape_format_flag_and_bytes(label: str) -> None:
    made = kinds.memoryviews()[label]
    for trip in EVERY_WAY.values():
        _same(made, trip(made))
    _same([made, Bag(a=made)], host([made, Bag(a=made)]))


def test_b05_views_send_what_they_show_and_no_more_than_they_have() -> None:
    views = kinds.memoryviews()
    assert nbytes(views["broadcast"]) < 5000 and nbytes(views["windows"]) < 90_000 and nbytes(views["cut"]) < 100
    base = bytearray(200_000)
    assert nbytes([memoryview(base), memoryview(base)[10:]]) < 201_000
    first, second = host([memoryview(base), memoryview(base)[10:]])
    first[20] = 7
    assert second[10] == 7


def test_b05_released_view_is_an_error_at_the_sender() -> None:
    view = memoryview(b"x")
    view.release()
    with pytest.raises(ValueError, match="released"):
        transload.dumps([view], ("host",))


@pytest.mark.parametrize("value", [("Zd", [1]), ("Zd", np.zeros(3)), (5, np.zeros(3, "c16")), ("w", np.array(["ab"]))])
def test_b05_view_of_what_does_not_fit_its_format_is_refused(value: Any) -> None:
    from transload.adapters.numpy import _decode_memoryview

    with pytest.raises(ValueError, match="memoryview"):
        _decode_memoryview(value)


# ── b07, b08: what shows more than it has ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", kinds.windows())
def test_b07_b08_windows_send_their_base(label: str) -> None:
    made = kinds.windows()[label]
    arrays = [made._data, made._mask] if isinstance(made, np.ma.MaskedArray) else [made._mgr.blocks[0].values] if isinstance(made, pd.DataFrame) else [made]
    base = sum(np.lib.array_utils.byte_bounds(a)[1] - np.lib.array_utils.byte_bounds(a)[0] for a in arrays if a.size)
    assert nbytes(made) < 1.1 * base + 700
    assert nbytes([made, Bag(a=made), {"k": [made]}]) < 1.1 * base + 900


@pytest.mark.parametrize(
    "content",
    [
        [np.zeros(3, "f8"), [1], 0], [object_array(1, 2), [1], 0], [object_array(1, 2, 3), [1, 1], 0], [object_array(1, 2, 3), [-1], 0], [object_array(1, 2, 3), [1], 1], [object_array(1, 2, 3), [1.0], 0],
        [object_array(1, 2, 3), (1,), 0], [object_array(1, 2, 3), [1], "0"], [object_array([1], [2]).reshape(1, 2), [1], 0], [None, [1], 0],
    ],
)  # fmt: skip
def test_b08_window_of_objects_that_reaches_beyond_is_refused(content: Any) -> None:
    from transload.adapters.numpy import _decode_other

    with pytest.raises((ValueError, TypeError)):
        _decode_other(("window", np.dtype(object), (3,), False, content))


@pytest.mark.parametrize("form", ["window", "broadcast"])
def test_b08_window_that_shows_too_much_is_refused(form: str) -> None:
    from transload.adapters.numpy import _decode_other

    dtype: Any = np.dtype(object) if form == "window" else np.dtypes.StringDType()
    content = [np.zeros(1, dtype), [0, 0], 0] if form == "window" else [np.zeros(1, dtype)]
    assert _decode_other((form, dtype, (10, 10), True, content)).shape == (10, 10)
    with pytest.raises(ValueError, match="fit"):
        _decode_other((form, dtype, (1 << 30, 1 << 30), True, content))


# ── b09, b10: the flag of the sender, and no copy that is not needed ─────────────────────────────────────────


def _arrays() -> dict[str, Any]:
    made: dict[str, Any] = {
        dtype: np.zeros(20).astype(dtype) for dtype in ("f8", "i1", "?", "c16", "M8[s]", "U5", "S3", "V5", "f2", "O", "i4,f8", "i4,O")
    }
    return {
        **made, "large": np.zeros(100_000), "text": np.array(["a"], np.dtypes.StringDType()), "recarray": np.zeros(3, "i4,f8").view(np.recarray), "matrix": np.matrix([[1, 2]]), "subclass": np.zeros(3).view(kinds.Tagged),
        "Fortran order": np.zeros((300, 400), order="F"), "0-d": np.array(1.0), "empty": np.zeros(0), "strided": np.zeros(1000)[::2], "reversed": np.zeros(100_000)[::-1], "metadata": np.zeros(3, np.dtype("i4", metadata={"a": 1})),
        "windows": np.lib.stride_tricks.sliding_window_view(np.arange(1e4), 100, writeable=True), "broadcast_arrays": np.broadcast_arrays(np.zeros((1, 30)), np.zeros((30, 1)))[0],
    }  # fmt: skip


@pytest.mark.parametrize("label", _arrays())
@pytest.mark.parametrize("writeable", [True, False])
def test_b09_array_has_the_senders_flag_wherever_it_sits(label: str, writeable: bool) -> None:
    for holder, (put, get) in HOLDERS.items():
        made = _arrays()[label]
        if made.flags.num & 0x400 != writeable * 0x400:  # of the flag itself broadcast_arrays warns
            made.flags.writeable = writeable
        for way, trip in EVERY_WAY.items():
            first, _ = get(trip(put(made, None)))
            assert first.flags.writeable is writeable, (holder, way)


def _columns() -> dict[str, Any]:
    return {
        **{dtype: pd.Series([1, 2, 1], dtype=dtype) for dtype in ("f8", "i4", "M8[ns]", "M8[ns, UTC]", "category", "Int64", "Float32", "timedelta64[s]", "object", "int64[pyarrow]")}, "boolean": pd.Series([True, False, True], dtype="boolean"),
        "bool": pd.Series([True, False, True]), "str": pd.Series(["a", "b", "a"], dtype="str"), "python string": pd.Series(["a", "b", "a"], dtype=pd.StringDtype("python")), "period": pd.Series(pd.period_range("2020", periods=3)), "interval": pd.Series(pd.interval_range(0, 3)),
    }  # fmt: skip


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("label", _columns())
def test_b09_frames_can_be_written_to(way: str, label: str) -> None:
    column = _columns()[label]
    for frame in (pd.DataFrame({"a": column, "b": [1.0, 2, 3]}), pd.DataFrame({"a": pd.concat([column] * 30_000, ignore_index=True)})):
        first, second = frame.iloc[0, 0], frame.iloc[1, 0]
        arrived = EVERY_WAY[way](frame)
        assert arrived.iloc[0, 0] == first != second
        arrived.iloc[0, 0] = second
        assert arrived.iloc[0, 0] == second


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_b09_views_of_one_base_keep_their_own_flags(order: tuple[bool, bool]) -> None:
    base = np.zeros(100_000)
    views = [base[:50_000], base[10:]]
    for view, writeable in zip(views, order, strict=True):
        view.flags.writeable = writeable
    for trip in EVERY_WAY.values():
        arrived = trip(views)
        assert tuple(view.flags.writeable for view in arrived) == order
        assert trip is host_readonly or np.shares_memory(*arrived)


def _in(array: Any, frames: list[Any]) -> bool:
    return any(np.shares_memory(array, np.frombuffer(frame, "u1")) for frame in frames if memoryview(frame).nbytes)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("dtype", ["f8", "i1", "c16", "M8[s]", "U4", "f2", "i4,f8"])
def test_b10_read_only_is_not_copied_and_writable_once(holder: str, dtype: str) -> None:
    put, get = HOLDERS[holder]
    # Of read-only frames the pack is copied when a writable array lies in it; of that kind is the array that holds the attribute.
    for n in (100_000,) if holder == "attribute of an array" else (1000, 100_000):
        made = np.zeros(n, dtype)
        for writeable in (True, False):
            made.flags.writeable = writeable
            parts = transload.dumps(put(made, None), ("host",))
            writable_frames, read_only_frames = [bytearray(part) for part in parts], [bytes(part) for part in parts]
            assert _in(get(transload.loads(writable_frames))[0], writable_frames)
            if not writeable:
                assert _in(get(transload.loads(read_only_frames))[0], read_only_frames)
            else:
                arrived, _ = get(transload.loads(read_only_frames))
                assert arrived.flags.writeable and not _in(arrived, read_only_frames)


# ── b11: long lists of one kind ──────────────────────────────────────────────────────────────────────────────

_N = 20_000
_LONG: dict[str, Callable[[], Any]] = {
    "one float": lambda: [1.5] * _N, "floats": lambda: [i / 7 for i in range(_N)], "floats and ints": lambda: [1.5, 1] * (_N // 2), "ints": lambda: list(range(_N)), "large ints": lambda: [(-2) ** 70 + i for i in range(_N)],
    "larger ints": lambda: [7**150 + i for i in range(_N)], "bools": lambda: [True, False] * _N, "None": lambda: [None] * _N, "complex": lambda: [1j * i for i in range(_N)], "texts": lambda: [str(i) for i in range(_N)], "surrogates": lambda: [f"\ud800{i}" for i in range(_N)],
    "one text": lambda: ["hello"] * _N, "tuple of floats": lambda: tuple(i / 7 for i in range(_N)), "pairs": lambda: [(i, i / 7) for i in range(_N)], "set": lambda: set(range(_N)), "dict": lambda: {i: i / 7 for i in range(_N)}, "lists": lambda: [[i / 7, i] for i in range(_N)],
    "dicts": lambda: [{"a": i, "b": i / 7} for i in range(_N)], "dicts of other keys": lambda: [{f"k{i}": i} for i in range(_N // 4)], "scalars of NumPy": lambda: [np.float64(i) for i in range(_N)], "times": lambda: list(pd.date_range("2020", periods=_N // 4)),
    "small arrays": lambda: [np.arange(3) for _ in range(_N // 4)], "objects": lambda: [kinds.Part(i, "b") for i in range(_N)], "slots": lambda: [kinds.Slots(i, 1.5) for i in range(_N)], "namedtuples": lambda: [kinds.Pair(i, i) for i in range(_N)], "members": lambda: [kinds.Colour.RED] * _N,
    "functions": lambda: [len, np.mean] * (_N // 2), "deque": lambda: collections.deque(i / 7 for i in range(_N)), "array of objects": lambda: np.array([1, "a", None, 2.5] * (_N // 4), object), "column of objects": lambda: pd.Series([1.5, None, "a"] * (_N // 3), dtype=object),
}  # fmt: skip


@pytest.mark.parametrize("label", _LONG)
def test_b11_long_lists_take_no_longer_than_the_bar(label: str) -> None:
    made = _LONG[label]()
    by_pickle = pickle.dumps(made, 5)

    def best(trip: Callable[[], Any]) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            trip()
            times.append(time.perf_counter() - start)
        return min(times)

    assert nbytes(made) < 3 * len(by_pickle)
    assert best(lambda: host(made)) < 20 * best(lambda: pickle.loads(pickle.dumps(made, 5))) + 0.01
    _same(made, host(made))


@pytest.mark.parametrize("sign", [1, -1])
def test_b11_ints_of_any_size(sign: int) -> None:
    made = [sign * (2**k + d) for k in (*range(60, 200), 255, 256, 257, 1000, 100_000) for d in (-1, 0, 1)]
    assert host(made) == made


# ── b13: containers keep their kind, and what is in them ─────────────────────────────────────────────────────


def test_b13_fitted_estimators_work_on_with_what_they_were_given() -> None:
    from sklearn.base import clone
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import KBinsDiscretizer, MultiLabelBinarizer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures, SplineTransformer, TargetEncoder

    x = np.random.RandomState(0).randint(0, 3, (60, 2))
    texts = ["aa bb", "bb cc", "aa cc"]
    cases: list[tuple[Any, Any]] = [
        (OneHotEncoder(categories=[[0, 1, 2], [0, 1, 2]]), x), (OneHotEncoder(drop=[0, 1], sparse_output=False), x), (OrdinalEncoder(categories=[[0, 1, 2], [0, 1, 2]]), x), (KBinsDiscretizer([2, 3], encode="ordinal", quantile_method="averaged_inverted_cdf"), x),
        (ColumnTransformer([("a", OneHotEncoder(), [0]), ("b", "passthrough", slice(1, 2))]), x), (TfidfVectorizer(ngram_range=(1, 2), stop_words=["aa"]), texts), (MultiLabelBinarizer(classes=(1, 2, 3)), [[1], [2, 3]]),
        (PolynomialFeatures((1, 2)), x), (SplineTransformer(knots=np.array([[0.0, 0], [1, 1], [3, 3]])), x), (TargetEncoder(categories=[[0, 1, 2], [0, 1, 2]]), x), (MLPClassifier([4], max_iter=3), x), (MLPClassifier((4, 3), max_iter=3), x),
    ]  # fmt: skip
    for estimator, data in cases:
        with pytest.warns() if isinstance(estimator, MLPClassifier) else _quiet():
            estimator.fit(data, x[:, 0]) if data is x else estimator.fit(data)
        arrived = host(estimator)
        for name, value in estimator.get_params().items():
            assert type(arrived.get_params()[name]) is type(value), name
        use = "predict" if hasattr(estimator, "predict") else "transform"
        made, after = getattr(estimator, use)(data), getattr(arrived, use)(data)
        assert np.array_equal(*(part.toarray() if sp.issparse(part) else part for part in (made, after)), equal_nan=made.dtype.kind == "f" and not sp.issparse(made))
        clone(arrived)
        if hasattr(estimator, "get_feature_names_out"):
            assert list(arrived.get_feature_names_out()) == list(estimator.get_feature_names_out())


class _quiet:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


# ── b15: keys ────────────────────────────────────────────────────────────────────────────────────────────────


def _check_keys(made: Any, arrived: Any) -> None:
    assert type(made) is type(arrived) and len(made) == len(arrived)
    for key, there in zip(made, arrived, strict=True):
        assert type(key) is type(there) and (key is there or key == there)
        assert arrived[there] == arrived[key] == made[key]


@pytest.mark.parametrize("way", EVERY_WAY)
def test_b15_keys_of_any_kind_in_order(way: str) -> None:
    for keys in (kinds.KEYS, kinds.KEYS[::-1]):
        made = {key: i for i, key in enumerate(keys)}
        _check_keys(made, EVERY_WAY[way](made))
        assert EVERY_WAY[way](set(made)) == set(made)


@pytest.mark.parametrize("key", kinds.KEYS, ids=lambda key: repr(key)[:30])
def test_b15_key_alone(key: Any) -> None:
    for cls in (dict, collections.OrderedDict, collections.Counter, kinds.MyDict, collections.UserDict, functools.partial(collections.defaultdict, int)):
        made = cls({key: 1})  # type: ignore[operator]
        _check_keys(made, host(made))
    assert host({key}) == {key} and host(frozenset([key])) == frozenset([key]) and host({(key, 1): 2}) == {(key, 1): 2}


def test_b15_dicts_with_the_same_keys_in_other_orders() -> None:
    made = [{"a": 1, "b": 2}, {"b": 1, "a": 2}, {"a": 3, "b": 4}, {"b": 5, "a": 6}, {"a": 1}, {"a": 1, "b": 2, "c": 3}] * 3
    assert [list(d.items()) for d in host(made)] == [list(d.items()) for d in made]


def test_b15_nan_is_a_key() -> None:
    nan = float("nan")
    (key,) = host({nan: 1})
    assert key != key and len(host({nan: 1, float("nan"): 2})) == 2


def test_b15_key_that_holds_its_dict() -> None:
    key = kinds.Key(5)
    key.table = {key: 1}  # type: ignore[attr-defined]
    arrived = host(key)
    assert arrived.table[arrived] == 1


# ── b17: depth ───────────────────────────────────────────────────────────────────────────────────────────────

_WRAPS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "dict": (lambda x: {"c": x}, lambda y: y["c"]), "dict of ints": (lambda x: {1: x, 2: None}, lambda y: y[1]), "list": (lambda x: [0, x], lambda y: y[1]), "tuple": (lambda x: (x,), lambda y: y[0]), "frozenset": (lambda x: frozenset([x]), lambda y: next(iter(y))),
    "attributes": (lambda x: Bag(a=x), lambda y: y.a), "dataclass": (kinds.Part, lambda y: y.a), "slots": (kinds.SlotPart, lambda y: y.a), "frozen": (kinds.FrozenPart, lambda y: y.a), "namedtuple": (lambda x: kinds.Pair(x, 0), lambda y: y.a), "reduce": (kinds.Reduced, lambda y: y.a),
    "getstate": (kinds.WithState, lambda y: y.a), "deque": (lambda x: collections.deque([x]), lambda y: y[0]), "OrderedDict": (lambda x: collections.OrderedDict(a=x), lambda y: y["a"]), "defaultdict": (lambda x: collections.defaultdict(list, a=x), lambda y: y["a"]),
    "namespace": (lambda x: types.SimpleNamespace(a=x), lambda y: y.a), "UserDict": (lambda x: collections.UserDict({"a": x}), lambda y: y["a"]), "list subclass": (lambda x: kinds.MyList([x]), lambda y: y[0]), "dict subclass": (lambda x: kinds.MyDict(a=x), lambda y: y["a"]),
    "exception": (lambda x: ValueError(x), lambda y: y.args[0]), "partial": (lambda x: functools.partial(len, x), lambda y: y.args[0]), "mapping proxy": (lambda x: types.MappingProxyType({"a": x}), lambda y: y["a"]), "array of objects": (lambda x: object_array(x), lambda y: y[0]),
    "column of objects": (lambda x: pd.Series(object_array(x), dtype=object), lambda y: y.iloc[0]), "attribute of an array": (lambda x: kinds.with_attributes(np.arange(2).view(kinds.Tagged), a=x), lambda y: y.a), "image": (Image, lambda y: y.pixels),
}  # fmt: skip


def _depth(made: Any, step: Callable[[Any], Any]) -> int:
    n = 0
    while not isinstance(made, str):
        made, n = step(made), n + 1
    return n


@pytest.mark.parametrize("label", _WRAPS)
def test_b17_600_levels_of_anything(label: str) -> None:
    wrap, step = _WRAPS[label]
    made = kinds.nested(wrap, 600)
    assert _depth(host(made), step) == 600
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(_depth(host(made), step)))
    thread.start()
    thread.join()
    assert got == [600]


@pytest.mark.parametrize("label", [label for label in _WRAPS if label not in ("array of objects", "column of objects")])  # NumPy's own freeing ends the process
@pytest.mark.parametrize("depth", [3000, 9999, 10_001])
def test_b17_deeper_is_refused_at_the_sender_or_arrives(label: str, depth: int) -> None:
    """Levels of some kinds took more stack on arrival than at the sender, which so sent what nobody could read."""
    if (label, depth) == ("frozenset", 9999):  # what hashing may cost is bounded before
        depth = 4000
    wrap, step = _WRAPS[label]
    made = kinds.nested(wrap, depth)
    try:
        parts = transload.dumps(made, ("host",))
    except transload.Unsupported as error:
        assert "deep" in str(error) and depth > 3000
    else:
        assert _depth(transload.loads(parts), step) == depth < 10_001


@pytest.mark.parametrize("wrap", [object_array, lambda x: object_array(x, [x])])
def test_b17_arrays_of_objects_are_refused_at_the_sender_where_numpy_could_not_free_them(wrap: Any) -> None:
    deepest = 10_000 // 8 - 1
    assert _depth(host(kinds.nested(object_array, deepest)), lambda y: y[0]) == deepest
    with pytest.raises(transload.Unsupported, match="nested 1250 deep"):
        transload.dumps(kinds.nested(object_array, deepest + 1), ("host",))


def test_b17_linked_both_ways() -> None:
    first = last = Bag(back=None)
    for _ in range(3000):
        last.next = Bag(back=last)  # type: ignore[attr-defined]
        last = last.next  # type: ignore[attr-defined]
    at, n = host(first), 0
    while hasattr(at, "next"):
        assert at.next.back is at
        at, n = at.next, n + 1
    assert n == 3000


# ── b19: one object in two places ────────────────────────────────────────────────────────────────────────────


def _shared() -> dict[str, Any]:
    import datetime
    import decimal
    import random
    import re

    values = {label: table[next(iter(table))] for label, table in ((kind, make()) for kind, make in kinds.TABLES.items())}
    return {
        **values, "array": np.zeros(10), "large array": np.zeros(100_000), "objects": np.array([1, "a"], object), "scalar": np.float64(3.7), "dtype": np.dtype([("a", "i4")]), "RandomState": np.random.RandomState(0), "Generator": np.random.default_rng(0),
        "PCG64": np.random.PCG64(0), "Random": random.Random(3), "csr": sp.eye(3, format="csr"), "dok": sp.eye(3, format="dok"), "frame": pd.DataFrame({"a": [1, 2]}), "series": pd.Series([1, 2]), "index": pd.Index([1, 2, 3]), "dates": pd.date_range("2020", periods=3),
        "extension": pd.array([1, None], "Int64"), "Timestamp": pd.Timestamp("2020"), "table": pa.table({"a": [1, 2]}), "arrow array": pa.array([1, 2]), "chunked": pa.chunked_array([[1], [2]]), "schema": pa.schema([("a", pa.int32())]), "arrow type": pa.list_(pa.int32()),
        "arrow scalar": pa.scalar(5), "buffer": pa.py_buffer(b"abc"), "list": [1], "dict": {"a": 1}, "set": {1}, "frozenset": frozenset({1000}), "tuple": (1, [2]), "tuple of numbers": (1000, 2000), "bytearray": bytearray(b"ab"), "bytes": b"some bytes", "text": "some text",
        "long text": "x" * 5000, "surrogates": "\ud800abc", "memoryview": memoryview(b"abc"), "complex memoryview": np.ones(2, "c16").data, "array.array": array.array("i", [1]), "complex": 1 + 2j, "range": range(5), "slice": slice(1, 2), "floats": [1.5] * 20, "deque": collections.deque([1]),
        "namespace": types.SimpleNamespace(a=1), "union": int | str, "alias": list[int], "datetime": datetime.datetime(2020, 1, 1), "zone": datetime.timezone(datetime.timedelta(0, 1800)), "Decimal": decimal.Decimal("1.5"), "pattern": re.compile("abc"), "object": Bag(a=1),
        "slots": kinds.SlotPart(1), "reduced": kinds.Reduced(1), "image": Image(1), "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)), "windows of objects": kinds.windows()["windows of objects"],
    }  # fmt: skip


@pytest.mark.parametrize("label", _shared())
def test_b19_one_object_twice_is_one_on_arrival(label: str) -> None:
    made = _shared()[label]
    for holder, (put, get) in HOLDERS.items():
        first, second = get(host(put(made, made)))
        assert first is second, holder


@pytest.mark.parametrize("holder", HOLDERS)
def test_b19_one_object_twice_is_one_on_the_wire(holder: str) -> None:
    put, _ = HOLDERS[holder]
    for made in (np.zeros(100_000), b"x" * 800_000, "x" * 800_000, bytearray(800_000), [1.5] * 100_000, pd.DataFrame({"a": np.zeros(100_000)}), pa.table({"a": np.zeros(100_000)}), pa.py_buffer(bytes(800_000)), memoryview(bytes(800_000)), np.ma.masked_array(np.zeros(100_000))):
        assert nbytes(put(made, made)) < nbytes(made) + 1000, type(made)


def test_b19_one_memory_in_two_objects_is_one_on_the_wire_and_on_arrival() -> None:
    a = np.arange(100_000.0)
    table = pa.table({"a": a})
    for together in (
        [a, pd.DataFrame(a.reshape(-1, 10), copy=False)], [a, table], [a, memoryview(a)], [a, a.view(kinds.Tagged)], [a, np.ma.masked_array(a, copy=False)], [table, table.slice(10, 50_000), table["a"]], [a, a.view("i8"), a.view("u1")],
        [a.reshape(100, 1000), a[:1000], a.reshape(100, 1000)[:, 5]],
    ):  # fmt: skip
        assert nbytes(together) < 1.01 * a.nbytes
    frame, masked, view, array_ = host([pd.DataFrame(a.reshape(-1, 10), copy=False), np.ma.masked_array(a, copy=False), memoryview(a), a])
    array_[0] = -1
    assert frame.iloc[0, 0] == masked[0] == view[0] == -1


def test_b19_slice_in_a_cycle() -> None:
    items: list[Any] = []
    items.append(slice(items, None))
    arrived = host(items)
    assert arrived[0].start is arrived


# ── b25: state is asked for once ─────────────────────────────────────────────────────────────────────────────

_CONTENTS: dict[str, Any] = {
    "bytes": b"abc", "bytes with the word": b"if __name__ == '__main__':", "text": "__main__", "much text": "x" * 100_000 + "__main__", "list": ["__main__"], "array": np.zeros(100_000), "array with the word": np.array(["__main__"]), "None": None,
    "function of main": sys.modules["__main__"].__dict__.get("main", len),
}  # fmt: skip
_AROUND: dict[str, Callable[[Any], Any]] = {
    "alone": lambda x: x, "list": lambda x: [1.0, x], "attributes": lambda x: Bag(a=x), "column": lambda x: pd.Series(object_array(x, None), dtype=object), "twice": lambda x: [x, x], "beside a lambda": lambda x: [x, lambda: 1], "in a stranger": lambda x: kinds.Stranger(x),
}  # fmt: skip


@pytest.mark.parametrize("families", [("host",), ("host", "pickle"), ("pickle",), transload._message.FAMILIES], ids=str)
@pytest.mark.parametrize("how", Counted.HOW)
def test_b25_state_is_asked_for_once(how: str, families: tuple[str, ...]) -> None:
    """Pickle that stops half-way, or finds the word in its bytes, was begun anew with cloudpickle."""
    for content_label, content in _CONTENTS.items():
        for around, put in _AROUND.items():
            if families == ("host",) and around in ("beside a lambda", "in a stranger"):
                continue
            made = put(Counted.HOW[how](content))
            Counted.calls = 0
            parts = transload.dumps(made, families)
            assert Counted.calls == 1, (content_label, around)
            transload.loads([bytes(part) for part in parts], [family for family in families if family != "error"])
            assert Counted.calls == 1, (content_label, around, "on arrival")


def test_b25_class_of_main_and_of_a_function() -> None:
    for cls in (type("Local", (Counted.HOW["getstate"],), {}), type("OfMain", (Counted.HOW["getstate"],), {"__module__": "__main__"})):
        for families in (("host", "pickle"), ("pickle",)):
            Counted.calls = 0
            arrived = transload.loads(transload.dumps([cls(b"__main__"), lambda: 1], families), ("host", "pickle"))
            assert Counted.calls == 1 and arrived[0].content == b"__main__"


def test_b25_what_cannot_be_sent_is_asked_once() -> None:
    made = Counted.HOW["getstate"](i for i in range(3))
    Counted.calls = 0
    with pytest.raises(transload.Unsupported, match="generator"):
        transload.dumps([made], ("host", "pickle"))
    assert Counted.calls == 1


# ── b26: a registered adapter is used wherever the object sits ───────────────────────────────────────────────


@pytest.mark.parametrize("holder", [*HOLDERS, "stranger", "key", "set", "exception's note"])
def test_b26_adapter_is_used_wherever_the_object_sits(holder: str) -> None:
    others: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
        "stranger": (kinds.Stranger, lambda y: (y.a, y.b)), "key": (lambda a, b: {a: 1, (b, 2): 3}, lambda y: [key[0] if isinstance(key, tuple) else key for key in y]), "set": (lambda a, b: {a, b}, tuple),
        "exception's note": (lambda a, b: kinds.with_attributes(ValueError("text"), held=(a, b)), lambda y: y.held),
    }  # fmt: skip
    put, get = {**HOLDERS, **others}[holder]
    Image.calls.clear()
    arrived = transload.loads(transload.dumps(put(Image(np.arange(5.0)), Image(np.zeros(100_000)))), ("host", "pickle"))
    assert sorted(Image.calls) == ["decode", "decode", "encode", "encode"]
    assert sorted(len(image.pixels) for image in get(arrived)) == [5, 100_000]


@pytest.mark.parametrize("base", [list, dict, int, str, tuple, ValueError, np.ndarray, pd.DataFrame, collections.OrderedDict, object], ids=lambda base: base.__name__)
def test_b26_adapter_comes_before_what_is_known_of_the_base(base: Any) -> None:
    cls = type("Registered", (base,), {})
    transload.register(cls, name=f"test.kinds.{base.__name__}", encode=lambda obj: "sent", decode=lambda value: ("arrived", value))
    made = np.arange(3).view(cls) if base is np.ndarray else cls()
    assert host([1.0, made, {"k": made}]) == [1.0, ("arrived", "sent"), {"k": ("arrived", "sent")}]


# ── b28: what a receiver did not allow it does not open ──────────────────────────────────────────────────────


def _forbidden() -> dict[str, Any]:
    import logging
    import os
    import tempfile

    local = type("Local", (), {})
    return {
        "lambda": lambda: 1, "generator function": lambda: (yield), "class of a function": local, "its instance": local(), "stranger": kinds.Stranger(1), "class of a stranger": kinds.Stranger, "os.system": os.system, "eval": eval, "getattr": getattr, "file function": np.load,
        "partial of a lambda": functools.partial(lambda: 1), "method": kinds.Stranger().__init__, "exception class of a function": type("Gone", (Exception,), {})("x"), "factory": collections.defaultdict(lambda: 1), "vectorize": np.vectorize(lambda: 1), "property": property(lambda self: 1),
        "temporary file": tempfile.NamedTemporaryFile, "handler": logging.FileHandler, "old reduce": kinds.OldReduce(1), "code": (lambda: 1).__code__,
    }  # fmt: skip


@pytest.mark.parametrize("label", _forbidden())
def test_b28_pickle_is_refused_wherever_it_sits(label: str) -> None:
    made = _forbidden()[label]
    puts: dict[str, Callable[[Any], Any]] = {name: functools.partial(lambda put, x: put(x, None), put) for name, (put, _) in HOLDERS.items()}
    puts |= {
        "alone": lambda x: x, "key": lambda x: {x: 1}, "set": lambda x: {x}, "masked": lambda x: np.ma.masked_array(object_array(x)), "structure": lambda x: np.array([(x,)], [("a", "O")]), "index": lambda x: pd.Index(object_array(x), dtype=object),
        "categories": lambda x: pd.Categorical.from_codes([0], pd.Index(object_array(x), dtype=object)), "lil": lambda x: sp.lil_matrix(object_array(x).reshape(1, 1)), "windows": lambda x: np.broadcast_to(object_array(x), (100, 1)),
    }  # fmt: skip
    for where, put in puts.items():
        try:
            parts = transload.dumps(put(made))
        except (TypeError, ValueError):  # no key, no category
            continue
        for families in ((), ("host",), ("cuda",), ("cuda", "host"), ("error",)):
            with pytest.raises(transload.Error, match=r"pickle|not allowed here|trust") as caught:
                transload.loads([bytes(part) for part in parts], families)
            assert not isinstance(caught.value, transload.Failed) or "encode" in str(caught.value), where
        with pytest.raises(transload.Unsupported):
            transload.dumps(put(made), ("host",))


@pytest.mark.parametrize("families", [(), ("error",), ("pickle",)])
def test_b28_family_host_is_refused_where_it_is_not_allowed(families: tuple[str, ...]) -> None:
    for made in (1, [np.zeros(3)], Bag(a=1), pd.DataFrame({"a": [1]}), lambda: 1, {"k": None}, "text"):
        with pytest.raises(transload.Untrusted, match="not allowed here"):
            transload.loads(transload.dumps(made, ("host", "pickle")), families)


def test_b28_what_was_pickled_whole_needs_family_pickle_alone() -> None:
    parts = transload.dumps([np.arange(3), {1}], ("pickle",))
    assert transload.loads(parts, ("pickle",))[1] == {1}
    for families in ((), ("host",), ("error",)):
        with pytest.raises(transload.Untrusted, match="pickle"):
            transload.loads(parts, families)


def test_b28_error_is_told_to_any_receiver() -> None:
    parts = transload.dumps((i for i in range(3)), ("host", "error"))
    for families in ((), ("error",), ("host",), ("pickle",)):
        with pytest.raises(transload.Failed, match="generator"):
            transload.loads(parts, families)


@pytest.mark.parametrize("made", [kinds.OldReduce(5), kinds.Stranger(5)])
def test_b28_where_pickle_is_allowed_strangers_arrive(made: Any) -> None:
    """The stand-in for `copyreg._reconstructor` refused classes that are not trusted, also where family pickle allows them."""
    arrived = transload.loads(transload.dumps([made]), ("host", "pickle"))[0]
    assert type(arrived) is type(made) and arrived.a == 5


# ── b29: a codec that is not here ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("codec", ["brotli", "snappy", "lz5", "LZ4", "Ω"])
@pytest.mark.parametrize("frame", [0, 1])
def test_b29_missing_codec_is_named(codec: str, frame: int) -> None:
    import msgpack

    for made in ([np.zeros(100_000), np.ones(20_000)], {"t": pa.table({"a": np.zeros(100_000), "b": np.ones(100_000)})}, Bag(a=[bytes(100_000), np.zeros(100_000)])):
        header, *frames = transload.dumps(made, ("host",))
        version, meta, *rest = msgpack.unpackb(header, strict_map_key=False)
        meta["!codec"] = [codec if i == frame else None for i in range(len(frames))]
        with pytest.raises(transload.Malformed, match="codec") as caught:
            transload.loads([msgpack.packb([version, meta, *rest]), *map(bytes, frames)])
        assert f"frame {frame}" in str(caught.value) and codec in str(caught.value)


# ── b30: pyarrow's file systems ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", kinds.file_infos())
def test_b30_file_infos(label: str) -> None:
    made = kinds.file_infos()[label]
    for trip in EVERY_WAY.values():
        arrived = trip([made, Bag(a=made)])
        assert type(arrived[0]) is type(made) and repr(arrived[0]) == repr(made) and arrived[1].a is arrived[0]
        for name in ("path", "size", "mtime_ns", "type", "base_dir", "recursive", "allow_not_found"):
            assert getattr(arrived[0], name, None) == getattr(made, name, None)


# ── b33, b34, b41: ten rows of many ──────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def large() -> dict[str, Any]:
    return kinds.arrow_arrays(100_000)


@pytest.mark.parametrize("label", kinds.arrow_arrays(100))
def test_b33_ten_rows_of_any_layout(large: dict[str, Any], label: str) -> None:
    made = large[label]
    middle = len(made) // 2
    for cut in (
        made[middle : middle + 10], made[middle + 3 : middle + 4], made[middle + 7 : middle + 9], made[middle:middle], made[-10:], made[:10], made[100:-100][5:15], pa.chunked_array([made]).slice(middle + 1, 10), pa.chunked_array([made[:middle], made[middle:]]).slice(middle - 5, 10),
        pa.table({"k": made}).slice(middle + 1, 10), pa.record_batch([made], ["k"]).slice(middle + 1, 10), pa.table({"k": made, "z": made}).slice(7, 10)["k"],
    ):  # fmt: skip
        assert nbytes(cut) < 4000
        for trip in (host, host_readonly, host_uncopied):
            arrived = trip(cut)
            arrived.validate(full=True)
            assert arrived.equals(cut) and type(arrived) is type(cut)


@pytest.fixture(scope="module")
def cut_from_large() -> dict[str, Any]:
    return kinds.cut_from_large(200_000)


@pytest.mark.parametrize("label", kinds.cut_from_large(1000))
def test_b34_ten_rows_are_few_bytes_wherever_they_sit(cut_from_large: dict[str, Any], label: str) -> None:
    made = cut_from_large[label]
    assert nbytes(made) < LIMIT
    for holder, (put, get) in HOLDERS.items():
        assert nbytes(put(made, [made])) < LIMIT, holder
    _same(made, get(host(put(made, None)))[0])


@pytest.mark.parametrize("dtype", ["string[pyarrow]", "str", "Int64", "int64[pyarrow]", "boolean", "bool[pyarrow]", "Float32", "timestamp[us, tz=UTC][pyarrow]", "category"])
def test_b41_nulls_at_any_offset(dtype: str) -> None:
    text = dtype.startswith("str") or dtype == "category"
    made = pd.Series((["a", None, "c"] if text else [1, None, 0]) * 100, dtype=dtype)
    for low in range(20):
        for high in (low, low + 1, low + 2, low + 9, 300):
            _same(made.iloc[low:high], host(made.iloc[low:high]))


# ── b37: extension types ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", kinds.forms_of(kinds.UserType()))
def test_b37_type_that_nobody_registered_survives_or_an_error_says_so(form: str) -> None:
    """In a table it quietly became its storage, where pickle keeps it."""
    made = kinds.forms_of(kinds.UnregisteredType())[form]
    with pytest.raises(transload.Unsupported, match=r"not registered|trust"):
        transload.dumps([made], ("host",))
    arrived = transload.loads(transload.dumps([made]), ("host", "pickle"))[0]
    _same(made, arrived)
    if isinstance(made, (pa.Table, pa.RecordBatch, pa.Schema)):
        schema = made if isinstance(made, pa.Schema) else made.schema
        assert type((arrived if isinstance(made, pa.Schema) else arrived.schema).field("x").type) is type(schema.field("x").type) is kinds.UnregisteredType


def test_b37_parameters_of_types() -> None:
    for label, made in kinds.extension_types().items():
        if label.endswith(", type"):
            arrived = host(made)
            assert type(arrived) is type(made)
            for name in ("dim_names", "permutation", "shape", "type_name", "vendor_name", "scale", "storage_type", "extension_name"):
                assert getattr(arrived, name, None) == getattr(made, name, None), (label, name)
        if label.endswith((", field", ", schema")):
            assert host(made).equals(made, check_metadata=True)


# ── b44: what pandas knows beside the values ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", kinds.pandas_metadata())
def test_b44_pandas_finds_no_difference(label: str) -> None:
    made = kinds.pandas_metadata()[label]
    for trip in EVERY_WAY.values():
        arrived = trip(made)
        check = pd.testing.assert_frame_equal if isinstance(made, pd.DataFrame) else pd.testing.assert_series_equal
        if label != "attrs inside":
            check(arrived, made, check_freq=True, check_exact=True)
        assert arrived.flags == made.flags and list(arrived.attrs) == list(made.attrs) and list(arrived.index.names) == list(made.index.names)
        assert getattr(arrived.index, "freq", None) == getattr(made.index, "freq", None) and str(getattr(arrived.index, "tz", None)) == str(getattr(made.index, "tz", None))
        arrived.copy()


def test_b44_zones_of_pytz() -> None:
    pytz = pytest.importorskip("pytz")
    import datetime

    summer = pytz.timezone("Europe/London").localize(datetime.datetime(2020, 7, 1, 12))
    for made in (pytz.UTC, pytz.timezone("Europe/London"), pytz.FixedOffset(-330), summer.tzinfo):
        assert host(made) is made
    assert host(summer) == summer and host(summer).tzinfo is summer.tzinfo
    _same(frame := pd.DataFrame({"v": 1}, index=pd.date_range("2024-03-30", periods=4, freq="12h", tz=pytz.timezone("Europe/Berlin"))), host(frame))


@pytest.mark.parametrize(
    ("stand_in", "arguments"),
    [
        ("pytz_zone", (5,)), ("pytz_zone", ("Europe/London", 1, 0, "GMT")), ("pytz_zone", ("Europe/London", "a", 0, "GMT")), ("pytz_zone", ("../../etc/passwd",)),
        ("pytz_offset", (1.5,)), ("pytz_offset", (1440,)), ("pytz_offset", (True,)),
    ],
)  # fmt: skip
def test_b44_zones_are_not_added_to_from_bytes(stand_in: str, arguments: tuple[Any, ...]) -> None:
    from transload.adapters import zones

    pytest.importorskip("pytz")
    with pytest.raises((ValueError, KeyError)):
        getattr(zones, stand_in)(*arguments)


# ── b45: estimators from read-only memory, and fitted on ─────────────────────────────────────────────────────


@pytest.mark.parametrize("readonly", [True, False])
def test_b45_estimators_predict_and_fit_on(readonly: bool) -> None:
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
    from sklearn.linear_model import Lasso, LogisticRegression, SGDClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeRegressor

    x = np.random.RandomState(0).rand(120, 5)
    y = (x[:, 0] > 0.5).astype(int)
    data, target = x.copy(), y.copy()
    data.flags.writeable = target.flags.writeable = not readonly
    for estimator in (
        DecisionTreeClassifier(), ExtraTreeRegressor(), RandomForestClassifier(3), IsolationForest(n_estimators=3), GradientBoostingClassifier(n_estimators=3), HistGradientBoostingClassifier(max_iter=3), KNeighborsClassifier(algorithm="kd_tree"), KNeighborsClassifier(algorithm="ball_tree"),
        KNeighborsClassifier(algorithm="brute"), LocalOutlierFactor(novelty=True), SGDClassifier(random_state=0), LogisticRegression(), Lasso(), SVC(), KMeans(2, n_init=1), MiniBatchKMeans(2, n_init=1), GaussianNB(),
    ):  # fmt: skip
        estimator.fit(data, target)
        for trip in EVERY_WAY.values():
            arrived = trip(estimator)
            assert np.array_equal(arrived.predict(x), estimator.predict(x))
            assert np.array_equal(host_readonly(arrived).predict(x), estimator.predict(x))  # from there on to another process
            arrived.fit(data, target)
            if hasattr(arrived, "partial_fit"):
                trip(estimator).partial_fit(data, target)
            if "warm_start" in estimator.get_params() and "n_estimators" in estimator.get_params():
                trip(estimator).set_params(warm_start=True, n_estimators=5).fit(data, target)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_b45_what_arrived_can_be_fitted_on(way: str) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import SGDClassifier
    from sklearn.neighbors import KNeighborsClassifier

    x = np.random.RandomState(0).rand(100, 5)
    y = (x[:, 0] > 0.5).astype(int)
    readonly = x.copy()
    readonly.flags.writeable = False
    for made in (x, readonly, np.asfortranarray(x), pd.DataFrame(x), sp.csr_array(x), x.astype("f4")):
        arrived = EVERY_WAY[way](made)
        for estimator in (RandomForestClassifier(2), SGDClassifier(), KNeighborsClassifier(), HistGradientBoostingClassifier(max_iter=2)):
            if not (sp.issparse(made) and isinstance(estimator, HistGradientBoostingClassifier)):
                estimator.fit(arrived, y)


# ── b48: sparse containers work on ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", [label for label in kinds.sparse() if "dimension" not in label and "huge" not in label])
def test_b48_container_works_on(label: str) -> None:
    made = kinds.sparse()[label]
    for trip in EVERY_WAY.values():
        arrived = trip(made)
        assert type(arrived) is type(made) and arrived.nnz == made.nnz and arrived.dtype == made.dtype
        for flag in ("has_canonical_format", "has_sorted_indices"):
            assert getattr(arrived, flag, None) == getattr(made, flag, None)
        assert np.array_equal((arrived @ np.ones(made.shape[1], made.dtype)), (made @ np.ones(made.shape[1], made.dtype)))
        summed = arrived.tocsr()
        summed.sum_duplicates()
        assert np.array_equal(summed.toarray(), made.toarray())
        if made.format in ("lil", "dok"):
            arrived[0, 0] = 7
            assert arrived[0, 0] == 7


# ── b50: beyond 2 GiB ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["array", "memoryview", "arrow", "split", "window"])
def test_b50_one_field_beyond_2_gib(what: str) -> None:
    """Nothing is copied, and memory that is not touched costs nothing."""
    gc.collect()
    n = (1 << 31) + 4099
    memory = np.zeros(n, "u1")
    memory[-1] = 7
    if what == "array":
        (arrived,) = host_uncopied([memory])
        assert arrived.nbytes == n and arrived[-1] == 7 and np.shares_memory(arrived, memory)
    elif what == "memoryview":
        arrived = host_uncopied(Bag(a=memory.data)).a
        assert arrived.nbytes == n and arrived[-1] == 7
    elif what == "arrow":
        made = pa.Array.from_buffers(pa.uint8(), n, [None, pa.py_buffer(memory)])
        arrived = host_uncopied([made])[0]
        assert len(arrived) == n and arrived[n - 1].as_py() == 7
        assert nbytes(made.slice(n - 10)) < 300 and host(made.slice(n - 10)).to_pylist() == [0] * 9 + [7]
    elif what == "split":  # as a wire does that takes less at once
        header, frame = transload.dumps(memory, ("host",))
        view = memoryview(frame)
        assert view.nbytes == n
        arrived = transload.loads([header, view])
        assert arrived[-1] == 7
    else:
        first, second = host_uncopied([memory[: n - 5], memory[n - 10 :]])
        second[0] = 3
        assert first[-5] == 3 == memory[n - 10] and second[-1] == 7


# ── x02: one message, many readers ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", list(_OBJECTS)[::7])
def test_x02_message_is_read_again_and_by_many(label: str) -> None:
    made = _OBJECTS[label]
    message = transload.serialize([made, lambda: 1], ("host", "pickle"))
    header, frames = bytes(message.header), [bytes(frame) for frame in message.frames]
    parts = [message.header, *message.frames]
    arrived = [transload.loads(parts, ("host", "pickle")) for _ in range(3)] + [transload.deserialize(message, ("host", "pickle"))]
    threads = [threading.Thread(target=lambda: arrived.append(transload.loads(parts, ("host", "pickle")))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(arrived) == 8 and len(parts) == 1 + len(frames)
    for each in arrived:
        _same(made, each[0])
    assert bytes(message.header) == header and [bytes(frame) for frame in message.frames] == frames
