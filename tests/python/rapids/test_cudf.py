"""cuDF's objects over host memory that stands in for a GPU's: headers, frames, what is rebuilt and what is refused. gpu/test_cudf_gpu.py has the rest."""

from __future__ import annotations

import datetime
import decimal
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("cudf")

import cudf
import pylibcudf as plc

import transload
from support import twin_cudf as t
from support.twin_cudf import host_twin, twin  # noqa: F401  fixtures
from transload.adapters import cudf as adapter

BOTH = pytest.mark.parametrize("families", [("cuda", "host"), ("host",)], ids=["cuda", "host"])


def trip(obj: Any, families: tuple[str, ...] = ("cuda", "host")) -> Any:
    """There and back; memory stays in the host's, which the fixture `twin` takes for a GPU's."""
    header, *frames = transload.dumps(obj, families=families)
    return transload.loads([bytes(header), *frames], device="host")


def _intervals(closed: str = "left") -> Any:
    ends = pa.StructArray.from_arrays([pa.array([0, 1, 2]), pa.array([1, 2, 3])], ["left", "right"])
    return t.column(ends, cudf.IntervalDtype("int64", closed))


D = decimal.Decimal
NESTED = pa.array([[{"a": [1, None], "b": "x"}], None, [], [{"a": None, "b": None}, {"a": [], "b": "yy"}]])
COLUMNS: dict[str, Any] = {
    **{name: lambda name=name: t.column(pa.array([1, 0, 3, None], name)) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")},
    "plain": lambda: t.column(pa.array(np.arange(1000.0))),
    "bool": lambda: t.column(pa.array([True, None, False])),
    "strings": lambda: t.column(pa.array(["a", None, "", "ünï"])),
    "large strings": lambda: t.column(pa.array(["a", None, "", "ünï"], pa.large_string())),
    "object strings": lambda: t.column(pa.array(["a", None, "b"]), np.dtype("O")),
    "pyarrow strings": lambda: t.column(pa.array(["a", None, "b"]), pd.StringDtype("pyarrow", na_value=pd.NA)),
    "arrow strings": lambda: t.column(pa.array(["a", None, "b"]), pd.ArrowDtype(pa.string())),
    "nullable": lambda: t.column(pa.array([1, None, 3]), pd.Int64Dtype()),
    "arrow records": lambda: t.column(pa.array([[{"a": 1, "b": ["x"]}], None]), pd.ArrowDtype(pa.list_(pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())})))),
    "arrow stamps": lambda: t.column(pa.array([0, None], pa.timestamp("us")), pd.ArrowDtype(pa.timestamp("us", "UTC"))),
    "arrow nulls": lambda: t.column(pa.array([None, None], pa.string()), pd.ArrowDtype(pa.null())),
    "arrow ints": lambda: t.column(pa.array([1, None, 3], pa.int32()), pd.ArrowDtype(pa.int32())),
    "list": lambda: t.column(pa.array([[1, 2], None, [], [None]])),
    "list of lists": lambda: t.column(pa.array([[["a"], []], None, [None, ["b", "c"]]])),
    "struct": lambda: t.column(pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "z"}])),
    "nested": lambda: t.column(NESTED),
    "decimal32": lambda: t.column(pa.array([D("1.31"), None], pa.decimal32(5, 2)), cudf.Decimal32Dtype(5, 2)),
    "decimal64": lambda: t.column(pa.array([D("-1.3"), None], pa.decimal64(12, 1)), cudf.Decimal64Dtype(12, 1)),
    "decimal128": lambda: t.column(pa.array([D("1.31"), D("99999999999999999999.99")], pa.decimal128(30, 2)), cudf.Decimal128Dtype(30, 2)),
    "category": lambda: t.category([1, 0, None, 1], t.column(pa.array(["low", "high"]))),
    "ordered": lambda: t.category([1, 0, 1], t.column(pa.array([10, 20])), True),
    "interval": _intervals,
    "zone": lambda: t.column(pa.array([0, None, 10**9], pa.timestamp("us")), pd.DatetimeTZDtype("us", "Europe/Berlin")),
    **{f"stamps {unit}": lambda unit=unit: t.column(pa.array([0, None, 10**6], pa.timestamp(unit)), np.dtype(f"M8[{unit}]")) for unit in ("s", "ms", "us", "ns")},
    **{f"spans {unit}": lambda unit=unit: t.column(pa.array([0, None, -5], pa.duration(unit)), np.dtype(f"m8[{unit}]")) for unit in ("s", "ms", "us", "ns")},
    "no rows": lambda: t.column(pa.array([], pa.int64())),
    "no texts": lambda: t.column(pa.array([], pa.string())),
    "no lists": lambda: t.column(pa.array([], pa.list_(pa.int64()))),
    "all null": lambda: t.column(pa.array([None, None], pa.float32())),
}


