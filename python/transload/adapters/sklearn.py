"""What of scikit-learn compiled code reads without looking: trees, k-d trees, metrics, and the estimators around them.

Their state comes from the bytes, so it is looked at before an object holds it: a node that names a child outside its tree would make
`predict` read foreign memory, or walk in a circle. Nothing here imports scikit-learn before an object needs it.
"""

from __future__ import annotations

import functools
import importlib
import math
import numbers
from collections.abc import Callable
from typing import Any

from .. import _core, _tables
from .._registry import register_named
from ..trusted import sklearn as _trusted
from ._checks import LARGE, charge, in_memory, integer, ndarray, need, within

# ── Trees ────────────────────────────────────────────────────────────────────────────────────────────────────


def _encode_tree(tree: Any) -> tuple[Any, ...]:
    state = tree.__getstate__()
    return tree.n_features, tree.n_classes.tolist(), tree.n_outputs, state["max_depth"], state["nodes"], state["values"]


@functools.cache
def _fields(dtype: Any, *names: str) -> tuple[int, ...]:
    """Where fields of a record lie (bytes)."""
    return tuple(dtype.fields[name][1] for name in names)


@functools.cache
def _tree_module() -> tuple[Any, Any, tuple[int, int, int, int, int], Any, Any]:
    import numpy as np
    from sklearn.tree import _tree

    dtype = _tree.NODE_DTYPE
    left, right, feature = _fields(dtype, "left_child", "right_child", "feature")
    return _tree.Tree, dtype, (left, right, feature, dtype["left_child"].itemsize, -1), functools.partial(np.array, dtype=np.dtype(np.intp)), np.ndarray


# Comparing dtypes of a dozen fields takes microseconds, and a message's arrays share theirs: those that were equal to ours last.
_equal_dtype: dict[int, Any] = {}


def _as_own(nodes: Any, own: Any) -> Any:
    """`nodes` with the very dtype `own` where theirs is equal, which scikit-learn sees at a glance; else as they are."""
    dtype = nodes.dtype
    if dtype is own:
        return nodes
    if _equal_dtype.get(id(own)) is not dtype:
        if dtype != own:
            return nodes
        _equal_dtype[id(own)] = dtype
    return type(nodes)(nodes.shape, own, nodes) if nodes.flags.c_contiguous else nodes


def _decode_tree(value: Any) -> Any:
    cls, own, where, intp, array = _tree_module()
    if type(value) is not tuple or len(value) != 6:
        raise ValueError("a tree has six parts")
    n_features, n_classes, n_outputs, max_depth, nodes, values = value
    if type(nodes) is not array or nodes.ndim != 1 or nodes.dtype.kind != "V":
        ndarray(nodes, "nodes", 1, "V")
    nodes = _as_own(nodes, own)
    count = len(nodes)
    charge(nodes.nbytes)
    # Forests have hundreds of these, so what is right is found out in one go, and what is wrong afterwards.
    if not (
        type(n_features) is type(n_outputs) is type(max_depth) is int and type(n_classes) is list
        and 0 <= n_features < 1 << 40 and 1 <= n_outputs < 1 << 24 and len(n_classes) == n_outputs and -1 <= max_depth <= count
        and type(n_classes[0]) is int and 0 < n_classes[0] < 1 << 24
        and (n_outputs == 1 or all(type(n) is int and 0 < n < 1 << 24 for n in n_classes))
    ):
        _say_what_is_wrong(n_features, n_classes, n_outputs, count, max_depth)
    tree = cls(n_features, intp(n_classes), n_outputs)
    as_they_came = nodes.dtype is own
    if as_they_came and count:  # what came is looked at beside the decoding, while its copy is made
        _core.check_tree(nodes, *where, n_features, max_depth)
    tree.__setstate__({"max_depth": max_depth, "node_count": count, "nodes": nodes, "values": values})  # checks dtypes and the shape of values, and copies
    if count and not as_they_came:  # another layout of the same fields, which was converted
        _core.check_tree(tree.__getstate__()["nodes"], *where, n_features, max_depth)
    return tree


