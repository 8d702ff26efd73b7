"""scipy.interpolate: knots and coefficients, grids and triangles, which compiled code reads without looking."""

from __future__ import annotations

import copyreg
from typing import Any

from .._registry import register_named
from ._checks import charge, compact, integer, ndarray, need, same_parts, within
from ._stand_ins import class_of, of_state


def _coefficients(value: Any, what: str, least: int) -> Any:
    """`value`, an array of numbers of at least `least` dimensions."""
    import numpy as np

    need(type(value) is np.ndarray and value.dtype in (np.float64, np.complex128) and value.ndim >= least, f"{what} are no numbers in {least} dimensions")
    return value


def _knots(t: Any, degree: int, what: str = "the knots") -> Any:
    ndarray(t, what, 1, "f")
    need(len(t) > 2 * degree + 1 and bool((t[1:] >= t[:-1]).all()), f"{what} decrease, or are too few")
    return t


def _extrapolates(value: Any) -> None:
    need(value is None or type(value) is bool or (type(value) is str and value == "periodic"), "extrapolate is {}", value)


# ── Piecewise polynomials and B-splines ──────────────────────────────────────────────────────────────────────


def _attributes(obj: Any) -> dict[str, Any]:
    """In slots or in a dict, as the version of SciPy has it."""
    names = [*copyreg._slotnames(type(obj)), *getattr(obj, "__dict__", ())]  # type: ignore[attr-defined]
    return {name: getattr(obj, name) for name in names if name != "_asarray" and hasattr(obj, name)}


def _encode_polynomial(polynomial: Any) -> tuple[Any, ...]:
    more = set(_attributes(polynomial)) - {"_c", "_x", "c", "x", "extrapolate", "axis"}
    if more:
        raise NotImplementedError(f"a {type(polynomial).__qualname__} with {', '.join(sorted(more))}")
    return type(polynomial).__name__, polynomial.c, polynomial.x, polynomial.extrapolate, polynomial.axis


_POLYNOMIALS = {
    "PPoly": "_interpolate", "BPoly": "_interpolate", "CubicSpline": "_cubic", "CubicHermiteSpline": "_cubic", "PchipInterpolator": "_cubic", "Akima1DInterpolator": "_cubic",
}  # fmt: skip


def _decode_polynomial(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 5, "a polynomial is coefficients, breakpoints and an axis")
    name, c, x, extrapolate, axis = value
    need(type(name) is str and name in _POLYNOMIALS, "{} is no polynomial", name)
    ndarray(x, "the breakpoints", 1, "f")
    need(_coefficients(c, "the coefficients", 2).shape[1] == len(x) - 1 and len(c) > 0, f"coefficients of shape {c.shape} for {len(x)} breakpoints")
    need(bool((x[1:] >= x[:-1]).all()) or bool((x[1:] <= x[:-1]).all()), "the breakpoints are in no order")
    _extrapolates(extrapolate)
    integer(axis, "axis", 0, c.ndim - 2)
    made = class_of(f"scipy.interpolate.{_POLYNOMIALS[name]}", name).construct_fast(c, x, extrapolate, axis)
    made.extrapolate = extrapolate
    return made


def _encode_tensor(polynomial: Any) -> tuple[Any, ...]:
    return polynomial.c, polynomial.x, polynomial.extrapolate


def _decode_tensor(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 3 and type(value[1]) is tuple, "a polynomial is coefficients, breakpoints and whether it extrapolates")
    c, breakpoints, extrapolate = value
    ndim = len(breakpoints)
    _coefficients(c, "the coefficients", 2 * ndim)
    for axis, x in enumerate(breakpoints):
        compact(x, "the breakpoints", "f8", (None,))
        need(c.shape[axis] > 0 and c.shape[ndim + axis] == len(x) - 1 and bool((x[1:] >= x[:-1]).all()), f"coefficients of shape {c.shape} for {len(x)} breakpoints")
    _extrapolates(extrapolate)
    return class_of("scipy.interpolate._interpolate", "NdPPoly").construct_fast(c, breakpoints, extrapolate)


def _encode_spline(spline: Any) -> tuple[Any, ...]:
    return spline.t, spline.c, spline.k, spline.extrapolate, spline.axis


def _decode_spline(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 5, "a spline is knots, coefficients, a degree and an axis")
    t, c, k, extrapolate, axis = value
    degree = integer(int(k), "the degree", 0, 1 << 20)
    _knots(t, degree)
    need(len(_coefficients(c, "the coefficients", 1)) >= len(t) - degree - 1, "too few coefficients")
    integer(axis, "axis", 0, c.ndim - 1)
    _extrapolates(extrapolate)
    return class_of("scipy.interpolate._bsplines", "BSpline").construct_fast(t, c, degree, extrapolate, axis)