@pytest.mark.usefixtures("twin")
@BOTH
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_every_type(name: str, families: tuple[str, ...]) -> None:
    column = COLUMNS[name]()
    arrived = trip(t.series(column, "x"), families)
    assert type(arrived) is cudf.Series and arrived.name == "x" and type(arrived._column) is type(column)
    assert type(arrived.dtype) is type(column.dtype)
    assert t.tree(arrived._column.plc_column) == t.tree(column.plc_column)
    if not isinstance(column.dtype, cudf.CategoricalDtype):
        assert arrived.dtype == column.dtype
    else:
        assert arrived.dtype.ordered is column.dtype.ordered
        assert t.tree(arrived.dtype._categories.plc_column) == t.tree(column.dtype._categories.plc_column)
    alone = trip(column, families)
    assert type(alone) is type(column) and t.tree(alone.plc_column) == t.tree(column.plc_column)


@pytest.mark.usefixtures("twin")
@BOTH
@pytest.mark.parametrize("offset", [0, 1, 7, 8, 31, 32, 33, 500])
@pytest.mark.parametrize("kind", ["int8", "float64", "bool", "decimal128", "stamps"])
@pytest.mark.parametrize("nulls", [False, True])
def test_a_slice_carries_the_rows_that_it_shows(kind: str, offset: int, nulls: bool, families: tuple[str, ...]) -> None:
    n = 100_000
    values: Any = (np.arange(n) % 120).astype("i8")
    some = [None if nulls and i % 5 == 0 else v for i, v in enumerate(values.tolist())]
    if kind == "bool":
        array = pa.array([v if v is None else v % 2 == 0 for v in some])
    elif kind == "decimal128":
        array = pa.array([v if v is None else D(v) for v in some], pa.decimal128(20, 0))
    else:
        array = pa.array(some, pa.timestamp("ns") if kind == "stamps" else kind)
    whole = t.column(array, {"decimal128": cudf.Decimal128Dtype(20, 0), "stamps": np.dtype("M8[ns]")}.get(kind))
    body = whole.plc_column
    sliced = plc.Column(body.type(), 70, body.data(), body.null_mask(), array.slice(offset, 70).null_count, offset, [])
    column = t.ColumnBase.create(sliced, whole.dtype)
    message = transload.serialize(t.series(column), families)
    assert message.nbytes < 70 * 16 + 1600
    arrived = transload.deserialize(message, device="host")
    assert t.tree(arrived._column.plc_column) == t.tree(column.plc_column)


@pytest.mark.usefixtures("twin")
def test_a_header_is_short() -> None:
    rows = np.arange(64.0)
    plain = t.frame({f"column {i}": t.column(pa.array(rows)) for i in range(300)})
    with_nulls = t.frame({f"column {i}": t.column(pa.array([1.0, None] * 25)) for i in range(300)})
    for frame in (plain, with_nulls):
        message = transload.serialize(frame, ("cuda", "host"))
        assert len(message.header) < 80 * 300 and len(message.frames) == 1
    assert len(pickle.dumps(plain.device_serialize()[0])) > 150 * 300  # as cuDF has it


NAMES = [
    ["a", "b"], [1, 2], [("x", 1), ("x", 2)], [None, 2.5], [np.int32(3), np.datetime64("2020-01-01", "D")], [datetime.date(2020, 1, 1), b"bytes"], [frozenset({1}), ()], [True, "True"],
]  # fmt: skip


@pytest.mark.usefixtures("twin")
@BOTH
@pytest.mark.parametrize("names", NAMES, ids=str)
def test_names_of_any_hashable_kind(names: list[Any], families: tuple[str, ...]) -> None:
    frame = t.frame({name: t.column(pa.array([i])) for i, name in enumerate(names)})
    arrived = trip(frame, families)
    assert list(arrived._data) == names and [type(name) for name in arrived._data] == [type(name) for name in names]