def _say_what_is_wrong(n_features: Any, n_classes: Any, n_outputs: Any, count: int, max_depth: Any) -> None:
    integer(n_outputs, "n_outputs", 1, 1 << 24)
    integer(n_features, "n_features", 0, 1 << 40)
    need(type(n_classes) is list and len(n_classes) == n_outputs, "n_classes does not fit n_outputs")
    for n in n_classes:
        integer(n, "n_classes", 1, (1 << 24) - 1)
    integer(max_depth, "max_depth", -1, count)
    raise ValueError("the state is not that of a tree")


register_named(["sklearn.tree._tree:Tree"], "sklearn.tree", _encode_tree, _decode_tree)


_PARTS = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")


@functools.cache
def _predictor_module() -> tuple[Any, Any, tuple[int, int, int, int, int], tuple[int, int, int, int], Any]:
    import numpy as np
    from sklearn.ensemble._hist_gradient_boosting import common
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    dtype = common.PREDICTOR_RECORD_DTYPE
    left, right, feature, leaf, categorical, bitset = _fields(dtype, "left", "right", "feature_idx", "is_leaf", "is_categorical", "bitset_idx")
    return TreePredictor, dtype, (left, right, feature, dtype["left"].itemsize, leaf), (feature, leaf, categorical, bitset), functools.partial(np.empty, (0, 8), np.dtype("u4"))


def _encode_predictor(predictor: Any) -> tuple[Any, ...]:
    state = predictor.__dict__
    if len(state) != 3:
        raise NotImplementedError("a predictor has nodes and two arrays of bits")
    nodes, *bits = (state[name] for name in _PARTS)
    return nodes, *(None if part.shape == (0, 8) and part.dtype == "u4" and part.flags.forc and part.flags.writeable else part for part in bits)


def _decode_predictor(value: Any) -> Any:
    cls, own, where, splits, no_bits = _predictor_module()
    need(type(value) is tuple and len(value) == 3, "a predictor has nodes and two arrays of bits")
    nodes, binned, raw = value
    nodes = _as_own(ndarray(nodes, "nodes", 1, "V"), own)
    if nodes.dtype is not own:
        nodes = nodes.astype(own, casting="same_kind")
    binned, raw = (no_bits() if part is None else ndarray(part, "a bitset", 2, "u") for part in (binned, raw))
    need(binned.shape[1] == raw.shape[1] == 8, "bitsets are 8 words wide")
    _core.check_tree(nodes, *where, 1 << 31, 1 << 31)
    _core.check_splits(nodes, *splits, min(len(binned), len(raw)), None)
    predictor = cls.__new__(cls)
    predictor.__setstate__(dict(zip(_PARTS, (nodes, binned, raw), strict=True)))
    return predictor


register_named(["sklearn.ensemble._hist_gradient_boosting.predictor:TreePredictor"], "sklearn.predictor", _encode_predictor, _decode_predictor)


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


# The others have a vector or a matrix of weights.
_PLAIN_METRICS = _METRICS - {f"{name}Distance{width}" for name in ("Mahalanobis", "Minkowski", "SEuclidean", "WMinkowski") for width in ("", "32", "64")}


def _encode_metric(metric: Any) -> tuple[Any, ...]:
    return (type(metric).__name__, *metric.__getstate__())


def _decode_metric(value: Any) -> Any:
    name, p, vector, matrix = value
    need(type(name) is str and name in _METRICS, "the metric is not known")
    cls = _class(_METRIC_MODULE, name)
    need(type(p) is float, "p is no float")
    ndarray(vector, "the vector of a metric", 1, "f")
    ndarray(matrix, "the matrix of a metric", 2, "f")
    need(matrix.shape[0] == matrix.shape[1], "the matrix of a metric is not square")
    metric = cls.__new__(cls)
    metric.__setstate__((p, vector, matrix))
    return metric


def _plain_metric(name: str, p: float) -> Any:
    """A metric without weights."""
    import numpy as np

    return _decode_metric((name, p, np.zeros(1), np.zeros((1, 1))))


@functools.cache
def _usual_metric() -> Any:
    """What trees have unless they are told otherwise. Nothing changes a metric, so they share it."""
    return _plain_metric("EuclideanDistance64", 2.0)


