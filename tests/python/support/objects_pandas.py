"""pandas: every kind of frame, series, index, dtype and scalar."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import dateutil.tz
import numpy as np
import pandas as pd
from pandas.tseries import holiday


def _flagged() -> pd.DataFrame:
    frame = pd.DataFrame({"a": [1]}).set_flags(allows_duplicate_labels=False)
    frame.attrs["unit"] = {"a": "m"}
    return frame


def _indexes() -> dict[str, Any]:
    return {
        "range": pd.RangeIndex(3, 10, 2, name="r"),
        "int": pd.Index([1, 5, 3], name=("a", 1)),
        "float": pd.Index([1.0, np.nan]),
        "uint": pd.Index([1, 2], dtype="u8"),
        "bool": pd.Index([True, False]),
        "object": pd.Index(["a", 1, None], dtype=object),
        "text": pd.Index(["a", "b"], dtype=pd.StringDtype("python")),
        "datetime": pd.DatetimeIndex(["2024-01-01", "NaT"]),
        "datetime freq": pd.date_range("2024-03-30", periods=4, freq="12h", tz="Europe/Berlin", name="t"),
        "datetime utc": pd.date_range("2024", periods=2, tz="UTC", unit="s"),
        "datetime offset": pd.date_range("2024", periods=2, tz=datetime.timezone(datetime.timedelta(hours=2))),
        "timedelta": pd.timedelta_range("1h", periods=3, freq="30min"),
        "period": pd.period_range("2020", periods=3, freq="M"),
        "interval": pd.interval_range(0, 3, closed="left"),
        "interval times": pd.interval_range(pd.Timestamp("2024"), periods=2),
        "categorical": pd.CategoricalIndex(["b", "a", None], categories=["c", "b", "a"], ordered=True),
        "multi": pd.MultiIndex.from_tuples([("x", 1), ("y", 2), ("x", 1)], names=["e", None]),
        "multi same names": pd.MultiIndex.from_arrays([[True, False], [1, 0]], names=["op", "op"]),
        "multi of times": pd.MultiIndex.from_product([pd.date_range("2024", periods=2), pd.Categorical(["a", "b"])]),
        "empty": pd.Index([]),
        "nullable": pd.Index([1, None], dtype="Int64"),
    }


def _series() -> dict[str, Any]:
    return {
        "int": pd.Series([1, 2, 3], index=["a", "b", "c"], name="n"),
        "float": pd.Series([1.0, np.nan], dtype="f4"),
        "bool": pd.Series([True, False]),
        "object": pd.Series(["a", [1], None, {"k": 1}], dtype=object),
        "text python": pd.Series(["a", None], dtype=pd.StringDtype("python")),
        "text nan": pd.Series(["a", None], dtype=pd.StringDtype("python", na_value=np.nan)),
        "nullable int": pd.Series([1, None, 3], dtype="Int16"),
        "nullable uint": pd.Series([1, None], dtype="UInt64"),
        "nullable float": pd.Series([1.5, None], dtype="Float32"),
        "nullable bool": pd.Series([True, None], dtype="boolean"),
        "category": pd.Series(["b", None, "a"], dtype=pd.CategoricalDtype(["c", "b", "a"], ordered=True)),
        "category of ints": pd.Series([3, 1, 3], dtype="category"),
        "category of times": pd.Series(pd.Categorical(pd.date_range("2024", periods=2))),
        "datetime": pd.Series(pd.date_range("2024", periods=2, unit="ms")),
        "datetime tz": pd.Series(pd.date_range("2024", periods=2, tz="America/New_York")),
        "timedelta": pd.Series(pd.timedelta_range("1s", periods=2)),
        "period": pd.Series(pd.period_range("2020", periods=2, freq="Q-NOV")),
        "interval": pd.Series(pd.interval_range(0, 2)),
        "sparse": pd.Series(pd.arrays.SparseArray([0, 0, 1.5, 0], fill_value=0)),
        "sparse block": pd.Series(pd.arrays.SparseArray([0, 0, 1, 1], kind="block", fill_value=0)),
        "complex": pd.Series([1 + 2j]),
        "empty": pd.Series([], dtype="f8"),
        "slice": pd.Series(np.arange(100_000))[10:20],
        "reversed": pd.Series(np.arange(10))[::-1],
        "attrs": _with_attrs(pd.Series([1])),
    }


def _with_attrs(thing: Any) -> Any:
    thing.attrs["source"] = ["here", 1]
    return thing


def _frames() -> dict[str, Any]:
    mixed = pd.DataFrame({
        "i": np.arange(4), "f": np.arange(4) / 2, "b": [True, False, True, True], "o": ["x", None, 1, (2,)], "t": pd.date_range("2024", periods=4),
        "c": pd.Categorical(list("abca")), "n": pd.array([1, None, 3, 4], dtype="Int64"), "z": pd.date_range("2024", periods=4, tz="Asia/Tokyo"),
    })
    mixed["o"] = mixed["o"].astype(object)
    return {
        "mixed": mixed,
        "one block": pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=["a", "b", "c"]),
        "rows": pd.DataFrame(np.arange(400_000.0).reshape(-1, 4))[100:110],
        "columns": pd.DataFrame(np.arange(400_000.0).reshape(-1, 4))[[1, 3]],
        "fragmented": pd.concat([pd.DataFrame({f"c{i}": [i, i + 1]}) for i in range(5)], axis=1),
        "flags and attrs": _flagged(),
        "concat": pd.concat([pd.DataFrame({"v": [1, 2, 3]}, index=[1, 1, 3])], keys=["A"], names=["ID", "d"]),
        "multi columns": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("x", 1), ("x", 1)], names=["e", None])),
        "same columns": pd.DataFrame([[1, 2]], columns=["a", "a"]),
        "empty": pd.DataFrame(),
        "no rows": pd.DataFrame({"a": np.zeros(0, "i4"), "b": np.zeros(0)}),
        "no columns": pd.DataFrame(index=[1, 2]),
        "times": pd.DataFrame({"v": 1}, index=pd.date_range("2024-03-30", periods=4, freq="12h", tz="Europe/Berlin")),
        "periods": pd.DataFrame({"p": pd.period_range("2020", periods=3, freq="M"), "i": pd.interval_range(0, 3)}),
        "sparse": pd.DataFrame.sparse.from_spmatrix(__import__("scipy.sparse").sparse.eye(3, format="csc")),
        "of arrays": pd.DataFrame({"a": pd.Series([np.arange(3), None], dtype=object)}),
        "fortran": pd.DataFrame(np.asfortranarray(np.arange(12.0).reshape(4, 3))),
    }


def _scalars() -> dict[str, Any]:
    return {
        "NA": pd.NA, "NaT": pd.NaT, "Timestamp": pd.Timestamp("2024-01-01 12:00:00.000000001", tz="Europe/Berlin"), "Timestamp naive": pd.Timestamp("2024"),
        "Timestamp fold": pd.Timestamp(year=2024, month=10, day=27, hour=2, minute=30, tz="Europe/Berlin", fold=1), "Timedelta": pd.Timedelta("1D 2h"), "Period": pd.Period("2024-03", "M"),
        "Interval": pd.Interval(0, 1, closed="both"), "Interval of times": pd.Interval(pd.Timestamp("2024"), pd.Timestamp("2025")),
        "offsets": [
            pd.offsets.Day(2), pd.offsets.Hour(), pd.offsets.Minute(3), pd.offsets.Second(), pd.offsets.Milli(), pd.offsets.Micro(), pd.offsets.Nano(),
            pd.offsets.MonthEnd(), pd.offsets.MonthBegin(2), pd.offsets.BMonthEnd(), pd.offsets.BMonthBegin(), pd.offsets.SemiMonthEnd(), pd.offsets.SemiMonthBegin(),
            pd.offsets.Week(weekday=2), pd.offsets.WeekOfMonth(week=1, weekday=2), pd.offsets.LastWeekOfMonth(weekday=1), pd.offsets.QuarterEnd(startingMonth=2),
            pd.offsets.QuarterBegin(), pd.offsets.BQuarterEnd(), pd.offsets.BQuarterBegin(), pd.offsets.YearEnd(month=3), pd.offsets.YearBegin(), pd.offsets.BYearEnd(),
            pd.offsets.BYearBegin(), pd.offsets.FY5253(weekday=4, startingMonth=1), pd.offsets.FY5253Quarter(weekday=4, startingMonth=1, qtr_with_extra_week=4),
            pd.offsets.Easter(), pd.offsets.BusinessDay(3), pd.offsets.BusinessHour(), pd.offsets.CustomBusinessDay(weekmask="Mon Tue", holidays=["2024-01-01"]),
            pd.offsets.CustomBusinessHour(), pd.offsets.CustomBusinessMonthEnd(), pd.offsets.CustomBusinessMonthBegin(), pd.offsets.HalfYearEnd() if hasattr(pd.offsets, "HalfYearEnd") else 0,
            pd.DateOffset(months=2, days=1), pd.offsets.DateOffset(hour=3),
        ],
        "dtypes": [
            pd.CategoricalDtype(["a"], True), pd.CategoricalDtype(), pd.DatetimeTZDtype("us", "Europe/Berlin"), pd.PeriodDtype("D"), pd.IntervalDtype("f8", "both"),
            pd.SparseDtype("f8", 0.0), pd.StringDtype("python"), pd.Int8Dtype(), pd.Int64Dtype(), pd.UInt32Dtype(), pd.Float64Dtype(), pd.BooleanDtype(),
        ],
        "arrays": [
            pd.array([1, None], dtype="Int8"), pd.array(["a", None], dtype=pd.StringDtype("python")), pd.Categorical(["a"]), pd.array([1.5], dtype="Float64"),
            pd.arrays.NumpyExtensionArray(np.arange(3)), pd.array(pd.date_range("2024", periods=2)), pd.array(pd.timedelta_range("1h", periods=2)),
            pd.arrays.IntervalArray.from_breaks([0, 1, 2]), pd.arrays.SparseArray([0, 1]), pd.period_range("2020", periods=2, freq="D").array,
        ],
        "grouper": [pd.NamedAgg("a", "sum"), pd.IndexSlice, pd.Grouper(key="a"), pd.Grouper(freq="D", closed="right"), pd.api.extensions.no_default],
        "errors": [
            pd.errors.ParserError("x"), pd.errors.OutOfBoundsDatetime("x"), pd.errors.MergeError("x"), pd.errors.PerformanceWarning("x"), pd.errors.EmptyDataError("x"), pd.errors.IntCastingNaNError("x"),
        ],
        "functions": [pd.concat, pd.merge, pd.to_datetime, pd.isna, pd.cut, pd.DataFrame, pd.Series, pd.Index],
        "names of levels": pd.MultiIndex.from_tuples([(1, 2)], names=["a", None]).names,
        "holidays": [holiday.Holiday("x", month=1, day=1, observance=holiday.nearest_workday), holiday.USFederalHolidayCalendar(), pd.offsets.CustomBusinessDay(calendar=holiday.USFederalHolidayCalendar())],
        "zones of dateutil": [dateutil.tz.tzutc(), dateutil.tz.tzoffset("x", 3600), dateutil.tz.tzoffset(None, -60), dateutil.tz.tzlocal(), dateutil.tz.tzrange("EST", -18000), *([zone] if (zone := dateutil.tz.gettz("Europe/Paris")) else [])],
        "times in zones of dateutil": [pd.Timestamp("2024-07-01", tz=dateutil.tz.tzoffset("x", 3600)), pd.date_range("2024-03-30", periods=3, tz=dateutil.tz.tzlocal())],
    }


def objects() -> Iterator[tuple[str, Any]]:
    """All of them with a label."""
    for kind, group in (("index", _indexes), ("series", _series), ("frame", _frames), ("scalar", _scalars)):
        for label, value in group().items():
            yield f"{kind}: {label}", value


FRAME = pd.DataFrame({"a": [1, 2, 1], "b": [1.0, 2, 3], "c": list("xyx"), "t": pd.date_range("2024", periods=3)})

# What pickle 5 takes and family host does not, with the word of the reason (docs/objects.md).
PICKLED: dict[str, tuple[Any, str]] = {
    "groupby": (lambda: FRAME.groupby("a"), "DataFrameGroupBy"), "rolling": (lambda: FRAME.b.rolling(2), "Rolling"), "resample": (lambda: FRAME.set_index("t").resample("D"), "DatetimeIndexResampler"), "texts": (lambda: FRAME.c.str, "StringMethods"),
    "iloc": (lambda: FRAME.iloc, "NDFrameIndexerBase"), "window": (lambda: pd.api.indexers.FixedForwardWindowIndexer(window_size=2), "FixedForwardWindowIndexer"), "read_csv": (lambda: pd.read_csv, "pandas:read_csv"), "eval": (lambda: pd.eval, "pandas:eval"),
}  # fmt: skip