@pytest.mark.usefixtures("twin")
@BOTH
def test_names_that_are_no_numbers_are_found(families: tuple[str, ...]) -> None:
    frame = t.frame({np.nan: t.column(pa.array([1])), ("a", np.nan): t.column(pa.array([2]))})
    arrived = trip(frame, families)
    assert np.nan in arrived._data._data and ("a", np.nan) in arrived._data._data
    assert trip(t.series(t.column(pa.array([1])), np.nan), families).name is np.nan
    assert trip(t.index(t.column(pa.array([1])), np.nan), families).name is np.nan


@pytest.mark.usefixtures("twin")
def test_axes_keep_levels_names_and_dtypes() -> None:
    two = {("a", 1): t.column(pa.array([1])), ("a", 2): t.column(pa.array([2]))}
    levels = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["p", "q"])
    for frame in (
        t.frame(two, multiindex=True, level_names=("p", "q")),
        t.frame(two, multiindex=True, level_names=("p", "q"), pandas_index=levels),
        t.frame({0: t.column(pa.array([1])), 1: t.column(pa.array([2]))}, rangeindex=True, level_names=("r",)),
        t.frame({"a": t.column(pa.array([1]))}, label_dtype=pd.StringDtype("python", na_value=np.nan)),
        t.frame({}, rangeindex=False, label_dtype=np.dtype("O")),
    ):
        arrived = trip(frame)
        old, new = frame._data, arrived._data
        assert (new.multiindex, new.rangeindex, new.level_names, new.label_dtype) == (old.multiindex, old.rangeindex, old.level_names, old.label_dtype)
        assert new.to_pandas_index.equals(old.to_pandas_index) and new.to_pandas_index.names == old.to_pandas_index.names


def _indexes() -> dict[str, Any]:
    stamps = t.column(pa.array([0, 86_400 * 10**9], pa.timestamp("ns")), np.dtype("M8[ns]"))
    spans = t.column(pa.array([1, None], pa.duration("s")), np.dtype("m8[s]"))
    return {
        "range": cudf.RangeIndex(3, 30, 4, name="r"),
        "index": t.index(t.column(pa.array([5, 6])), ("a", "b")),
        "texts": t.index(t.column(pa.array(["x", None]))),
        "dates": t.index(stamps, "d", cudf.DatetimeIndex, pd.tseries.frequencies.to_offset("D")),
        "no freq": t.index(stamps, "d", cudf.DatetimeIndex),
        "spans": t.index(spans, None, cudf.TimedeltaIndex),
        "categories": t.index(t.category([0, 1], t.column(pa.array(["p", "q"]))), "c", cudf.CategoricalIndex),
        "intervals": t.index(_intervals("both"), "i", cudf.IntervalIndex),
        "levels": cudf.MultiIndex._simple_new(
            t.ColumnAccessor({0: t.column(pa.array([1, 2])), 1: t.column(pa.array(["a", None]))}), None, None, pd.core.indexes.frozen.FrozenList(["op", "op"]), None
        ),
    }


@pytest.mark.usefixtures("twin")
@BOTH
@pytest.mark.parametrize("name", ["range", "index", "texts", "dates", "no freq", "spans", "categories", "intervals", "levels"])
def test_indexes_of_every_kind(name: str, families: tuple[str, ...]) -> None:
    index = _indexes()[name]
    n = len(index)
    for arrived in (trip(index, families), trip(t.series(t.column(pa.array([1] * n)), "s", index), families).index, trip(t.frame({"a": t.column(pa.array([1] * n))}, index), families).index):
        assert type(arrived) is type(index) and arrived.name == index.name and list(arrived.names) == list(index.names) and len(arrived) == n
        if name == "range":
            assert arrived._range == index._range
            continue
        for old, new in zip(index._data._data.values(), arrived._data._data.values(), strict=True):
            assert t.tree(new.plc_column) == t.tree(old.plc_column) and (name == "categories" or new.dtype == old.dtype)
        if name in ("dates", "no freq"):
            assert arrived.freq == index.freq