register_named([f"{_METRIC_MODULE}:{name}" for name in _METRICS], "sklearn.metric", _encode_metric, _decode_metric)


@functools.cache
def _span_dtype() -> tuple[Any, Any]:
    """The records of a tree's nodes, and the same bytes without names, which cost as much to read as all else."""
    import numpy as np

    dtype = np.dtype([("idx_start", np.int64), ("idx_end", np.int64), ("is_leaf", np.int64), ("radius", np.float64)])
    return dtype, np.dtype("V32")


_has_span_dtype: dict[type, bool] = {}  # by the class of tree, which is compiled with it


def _encode_binary_tree(tree: Any) -> tuple[Any, ...]:
    """Only the tree can reach its metric, so one without weights is its name and parameter."""
    data, index, nodes, *counts, metric, weight = tree.__getstate__()
    dtype, unnamed = _span_dtype()
    known = _has_span_dtype.get(type(tree))
    if known is None:
        known = _has_span_dtype[type(tree)] = nodes.dtype == dtype
    if known:
        nodes = type(nodes)(nodes.shape, unnamed, nodes)  # a view calls Python code of NumPy's
    name = type(metric).__name__
    if name in _PLAIN_METRICS:
        metric = (name, metric.__getstate__()[0])
    return (type(tree).__name__, data, index, nodes, *counts, metric, weight)


def _decode_binary_tree(value: Any) -> Any:
    if type(value) is not tuple or len(value) != 14 or type(value[0]) is not str or value[0] not in _BINARY_TREES:  # a range of 2**62 would be listed
        raise ValueError("a tree of neighbours is its name and 13 parts")
    name, state = value[0], value[1:]
    cls = _class(_BINARY_TREES[name], name)
    _core.check_neighbours(state, 2 if name.startswith("KD") else 1)
    data, nodes, metric = state[0], state[2], state[11]
    dtype, unnamed = _span_dtype()
    if nodes.dtype is not dtype:
        need(nodes.dtype in (unnamed, dtype), "node_data has other fields")
        nodes = type(nodes)(nodes.shape, dtype, nodes)
    if type(metric) is tuple:
        need(len(metric) == 2 and type(metric[0]) is str and metric[0] in _PLAIN_METRICS and type(metric[1]) is float, "the metric is none")
        metric = _usual_metric() if metric == ("EuclideanDistance64", 2.0) else _plain_metric(*metric)
    else:
        need(type(metric).__name__ in _METRICS and type(metric).__module__ == _METRIC_MODULE, "the metric is none")
    if metric is not _usual_metric():  # which takes any data
        metric._validate_data(data)
    tree = cls.__new__(cls)
    tree.__setstate__((*state[:2], nodes, *state[3:11], metric, state[12]))
    return tree


_BINARY_TREES = {
    f"{kind}{width}": f"sklearn.neighbors.{module}"
    for kind, module in (("KDTree", "_kd_tree"), ("BallTree", "_ball_tree"))
    for width in ("", "32", "64")
}
register_named([f"{module}:{name}" for name, module in _BINARY_TREES.items()], "sklearn.neighbours", _encode_binary_tree, _decode_binary_tree)


# ── Losses: in scikit-learn 1.5 and 1.7 their module is `_loss`, which cannot be imported, and pickles of them open in no later version ──

_LOSSES = {
    **dict.fromkeys((
        "CyAbsoluteError", "CyExponentialLoss", "CyHalfBinomialLoss", "CyHalfGammaLoss", "CyHalfMultinomialLoss", "CyHalfPoissonLoss", "CyHalfSquaredError",
    )),
    "CyHalfTweedieLoss": "power", "CyHalfTweedieLossIdentity": "power", "CyHuberLoss": "delta", "CyPinballLoss": "quantile",
}


def _encode_loss(loss: Any) -> tuple[Any, ...]:
    name = type(loss).__name__
    parameter = _LOSSES[name]
    return (name,) if parameter is None else (name, getattr(loss, parameter))


