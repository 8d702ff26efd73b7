"""pyarrow. Its data have nodes of their own (`transload.adapters.pyarrow`); here are errors, classes and functions of data by name.

Not here: expressions, whose bytes compiled code parses; file systems, datasets and options of readers, which open what they name.
"""

from __future__ import annotations

CALL, HAND_ON = 2, 4

_ERRORS = "ArrowCancelled ArrowCapacityError ArrowException ArrowIndexError ArrowInvalid ArrowKeyError ArrowMemoryError ArrowNotImplementedError ArrowSerializationError ArrowTypeError"
_CLASSES = "Array ChunkedArray DataType Field RecordBatch Scalar Schema Table"
_COMPUTE = (
    "abs abs_checked acos acos_checked acosh acosh_checked add add_checked all and and_kleene and_not and_not_kleene any approximate_median array_filter array_sort_indices "
    "array_take ascii_capitalize ascii_center ascii_is_alnum ascii_is_alpha ascii_is_decimal ascii_is_lower ascii_is_printable ascii_is_space ascii_is_title ascii_is_upper "
    "ascii_lower ascii_lpad ascii_ltrim ascii_ltrim_whitespace ascii_reverse ascii_rpad ascii_rtrim ascii_rtrim_whitespace ascii_split_whitespace ascii_swapcase ascii_title "
    "ascii_trim ascii_trim_whitespace ascii_upper asin asin_checked asinh assume_timezone atan atan2 atanh atanh_checked binary_join binary_join_element_wise binary_length "
    "binary_repeat binary_replace_slice binary_reverse binary_slice bit_wise_and bit_wise_not bit_wise_or bit_wise_xor case_when cast ceil ceil_temporal choose coalesce cos "
    "cos_checked cosh count count_distinct count_substring count_substring_regex cumulative_max cumulative_mean cumulative_min cumulative_prod cumulative_prod_checked "
    "cumulative_sum cumulative_sum_checked day day_of_week day_of_year day_time_interval_between days_between dictionary_decode dictionary_encode divide divide_checked "
    "drop_null ends_with equal exp expm1 extract_regex extract_regex_span fill_null_backward fill_null_forward filter find_substring find_substring_regex first first_last "
    "floor floor_temporal greater greater_equal hour hours_between hypot if_else index index_in index_in_meta_binary indices_nonzero inverse_permutation invert is_dst "
    "is_finite is_in is_in_meta_binary is_inf is_leap_year is_nan is_null is_valid iso_calendar iso_week iso_year kurtosis last less less_equal list_element list_flatten "
    "list_parent_indices list_slice list_value_length ln ln_checked local_timestamp log10 log10_checked log1p log1p_checked log2 log2_checked logb logb_checked make_struct "
    "map_lookup match_like match_substring match_substring_regex max max_element_wise mean microsecond microseconds_between millisecond milliseconds_between min "
    "min_element_wise min_max minute minutes_between mode modulo modulo_checked month month_day_nano_interval_between month_interval_between multiply multiply_checked "
    "nanosecond nanoseconds_between negate negate_checked not_equal or or_kleene pairwise_diff pairwise_diff_checked partition_nth_indices pivot_wider power power_checked "
    "product quantile quarter quarters_between random rank rank_normal rank_quantile remainder remainder_checked replace_substring replace_substring_regex replace_with_mask "
    "round round_binary round_temporal round_to_multiple run_end_decode run_end_encode scatter search_sorted second seconds_between select_k_unstable shift_left "
    "shift_left_checked shift_right shift_right_checked sign sin sin_checked sinh skew sort_indices split_pattern split_pattern_regex sqrt sqrt_checked starts_with stddev "
    "strftime string_is_ascii strptime struct_field subsecond subtract subtract_checked sum take tan tan_checked tanh tdigest true_unless_null trunc unique us_week us_year "
    "utf8_capitalize utf8_center utf8_is_alnum utf8_is_alpha utf8_is_decimal utf8_is_digit utf8_is_lower utf8_is_numeric utf8_is_printable utf8_is_space utf8_is_title "
    "utf8_is_upper utf8_length utf8_lower utf8_lpad utf8_ltrim utf8_ltrim_whitespace utf8_normalize utf8_replace_slice utf8_reverse utf8_rpad utf8_rtrim utf8_rtrim_whitespace "
    "utf8_slice_codeunits utf8_split_whitespace utf8_swapcase utf8_title utf8_trim utf8_trim_whitespace utf8_upper utf8_zero_fill value_counts variance week weeks_between "
    "winsorize xor year year_month_day years_between"
)

NAMES: dict[str, int] = {
    **{f"pyarrow.lib:{name}": CALL | HAND_ON for name in _ERRORS.split()},
    **{f"pyarrow.lib:{name}": HAND_ON for name in _CLASSES.split()},
    **{f"pyarrow.compute:{name}": HAND_ON for name in _COMPUTE.split()},
}