@pytest.mark.usefixtures("twin")
def test_attrs_flags_and_shared_parts() -> None:
    index = t.index(t.column(pa.array([5, 6])), "i")
    frame = t.frame({"a": t.column(pa.array([1, 2]))}, index)
    frame._attrs = {"unit": "m", "deep": [1, {"x": None}]}
    frame._flags = pd.Flags(frame, allows_duplicate_labels=False)
    arrived, again, arrived_index = trip([frame, frame, index])
    assert arrived is again and arrived.index is arrived_index
    assert arrived.attrs == frame.attrs and arrived.flags.allows_duplicate_labels is False


class Frame(cudf.DataFrame):
    pass


class Elsewhere:
    class Frame(cudf.DataFrame):
        """Another class of the same bare name."""


class Stateful(cudf.DataFrame):
    def __reduce_ex__(self, protocol: Any) -> Any:
        return Frame, ()


@pytest.mark.usefixtures("twin")
def test_subclasses_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Frame, Elsewhere.Frame):
        transload.trust(cls)
        frame = cls._from_data(t.ColumnAccessor({"a": t.column(pa.array([1, 2]))}))
        object.__setattr__(frame, "note", "kept")
        arrived = trip(frame)
        assert type(arrived) is cls and vars(arrived)["note"] == "kept" and t.tree(arrived._data["a"].plc_column) == t.tree(frame._data["a"].plc_column)
    assert "cudf.DataFrame" in str(transload.explain(Frame._from_data(t.ColumnAccessor({"a": t.column(pa.array([1]))}))))
    assert "cudf.DataFrame" not in str(transload.explain(Stateful._from_data(t.ColumnAccessor({"a": t.column(pa.array([1]))}))))


@pytest.mark.usefixtures("twin")
def test_columns_that_share_memory_share_it_on_arrival_and_are_copied_when_written_to(twin: Any) -> None:  # noqa: F811
    one = t.column(pa.array(np.arange(100_000.0)))
    two = one.copy(deep=False)
    message = transload.serialize(t.frame({"a": one, "b": two}), ("cuda", "host"))
    assert message.nbytes < 900_000
    arrived = transload.deserialize(message, device="host")
    a, b = (column.plc_column.data() for column in arrived._data._data.values())
    assert a.ptr == b.ptr and a.owner is b.owner and len(a.owner._slices) == 2  # cuDF copies before it writes


@pytest.mark.usefixtures("twin")
def test_what_was_sent_is_a_snapshot() -> None:
    column = t.column(pa.array(np.arange(100_000.0)))
    owner = column.plc_column.data().owner
    message = transload.serialize(t.series(column), ("cuda", "host"))
    assert len(owner._slices) == 2  # so a write copies first
    del message
    assert len(owner._slices) == 1


@pytest.mark.usefixtures("host_twin")
@BOTH
@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "all null"])
def test_host_memory_gives_pandas(name: str, families: tuple[str, ...]) -> None:
    column = COLUMNS[name]()
    arrived = trip(t.series(column, "x"), families)
    assert type(arrived) is pd.Series and arrived.name == "x"
    wanted = _in_pandas(name, column)
    pd.testing.assert_series_equal(arrived, pd.Series(wanted, name="x"), check_freq=False)


def _in_pandas(name: str, column: Any) -> Any:
    d = {
        "plain": np.arange(1000.0), "bool": np.array([True, None, False], object), "strings": pd.array(["a", None, "", "ünï"], "str"), "large strings": pd.array(["a", None, "", "ünï"], "str"),
        "object strings": np.array(["a", None, "b"], object), "pyarrow strings": pd.array(["a", None, "b"], pd.StringDtype("pyarrow", na_value=pd.NA)),
        "arrow strings": pd.array(["a", None, "b"], pd.ArrowDtype(pa.string())), "nullable": pd.array([1, None, 3], "Int64"), "arrow ints": pd.array([1, None, 3], pd.ArrowDtype(pa.int32())),
        "arrow records": pd.array([[{"a": 1, "b": ["x"]}], None], pd.ArrowDtype(pa.list_(pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())})))),
        "arrow stamps": pd.array(pa.array([0, None], pa.timestamp("us", "UTC")), pd.ArrowDtype(pa.timestamp("us", "UTC"))), "arrow nulls": pd.array([None, None], pd.ArrowDtype(pa.null())),
        "list": [[1, 2], None, [], [None]], "list of lists": [[["a"], []], None, [None, ["b", "c"]]], "struct": [{"a": 1, "b": "x"}, None, {"a": None, "b": "z"}], "nested": NESTED.to_pylist(),
        "decimal32": [D("1.31"), None], "decimal64": [D("-1.3"), None], "decimal128": [D("1.31"), D("99999999999999999999.99")],
        "category": pd.Categorical.from_codes([1, 0, -1, 1], pd.Index(["low", "high"])), "ordered": pd.Categorical.from_codes([1, 0, 1], [10, 20], ordered=True),
        "interval": pd.arrays.IntervalArray.from_breaks([0, 1, 2, 3], closed="left"), "zone": pd.DatetimeIndex(np.array([0, "NaT", 10**9], "M8[us]")).tz_localize("UTC").tz_convert("Europe/Berlin"),
        "no rows": np.array([], "i8"), "no texts": pd.array([], "str"), "no lists": np.array([], object),
    }  # fmt: skip
    if name in d:
        return np.array(d[name] + [None], object)[:-1] if type(d[name]) is list else d[name]
    if " " in name:
        what, unit = name.split()
        return np.array([0, "NaT", 10**6 if what == "stamps" else -5], f"{'M' if what == 'stamps' else 'm'}8[{unit}]")
    return np.array([1, 0, 3, np.nan], "f4" if name == "float32" else "f8")


