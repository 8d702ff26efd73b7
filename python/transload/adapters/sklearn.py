"""What of scikit-learn compiled code reads without looking: trees, k-d trees, metrics, and the estimators around them.

Their state comes from the bytes, so it is looked at before an object holds it: a node that names a child outside its tree would make
`predict` read foreign memory, or walk in a circle. Nothing here imports scikit-learn before an object needs it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from .. import _core, _tables
from .._registry import register_named
from ._checks import integer, ndarray, need, same_parts, within


# ── Trees ────────────────────────────────────────────────────────────────────────────────────────────────────


def _encode_tree(tree: Any) -> tuple[Any, ...]:
    _, arguments, state = tree.__reduce__()
    return (*arguments, state)


@functools.cache
def _fields(dtype: Any, left: str, right: str, feature: str, leaf: str | None) -> tuple[int, int, int, int, int]:
    """Where the fields of a node lie, for `_core.check_tree`."""
    fields = dtype.fields
    return fields[left][1], fields[right][1], fields[feature][1], fields[left][0].itemsize, -1 if leaf is None else fields[leaf][1]


@functools.cache
def _tree_module() -> tuple[Any, Any, tuple[int, int, int, int, int], Any]:
    import numpy as np
    from sklearn.tree import _tree

    return _tree.Tree, _tree.NODE_DTYPE, _fields(_tree.NODE_DTYPE, "left_child", "right_child", "feature", None), np.ndarray


_node_dtype: Any = None  # the last that was equal; a forest's trees share one, and comparing eight fields takes microseconds


def _is_node_dtype(dtype: Any) -> bool:
    global _node_dtype
    if dtype is not _node_dtype:
        if dtype != _tree_module()[1]:
            return False
        _node_dtype = dtype
    return True


def _decode_tree(value: Any) -> Any:
    cls, _, where, array = _tree_module()
    n_features, n_classes, n_outputs, state = value
    nodes, count, max_depth = state["nodes"], state["node_count"], state["max_depth"]
    # Forests have hundreds of these, so what is right is found out in one go, and what is wrong afterwards.
    if not (
        type(n_features) is type(n_outputs) is type(count) is type(max_depth) is int and type(n_classes) is type(nodes) is array
        and 0 <= n_features < 1 << 40 and 1 <= n_outputs < 1 << 24 and n_classes.shape == (n_outputs,) and n_classes.dtype.kind == "i"
        and 0 < min(n_classes.tolist()) <= max(n_classes.tolist()) < 1 << 24 and nodes.shape == (count,) and -1 <= max_depth <= count and len(state) == 4
    ):
        _say_what_is_wrong(n_features, n_classes, n_outputs, nodes, count, max_depth)
    tree = cls(n_features, n_classes, n_outputs)
    as_they_came = _is_node_dtype(nodes.dtype)
    if as_they_came and count:  # what came is looked at beside the decoding, while its copy is made
        _core.check_tree(nodes, *where, n_features, max_depth)
    tree.__setstate__(state)  # checks dtypes and the shape of values, and copies
    if count and not as_they_came:  # another layout of the same fields, which was converted
        _core.check_tree(tree.__getstate__()["nodes"], *where, n_features, max_depth)
    return tree


def _say_what_is_wrong(n_features: Any, n_classes: Any, n_outputs: Any, nodes: Any, count: Any, max_depth: Any) -> None:
    integer(n_outputs, "n_outputs", 1, 1 << 24)
    integer(n_features, "n_features", 0, 1 << 40)
    need(ndarray(n_classes, "n_classes", 1, "i").shape == (n_outputs,), "n_classes does not fit n_outputs")
    within(n_classes, 1, 1 << 24, "n_classes")
    need(ndarray(nodes, "nodes", 1, "V").shape == (count,), f"node_count is {count!r}, there are {len(nodes)} nodes")
    integer(max_depth, "max_depth", -1, count)
    raise ValueError("the state is not that of a tree")


register_named(["sklearn.tree._tree:Tree"], "sklearn.tree", _encode_tree, _decode_tree)


def _decode_predictor(state: Any) -> Any:
    from sklearn.ensemble._hist_gradient_boosting import common
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    same_parts(state, ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets"), "a predictor")
    nodes = ndarray(state["nodes"], "nodes", 1, "V")
    if nodes.dtype != common.PREDICTOR_RECORD_DTYPE:
        nodes = nodes.astype(common.PREDICTOR_RECORD_DTYPE, casting="same_kind")
    for name in ("binned_left_cat_bitsets", "raw_left_cat_bitsets"):
        need(ndarray(state[name], name, 2, "u").shape[1] == 8, f"{name} are not 8 words wide")
    categorical = nodes["is_categorical"] != 0
    within(nodes["bitset_idx"][categorical], 0, min(len(state["binned_left_cat_bitsets"]), len(state["raw_left_cat_bitsets"])), "bitset_idx")
    _core.check_tree(nodes, *_fields(common.PREDICTOR_RECORD_DTYPE, "left", "right", "feature_idx", "is_leaf"), 1 << 31, 1 << 31)
    predictor = TreePredictor.__new__(TreePredictor)
    predictor.__setstate__(state)
    return predictor


register_named(
    ["sklearn.ensemble._hist_gradient_boosting.predictor:TreePredictor"], "sklearn.predictor", lambda predictor: dict(predictor.__dict__), _decode_predictor
)


# ── Metrics, k-d trees, ball trees ───────────────────────────────────────────────────────────────────────────

_METRICS = frozenset(
    f"{name}Distance{width}"
    for name in (
        "BrayCurtis", "Canberra", "Chebyshev", "Dice", "Euclidean", "Hamming", "Haversine", "Jaccard", "Mahalanobis", "Manhattan", "Matching", "Minkowski", "RogersTanimoto",
        "RussellRao", "SEuclidean", "SokalMichener", "SokalSneath", "WMinkowski", "Kulsinski",
    )
    for width in ("", "32", "64")
)  # not PyFuncDistance, which calls a function of the sender's choice
_METRIC_MODULE = "sklearn.metrics._dist_metrics"


def _encode_metric(metric: Any) -> tuple[Any, ...]:
    return (type(metric).__name__, *metric.__getstate__())


def _decode_metric(value: Any) -> Any:
    name, p, vector, matrix = value
    need(name in _METRICS, f"metric {name!r} is not known")
    cls = getattr(importlib.import_module(_METRIC_MODULE), name)
    need(type(p) is float, "p is no float")
    ndarray(vector, "the vector of a metric", 1, "f")
    ndarray(matrix, "the matrix of a metric", 2, "f")
    need(matrix.shape[0] == matrix.shape[1], "the matrix of a metric is not square")
    metric = cls.__new__(cls)
    metric.__setstate__((p, vector, matrix))
    return metric


register_named([f"{_METRIC_MODULE}:{name}" for name in _METRICS], "sklearn.metric", _encode_metric, _decode_metric)


def _encode_binary_tree(tree: Any) -> tuple[Any, ...]:
    return (type(tree).__name__, *tree.__getstate__())


def _decode_binary_tree(value: Any) -> Any:
    need(type(value) is tuple, "a tree of neighbours is a tuple")  # a range of 2**62 would be listed
    name, *state = value
    need(name in _BINARY_TREES, f"{name!r} is no tree of neighbours")
    need(len(state) == 13, f"{len(state)} parts of a tree, 13 are needed")
    cls = getattr(importlib.import_module(_BINARY_TREES[name]), name)
    data, index, nodes, bounds, leaf_size, n_levels, n_nodes, n_trims, n_leaves, n_splits, n_calls, metric, weight = state
    n, n_features = ndarray(data, "data", 2, "f").shape
    need(ndarray(index, "idx_array", 1, "i").shape == (n,), "idx_array does not fit data")
    within(index, 0, n, "idx_array")
    integer(n_levels, "n_levels", 1, 60)
    integer(leaf_size, "leaf_size", 1, 1 << 60)
    for count in (n_trims, n_leaves, n_splits, n_calls):
        integer(count, "a statistic", -(1 << 62), 1 << 62)
    need(n_nodes == 2**n_levels - 1 and ndarray(nodes, "node_data", 1, "V").shape == (n_nodes,), "node_data does not fit n_levels")
    planes = 2 if name.startswith("KD") else 1
    need(ndarray(bounds, "node_bounds", 3, "f").shape == (planes, n_nodes, n_features), "node_bounds does not fit")
    within(nodes["idx_start"], 0, n + 1, "idx_start")
    within(nodes["idx_end"], 0, n + 1, "idx_end")
    need(bool((nodes["idx_start"] <= nodes["idx_end"]).all()), "a node ends before it starts")
    need(bool((nodes["is_leaf"][n_nodes // 2 :] != 0).all()), "a node of the last level is no leaf")
    need(type(metric).__name__ in _METRICS and type(metric).__module__ == _METRIC_MODULE, "the metric is none")
    metric._validate_data(data)
    if weight is not None:
        need(ndarray(weight, "sample_weight", 1, "f").shape == (n,), "sample_weight does not fit data")
    tree = cls.__new__(cls)
    tree.__setstate__(tuple(state))
    return tree


_BINARY_TREES = {
    f"{kind}{width}": f"sklearn.neighbors.{module}"
    for kind, module in (("KDTree", "_kd_tree"), ("BallTree", "_ball_tree"))
    for width in ("", "32", "64")
}
register_named([f"{module}:{name}" for name, module in _BINARY_TREES.items()], "sklearn.neighbours", _encode_binary_tree, _decode_binary_tree)


def multinomial_loss(cls: Any, checksum: Any, state: Any) -> Any:
    """Stand in for ``__pyx_unpickle_CyHalfMultinomialLoss``, which makes an instance of any class: one without state."""
    from sklearn._loss import _loss

    need(cls is _loss.CyHalfMultinomialLoss and state in (None, ()), "not CyHalfMultinomialLoss")
    return cls.__new__(cls)


_tables.overrides["sklearn._loss._loss:__pyx_unpickle_CyHalfMultinomialLoss"] = multinomial_loss


# ── Estimators around them ───────────────────────────────────────────────────────────────────────────────────
# Each is its state, and one check that its parts fit each other, for `predict` relies on that.


def _check_decision_tree(estimator: Any) -> None:
    tree = estimator.__dict__.get("tree_")
    if tree is not None and (type(tree).__name__ != "Tree" or tree.n_features != estimator.n_features_in_):  # texts only when needed: forests have hundreds
        need(type(tree).__name__ == "Tree", "tree_ is no tree")
        raise ValueError(f"tree_ has {tree.n_features} features, the estimator {estimator.n_features_in_}")


def _check_forest(estimator: Any) -> None:
    for member in estimator.__dict__.get("estimators_", ()):
        need(member.tree_.n_features == estimator.n_features_in_, "a tree of the forest has other features")


def _check_isolation_forest(estimator: Any) -> None:
    members = estimator.__dict__.get("estimators_", ())
    features = estimator.__dict__.get("estimators_features_", ())
    need(len(members) == len(features), "estimators_features_ does not fit estimators_")
    for member, chosen in zip(members, features, strict=True):
        need(member.tree_.n_features == len(chosen), "a tree of the forest has other features")


_STARTS = frozenset((
    "sklearn.dummy:DummyClassifier", "sklearn.dummy:DummyRegressor", "sklearn.linear_model._base:LinearRegression", "sklearn.linear_model._logistic:LogisticRegression",
    "sklearn.linear_model._ridge:Ridge",
))  # they hold no functions


def _has_own_start(estimator: Any) -> bool:
    start = estimator.__dict__.get("init_")
    return start is None or (type(start) is str and start == "zero") or f"{type(start).__module__}:{type(start).__name__}" in _STARTS


def _check_gradient_boosting(estimator: Any) -> None:
    import numpy as np

    members = estimator.__dict__.get("estimators_")
    if members is None:
        return
    width = ndarray(members, "estimators_", 2, "O").shape[1]
    for member in members.flat:
        tree = member.tree_
        need(tree.n_features == estimator.n_features_in_ and tree.n_outputs == 1 and tree.max_n_classes == 1, "a tree of the stages has other features or outputs")
    integer(estimator.n_features_in_, "n_features_in_", 0, 1 << 24)
    if members.size:
        # The stages add to what init_ predicts, in place. It is asked here, so it may not be one that calls functions of the sender's choice.
        need(_has_own_start(estimator), f"init_ is a {type(estimator.init_).__qualname__}, which predicts by what the bytes say")
        start = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), np.float32))
        need(start.shape == (1, width) and start.dtype == np.float64, f"init_ predicts shape {start.shape}, the stages {width} values")


def _check_hist_gradient_boosting(estimator: Any) -> None:
    import numpy as np

    predictors = estimator.__dict__.get("_predictors")
    if predictors is None:
        return
    n_features, mapper = estimator._n_features, estimator._bin_mapper
    need(type(mapper).__name__ == "_BinMapper", "_bin_mapper is none")
    categorical = ndarray(mapper.is_categorical_, "is_categorical_", 1, "bu") != 0
    need(len(categorical) == n_features and len(mapper.bin_thresholds_) == n_features, "_bin_mapper has other features")
    for feature in np.flatnonzero(categorical):
        within(np.nan_to_num(mapper.bin_thresholds_[feature]), 0, 256, "categories")
    for stage in predictors:
        for predictor in stage:
            nodes = predictor.nodes
            inner = nodes["is_leaf"] == 0
            feature = nodes["feature_idx"][inner]
            within(feature, 0, n_features, "features of nodes")
            split = nodes["is_categorical"][inner] != 0
            need(bool(categorical[feature[split]].all()), "a node splits a feature by categories that has none")


def _check_libsvm(estimator: Any) -> None:
    state = estimator.__dict__
    if "support_vectors_" not in state:
        return
    counts = ndarray(state["_n_support"], "_n_support", 1, "i")
    n, n_vectors = len(counts), state["support_vectors_"].shape[0]
    pairs = n * (n - 1) // 2
    coefficients = state["_dual_coef_"]
    classes = type(estimator).__name__.endswith("SVC")  # the others say [n, n], and have one function
    need(n >= 2 and int(counts.min()) >= 0 and int(counts.sum() if classes else counts.max()) == n_vectors, "_n_support does not fit support_vectors_")
    need(classes or n == 2, "_n_support of a regressor")
    need(len(ndarray(state["support_"], "support_", 1, "i")) in (0, n_vectors), "support_ does not fit support_vectors_")
    need(coefficients.shape == (n - 1, n_vectors), "_dual_coef_ does not fit support_vectors_")
    if estimator._sparse:
        need(coefficients.data.shape == ((n - 1) * n_vectors,), "_dual_coef_ is not full")
    need(ndarray(state["_intercept_"], "_intercept_", 1, "f").shape == (pairs,), "_intercept_ does not fit _n_support")
    for name in ("_probA", "_probB"):
        need(ndarray(state[name], name, 1, "f").shape in ((0,), (pairs,)), f"{name} does not fit _n_support")
    need(len(state["_probA"]) == len(state["_probB"]), "_probA does not fit _probB")


def _check_kmeans(estimator: Any) -> None:
    state = estimator.__dict__
    if "_n_threads" in state:  # OpenMP makes as many, or ends the process
        integer(state["_n_threads"], "_n_threads", 1, 1 << 12)
    if "cluster_centers_" in state:
        centers = ndarray(state["cluster_centers_"], "cluster_centers_", 2, "f")
        need(centers.shape[1] == state["n_features_in_"], "cluster_centers_ have other features")
        need(centers.shape[0] == estimator.n_clusters or "_bisecting_tree" in state, "cluster_centers_ does not fit n_clusters")
    todo = [state["_bisecting_tree"]] if "_bisecting_tree" in state else []
    for _ in range(1 << 20):
        if not todo:
            return
        node = todo.pop()
        if node is not None:
            need(node.center.shape == (state["n_features_in_"],), "a center has other features")
            todo += (node.left, node.right)
    need(not todo, "the tree of centers does not end")


def _check_hasher(estimator: Any) -> None:
    need(isinstance(estimator.n_features, int) and 1 <= estimator.n_features < 1 << 31, f"n_features is {estimator.n_features!r}")


def _check_hdbscan(estimator: Any) -> None:
    import numpy as np

    tree = estimator.__dict__.get("_single_linkage_tree_")
    if tree is None:
        return
    ndarray(tree, "_single_linkage_tree_", 1, "V")
    bound = np.arange(len(tree)) + len(tree) + 1
    for side in ("left_node", "right_node"):
        need(bool(((tree[side] >= 0) & (tree[side] < bound)).all()), "a node of the linkage tree comes after its child")


def _check_text_source(estimator: Any) -> None:
    if getattr(estimator, "n_features", None) is not None:
        _check_hasher(estimator)
    # With input="filename" the vectorizer opens what it is asked to transform.
    need(type(estimator.input) is str and estimator.input == "content", f"input is {estimator.input!r}, and 'content' alone reads no files")


def _check_memory(estimator: Any) -> None:
    # A path would be read from, and unpickled, by the next fit.
    need(estimator.memory is None, "memory is a place on disk, which stays the sender's")


@functools.cache
def _class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _guard(module: str, names: str, check: Callable[[Any], None], refuses: Callable[[Any], bool] | None = None) -> None:
    """`refuses` tells which estimators the sender leaves to the next family, since no receiver would take them."""

    def encode(estimator: Any) -> Any:
        if refuses is not None and refuses(estimator):
            raise NotImplementedError("what it holds reads files or runs functions")
        return estimator.__getstate__()

    for name in names.split():

        def decode(state: Any, module: str = f"sklearn.{module}", name: str = name) -> Any:
            need(type(state) is dict, "the state is no dict")
            cls = _class(module, name)
            estimator = cls.__new__(cls)
            estimator.__setstate__(state)  # BaseEstimator's: warns when the version differs
            check(estimator)
            return estimator

        register_named([f"sklearn.{module}:{name}"], f"sklearn.{name}", encode, decode)


_guard("tree._classes", "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor", _check_decision_tree)
_guard("ensemble._forest", "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor RandomTreesEmbedding", _check_forest)
_guard("ensemble._iforest", "IsolationForest", _check_isolation_forest)
_guard("ensemble._gb", "GradientBoostingClassifier GradientBoostingRegressor", _check_gradient_boosting, lambda estimator: not _has_own_start(estimator))
_guard("ensemble._hist_gradient_boosting.gradient_boosting", "HistGradientBoostingClassifier HistGradientBoostingRegressor", _check_hist_gradient_boosting)
_guard("svm._classes", "NuSVC NuSVR OneClassSVM SVC SVR", _check_libsvm)
_guard("cluster._kmeans", "KMeans MiniBatchKMeans", _check_kmeans)
_guard("cluster._bisect_k_means", "BisectingKMeans", _check_kmeans)
_guard("cluster._hdbscan.hdbscan", "HDBSCAN", _check_hdbscan)
_guard("cluster._optics", "OPTICS", _check_memory, lambda estimator: estimator.memory is not None)
_guard("cluster._agglomerative", "AgglomerativeClustering FeatureAgglomeration", _check_memory, lambda estimator: estimator.memory is not None)
_guard("pipeline", "Pipeline", _check_memory, lambda estimator: estimator.memory is not None)
_guard("feature_extraction._hash", "FeatureHasher", _check_hasher)
_guard("feature_extraction.text", "CountVectorizer HashingVectorizer TfidfVectorizer", _check_text_source, lambda estimator: estimator.input != "content")
