"""pandas: frames, series, indexes, arrays, dtypes and scalars of every kind through family host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import transload

pd = pytest.importorskip("pandas")

from support import objects_pandas as objects  # noqa: E402
from support.same import difference  # noqa: E402
from support.trips import host, host_readonly, nbytes  # noqa: E402

_ALL = dict(objects.objects())


def _caches(text: str | None) -> bool:
    """pandas arrays that cached something have one part more in their state."""
    return text is not None and ("items became" in text)


@pytest.mark.parametrize("label", _ALL)
@pytest.mark.parametrize("trip", [host, host_readonly])
def test_object_arrives_whole(label: str, trip: Any) -> None:
    thing = _ALL[label]
    arrived = trip(thing)
    assert type(arrived) is type(thing)
    if isinstance(thing, pd.DataFrame):
        pd.testing.assert_frame_equal(arrived, thing, check_freq=True, check_exact=True)
    elif isinstance(thing, pd.Series):
        pd.testing.assert_series_equal(arrived, thing, check_freq=True, check_exact=True)
    elif isinstance(thing, pd.Index):
        pd.testing.assert_index_equal(arrived, thing, exact=True, check_exact=True)
        assert arrived.names == thing.names and getattr(arrived, "freq", None) == getattr(thing, "freq", None)
    if isinstance(thing, (pd.DataFrame, pd.Series)):
        assert arrived.attrs == thing.attrs and arrived.flags == thing.flags
    if trip is host:
        found = difference(thing, arrived)
        assert found is None or _caches(found), found


def test_frame_of_one_block_is_its_own_memory_both_ways() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).random((1_000_000, 10)))
    header, *frames = transload.dumps(frame, families=("host",))
    assert sum(memoryview(f).nbytes for f in frames) == 80_000_000 and len(header) < 1000
    assert np.shares_memory(np.frombuffer(frames[0]), frame.to_numpy(copy=False))
    arrived = transload.loads([header, *frames])
    assert np.shares_memory(arrived.to_numpy(copy=False), frame.to_numpy(copy=False))


@pytest.mark.parametrize("label", ["frame: rows", "frame: columns", "series: slice"])
def test_slices_send_what_they_show(label: str) -> None:
    assert nbytes(_ALL[label]) < (16_384 if label != "frame: columns" else 1_700_000)


def test_column_taken_out_keeps_to_itself_when_written_to() -> None:
    frame = pd.DataFrame({"a": np.arange(10_000.0), "b": np.arange(10_000.0)})
    view = frame.iloc[5:9_000]
    column = frame["a"]
    arrived, arrived_view, arrived_column = host([frame, view, column])
    arrived.loc[6, "a"] = -1.0
    assert arrived_view.loc[6, "a"] == 6.0 and arrived_column[6] == 6.0
    arrived_column[7] = -2.0
    assert arrived.loc[7, "a"] == 7.0


def test_index_made_of_a_column_keeps_to_itself() -> None:
    frame = pd.DataFrame({"a": np.arange(10_000)}).set_index("a", drop=False)
    arrived = host(frame)
    arrived.iloc[3, 0] = -1
    assert arrived.index[3] == 3


def test_arrived_frame_can_be_written_to() -> None:
    frame = host_readonly(pd.DataFrame({"a": np.arange(5.0), "b": ["x"] * 5}))
    frame.loc[0, "a"] = 9.0
    frame["c"] = 1
    assert list(frame.loc[0]) == [9.0, "x", 1]


@pytest.mark.parametrize("dtype", ["str", "string[pyarrow]", "int64[pyarrow]", "bool[pyarrow]", "large_string[pyarrow]", "timestamp[us][pyarrow]"])
@pytest.mark.parametrize("cut", [(0, 3000), (7, 9), (8, 17), (15, 16), (1, 1)])
def test_arrow_backed_slices(dtype: str, cut: tuple[int, int]) -> None:
    pytest.importorskip("pyarrow")
    values = ["a", None, "c"] if "str" in dtype else [1, None, 0]
    series = pd.Series(values * 1000, dtype=dtype).iloc[slice(*cut)]
    arrived = host(series)
    pd.testing.assert_series_equal(arrived, series)
    assert arrived.dtype == series.dtype
    if cut[1] < 100:
        assert nbytes(series) < 4096


# ── Hostile state ────────────────────────────────────────────────────────────────────────────────────────────


def _decode(name: str, value: Any) -> Any:
    from transload import _tables

    host(pd.Series([1]))
    return _tables.adapters_by_name[name](value)


_AXES = [pd.Index(["a", "b"]), pd.RangeIndex(3)]


@pytest.mark.parametrize(
    "blocks",
    [
        [(np.zeros((2, 3)), slice(0, 3, 1), None)], [(np.zeros((1, 3)), slice(0, 1, 1), None)], [(np.zeros((2, 4)), slice(0, 2, 1), None)], [(np.zeros(3), slice(0, 1, 1), None)],
        [(np.zeros((2, 3)), np.array([0, 0]), None)], [(np.zeros((2, 3)), np.array([0, 5]), None)], [(np.zeros((2, 3)), np.array([0, -1]), None)],
        [(np.zeros((2, 3)), slice(0, 2, 1), object())], [(b"x" * 48, slice(0, 2, 1), None)], [(np.zeros((2, 3)), slice(0, 2, 0), None)], [(np.zeros((2, 3)), slice(0, 10**12, 1), None)],
        [(np.zeros((2, 3)), slice(None, None, None), None)], [],
    ],
)
def test_blocks_that_do_not_give_each_column_once_are_refused(blocks: Any) -> None:
    with pytest.raises(ValueError):
        _decode("pandas.blocks", (_AXES, blocks))


_DTYPE = pd.CategoricalDtype(["a", "b"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pandas.array", ("Categorical", _DTYPE, np.array([0, 2], "i1"), None)), ("pandas.array", ("Categorical", _DTYPE, np.array([-2], "i1"), None)),
        ("pandas.array", ("Categorical", _DTYPE, np.array([0.5]), None)), ("pandas.array", ("Categorical", pd.CategoricalDtype(), np.array([0]), None)),
        ("pandas.array", ("DatetimeArray", np.dtype("M8[ns]"), np.array([1]), None)), ("pandas.array", ("DatetimeArray", pd.DatetimeTZDtype("ns", "UTC"), np.array([1], "M8[s]"), None)),
        ("pandas.array", ("DatetimeArray", np.dtype("M8[ns]"), np.array([1], "M8[ns]"), {"_freq": 3})), ("pandas.array", ("DatetimeArray", np.dtype("M8[ns]"), np.array([1], "M8[ns]"), {"x": 3})),
        ("pandas.array", ("PeriodArray", pd.PeriodDtype("D"), np.array([1.5]), None)), ("pandas.array", ("StringArray", pd.StringDtype("python"), np.array([1], object), None)),
        ("pandas.array", ("IntegerArray", pd.Int64Dtype(), np.array([1]), None)), ("pandas.array", ("os", None, np.array([1]), None)),
        ("pandas.masked", ("IntegerArray", np.zeros(3, int), np.zeros(2, bool), None)), ("pandas.masked", ("IntegerArray", np.zeros(3), np.zeros(3, bool), None)),
        ("pandas.masked", ("IntegerArray", np.zeros(3, int), np.zeros(3, int), None)),
        ("pandas.index", ("MultiIndex", {"levels": [pd.Index([1])], "codes": [np.array([1])], "sortorder": None, "names": [None]})),
        ("pandas.index", ("MultiIndex", {"levels": [pd.Index([1])] * 2, "codes": [np.array([0]), np.array([0, 0])], "sortorder": None, "names": [None] * 2})),
        ("pandas.index", ("Index", {"data": np.zeros((2, 2)), "name": None})), ("pandas.index", ("Index", {"data": np.zeros(2), "name": None, "fastpath": True})),
        ("pandas.index", ("DatetimeIndex", {"data": np.zeros(2), "name": None})), ("pandas.index", ("DataFrame", {"data": np.zeros(2), "name": None})),
        ("pandas.sparse_index", ("IntIndex", 2, np.array([0, 5], "i4"))), ("pandas.sparse_index", ("IntIndex", 2, np.array([1, 0], "i4"))),
        ("pandas.sparse_index", ("BlockIndex", 4, np.array([0], "i4"), np.array([-1], "i4"))), ("pandas.sparse_index", ("BlockIndex", 4, np.array([0, 1], "i4"), np.array([2, 2], "i4"))),
        ("pandas.sparse_index", ("BlockIndex", 4, np.array([3], "i4"), np.array([2], "i4"))),
        ("pandas.block", (pd.RangeIndex(3), np.zeros(2), None)), ("pandas.block", (pd.RangeIndex(3), [1, 2, 3], None)),
        ("pandas.DataFrame", {"_mgr": pd.Series([1])._mgr, "_typ": "dataframe"}), ("pandas.Series", {"_mgr": None, "_typ": "series"}),
    ],
)
def test_array_or_index_that_points_outside_is_refused(name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        _decode(name, value)


@pytest.mark.parametrize("reso", [0, 4, 11, 100, -1])
def test_timestamp_of_no_resolution_is_refused(reso: int) -> None:
    from transload import _tables

    host(pd.Series([1]))
    for name in ("pandas._libs.tslibs.timestamps:_unpickle_timestamp", "pandas._libs.tslibs.timedeltas:_timedelta_unpickle"):
        with pytest.raises(ValueError, match="resolution"):
            arguments = (1, None, None, reso) if "timestamps" in name else (1, reso)
            _tables.overrides[name](*arguments)


@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "__cuda_array_interface__"])
@pytest.mark.parametrize(
    "index",
    [
        lambda name: pd.Index([name], dtype=object), lambda name: pd.Index([name], dtype=pd.StringDtype("python")), lambda name: pd.CategoricalIndex([name]), lambda name: pd.MultiIndex.from_tuples([(name, 1)]),
        lambda name: pd.Index([name], dtype="str"),
    ],
)  # fmt: skip
def test_series_whose_item_would_say_where_memory_is_is_refused(name: str, index: Any) -> None:
    """NumPy asks any object for such an attribute, and a Series answers with the item under that label."""
    address = {"data": (16, True), "shape": (1000,), "typestr": "<i8", "version": 3}
    message = transload.dumps(pd.Series([address], index=index(name), dtype=object), families=("host",))
    with pytest.raises(transload.Malformed, match="where memory is"):
        transload.loads(message)
    assert host(pd.Series([1.5], index=index(name))).index[0] in (name, (name, 1))


def test_index_and_column_of_one_memory_travel_once_and_keep_to_themselves() -> None:
    frame = pd.DataFrame({"a": np.arange(10_000)}).set_index("a", drop=False)
    assert nbytes(frame) < 90_000
    arrived = host(frame)
    arrived.iloc[3, 0] = -1
    assert arrived.index[3] == 3
    labels = pd.DataFrame(np.zeros((3, 1)), index=pd.Index(["a", "b", "c"], dtype=object))
    first, second = host([labels, labels.copy(deep=False)])
    assert np.shares_memory(first.index._values, second.index._values)
    second.index.name = "z"
    assert first.index.name is None


@pytest.mark.parametrize("label", objects.PICKLED)
def test_questions_about_a_frame_are_pickles(label: str) -> None:
    make, reason = objects.PICKLED[label]
    with pytest.raises(transload.Unsupported, match=reason):
        transload.dumps(make(), families=("host",))
    assert transload.loads(transload.dumps(make(), families=("host", "pickle")), families=("host", "pickle")) is not None


_ZONE = ("Europe/Nowhere", None, ((0, 1), (0, 100), [3600, 7200], (0, 1), ["A", "B"], None))


@pytest.mark.parametrize(
    "value",
    [
        5, ("x", "y"), (5, None, _ZONE[2]), (None, None, ()), (None, None, ((2, 1), *_ZONE[2][1:])), (None, None, ((-1, 1), *_ZONE[2][1:])), (None, None, ((0,), *_ZONE[2][1:])), (None, None, (*_ZONE[2][:2], [3600], *_ZONE[2][3:])),
        (None, None, (*_ZONE[2][:2], [1 << 70, 0], *_ZONE[2][3:])), (None, None, (*_ZONE[2][:4], [1, 2], None)), (None, None, (*_ZONE[2][:5], b"x" * 1000)), (None, None, (range(1 << 62), *_ZONE[2][1:])),
    ],
)  # fmt: skip
def test_zone_whose_parts_do_not_fit_is_refused(value: Any) -> None:
    assert _decode("dateutil.tzfile", _ZONE).utcoffset(None) is None
    with pytest.raises(ValueError):
        _decode("dateutil.tzfile", value)


@pytest.mark.parametrize(("name", "arguments"), [("dateutil.tz.tz:tzoffset", ("x", 5)), ("dateutil.tz.tz:tzoffset", (5, None)), ("pandas._libs.lib:_NoDefault", (5,)), ("pandas.api.typing:FrozenList", (range(1 << 62),))])
def test_stand_ins_of_pandas_take_what_it_reduces_to(name: str, arguments: Any) -> None:
    from transload import _tables

    host(pd.Series([1]))
    with pytest.raises(ValueError):
        _tables.overrides[name](*arguments)


@pytest.mark.parametrize("references", [5, None, "x"])
def test_index_is_shared_with_references_alone(references: Any) -> None:
    with pytest.raises(ValueError, match="references"):
        _decode("pandas.index", ("Index", {"data": np.zeros(2), "name": None}, references))