@pytest.mark.usefixtures("host_twin")
def test_host_memory_gives_frames_and_indexes() -> None:
    frame = t.frame({("a", 1): t.column(pa.array([1, 2])), ("a", 2): t.column(pa.array(["x", "y"]))}, _indexes()["dates"], multiindex=True, level_names=("p", "q"))
    frame._attrs = {"unit": "m"}
    arrived = trip(frame)
    assert list(arrived.columns) == [("a", 1), ("a", 2)] and list(arrived.columns.names) == ["p", "q"] and arrived.attrs == {"unit": "m"}
    assert arrived.index.equals(pd.DatetimeIndex(["1970-01-01", "1970-01-02"], dtype="M8[ns]")) and arrived.index.freq == "D"
    wanted = {
        "range": pd.RangeIndex(3, 30, 4, name="r"), "index": pd.Index([5, 6], name=("a", "b")), "categories": pd.CategoricalIndex(["p", "q"], name="c"),
        "intervals": pd.IntervalIndex.from_breaks([0, 1, 2, 3], closed="both", name="i"), "levels": pd.MultiIndex.from_arrays([[1, 2], ["a", None]], names=["op", "op"]),
    }  # fmt: skip
    for name, index in wanted.items():
        found = trip(_indexes()[name])
        assert type(found) is type(index) and found.equals(index) and list(found.names) == list(index.names)


@pytest.mark.usefixtures("host_twin")
def test_a_freq_that_the_values_have_not_is_left_out() -> None:
    stamps = t.column(pa.array([0, 5, 86_400 * 10**9], pa.timestamp("ns")), np.dtype("M8[ns]"))
    index = t.index(stamps, "d", cudf.DatetimeIndex, pd.tseries.frequencies.to_offset("D"))
    arrived = trip(index)
    assert type(arrived) is pd.DatetimeIndex and arrived.freq is None and len(arrived) == 3
    one = t.index(t.column(pa.array([0], pa.timestamp("ns")), np.dtype("M8[ns]")), "d", cudf.DatetimeIndex, pd.tseries.frequencies.to_offset("D"))
    assert trip(one).freq == "D"


@pytest.mark.usefixtures("host_twin")
def test_objects_stay_objects_in_indexes_and_categories() -> None:
    texts = t.column(pa.array(["a", "b"]), np.dtype("O"))
    assert trip(t.index(texts)).dtype == np.dtype("O")
    assert trip(t.series(t.category([1, 0], texts))).dtype.categories.dtype == np.dtype("O")


@pytest.mark.usefixtures("host_twin")
def test_a_category_that_is_missing_makes_missing_values() -> None:
    arrived = trip(t.series(t.category([0, 1, None, 2], t.column(pa.array([1.5, float("nan"), 2.5])))))
    pd.testing.assert_series_equal(arrived, pd.Series(pd.Categorical.from_codes([0, -1, -1, 1], [1.5, 2.5])))