_MOST_PRODUCTS = 1 << 24


def _encode_tensor_spline(spline: Any) -> tuple[Any, ...]:
    return spline.t, spline.c, spline.k, spline.extrapolate


def _decode_tensor_spline(value: Any) -> Any:
    import numpy as np

    need(type(value) is tuple and len(value) == 4 and type(value[0]) is tuple and type(value[2]) is tuple, "a spline is knots, coefficients and degrees")
    knots, c, degrees, extrapolate = value
    need(0 < len(knots) == len(degrees) < 32 and _coefficients(c, "the coefficients", len(knots)) is c and c.flags.c_contiguous, "not as many degrees as knots")
    products = 1
    for axis, (t, k) in enumerate(zip(knots, degrees, strict=True)):
        need(type(k) in (int, np.int64) and 0 <= k < 64, "the degree")
        _knots(t, int(k))
        need(t.dtype == np.float64 and c.shape[axis] == len(t) - k - 1, f"coefficients of shape {c.shape} for {len(t)} knots")
        products *= int(k) + 1
    need(products <= _MOST_PRODUCTS, "a product of too many splines")
    charge(products + len(knots) * max(map(len, knots)) * 8)
    _extrapolates(extrapolate)
    return class_of("scipy.interpolate._ndbspline", "NdBSpline")(knots, c, tuple(map(int, degrees)), extrapolate=extrapolate)


register_named([f"scipy.interpolate.{module}:{name}" for name, module in _POLYNOMIALS.items()], "scipy.polynomial", _encode_polynomial, _decode_polynomial)
register_named(["scipy.interpolate._interpolate:NdPPoly"], "scipy.NdPPoly", _encode_tensor, _decode_tensor)
register_named(["scipy.interpolate._bsplines:BSpline"], "scipy.BSpline", _encode_spline, _decode_spline)
register_named(["scipy.interpolate._ndbspline:NdBSpline"], "scipy.NdBSpline", _encode_tensor_spline, _decode_tensor_spline)


# ── FITPACK: knots, coefficients, degrees of at most five ────────────────────────────────────────────────────

_FITPACK = "scipy.interpolate._fitpack2"
_CURVES = ("UnivariateSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline")
_SURFACES = (
    "BivariateSpline", "SmoothBivariateSpline", "LSQBivariateSpline", "RectBivariateSpline", "SphereBivariateSpline", "SmoothSphereBivariateSpline", "LSQSphereBivariateSpline",
    "RectSphereBivariateSpline",
)  # fmt: skip


def _check_curve(state: dict[str, Any]) -> None:
    same_parts(state, ("_eval_args", "_data", "ext"), "a spline")
    need(type(state["_eval_args"]) is tuple and len(state["_eval_args"]) == 3, "a spline is knots, coefficients and a degree")
    t, c, k = state["_eval_args"]
    degree = integer(int(k), "the degree", 0, 5)
    _knots(t, degree)
    need(len(ndarray(c, "the coefficients", 1, "f")) >= len(t) - degree - 1, "too few coefficients")
    integer(state["ext"], "ext", 0, 3)
    # x, y, w, xb, xe, k, s, n, t, c, fp, fpint, nrdata, ier: what fitting goes on with. Compiled code counts on by nrdata.
    data = state["_data"]
    need(type(data) is tuple and len(data) == 14, "the data of a spline")
    x, nknots, nrdata = data[0], data[7], data[12]
    if x is None or nrdata is None:
        return
    room = {len(ndarray(part, "the data of a spline", 1)) for part in data[8:10] + data[11:13]}
    need(len(room) == 1 and len({len(ndarray(part, "the data of a spline", 1, "f")) for part in data[:3]}) == 1, "the data of a spline are not as many")
    integer(int(data[5]), "the degree", 1, 5)
    n = integer(int(nknots), "the number of knots", 2 * int(data[5]) + 2, room.pop())
    need(_are_counts(nrdata[: n - 2 * int(data[5]) - 1], len(x)), "more points between knots than there are")


def _are_counts(counts: Any, npoints: int) -> bool:
    return bool((counts >= 0).all()) and int(counts.sum(dtype="i8")) + len(counts) < npoints


