"""NumPy. Arrays, scalars and dtypes have their own nodes; these are classes and functions that objects hold or reduce to."""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

_SCALARS = (
    "bool", "bool_", "bytes_", "character", "clongdouble", "complex128", "complex64", "complexfloating", "datetime64", "double", "flexible", "float16",
    "float32", "float64", "floating", "generic", "inexact", "int16", "int32", "int64", "int8", "integer", "intc", "intp", "longdouble", "longlong",
    "number", "object_", "signedinteger", "single", "str_", "timedelta64", "uint16", "uint32", "uint64", "uint8", "uintc", "uintp", "ulonglong",
    "unsignedinteger",
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
    # Not here: ndarray, recarray, void, record and memmap, the classes themselves. Called with a buffer and a dtype of objects they read
    # memory as pointers, and memmap opens files; whoever holds a class may call it. Arrays of these classes travel all the same.
    "numpy:dtype": HAND_ON,
    "numpy.ma:MaskedArray": HAND_ON,
    "numpy.ma.core:MaskedConstant": CALL,
    "numpy._core.multiarray:_reconstruct": CALL,  # stands for adapters.numpy.empty_array
    "numpy.core.multiarray:_reconstruct": CALL,
    "numpy:poly1d": MAKE,
    **{
        f"numpy.polynomial.{module}:{name}": MAKE
        for module, name in (
            ("polynomial", "Polynomial"), ("chebyshev", "Chebyshev"), ("legendre", "Legendre"), ("hermite", "Hermite"), ("hermite_e", "HermiteE"), ("laguerre", "Laguerre"),
        )
    },
}