LABELS: dict[str, Any] = {
    "categories": pd.CategoricalIndex(["x", "y"], categories=["y", "x", "z"], ordered=True), "no categories": pd.CategoricalIndex([]), "periods": pd.period_range("2020", periods=2, freq="M"),
    "intervals": pd.interval_range(0, 2), "complex": pd.Index([1j, 2j]), "int32": pd.Index([1, 2], dtype="int32"), "objects": pd.Index([1, "a", (1, 2)], dtype=object, tupleize_cols=False), "nothing": pd.Index([], dtype="str"),
    "zone": pd.date_range("2020", periods=2, tz="UTC").rename("z"), "levels": pd.MultiIndex.from_arrays([pd.Categorical(["a", "b"]), [1, 2]], names=["p", "q"]), "no levels": pd.MultiIndex.from_arrays([pd.Index([], dtype="i4"), pd.Index([], dtype="M8[s]")]),
}  # fmt: skip


@pytest.mark.parametrize("where", ["twin", "host_twin"])
@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_dtype(request: pytest.FixtureRequest, name: str, where: str) -> None:
    request.getfixturevalue(where)
    labels = LABELS[name]
    several = isinstance(labels, pd.MultiIndex)
    axis = {"multiindex": True, "level_dtypes": tuple(level.dtype for level in labels.levels)} if several else {"label_dtype": labels.dtype}
    frame = t.frame({label: t.column(pa.array([1])) for label in labels}, cudf.RangeIndex(1), level_names=tuple(labels.names), **axis)
    arrived = trip(frame)
    pd.testing.assert_index_equal(arrived.columns if where == "host_twin" else arrived._data.to_pandas_index, frame._data.to_pandas_index, exact=True)


@pytest.mark.usefixtures("host_twin")
def test_a_dtype_of_labels_is_no_way_to_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = t.frame({i: t.column(pa.array([1])) for i in range(20)}, label_dtype=np.dtype("S1000000000"))
    with pytest.raises(transload.Malformed, match="no dtype of labels"):
        trip(frame)


@pytest.mark.usefixtures("twin")
def test_pylibcudf_by_itself() -> None:
    columns = [COLUMNS[name]().plc_column for name in ("plain", "nested", "decimal64", "strings", "bool")]
    for column in columns:
        arrived = trip(column)
        assert type(arrived) is plc.Column and t.tree(arrived) == t.tree(column)
    table = plc.Table([COLUMNS["int8"]().plc_column, COLUMNS["strings"]().plc_column])
    assert [t.tree(column) for column in trip(table).columns()] == [t.tree(column) for column in table.columns()]
    for kind in (plc.DataType(plc.TypeId.INT8), plc.DataType(plc.TypeId.DECIMAL64, -3)):
        assert trip(kind) == kind


@pytest.mark.usefixtures("host_twin")
def test_pylibcudf_in_host_memory() -> None:
    column = COLUMNS["nested"]().plc_column
    assert trip(column).to_pylist() == pa.StructArray.from_arrays([NESTED], ["0"]).field(0).to_pylist() or trip(column).type.value_type.num_fields == 2
    table = plc.Table([COLUMNS["int8"]().plc_column, COLUMNS["strings"]().plc_column])
    assert trip(table).to_pydict() == {"0": [1, 0, 3, None], "1": ["a", None, "", "ünï"]}


@pytest.mark.usefixtures("twin")
@pytest.mark.parametrize("name", ["decimal64", "list", "struct", "category", "interval"])
def test_dtypes_by_themselves(name: str) -> None:
    dtype = COLUMNS[name]().dtype
    arrived = trip([dtype])[0]
    assert type(arrived) is type(dtype) and (arrived == dtype if name != "category" else arrived.ordered is dtype.ordered)


# ── Bytes that lie ───────────────────────────────────────────────────────────────────────────────────────────


def _lie(monkeypatch: pytest.MonkeyPatch, column: Any, change: Any) -> None:
    """What arrives when the sender writes other parts of a column than it has."""
    true_tree = adapter._tree
    monkeypatch.setattr(adapter, "_tree", lambda body, named=True: change(true_tree(body, named)) if not named else true_tree(body, named))
    header, *frames = transload.dumps(t.series(column), families=("cuda", "host"))
    monkeypatch.undo()
    return [bytes(header), *frames]


def _replace(parts: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*parts[:place], value, *parts[place + 1 :])