def _check_surface(state: dict[str, Any]) -> None:
    same_parts(state, ("tck", "degrees"), "a surface")
    need(type(state["tck"]) is tuple and len(state["tck"]) == 3 and type(state["degrees"]) is tuple and len(state["degrees"]) == 2, "a surface is knots, coefficients and degrees")
    tx, ty, c = state["tck"]
    kx, ky = (integer(int(k), "the degree", 1, 5) for k in state["degrees"])
    size = (len(_knots(tx, kx)) - kx - 1) * (len(_knots(ty, ky)) - ky - 1)
    need(len(ndarray(c, "the coefficients", 1, "f")) >= size, "too few coefficients")


def _dict(obj: Any) -> dict[str, Any]:
    return dict(obj.__dict__)


def _encode_curve(spline: Any) -> tuple[Any, ...]:
    state = _dict(spline)
    data = state.get("_data")
    if type(data) is tuple and len(data) == 14 and data[0] is not None and data[12] is not None and not _are_counts(data[12][: data[7] - 2 * data[5] - 1], len(data[0])):
        # What interpolates leaves these as it found the memory.
        import numpy as np

        state["_data"] = (*data[:11], np.zeros_like(data[11]), np.zeros_like(data[12]), data[13])
    return type(spline).__name__, getattr(state.pop("_spline_class", None), "__name__", None), state


def _decode_curve(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 3, "a spline is a class, the class it was made by, and parts")
    name, made_by, state = value
    need(name in _CURVES and (made_by is None or made_by in _CURVES), "a spline of no class")
    spline = of_state(_FITPACK, name, _check_curve)(state)
    if made_by is not None:
        spline._spline_class = class_of(_FITPACK, made_by)
    return spline


register_named([f"{_FITPACK}:{name}" for name in _CURVES], "scipy.spline", _encode_curve, _decode_curve)
for _name in _SURFACES:
    register_named([f"{_FITPACK}:{_name}"], f"scipy.{_name}", _dict, of_state(_FITPACK, _name, _check_surface))


# ── Grids, triangles, radial functions ───────────────────────────────────────────────────────────────────────

_METHODS = ("linear", "nearest", "slinear", "cubic", "quintic", "pchip")


def _grid_state(interpolator: Any) -> dict[str, Any]:
    return {name: part for name, part in interpolator.__dict__.items() if name != "_asarray"}


def _decode_grid(state: Any) -> Any:
    import numpy as np

    need(type(state) is dict, "the state is no dict")
    grid_name, values_name = ("_grid", "_values") if "_grid" in state else ("grid", "values")
    same_parts(state, (grid_name, values_name, "method", "fill_value", "bounds_error"), "an interpolator")
    grid, values = state[grid_name], state[values_name]
    need(type(grid) is tuple and 0 < len(grid) <= 30 and _coefficients(values, "the values", len(grid)) is values, "values without a grid")
    for axis, x in enumerate(grid):
        compact(x, "the grid", "f8", (values.shape[axis],))
        need(len(x) > 0 and bool((x[1:] > x[:-1]).all()), "the grid does not ascend")
    need(type(state["method"]) is str and state["method"] in _METHODS and type(state["bounds_error"]) is bool, "an interpolator of no method")
    spline = state.get("_spline")
    if spline is not None:
        need(type(spline) is class_of("scipy.interpolate._ndbspline", "NdBSpline") and len(spline.t) == len(grid), "a spline of another grid")
    descending = state.get("_descending_dimensions", ())
    need(type(descending) is tuple, "the dimensions that descend are a tuple")
    for axis in descending:
        integer(int(axis), "a dimension", 0, len(grid) - 1)
    need(state["fill_value"] is None or isinstance(state["fill_value"], (int, float, complex, np.number, np.ndarray)), "the fill value is no number")
    cls = class_of("scipy.interpolate._rgi", "RegularGridInterpolator")
    made = cls.__new__(cls)
    made.__dict__.update(state)
    if grid_name == "_grid":
        made.__dict__["_asarray"] = class_of("scipy._lib._array_api", "array_namespace")(values).asarray
    return made


def _check_scattered(state: dict[str, Any]) -> tuple[int, int]:
    same_parts(state, ("points", "values", "values_shape", "is_complex", "scale", "fill_value"), "an interpolator")
    npoints, ndim = compact(state["points"], "the points", "f8", (None, None)).shape
    need(type(state["is_complex"]) is bool and type(state["values_shape"]) is tuple, "the values of an interpolator")
    if state["scale"] is not None:
        for part in ("scale", "offset"):
            compact(state.get(part), "the scale of the points", "f8", (ndim,))
    return npoints, ndim