def _decode_loss(value: Any) -> Any:
    need(type(value) is tuple and len(value) >= 1 and type(value[0]) is str and value[0] in _LOSSES, "the loss is not known")
    name, *parameters = value
    need(len(parameters) == (_LOSSES[name] is not None) and all(type(number) is float for number in parameters), "a loss has its one parameter or none")
    return _class("sklearn._loss._loss", name)(*parameters)


register_named([f"{module}:{name}" for name in _LOSSES for module in ("sklearn._loss._loss", "_loss")], "sklearn.loss", _encode_loss, _decode_loss)


# ── Estimators around them ───────────────────────────────────────────────────────────────────────────────────
# Each is its state, and one check that its parts fit each other, for `predict` relies on that.


def _check_decision_tree(estimator: Any) -> None:
    tree = estimator.__dict__.get("tree_")
    if tree is not None and (type(tree).__name__ != "Tree" or tree.n_features != estimator.n_features_in_):  # texts only when needed: forests have hundreds
        need(type(tree).__name__ == "Tree", "tree_ is no tree")
        raise ValueError(f"tree_ has {tree.n_features} features, the estimator {estimator.n_features_in_}")


def _check_forest(estimator: Any) -> None:
    members = estimator.__dict__.get("estimators_", ())
    charge(len(members))
    for member in members:
        tree = member.__dict__.get("tree_")
        need(tree is None or tree.n_features == estimator.n_features_in_, "a tree of the forest has other features")


def _check_isolation_forest(estimator: Any) -> None:
    members = estimator.__dict__.get("estimators_", ())
    features = estimator.__dict__.get("estimators_features_", ())
    need(len(members) == len(features), "estimators_features_ does not fit estimators_")
    charge(len(members))
    for member, chosen in zip(members, features, strict=True):
        need(member.tree_.n_features == len(chosen), "a tree of the forest has other features")


_STARTS = frozenset((
    "sklearn.dummy:DummyClassifier", "sklearn.dummy:DummyRegressor", "sklearn.linear_model._base:LinearRegression", "sklearn.linear_model._logistic:LogisticRegression",
    "sklearn.linear_model._ridge:Ridge",
))  # they hold no functions


def _has_own_start(estimator: Any) -> bool:
    start = estimator.__dict__.get("init_")
    return start is None or (type(start) is str and start == "zero") or f"{type(start).__module__}:{type(start).__name__}" in _STARTS


def _starts_with_a_row(estimator: Any, width: int) -> bool:
    """Whether init_ plainly predicts `width` values a row: asking it costs as much as decoding five trees."""
    start, loss = estimator.__dict__.get("init_"), estimator.__dict__.get("_loss")
    link = getattr(loss, "link", None)
    if type(loss) not in _losses() or type(link) not in _losses() or "is_multiclass" in loss.__dict__ or "link" in link.__dict__:
        return False
    if type(start) is _class("sklearn.dummy", "DummyRegressor"):
        constant = start.__dict__.get("constant_")
        return width == 1 and start.__dict__.get("n_outputs_") == 1 and type(constant).__name__ == "ndarray" and constant.shape == (1, 1) and constant.dtype == "f8"
    if type(start) is _class("sklearn.dummy", "DummyClassifier") and start.__dict__.get("_strategy") == "prior":
        prior = start.__dict__.get("class_prior_")
        n_classes = width if loss.is_multiclass else 2
        return (width == 1 or loss.is_multiclass) and start.__dict__.get("n_outputs_") == 1 and type(prior).__name__ == "ndarray" and prior.shape == (n_classes,) and prior.dtype == "f8"
    return False


@functools.cache
def _losses() -> frozenset[Any]:
    """The losses and links of gradient boosting: whatever their state, they give a number for a number."""
    loss, link = (importlib.import_module(f"sklearn._loss.{name}") for name in ("loss", "link"))
    return frozenset((
        loss.HalfSquaredError, loss.AbsoluteError, loss.HuberLoss, loss.PinballLoss, loss.HalfBinomialLoss, loss.HalfMultinomialLoss, loss.ExponentialLoss,
        link.IdentityLink, link.LogitLink, link.HalfLogitLink, link.MultinomialLogit,
    ))


