"""Every public method of an estimator, called on what it was fitted on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# These fit: what they do is up to the parameters, not to the state.
_FITTING = ("fit", "fit_transform", "fit_predict", "path", "cost_complexity_pruning_path")
_SETTING = ("set_params", "set_output", "densify", "sparsify", "partial_fit")
_MOST = 1000  # items of a generator


def transformed(estimator: Any, arguments: tuple[Any, ...]) -> Any:
    """What `inverse_transform` of it takes: what its own transform gave, or X."""
    try:
        return estimator.transform(arguments[0])
    except (AttributeError, TypeError, ValueError):
        return arguments[0]


def calls(estimator: Any, arguments: tuple[Any, ...], there: Any, *, changing: bool = False) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Label and call of each public method and property; `there` is given to inverse_transform.

    The seed of NumPy stands before each call, for random_state may be None. With `changing` come those that change the estimator, last.
    """
    for name in sorted(dir(type(estimator))):
        if name.startswith("_") or name in _FITTING or name in _SETTING or name.startswith("set_"):
            continue
        yield name, _call(estimator, name, arguments, there)
    yield "repr", lambda: repr(estimator)
    yield "tags", lambda: estimator.__sklearn_tags__() if hasattr(estimator, "__sklearn_tags__") else None
    yield "len", lambda: len(estimator) if hasattr(type(estimator), "__len__") else None
    if changing:
        for name in ("sparsify", "densify", "partial_fit", "fit"):
            if hasattr(type(estimator), name):
                yield name, _call(estimator, name, arguments, there)


def _call(estimator: Any, name: str, arguments: tuple[Any, ...], there: Any) -> Callable[[], Any]:
    given: dict[str, Any] = {
        "X": arguments[0], "T": arguments[0], "raw_documents": arguments[0], "y": arguments[-1], "Y": arguments[-1], "K": arguments[0], "data": arguments[0], "v": arguments[0],
        "Xt": there, "yt": there, "n_samples": 2, "cut_distance": 0.5, "comp_cov": np.eye(6), "A": arguments[0], "X_test": arguments[0], "doc": "red green", "raw_X": arguments[0],
        "support": [0], "i": 0,
    }
    if name == "inverse_transform":
        given["X"] = given["y"] = given["Y"] = there
    elif name == "get_submatrix":
        given["data"] = np.eye(60, 6)
    if name == "error_norm":
        given["comp_cov"] = np.eye(len(getattr(estimator, "covariance_", np.eye(6))))
    if name == "get_n_splits" or name == "split":
        given["X"] = arguments[0]

    def call() -> Any:
        np.random.seed(0)
        attribute = getattr(estimator, name)
        if not callable(attribute) or inspect.isclass(attribute):
            return attribute
        needed = [
            parameter.name for parameter in inspect.signature(attribute).parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD and parameter.kind is not parameter.VAR_POSITIONAL
            and (parameter.default is parameter.empty or parameter.name in ("X", "y") and name in ("partial_fit", "fit", "score", "kneighbors", "radius_neighbors"))
        ]
        for parameter in needed:
            if parameter not in given:
                raise NotImplementedError(f"{name} needs {parameter}")
        more = {"classes": np.unique(arguments[-1])} if name == "partial_fit" and "classes" in inspect.signature(attribute).parameters else {}
        first = [given[parameter] for parameter in needed[:1]]  # by position: wrappers call it by another name
        got = attribute(*first, **{parameter: given[parameter] for parameter in needed[1:]}, **more)
        if inspect.isgenerator(got):
            return [item for item, _ in zip(got, range(_MOST), strict=False)]
        return got

    return call
