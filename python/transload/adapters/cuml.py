"""cuML: estimators by their parameters and fitted attributes, on the device where those are; and the proxies of cuml.accel.

What an estimator gives out in several forms (``ReflectedAttr``) is sent in the form it is kept in. Handles, streams, indices that libcuml has
built and caches stay behind: cuML makes them anew. Its kernels take sizes from one attribute and addresses from another, so those that do are
looked at here before an estimator holds them. Nothing here imports cuML before an object of it is met.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
from typing import Any

import numpy as np

from .. import _core
from .._errors import Unsupported
from .._registry import register_named
from ..trusted import cuml as _trusted
from . import nvforest, treelite
from ._checks import integer, need, words

_NAMES = frozenset(f"{module}:{name}" for module, names in _trusted.ESTIMATORS.items() for name in names.split())


# ── Estimators ───────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def _cache() -> Any:
    """What holds an attribute that is given out in several forms."""
    try:
        return importlib.import_module("cuml.internals.outputs").ReflectedAttr.Cache
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and "cuml" not in sys.modules:
            raise Unsupported(f"{error}; an estimator of cuML needs it") from error
        raise NotImplementedError(f"cuML {getattr(sys.modules.get('cuml'), '__version__', '')} is not as transload knows it: {error}") from error


def _encode_estimator(estimator: Any) -> tuple[Any, ...]:
    cls = type(estimator)
    cache = _cache()
    own = getattr(cls, "__getstate__", None)
    state = dict(vars(estimator)) if own is None or own is getattr(object, "__getstate__", None) else estimator.__getstate__()
    if type(state) is not dict:
        raise NotImplementedError(f"the state of a {cls.__qualname__} is no dict")
    if cls.__name__.endswith("MG"):
        state["handle"] = None  # of this process and its peers; only fit uses it
    reflected = [name for name, value in state.items() if type(value) is cache]
    parts = f"{cls.__module__}:{cls.__qualname__}", {name: value.value if type(value) is cache else value for name, value in state.items()}, reflected
    return (*parts, True) if vars(estimator).get("_nvforest_model") is not None else parts


def _decode_estimator(value: Any) -> Any:
    need(type(value) is tuple and len(value) in (3, 4), "an estimator is a name, attributes, and which of them are given out in several forms")
    name, state, reflected, *ready = value
    need(all(part is True for part in ready), "whether a forest is ready")
    need(type(name) is str and name in _NAMES, "{} is no estimator of cuML", name)
    need(type(state) is dict and all(type(one) is str for one in state), "the attributes of an estimator")
    need(type(reflected) is list and all(type(one) is str and one in state for one in reflected), "the attributes that are given out in several forms")
    cls = _class(name)
    for base in cls.__mro__:
        if (look := _LOOKS.get(base.__name__)) is not None and base.__module__.startswith("cuml."):
            look(state)
    if cls.__name__ == "ARIMA":
        return _arima(cls, state, reflected)
    estimator = cls.__new__(cls)
    cache, several = _cache(), set(reflected)
    state = {one: cache(part) if one in several else part for one, part in state.items()}
    if hasattr(cls, "__setstate__"):
        estimator.__setstate__(state)
    else:
        vars(estimator).update(state)
    if ready:
        need("_treelite_model_bytes" in state, "no forest, and it is ready")
        nvforest.ready(estimator)
    return estimator


@functools.cache
def _class(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        return getattr(importlib.import_module(module), path)
    except (ImportError, AttributeError) as error:
        raise Unsupported(f"{name.replace(':', '.')}: {error}") from error


for _module, _names in _trusted.ESTIMATORS.items():
    register_named([f"{_module}:{_name}" for _name in _names.split()], "cuml.estimator", _encode_estimator, _decode_estimator)


# ── What their kernels believe ───────────────────────────────────────────────────────────────────────────────

State = dict[str, Any]


def _number(state: State, name: str) -> int:
    value = state.get(name)
    if isinstance(value, np.integer):
        value = int(value)
    return integer(value, name, 0, 1 << 48)


def _is_array(value: Any) -> bool:
    return type(value).__qualname__ == "ndarray" and type(value).__module__ in ("numpy", "cupy", "cupy._core.core")


def _is_sparse(value: Any) -> bool:
    return type(value).__module__.startswith(("cupyx.scipy.sparse", "scipy.sparse"))


def _sizes(state: State, wanted: dict[str, tuple[Any, ...]], kinds: str = "f") -> None:
    """Arrays, where they are there, have as many items as the product of these: numbers, or names of attributes. They are compact, and of one dtype."""
    dtypes = set()
    for name, parts in wanted.items():
        array = state.get(name)
        if array is None:
            continue
        need(_is_array(array), f"{name} is no array")
        count = math.prod(part if type(part) is int else _number(state, part) for part in parts)
        need(array.size == count, f"{name} has {array.size} items, where {count} are needed")
        need(array.flags.c_contiguous or array.flags.f_contiguous, f"{name} is not contiguous")
        need(array.dtype.kind in kinds and array.itemsize in (4, 8) and array.dtype.isnative, f"{name} is of {array.dtype}")
        dtypes.add(array.dtype)
    need(len(dtypes) <= 1, f"{', '.join(wanted)} are of several dtypes")


def _rows(state: State, name: str) -> int:
    """Rows of a table with a column a feature."""
    table = state[name]
    need(_is_array(table) or _is_sparse(table), f"{name} is no array")
    need(table.ndim == 2 and (table.shape[1] == _number(state, "n_features_in_")), f"{name} has another shape than the estimator")
    if _is_array(table):
        need(table.dtype in (np.float32, np.float64) and table.dtype.isnative and (table.flags.c_contiguous or table.flags.f_contiguous), f"{name} is no compact array of numbers")
    else:
        need(table.format == "csr" and table.indices.dtype == table.indptr.dtype == np.int32, f"{name} is no matrix of rows with indices of int32")
        need(table.data.dtype in (np.float32, np.float64) and table.data.dtype.isnative, f"{name} is of {table.data.dtype}")
    return int(table.shape[0])


def _decomposition(state: State) -> None:
    n = "n_components_" if "n_components_" in state else "n_components"
    _sizes(state, {"components_": (n, "n_features_in_"), "singular_values_": (n,), "mean_": ("n_features_in_",)})


def _truncated(state: State) -> None:
    _sizes(state, {"components_": ("n_components", "n_features_in_")})


def _one_output(state: State) -> None:
    _sizes(state, {"coef_": ("n_features_in_",)})


def _centers(state: State) -> None:
    _sizes(state, {"cluster_centers_": ("n_clusters", "n_features_in_")})


def _lars(state: State) -> None:
    active: Any = state.get("active_")
    if active is None:
        return
    need(_is_array(active) and active.dtype == np.int32 and active.ndim == 1 and active.flags.c_contiguous, "active_ is no compact array of int32")
    _sizes(state, {"beta_": (int(active.size),), "coef_": ("n_features_in_",)})
    _within(active, _number(state, "n_features_in_"), "active_")


def _within(array: Any, end: int, what: str) -> None:
    """Each of an array of integers is one of `end` places."""
    if isinstance(array, np.ndarray):
        need(array.size == 0 or bool(array.min() >= 0 and array.max() < end), f"{what} is outside of {end} places")
        return
    stream = sys.modules["cupy"].cuda.get_current_stream().ptr
    ((least, most, _),) = _core.integer_bounds([(array.data.ptr, int(array.size), array.itemsize, False)], array.data.device_id, stream)
    need(most < least or (least >= 0 and most < end), f"{what} is outside of {end} places")


def _vectors(state: State) -> None:
    vectors = state.get("support_vectors_")
    if vectors is None:
        return
    support: Any = state.get("support_", state.get("_support_"))
    need(_is_array(support) and support.ndim == 1 and support.dtype in (np.int32, np.int64) and support.flags.c_contiguous, "support_ is no compact array of integers")
    n = int(support.size)
    shape: Any = state.get("shape_fit_")
    need(type(shape) is tuple and len(shape) == 2 and _number({"columns": shape[1]}, "columns") == _number(state, "n_features_in_"), "shape_fit_")
    if n or not _is_array(vectors):
        need(_rows(state, "support_vectors_") == n, "support_vectors_ and support_ do not fit")
    _sizes(state, {"dual_coef_": (n,), "intercept_": (1,)})
    dual: Any = state.get("dual_coef_")
    need(dual is None or dual.dtype == vectors.dtype, "support_vectors_ and dual_coef_ are of several dtypes")


def _density(state: State) -> None:
    if state.get("_X") is not None:
        n = _rows(state, "_X")
        _sizes(state, {"_X": (n, "n_features_in_"), "_sample_weight": (n,)})


def _neighbors(state: State) -> None:
    table: Any = state.get("_fit_X")
    if table is None:
        return
    need(_rows(state, "_fit_X") == _number(state, "n_samples_fit_"), "_fit_X and n_samples_fit_ do not fit")
    if _is_array(table):
        need(table.dtype == np.float32 and table.flags.c_contiguous, "_fit_X is no array of float32 in C order")
    labels: Any = state.get("_y")
    if labels is not None:
        need(_is_array(labels) and labels.ndim in (1, 2) and len(labels) == table.shape[0] and labels.dtype.kind in "iuf", "_y and _fit_X do not fit")
        need(labels.flags.c_contiguous or labels.flags.f_contiguous, "_y is not contiguous")


def _umap(state: State) -> None:
    if state.get("_raw_data") is None:
        return
    n = _rows(state, "_raw_data")
    embedding = getattr(state.get("embedding_"), "array", state.get("embedding_"))
    _sizes({**state, "embedding_": embedding}, {"embedding_": (n, "n_components")})
    _sizes(state, {"_sigmas": (n,), "_rhos": (n,)})


def _hdbscan(state: State) -> None:
    inner: Any = state.get("_state_dict")
    if inner is None:
        return
    need(type(inner) is dict and set(inner) == {"n_leaves", "n_clusters", "core_dists", "inverse_label_map", "condensed_tree"}, "the state of an HDBSCAN")
    n, nclusters, tree = _number(inner, "n_leaves"), _number(inner, "n_clusters"), inner["condensed_tree"]
    _sizes(inner, {"core_dists": (n,)})
    _sizes(inner, {"inverse_label_map": (nclusters,)}, "i")
    need(inner["inverse_label_map"] is None or inner["inverse_label_map"].dtype == np.int64, "inverse_label_map is no int64")
    need(isinstance(tree, np.ndarray) and tree.ndim == 1 and set(tree.dtype.names or ()) == {"parent", "child", "lambda_val", "child_size"}, "the condensed tree of an HDBSCAN")
    ends = 2 * n + 1
    for field, least, most in (("parent", n, ends), ("child", 0, ends), ("child_size", 1, n + 1)):
        part = tree[field]
        need(part.dtype.kind == "i" and (part.size == 0 or bool(part.min() >= least and part.max() < most)), f"{field} of a condensed tree")
    if state.get("_raw_data") is not None:
        need(_rows(state, "_raw_data") == n, "_raw_data and the tree do not fit")
    labels: Any = state.get("labels_")
    if labels is not None:
        _sizes(state, {"labels_": (n,)}, "i")
        need(labels.dtype == np.int64, "labels_ are no int64")
        _within(labels + 1, nclusters + 1, "labels_")


def _smoothing(state: State) -> None:
    level: Any = state.get("level")
    if not _is_array(level):
        return
    nseries, season, n = (_number(state, name) for name in ("ts_num", "seasonal_periods", "n"))
    need(nseries >= 1 and season >= 1 and level.size >= (n - season) * nseries, "level is shorter than the series")
    _sizes(state, {"level": (int(level.size),), "trend": (int(level.size),), "season": (int(level.size),)})
    need(state.get("dtype") == level.dtype, "level is of another dtype")


def _forest(state: State) -> None:
    content = state.get("_treelite_model_bytes")
    if content is not None:
        treelite.checked(content)


_LOOKS: dict[str, Any] = {
    "PCA": _decomposition, "TruncatedSVD": _truncated, "SGD": _one_output, "CD": _one_output, "KMeans": _centers, "Lars": _lars, "SVMBase": _vectors,
    "KernelDensity": _density, "NeighborsBase": _neighbors, "NearestNeighbors": _neighbors, "UMAP": _umap, "HDBSCAN": _hdbscan, "ExponentialSmoothing": _smoothing,
    "BaseRandomForestModel": _forest, "IsolationForest": _forest,
}  # fmt: skip
"""By the class that has the kernels; its subclasses are looked at, too."""

def _arima(cls: Any, state: State, reflected: list[str]) -> Any:
    """An ARIMA made anew from its series: the scratch memory of its kernels has the size that they need."""
    order: Any = state.get("order")
    series: Any = state.get("d_y")
    need(type(order) is dict and all(type(order.get(part)) is int for part in ("p", "d", "q", "P", "D", "Q", "s", "k", "n_exog")), "the order of an ARIMA")
    need(_is_array(series) and series.ndim in (1, 2) and series.dtype == np.float64, "the series of an ARIMA are no numbers")
    made = cls(
        series, order=(order["p"], order["d"], order["q"]), seasonal_order=(order["P"], order["D"], order["Q"], order["s"]), exog=state.get("d_exog"),
        fit_intercept=bool(order["k"]), simple_differencing=state.get("simple_differencing") is True, verbose=state.get("verbose", False), output_type=state.get("output_type"),
    )  # fmt: skip
    counts = {"mu_": order["k"], "beta_": order["n_exog"], "ar_": order["p"], "ma_": order["q"], "sar_": order["P"], "sma_": order["Q"], "sigma2_": 1}
    cache = _cache()
    for name, count in counts.items():
        if state.get(name) is not None:
            _sizes(state, {name: (count, int(made.batch_size))})
            need(state[name].dtype == np.float64, f"{name} is of {state[name].dtype}")
            vars(made)[name] = cache(state[name])
    kept = {"order", "order_diff", "n_obs", "n_obs_diff", "batch_size", "missing", "simple_differencing", "dtype", *counts, *reflected}
    vars(made).update({name: part for name, part in state.items() if name not in kept})
    return made


# ── cuml.accel ───────────────────────────────────────────────────────────────────────────────────────────────


def _encode_proxy(proxy: Any) -> tuple[Any, ...]:
    proxy._sync_attrs_to_cpu()
    return type(proxy)._gpu_class._cpu_class_path, proxy._cpu, proxy._gpu is not None


def _decode_proxy(value: Any) -> Any:
    """A proxy where cuml.accel is on, the estimator on the CPU where not."""
    need(type(value) is tuple and len(value) == 3 and type(value[0]) is str and type(value[2]) is bool, "a proxy is a name, an estimator and whether it was on a GPU")
    path, estimator, on_gpu = value
    module, _, name = path.rpartition(".")
    accel = sys.modules.get("cuml.accel.core")
    if accel is None or not accel.ACCEL.installed or module not in accel.ACCEL.modules:
        return estimator
    cls = getattr(importlib.import_module(module), "_accel_overrides", {}).get(name)
    if cls is None:
        return estimator
    need(type(estimator) is cls._cpu_class, f"{words(estimator)} for a proxy of {cls.__qualname__}")
    return cls._reconstruct_from_cpu(estimator, on_gpu)


register_named(["cuml.accel.estimator_proxy:ProxyBase"], "cuml.proxy", _encode_proxy, _decode_proxy, ())