def _check_gradient_boosting(estimator: Any) -> None:
    import numpy as np

    members = estimator.__dict__.get("estimators_")
    if members is None:
        return
    width = ndarray(members, "estimators_", 2, "O").shape[1]
    charge(members.size)
    for member in members.flat:
        tree = member.tree_
        need(tree.n_features == estimator.n_features_in_ and tree.n_outputs == 1 and tree.max_n_classes == 1, "a tree of the stages has other features or outputs")
    integer(estimator.n_features_in_, "n_features_in_", 0, 1 << 24)
    if members.size:
        # The stages add to what init_ predicts, in place.
        if _starts_with_a_row(estimator, width):
            return
        # It is asked here, so it may not be one that calls functions of the sender's choice.
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
    cls, own, _, splits, _ = _predictor_module()
    kinds = np.ascontiguousarray(categorical)
    for stage in predictors:
        for predictor in stage:
            need(type(predictor) is cls and predictor.nodes.dtype == own, "a predictor is none")
            charge(predictor.nodes.nbytes)
            _core.check_splits(predictor.nodes, *splits, min(len(predictor.binned_left_cat_bitsets), len(predictor.raw_left_cat_bitsets)), kinds)


def _check_libsvm(estimator: Any) -> None:
    state = estimator.__dict__
    if "support_vectors_" not in state:
        return
    counts, support = ndarray(state["_n_support"], "_n_support", 1, "i"), ndarray(state["support_"], "support_", 1, "i")
    need(type(state["kernel"]) is str, "kernel is a function, whose results libsvm indexes without looking")
    if state["kernel"] == "precomputed":  # the vectors are columns of what is asked for
        n_vectors = len(support)
        within(support, 0, integer(state["shape_fit_"][0], "shape_fit_", 1, 1 << 40), "support_")
    else:
        n_vectors = state["support_vectors_"].shape[0]
    n = len(counts)
    pairs = n * (n - 1) // 2
    coefficients = state["_dual_coef_"]
    classes = type(estimator).__name__.endswith("SVC")  # the others say [n, n], and have one function
    need(n >= 2 and int(counts.min()) >= 0 and int(counts.sum() if classes else counts.max()) == n_vectors, "_n_support does not fit support_vectors_")
    need(classes or n == 2, "_n_support of a regressor")
    need(len(support) in (0, n_vectors), "support_ does not fit support_vectors_")
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
        if "_counts" in state:  # partial_fit counts there
            need(ndarray(state["_counts"], "_counts", 1, "f").shape == (len(centers),), "_counts does not fit cluster_centers_")
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
    need(isinstance(estimator.n_features, int) and 1 <= estimator.n_features < 1 << 31, "n_features is {}", estimator.n_features)


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
    need(type(estimator.input) is str and estimator.input == "content", "input is {}, and 'content' alone reads no files", estimator.input)


def _check_memory(estimator: Any) -> None:
    # A path would be read from, and unpickled, by the next fit.
    need(estimator.memory is None, "memory is a place on disk, which stays the sender's")


def _check_feature_agglomeration(estimator: Any) -> None:
    _check_memory(estimator)
    if "labels_" in estimator.__dict__:  # np.bincount counts them
        within(ndarray(estimator.labels_, "labels_", 1, "i"), 0, integer(estimator.n_clusters_, "n_clusters_", 1, 1 << 40), "labels_")
        need(estimator.n_clusters_ <= max(1, len(estimator.labels_)), "more clusters than labels")


_WEIGHTS = ("coef_", "_standard_coef", "_average_coef")
_OFFSETS = ("intercept_", "offset_", "_standard_intercept", "_average_intercept")


def _check_gradient_descent(estimator: Any) -> None:
    """partial_fit writes as many weights as it is given features."""
    state = estimator.__dict__
    classes = state.get("classes_")
    rows = 1 if classes is None or len(classes) == 2 else len(classes)
    for name in _WEIGHTS:
        part = state.get(name)
        if part is not None and not hasattr(part, "tocsr"):  # a sparse one is refused there
            n_features = integer(state.get("n_features_in_"), "n_features_in_", 1, 1 << 40)
            shapes = ((rows, n_features),) if classes is not None else ((n_features,),)
            need(ndarray(part, name, len(shapes[0]), "f").shape in shapes, "{} does not fit n_features_in_ and classes_", name)
    for name in _OFFSETS:
        part = state.get(name)
        if part is not None:
            need(ndarray(part, name, 1, "f").shape == (rows,), "{} does not fit classes_", name)


