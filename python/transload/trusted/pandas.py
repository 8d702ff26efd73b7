"""pandas. Frames, series, indexes and arrays are rebuilt by `transload.adapters.pandas`, which looks at them first.

Here are the dtypes, the scalars and the offsets: their constructors check, or their state is plain data. Both spellings are
listed where pandas 3 moved a name (``pandas.core.dtypes.dtypes:SparseDtype`` became ``pandas:SparseDtype``).
Not here: everything that reads (`read_*`, `eval`, `query`), and groupers, which hold functions.
"""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

_DTYPES = "pandas.core.dtypes.dtypes"
_OFFSETS = "pandas._libs.tslibs.offsets"

NAMES: dict[str, int] = {
    "pandas:NA": HAND_ON,
    "pandas._libs.missing:NA": HAND_ON,
    # State is categories and order, unit and zone, subtype and side: what uses them looks at it (adapters.pandas).
    **{
        f"{module}:{name}": MAKE | HAND_ON
        for name in ("CategoricalDtype", "DatetimeTZDtype", "IntervalDtype", "SparseDtype")
        for module in ("pandas", _DTYPES)
    },
    f"{_DTYPES}:NumpyEADtype": MAKE,
    **{f"{module}:PeriodDtype": CALL | HAND_ON for module in ("pandas", _DTYPES)},
    **{f"{module}:StringDtype": CALL | HAND_ON for module in ("pandas", "pandas.core.arrays.string_")},
    # No state at all.
    **{
        f"{module}:{name}Dtype": MAKE | HAND_ON
        for home, names in (
            ("integer", ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")), ("floating", ("Float32", "Float64")), ("boolean", ("Boolean",)),
        )
        for name in names
        for module in ("pandas", f"pandas.core.arrays.{home}")
    },
    # Scalars: checked by their constructors, which take numbers, text and times.
    "pandas._libs.tslibs.nattype:_nat_unpickle": CALL,
    "pandas._libs.tslibs.timestamps:_unpickle_timestamp": CALL,  # stands for adapters.pandas.timestamp
    "pandas._libs.tslibs.timedeltas:_timedelta_unpickle": CALL,  # stands for adapters.pandas.timedelta
    "pandas:Period": CALL | HAND_ON,
    "pandas._libs.tslibs.period:Period": CALL | HAND_ON,
    "pandas:Interval": CALL | HAND_ON,
    "pandas._libs.interval:Interval": CALL | HAND_ON,
    "pandas:Timestamp": HAND_ON,
    "pandas:Timedelta": HAND_ON,
    "pandas.core.indexes.frozen:FrozenList": CALL,
    "pandas:NamedAgg": MAKE,
    "pandas.core.groupby.generic:NamedAgg": MAKE,
    "pandas.core.indexing:_IndexSlice": MAKE,
    # Offsets: the constructors check each number; what they reduce to is constructor and arguments.
    **{
        f"{_OFFSETS}:{name}": CALL
        for name in (
            "BQuarterBegin", "BQuarterEnd", "BHalfYearBegin", "BHalfYearEnd", "BYearBegin", "BYearEnd", "BusinessDay", "BusinessHour", "BusinessMonthBegin", "BusinessMonthEnd",
            "CustomBusinessDay", "CustomBusinessHour", "CustomBusinessMonthBegin", "CustomBusinessMonthEnd", "Day", "Easter", "FY5253", "FY5253Quarter", "HalfYearBegin",
            "HalfYearEnd", "Hour", "LastWeekOfMonth", "Micro", "Milli", "Minute", "MonthBegin", "MonthEnd", "Nano", "QuarterBegin", "QuarterEnd", "Second", "SemiMonthBegin",
            "SemiMonthEnd", "Week", "WeekOfMonth", "YearBegin", "YearEnd",
        )
    },
    "pandas:DateOffset": MAKE,
    f"{_OFFSETS}:DateOffset": MAKE,
    # What a DateOffset holds, plain Python; and the one zone of dateutil that opens no file.
    "dateutil.relativedelta:relativedelta": MAKE,
    "dateutil._common:weekday": MAKE,
    "dateutil.tz.tz:tzutc": CALL,
    "pytz:_UTC": CALL,
}
