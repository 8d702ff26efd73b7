"""pandas. Frames, series, indexes and arrays are rebuilt by `transload.adapters.pandas`, which looks at them first.

Here are the dtypes, the scalars and the offsets: their constructors check, or their state is plain data. Both spellings are
listed where pandas 3 moved a name (``pandas.core.dtypes.dtypes:SparseDtype`` became ``pandas:SparseDtype``).
Not here: everything that reads (`read_*`, `eval`, `query`); questions about a frame (`groupby`, `rolling`, accessors), whose codes and windows
compiled code believes.
"""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

_DTYPES = "pandas.core.dtypes.dtypes"
_OFFSETS = "pandas._libs.tslibs.offsets"

EXCEPTIONS = (
    "AttributeConflictWarning CSSWarning CategoricalConversionWarning ChainedAssignmentError ClosedFileError DataError DatabaseError DtypeWarning DuplicateLabelError EmptyDataError "
    "IncompatibilityWarning IncompatibleFrequency IndexingError IntCastingNaNError InvalidColumnName InvalidComparison InvalidIndexError InvalidVersion LossySetitemError MergeError NoBufferPresent "
    "NullFrequencyError NumExprClobberingError NumbaUtilError OptionError OutOfBoundsDatetime OutOfBoundsTimedelta Pandas4Warning Pandas5Warning PandasChangeWarning PandasDeprecationWarning "
    "PandasFutureWarning PandasPendingDeprecationWarning ParserError ParserWarning PerformanceWarning PossibleDataLossError PossiblePrecisionLoss SettingWithCopyError SettingWithCopyWarning "
    "SpecificationError UnsortedIndexError UnsupportedFunctionCall ValueLabelTypeMismatch"
)
# Functions of data; none reads or writes anything, or evaluates text.
_FUNCTIONS = (
    "array bdate_range concat crosstab cut date_range factorize from_dummies get_dummies infer_freq interval_range isna isnull lreshape melt merge merge_asof merge_ordered notna notnull period_range "
    "pivot pivot_table qcut timedelta_range to_datetime to_numeric to_timedelta unique wide_to_long"
)

NAMES: dict[str, int] = {
    **{f"pandas:{name}": HAND_ON for name in (*_FUNCTIONS.split(), "ArrowDtype", "Categorical", "DataFrame", "Index", "MultiIndex", "Series")},
    **{f"pandas.errors:{name}": CALL | HAND_ON for name in EXCEPTIONS.split()},
    "pandas._libs.tslibs.np_datetime:OutOfBoundsDatetime": CALL | HAND_ON,
    "pandas._libs.tslibs.np_datetime:OutOfBoundsTimedelta": CALL | HAND_ON,
    "pandas._libs.tslibs.parsing:DateParseError": CALL | HAND_ON,
    "pandas._libs.tslibs.period:IncompatibleFrequency": CALL | HAND_ON,
    "pandas._libs.lib:_NoDefault": CALL | HAND_ON,  # stands for adapters.pandas's own
    # How to group, before it is known what.
    **{f"{module}:{name}": MAKE for module, name in (
        ("pandas", "Grouper"), ("pandas.core.groupby.grouper", "Grouper"), ("pandas.api.typing", "TimeGrouper"), ("pandas.core.resample", "TimeGrouper"),
    )},
    **{f"pandas.tseries.holiday:{name}": MAKE for name in ("Holiday", "HolidayCalendar", "USFederalHolidayCalendar")},
    **{
        f"pandas.tseries.holiday:{name}": HAND_ON
        for name in ("after_nearest_workday", "before_nearest_workday", "nearest_workday", "next_monday", "next_monday_or_tuesday", "next_workday", "previous_friday", "previous_workday", "sunday_to_monday", "weekend_to_monday")
    },
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
    "pandas.api.typing:FrozenList": CALL,
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
    # What a DateOffset holds, and zones: plain Python. Those that are called stand for adapters.pandas's own.
    "dateutil.relativedelta:relativedelta": MAKE,
    "dateutil._common:weekday": MAKE,
    "dateutil.tz.tz:tzutc": CALL,
    "dateutil.tz.tz:tzoffset": CALL,
    **{f"dateutil.tz.tz:{name}": MAKE for name in ("tzlocal", "tzrange", "tzstr")},
    "pytz:_UTC": CALL,
    "pytz:_p": CALL,  # stands for adapters.zones.pytz_zone, as the next for pytz_offset
    "pytz:FixedOffset": CALL,
}