def _check_voters(estimator: Any) -> None:
    """Classes of neighbours are counted by the labels, in compiled code or in as much memory as the largest."""
    state = estimator.__dict__
    labels = state.get("_y")
    if labels is not None and not (state.get("outputs_2d_") is True and type(labels).__name__ == "ndarray" and labels.ndim == 2):
        within(ndarray(labels, "_y", 1, "i"), 0, len(state["classes_"]), "_y")
        need(len(labels) == state["_fit_X"].shape[0], "_y does not fit _fit_X")


def _check_few_voters(estimator: Any) -> None:
    """As many neighbours for each row: where a tree finds them NumPy looks their labels up, and looks first."""
    if estimator.__dict__.get("_fit_method") not in ("kd_tree", "ball_tree"):
        _check_voters(estimator)


def _check_birch(estimator: Any) -> None:
    seen: set[int] = set()
    leaf = estimator.__dict__.get("dummy_leaf_")
    while leaf is not None:  # partial_fit lists them all
        need(id(leaf) not in seen, "a leaf comes after itself")
        seen.add(id(leaf))
        charge(1)
        leaf = leaf.__dict__.get("next_leaf_")


def _check_polynomial(estimator: Any) -> None:
    state = estimator.__dict__
    if "_max_degree" not in state:
        return
    # get_feature_names_out makes each combination of features. Of two features and more there are _MOST_FEATURES at a degree below 2**13 (as of 2**13 features at degree 2).
    n_features = integer(state["n_features_in_"], "n_features_in_", 1, _MOST_FEATURES)
    low, high = (integer(state[name], name, 0, _MOST_FEATURES if n_features == 1 else 1 << 13) for name in ("_min_degree", "_max_degree"))
    need(high < 2 or n_features < 1 << 13, "polynomials of more features than can be named")
    count = 0
    for degree in range(low, high + 1) if n_features > 1 else ():
        count += math.comb(n_features, degree) if state["interaction_only"] else math.comb(n_features + degree - 1, degree)
        need(count <= _MOST_FEATURES, "polynomials of more features than can be named")


_CHECKS: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"), _check_decision_tree),
    **dict.fromkeys(("ExtraTreesClassifier", "ExtraTreesRegressor", "RandomForestClassifier", "RandomForestRegressor", "RandomTreesEmbedding"), _check_forest),
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), _check_gradient_boosting),
    **dict.fromkeys(("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), _check_hist_gradient_boosting),
    **dict.fromkeys(("NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR"), _check_libsvm),
    **dict.fromkeys(("KMeans", "MiniBatchKMeans", "BisectingKMeans"), _check_kmeans),
    **dict.fromkeys(("OPTICS", "AgglomerativeClustering", "Pipeline"), _check_memory),
    **dict.fromkeys(
        ("SGDClassifier", "SGDRegressor", "SGDOneClassSVM", "PassiveAggressiveClassifier", "PassiveAggressiveRegressor", "Perceptron"), _check_gradient_descent
    ),
    "Birch": _check_birch, "KNeighborsClassifier": _check_few_voters, "RadiusNeighborsClassifier": _check_voters,
    **dict.fromkeys(("CountVectorizer", "HashingVectorizer", "TfidfVectorizer"), _check_text_source),
    "FeatureAgglomeration": _check_feature_agglomeration, "FeatureHasher": _check_hasher, "HDBSCAN": _check_hdbscan, "IsolationForest": _check_isolation_forest,
    "PolynomialFeatures": _check_polynomial,
}
# Those that the sender leaves to the next family, since no receiver would take them.
_REFUSED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("OPTICS", "AgglomerativeClustering", "FeatureAgglomeration", "Pipeline"), lambda estimator: estimator.memory is not None),
    **dict.fromkeys(("CountVectorizer", "HashingVectorizer", "TfidfVectorizer"), lambda estimator: estimator.input != "content"),
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), lambda estimator: not _has_own_start(estimator)),
    **dict.fromkeys(("NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR"), lambda estimator: callable(estimator.kernel) and hasattr(estimator, "support_")),
}