def _check_triangles(state: dict[str, Any]) -> None:
    npoints, ndim = _check_scattered(state)
    nvalues = compact(state["values"], "the values", "c16" if state["is_complex"] else "f8", (npoints, None)).shape[1]
    triangles: Any = state.get("tri")
    need(type(triangles) is class_of("scipy.spatial._qhull", "Delaunay") and triangles.points.shape == (npoints, ndim), "triangles of other points")
    if "grad" in state:
        need(ndim == 2, "gradients in more than two dimensions")
        need(ndarray(state["grad"], "the gradients", 3).shape == (npoints, nvalues, 2) and state["grad"].dtype == state["values"].dtype, "gradients of other points")


def _check_nearest(state: dict[str, Any]) -> None:
    import numpy as np

    npoints, _ndim = _check_scattered(state)
    need(isinstance(state.get("tree"), class_of("scipy.spatial._ckdtree", "cKDTree")) and state["tree"].n == npoints, "a tree of other points")
    need(type(state["values"]) is np.ndarray and state["values"].shape[:1] == (npoints,), "values of other points")


def _check_clough(state: dict[str, Any]) -> None:
    need("grad" in state, "an interpolator without gradients")
    _check_triangles(state)


_KERNELS = ("linear", "thin_plate_spline", "cubic", "quintic", "multiquadric", "inverse_multiquadric", "inverse_quadratic", "gaussian")


def _encode_radial(interpolator: Any) -> Any:
    import numpy as np

    state = interpolator.__getstate__()
    if type(interpolator.y) is not np.ndarray:
        raise NotImplementedError("an interpolator in another library's arrays")
    return state


def _decode_radial(value: Any) -> Any:
    import numpy as np

    need(type(value) is tuple and len(value) == 2 and type(value[0]) is tuple and len(value[0]) == 9 and type(value[1]) is tuple, "an interpolator is its points and what was made of them")
    (y, d, d_shape, d_dtype, neighbors, smoothing, kernel, epsilon, powers), made = value
    npoints, ndim = compact(y, "the points", "f8", (None, None)).shape
    need(ndim > 0, "points of no dimension")
    nvalues = compact(d, "the values", "f8", (npoints, None)).shape[1]
    need(
        type(d_shape) is tuple and all(type(n) is int for n in d_shape)
        and (isinstance(d_dtype, np.dtype) or (isinstance(d_dtype, type) and issubclass(d_dtype, (float, complex, np.number)))),
        "the values of an interpolator",
    )
    compact(smoothing, "the smoothing", "f8", (npoints,))
    need(type(kernel) is str and kernel in _KERNELS and isinstance(epsilon, (int, float, np.floating)), "an interpolator of no kernel")
    nmonomials = len(compact(powers, "the powers", "i8", (None, ndim)))
    within(powers, 0, 1 << 20, "the powers")
    if neighbors is None:
        need(len(made) == 3, "an interpolator without coefficients")
        for part in made[:2]:
            compact(part, "the scale of the points", "f8", (ndim,))
        ndarray(made[2], "the coefficients", 2, "f")
        need(made[2].dtype == np.float64 and made[2].shape == (npoints + nmonomials, nvalues), f"coefficients of shape {made[2].shape}")
    else:
        integer(neighbors, "the number of neighbours", 1, max(npoints, 1))
        need(len(made) == 1 and isinstance(made[0], class_of("scipy.spatial._ckdtree", "cKDTree")) and made[0].data.shape == y.shape, "a tree of other points")
    cls = class_of("scipy.interpolate._rbfinterp", "RBFInterpolator")
    interpolator = cls.__new__(cls)
    interpolator.__setstate__(value)
    return interpolator


register_named(["scipy.interpolate._rgi:RegularGridInterpolator"], "scipy.RegularGridInterpolator", _grid_state, _decode_grid)
for _name, _module, _check in (
    ("LinearNDInterpolator", "_interpnd", _check_triangles), ("CloughTocher2DInterpolator", "_interpnd", _check_clough), ("NearestNDInterpolator", "_ndgriddata", _check_nearest),
):  # fmt: skip
    register_named([f"scipy.interpolate.{_module}:{_name}"], f"scipy.{_name}", _dict, of_state(f"scipy.interpolate.{_module}", _name, _check))
register_named(["scipy.interpolate._rbfinterp:RBFInterpolator"], "scipy.RBFInterpolator", _encode_radial, _decode_radial)