LIES = {
    "more rows": ("int64", lambda p: _replace(p, 1, 100_000)),
    "negative rows": ("int64", lambda p: _replace(p, 1, -1)),
    "an offset": ("int64", lambda p: _replace(p, 2, 1000)),
    "an offset of texts": ("strings", lambda p: _replace(p, 2, 1)),
    "nulls": ("int64", lambda p: _replace(p, 3, 3)),
    "no nulls": ("int64", lambda p: _replace(p, 3, 0)),
    "more nulls than rows": ("int64", lambda p: _replace(p, 3, 5)),
    "nulls without a mask": ("int64", lambda p: _replace(p, 5, None)),
    "no data": ("int64", lambda p: _replace(p, 4, None)),
    "no offsets": ("strings", lambda p: _replace(p, 6, ())),
    "no characters": ("strings", lambda p: _replace(p, 4, None)),
    "children of numbers": ("int64", lambda p: _replace(p, 6, (("INT8", 0, 0, 0, None, None, ()),))),
    "no items": ("list", lambda p: _replace(p, 6, (p[6][0], ("INT64", 0, 0, 0, None, None, ())))),
    "a short field": ("struct", lambda p: _replace(p, 6, (p[6][0], ("STRING", 0, 0, 0, None, None, ())))),
    "another type": ("list", lambda p: _replace(p, 6, (p[6][0], ("FLOAT32", 1, 0, 0, p[6][1][4], None, ())))),
    "an unknown type": ("list", lambda p: _replace(p, 6, (p[6][0], ("NUM_TYPE_IDS", *p[6][1][1:])))),
    "a type beside the dtype": ("int64", lambda p: _replace(p, 0, "INT64")),
    "too few parts": ("int64", lambda p: p[:6]),
    "text for a buffer": ("int64", lambda p: _replace(p, 4, "text")),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("where", ["device", "host"])
def test_lies_are_malformed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, lie: str, where: str) -> None:
    name, change = LIES[lie]
    request.getfixturevalue("host_twin")
    column = COLUMNS[name]()
    parts = _lie(monkeypatch, column, change)
    if where == "device":
        request.getfixturevalue("twin")
    if where == "host" and lie in ("nulls", "no nulls"):  # pandas counts for itself
        return pd.testing.assert_series_equal(transload.loads(parts, device="host"), pd.Series([1.0, 0.0, 3.0, np.nan]), check_names=False)
    with pytest.raises(transload.Malformed):
        transload.loads(parts, device="host")


@pytest.mark.parametrize("where", ["device", "host"])
@pytest.mark.parametrize("offsets", [[0, 2, 1, 3, 4], [0, 1, 2, 3, 1000], [-1, 1, 2, 3, 4], [0, 0, 0, 0, 2**31 - 1]], ids=str)
def test_offsets_that_point_outside(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, where: str, offsets: list[int]) -> None:
    request.getfixturevalue("twin" if where == "device" else "host_twin")
    texts = t.column(pa.array(["a", "b", "c", "d"]))
    child = texts.plc_column.children()[0]
    t._content(child.data()).view("i4")[:5] = offsets
    with pytest.raises(transload.Malformed):
        trip(t.series(texts))


@pytest.mark.parametrize("where", ["device", "host"])
@pytest.mark.parametrize("what", ["children", "fields"])
def test_a_child_that_is_named_twice_and_names_one_twice(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, where: str, what: str) -> None:
    request.getfixturevalue("twin" if where == "device" else "host_twin")
    node: Any = ("STRUCT", 2, 0, 0, None, None, ())
    spec: Any = ("list", np.dtype("i8"))
    for _ in range(60):
        node = ("STRUCT", 2, 0, 0, None, None, (node, node))
        spec = ("struct", ("a", spec), ("b", spec))
    value = t.column(pa.array([[1], [2]]))
    if what == "fields":
        node = _column_tree(value)
        for _ in range(60):
            node = ("STRUCT", 2, 0, 0, None, None, (node, node))
    else:
        spec = ("struct", ("a", np.dtype("i8")), ("b", np.dtype("i8")))
    monkeypatch.setattr(adapter, "_column", lambda column: (spec, (None, *node[1:])))
    parts = transload.dumps(t.series(value), families=("cuda", "host"))
    with pytest.raises(transload.Malformed, match="objects that copy what they are made of"):
        transload.loads([bytes(parts[0]), *parts[1:]], device="host")


