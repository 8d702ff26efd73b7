"""NumPy. Arrays, scalars and dtypes have their own nodes; these are classes and functions that objects hold or reduce to."""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

_SCALARS = (
    "bool bool_ bytes_ character clongdouble complex128 complex64 complexfloating datetime64 double flexible float16 float32 float64 floating generic inexact int16 int32 int64 int8 integer "
    "intc intp longdouble longlong number object_ signedinteger single str_ timedelta64 uint16 uint32 uint64 uint8 uintc uintp ulonglong unsignedinteger"
)
_UFUNCS = (
    "abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not "
    "bitwise_or bitwise_right_shift bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod "
    "frexp gcd greater greater_equal heaviside hypot invert isfinite isinf isnan isnat lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not "
    "logical_or logical_xor matmul matvec maximum minimum mod modf multiply negative nextafter not_equal positive pow power rad2deg radians reciprocal remainder right_shift rint sign signbit sin "
    "sinh spacing sqrt square subtract tan tanh true_divide trunc vecdot vecmat"
)
# Functions of arrays, as FunctionTransformer(np.log1p) or groupby.agg(np.mean) hold them. None that reads or writes files, evaluates text, changes
# settings or arrays, takes memory by address, or is there to call another (apply_along_axis, frompyfunc, vectorize).
_FUNCTIONS = (
    "all allclose amax amin angle any append arange argmax argmin argpartition argsort argwhere around array array_equal array_equiv array_split asarray ascontiguousarray asfortranarray "
    "atleast_1d atleast_2d atleast_3d average bartlett bincount blackman block broadcast_arrays broadcast_shapes broadcast_to busday_count busday_offset can_cast choose clip column_stack "
    "common_type compress concat concatenate convolve copy corrcoef correlate count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum delete diag diag_indices diagflat diagonal "
    "diff digitize dot dsplit dstack ediff1d einsum empty empty_like expand_dims extract eye fix flatnonzero flip fliplr flipud full full_like geomspace gradient hamming hanning histogram "
    "histogram2d histogram_bin_edges histogramdd hsplit hstack i0 identity imag indices inner insert interp intersect1d is_busday isclose iscomplex iscomplexobj isdtype isfortran isin isneginf "
    "isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser kron lexsort linspace logspace matrix_transpose max may_share_memory mean median meshgrid min min_scalar_type moveaxis "
    "nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndim nonzero ones ones_like outer packbits "
    "partition percentile permute_dims poly polyadd polyder polydiv polyfit polyint polymul polysub polyval prod promote_types ptp quantile ravel ravel_multi_index real real_if_close repeat "
    "reshape resize result_type roll rollaxis roots rot90 round row_stack searchsorted select setdiff1d setxor1d shape shares_memory sinc size sort sort_complex split squeeze stack std sum "
    "swapaxes take take_along_axis tensordot tile trace transpose trapezoid tri tril tril_indices trim_zeros triu triu_indices union1d unique unique_all unique_counts unique_inverse "
    "unique_values unpackbits unravel_index unstack unwrap vander var vdot vsplit vstack where zeros zeros_like"
)
_HANDED_ON = {
    "numpy": f"{_SCALARS} {_UFUNCS} {_FUNCTIONS} dtype finfo iinfo",
    "numpy.linalg": "cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm matrix_power matrix_rank matrix_transpose multi_dot norm outer pinv qr slogdet solve svd "
                    "svdvals tensordot tensorinv tensorsolve trace vecdot vector_norm",
    "numpy.fft": "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn",
    "numpy.dtypes": "BoolDType ByteDType BytesDType CLongDoubleDType Complex128DType Complex64DType DateTime64DType Float16DType Float32DType Float64DType Int16DType Int32DType Int64DType "
                    "Int8DType IntDType LongDType LongDoubleDType LongLongDType ObjectDType ShortDType StrDType StringDType TimeDelta64DType UByteDType UInt16DType UInt32DType UInt64DType "
                    "UInt8DType UIntDType ULongDType ULongLongDType UShortDType",
    "numpy.ma": "MaskedArray",
}
_MADE = {
    "numpy": "poly1d",
    "numpy.lib._index_tricks_impl": "IndexExpression",
    "numpy.linalg._linalg": "EigResult EighResult QRResult SVDResult SlogdetResult",
    "numpy.lib._arraysetops_impl": "UniqueAllResult UniqueCountsResult UniqueInverseResult",
    "numpy.polynomial.chebyshev": "Chebyshev", "numpy.polynomial.hermite": "Hermite", "numpy.polynomial.hermite_e": "HermiteE", "numpy.polynomial.laguerre": "Laguerre",
    "numpy.polynomial.legendre": "Legendre", "numpy.polynomial.polynomial": "Polynomial",
}  # fmt: skip
_CALLED = {
    "numpy.ma.core": "MaskedConstant",
    "numpy._core.multiarray": "_reconstruct",  # stands for adapters.numpy.empty_array
    "numpy.core.multiarray": "_reconstruct",
}
_EXCEPTIONS = {
    "numpy.exceptions": "AxisError ComplexWarning DTypePromotionError ModuleDeprecationWarning RankWarning TooHardError VisibleDeprecationWarning",
    "numpy.linalg": "LinAlgError",
    "numpy.ma": "MAError MaskError",
    "numpy.ma.core": "MAError MaskError MaskedArrayFutureWarning",
}
# Of what NumPy makes itself: a ufunc and dtypes. They stand for adapters.numpy's own.
UFUNC_ERRORS = {"numpy._core._exceptions": "_ArrayMemoryError _UFuncBinaryResolutionError _UFuncInputCastingError _UFuncNoLoopError _UFuncOutputCastingError"}

# Not here: ndarray, recarray, void, record and memmap, the classes themselves. Called with a buffer and a dtype of objects they read
# memory as pointers, and memmap opens files; whoever holds a class may call it. Arrays of these classes travel all the same.
NAMES: dict[str, int] = {}
for _homes, _role in ((_HANDED_ON, HAND_ON), (_MADE, MAKE), (_CALLED, CALL), (_EXCEPTIONS, CALL | HAND_ON), (UFUNC_ERRORS, CALL)):
    for _module, _names in _homes.items():
        for _name in _names.split():
            NAMES[f"{_module}:{_name}"] = NAMES.get(f"{_module}:{_name}", 0) | _role
for _name in ("accumulate", "outer", "reduce", "reduceat"):  # np.add.reduce; not at, which writes to its argument
    NAMES[f"numpy:ufunc.{_name}"] = HAND_ON
