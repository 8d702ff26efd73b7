"""NumPy. Arrays, scalars and dtypes have their own nodes; these are classes and functions that objects hold or reduce to."""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

_SCALARS = (
    "bool", "bool_", "bytes_", "character", "clongdouble", "complex128", "complex64", "complexfloating", "datetime64", "double", "flexible", "float16",
    "float32", "float64", "floating", "generic", "inexact", "int16", "int32", "int64", "int8", "integer", "intc", "intp", "longdouble", "longlong",
    "number", "object_", "signedinteger", "single", "str_", "timedelta64", "uint16", "uint32", "uint64", "uint8", "uintc", "uintp", "ulonglong",
    "unsignedinteger", "void", "record",
)
# Functions of arrays alone, as FunctionTransformer(np.log1p) or groupby.agg(np.mean) hold them.
_FUNCTIONS = (
    "abs", "absolute", "add", "amax", "amin", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "average", "ceil", "cos",
    "cosh", "cumprod", "cumsum", "deg2rad", "divide", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "hypot", "isfinite", "isinf", "isnan", "log", "log10", "log1p",
    "log2", "logaddexp", "max", "maximum", "mean", "median", "min", "minimum", "multiply", "nan_to_num", "nanmax", "nanmean", "nanmedian", "nanmin", "nanstd", "nansum",
    "nanvar", "negative", "percentile", "power", "prod", "quantile", "rad2deg", "reciprocal", "rint", "sign", "sin", "sinh", "size", "sqrt", "square", "std", "subtract", "sum", "tan", "tanh",
    "true_divide", "trunc", "var",
)

NAMES: dict[str, int] = {
    **{f"numpy:{name}": HAND_ON for name in (*_SCALARS, *_FUNCTIONS)},
    "numpy:ndarray": HAND_ON,
    "numpy:matrix": HAND_ON,
    "numpy:recarray": HAND_ON,
    "numpy.rec:recarray": HAND_ON,
    "numpy.rec:record": HAND_ON,
    "numpy:memmap": HAND_ON,
    "numpy:dtype": HAND_ON,
    "numpy.ma:MaskedArray": HAND_ON,
    "numpy.ma.core:MaskedConstant": CALL | HAND_ON,
    "numpy._core.multiarray:_reconstruct": CALL,  # stands for adapters.numpy.empty_array
    "numpy.core.multiarray:_reconstruct": CALL,
    "numpy.random._pickle:__generator_ctor": CALL,
    "numpy.random._pickle:__randomstate_ctor": CALL,
    "numpy.random._pickle:__bit_generator_ctor": CALL,
    "numpy.random._mt19937:MT19937": HAND_ON,
    "numpy.random._pcg64:PCG64": HAND_ON,
    "numpy.random._pcg64:PCG64DXSM": HAND_ON,
    "numpy.random._philox:Philox": HAND_ON,
    "numpy.random._sfc64:SFC64": HAND_ON,
    "numpy.random.bit_generator:SeedSequence": HAND_ON,
    "numpy.random.bit_generator:__pyx_unpickle_SeedSequence": CALL,
}