_MOST_THREADS = 1 << 12
_MOST_FEATURES = 1 << 24  # that need no array to show for it
# Attributes that name a method, which is then called on whatever estimator the state holds: of a path, `unlink` would be one.
_NAMING = ("stack_method", "stack_method_", "chain_method", "chain_method_", "response_method", "_response_method")
_METHODS = frozenset(("auto", "predict", "predict_proba", "predict_log_proba", "decision_function", "transform", "score_samples"))


_THREADS = ("n_jobs", "n_threads")
_LOOKED_AT = frozenset((*_THREADS, *_NAMING))


def _check_any(state: Any) -> None:
    """What any estimator does with its state: it starts threads, names features, calls methods by name."""
    # Texts of errors and further looks are for those that need them: of hundreds of trees, none does.
    if type(state) is not dict:
        raise ValueError("the state is no dict")
    version = state.get("_sklearn_version")
    if version is not None and (type(version) is not str or len(version) > 64):  # a warning shows it, and is remembered
        raise ValueError("_sklearn_version is no version")
    n_features = state.get("n_features_in_")
    if n_features is not None and (type(n_features) is not int or n_features > _MOST_FEATURES):
        need(isinstance(n_features, numbers.Integral), "n_features_in_ is {}", n_features)
        shown = n_features <= _MOST_FEATURES or any(n_features in getattr(part, "shape", ()) for part in state.values())
        need(shown, "n_features_in_ is {}, and no array has as many columns", int(n_features))
    if not _LOOKED_AT.isdisjoint(state):
        _check_threads_and_names(state)


def _check_threads_and_names(state: dict[str, Any]) -> None:
    for name in _LOOKED_AT.intersection(state):
        part = state[name]
        if part is None or part is True:
            continue
        if name in _THREADS:
            need(isinstance(part, numbers.Integral) and abs(int(part)) <= _MOST_THREADS, "{} is {}", name, part)
            continue
        need(type(part) in (str, list, tuple), "{} is {}", name, part)
        for method in (part,) if type(part) is str else part:
            need(method is None or (type(method) is str and method in _METHODS), "{} names {}", name, method)


def _check_shown(state: dict[str, Any]) -> None:
    for name in _core.large_arrays(state, LARGE):
        in_memory(state[name], name)


@functools.cache
def _class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _guard(module: str, name: str) -> None:
    check, refuses = _CHECKS.get(name), _REFUSED.get(name)
    cls: Any = None

    def encode(estimator: Any) -> Any:
        if refuses is not None and refuses(estimator):
            raise NotImplementedError("what it holds reads files or runs functions")
        state = estimator.__getstate__()
        try:
            _core.check_attributes(type(estimator), state)
        except ValueError as error:  # no receiver would set them
            raise NotImplementedError(str(error)) from None
        return state

    def decode(state: Any) -> Any:
        if type(state) is not dict:
            raise ValueError("the state is no dict")
        nonlocal cls
        if cls is None:
            cls = _class(module, name)
        charge(len(state))
        _core.check_attributes(cls, state)
        _check_any(state)
        if check is not _check_decision_tree:  # it has one small array, and there are hundreds
            _check_shown(state)
        estimator = cls.__new__(cls)
        estimator.__setstate__(state)  # BaseEstimator's: warns when the version differs
        if check is not None:
            check(estimator)
        return estimator

    if check is not None:
        decode.check = check  # type: ignore[attr-defined]  # the walk calls it again where lists that the estimator holds have grown since
    register_named([f"{module}:{name}"], f"sklearn.{name}", encode, decode)


for _module, _names in _trusted.ESTIMATORS.items():
    for _name in _names.split():
        _guard(_module, _name)


def _check_made(state: Any) -> None:
    for part in state if type(state) is tuple else (state,):
        if part is not None:
            _check_any(part)


for _name, _roles in _trusted.NAMES.items():
    if _roles & _tables.MAKE:
        _tables.state_checks[_name] = _check_made