def _spread(what: str) -> Any:
    """A column of few bytes whose rows are many values."""
    i4 = {"INT32": "i4"}
    lists = ("list", np.dtype("i8"))

    def child(name: str, values: Any) -> Any:
        memory = np.asarray(values, i4[name])
        return name, len(memory), 0, 0, memory.view(np.uint8), None, ()

    if what == "nothing":
        return lists, (None, 1, 0, 0, None, None, (child("INT32", [0, 1 << 30]), ("EMPTY", 1 << 30, 0, 0, None, None, ())))
    if what == "records of nothing":
        inner = ("STRUCT", 1 << 30, 0, 0, None, None, ())
        return ("list", ("struct",)), (None, 1, 0, 0, None, None, (child("INT32", [0, 1 << 30]), inner))
    text = ("STRING", 1, 0, 0, np.full(1 << 20, 97, np.uint8), None, (child("INT32", [0, 1 << 20]),))
    codes = ("DICTIONARY32", 1 << 18, 0, 0, None, None, (child("INT32", np.zeros(1 << 18)), text))
    return lists, (None, 1, 0, 0, None, None, (child("INT32", [0, 1 << 18]), codes))


@pytest.mark.usefixtures("host_twin")
@pytest.mark.parametrize("what", ["nothing", "records of nothing", "codes"])
def test_few_bytes_do_not_become_many_values(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(adapter, "_column", lambda column: _spread(what))
    parts = transload.dumps(t.series(t.column(pa.array([1]))), families=("cuda", "host"))
    with pytest.raises(transload.Malformed, match="codes of a dictionary|objects that copy"):
        transload.loads([bytes(parts[0]), *parts[1:]], device="host")


@pytest.mark.usefixtures("host_twin")
def test_a_column_that_is_shown_without_end_is_not_copied_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = t.column(pa.array([True, False] * 50_000))
    few = trip(t.frame({i: flags for i in range(8)}))
    assert few.shape == (100_000, 8) and few.to_numpy().sum() == 400_000
    with pytest.raises(transload.Malformed, match="objects that copy"):
        trip(t.frame({i: flags for i in range(2000)}))


def _column_tree(column: Any) -> Any:
    return adapter._tree(column.plc_column)


@pytest.mark.usefixtures("twin")
def test_frames_whose_parts_do_not_fit() -> None:
    frame = t.frame({"a": t.column(pa.array([1, 2])), "b": t.column(pa.array([1, 2]))})
    encode = adapter._encode_frame(frame)
    for change in (
        lambda v: _replace(v, 1, ["a"]), lambda v: _replace(v, 1, ["a", "a"]), lambda v: _replace(v, 3, None), lambda v: _replace(v, 3, cudf.RangeIndex(3)), lambda v: v[:4],
        lambda v: _replace(v, 0, 1), lambda v: _replace(v, 4, (True, False, None, None, None, None)), lambda v: (*v, None, False, int, {}), lambda v: (*v, 3, False),
        lambda v: (*v, None, False, Frame, {"_data": 1}),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            adapter._decode_frame(change(encode))
    for spec in ((), ("list",), ("decimal64", 99, 0), ("decimal64", "x", 0), ("category", None), ("interval", None, "up"), ("struct", ("a",)), ("nothing", 1), "text", (1,)):
        with pytest.raises((ValueError, TypeError)):
            adapter.Arrival().dtype(spec)


@pytest.mark.usefixtures("twin")
def test_an_unknown_cudf_is_left_to_its_own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlike() -> Any:
        raise NotImplementedError("cuDF 99.1 is not as transload knows it: no plc_column")

    class Other(cudf.DataFrame):
        def __reduce_ex__(self, protocol: Any) -> Any:
            return dict, ()

    frame = Other._from_data(t.ColumnAccessor({"a": t.column(pa.array([1, 2]))}))
    transload.register(Other, name="test.other", encode=adapter._encode_frame, decode=adapter._decode_frame)
    monkeypatch.setattr(adapter, "_internals", unlike)
    assert "cuDF 99.1 is not as transload knows it" in str(transload.explain(frame))


def test_importing_transload_imports_no_cudf() -> None:
    import subprocess
    import sys

    script = "import transload, sys; assert not {'cudf', 'rmm', 'cupy', 'pylibcudf'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
