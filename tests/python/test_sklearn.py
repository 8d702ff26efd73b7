"""scikit-learn: every public estimator, fitted, through family host."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import transload

sklearn = pytest.importorskip("sklearn")

from support import objects_sklearn as objects  # noqa: E402
from support.same import difference  # noqa: E402
from support.trips import host, host_readonly  # noqa: E402


def _assert_like_pickle(estimator: Any, arrived: Any) -> None:
    """Same to the last bit, but for what pickle loses too (Bunch keeps no attributes)."""
    found = difference(estimator, arrived)
    if found:
        assert found == difference(estimator, pickle.loads(pickle.dumps(estimator)))


def _outputs(estimator: Any) -> dict[str, Any]:
    x, _, _ = objects.data()
    got = {}
    warnings.simplefilter("ignore")
    for method in ("predict", "predict_proba", "decision_function", "transform", "score_samples", "apply", "kneighbors"):
        if hasattr(estimator, method):
            try:
                got[method] = getattr(estimator, method)(x)
            except (TypeError, ValueError, AttributeError):  # text, labels, one column: the same trouble on both sides
                got[method] = None
    return got


def _assert_alike(here: dict[str, Any], there: dict[str, Any]) -> None:
    for method, value in here.items():
        if difference(value, there[method]) is not None:  # sums of floats depend on how memory is aligned
            np.testing.assert_allclose(there[method], value, rtol=1e-12, err_msg=method)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", objects.names())
def test_estimator_arrives_whole_and_predicts_alike(name: str) -> None:
    estimator = objects.fitted(name)
    arrived = host(estimator)
    _assert_like_pickle(estimator, arrived)
    _assert_alike(_outputs(estimator), _outputs(arrived))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", objects.more_names())
def test_composition_arrives_whole(label: str) -> None:
    composition = objects.more(label)
    _assert_like_pickle(composition, host(composition))


@pytest.mark.parametrize(
    "name",
    ["DecisionTreeClassifier", "RandomForestClassifier", "HistGradientBoostingClassifier", "GradientBoostingRegressor", "NearestNeighbors", "IsolationForest", "KernelDensity", "SVC"],
)
def test_predicts_from_read_only_frames(name: str) -> None:
    estimator = objects.fitted(name)
    _assert_alike(_outputs(estimator), _outputs(host_readonly(estimator)))


def test_fitting_goes_on_after_the_trip() -> None:
    x, y, _ = objects.data()
    estimator = objects.fitted("SGDClassifier")
    arrived = host_readonly(estimator)
    assert np.array_equal(arrived.partial_fit(x, y).coef_, estimator.partial_fit(x, y).coef_)


def test_other_version_warns_as_scikit_learn_does() -> None:
    estimator = objects.fitted("RandomForestClassifier")
    kept = type(estimator).__getstate__
    header, *frames = transload.dumps(estimator, families=("host",))
    other = bytes(header).replace(sklearn.__version__.encode(), b"0" * len(sklearn.__version__))
    assert other != header and kept is type(estimator).__getstate__
    with pytest.warns(sklearn.exceptions.InconsistentVersionWarning):
        transload.loads([other, *frames])


def test_forest_shares_one_random_state() -> None:
    rng = np.random.RandomState(0)
    pair = host([sklearn.ensemble.RandomForestClassifier(random_state=rng), rng])
    assert pair[0].random_state is pair[1]


# ── Hostile state ────────────────────────────────────────────────────────────────────────────────────────────


def _tampered(estimator: Any, change: Any) -> list[Any]:
    """The message of an estimator after `change` wrote into its arrays, where scikit-learn itself looks no more."""
    arrived = pickle.loads(pickle.dumps(estimator))
    change(arrived)
    return transload.dumps(arrived, families=("host",))


def _tree_message(change: Any, **state: Any) -> list[Any]:
    """A tree with changed nodes: a message as `dumps` writes it, with the nodes written over in its frame."""
    tree = objects.fitted("DecisionTreeClassifier").tree_
    arguments, parts = tree.__reduce__()[1:]
    nodes = parts["nodes"].copy()
    change(nodes)
    decode = _decoder("sklearn.tree")
    return decode((*arguments, {**parts, "nodes": nodes, **state}))


def _decoder(name: str) -> Any:
    from transload import _tables

    host(objects.fitted("DecisionTreeClassifier"))  # the adapters are there now
    return _tables.adapters_by_name[name]


def _set(field: str, node: int, value: int) -> Any:
    def change(nodes: Any) -> None:
        nodes[field][node] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_set("left_child", 0, 10_000), "child 10000"), (_set("right_child", 0, 10_000), "child 10000"), (_set("left_child", 2, 0), "child 0"), (_set("left_child", 2, 1), "child 1"),
        (_set("left_child", 0, 3), "child of two"), (_set("feature", 0, 6), "feature 6 of 6"), (_set("feature", 0, -1), "feature -1"), (_set("left_child", 0, -1), "inner nodes"),
        (_set("left_child", 2, -5), "child -5"),
    ],
)
def test_tree_whose_nodes_lead_astray_is_refused(change: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        _tree_message(change)


@pytest.mark.parametrize("state", [{"max_depth": 0}, {"max_depth": -1}, {"max_depth": 1 << 40}, {"node_count": 100}, {"node_count": 1}, {"node_count": -1}])
def test_tree_that_lies_about_its_size_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="max_depth|node_count"):
        _tree_message(lambda nodes: None, **state)


@pytest.mark.parametrize(("field", "value"), [("left", 99), ("right", 0), ("left", 2), ("feature_idx", -1), ("is_leaf", 1), ("is_categorical", 1)])
def test_predictor_whose_nodes_lead_astray_is_refused(field: str, value: int) -> None:
    predictor = objects.fitted("HistGradientBoostingClassifier")._predictors[0][0]
    nodes = predictor.nodes.copy()
    nodes[field][0] = value
    with pytest.raises(ValueError):
        _decoder("sklearn.predictor")({**predictor.__dict__, "nodes": nodes})


def test_estimator_with_a_tree_of_other_features_is_refused() -> None:
    message = _tampered(objects.fitted("RandomForestClassifier"), lambda forest: setattr(forest, "n_features_in_", 2))
    with pytest.raises(transload.Malformed, match="features"):
        transload.loads(message)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("DecisionTreeClassifier", "n_features_in_", 1), ("GradientBoostingClassifier", "n_features_in_", 3), ("HistGradientBoostingClassifier", "_n_features", 1),
        ("IsolationForest", "_estimators_features", None), ("KMeans", "n_features_in_", 50), ("SVC", "_n_support", np.array([1, 1, 1], "i4")), ("SVC", "_dual_coef_", np.zeros((1, 2))),
        ("SVC", "_intercept_", np.zeros(1)), ("SVR", "_n_support", np.array([1000, 1000], "i4")), ("FeatureHasher", "n_features", 0), ("HashingVectorizer", "n_features", 0),
    ],
)
def test_estimator_whose_parts_do_not_fit_is_refused(name: str, attribute: str, value: Any) -> None:
    def change(estimator: Any) -> None:
        if attribute == "_estimators_features":
            estimator.estimators_features_ = [np.arange(2)] * len(estimator.estimators_)
        else:
            estimator.__dict__[attribute] = value

    message = _tampered(objects.fitted(name), change)
    with pytest.raises(transload.Malformed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transload.loads(message)


@pytest.mark.parametrize("part", ["idx_array", "node_data", "n_levels", "leaf", "bounds", "weight"])
def test_neighbour_tree_that_leads_astray_is_refused(part: str) -> None:
    from sklearn.neighbors import KDTree

    name, *state = _encoded(KDTree(objects.data()[0], leaf_size=5))
    state = [value.copy() if isinstance(value, np.ndarray) else value for value in state]
    if part == "idx_array":
        state[1][0] = 10**6
    elif part == "node_data":
        state[2]["idx_end"][0] = 10**6
    elif part == "n_levels":
        state[5] += 1
    elif part == "leaf":
        state[2]["is_leaf"][-1] = 0
    elif part == "bounds":
        state[3] = state[3][:, :1]
    else:
        state[12] = np.ones(3)
    with pytest.raises(ValueError):
        _decoder("sklearn.neighbours")((name, *state))


def _encoded(obj: Any) -> Any:
    from transload import _tables

    host(objects.fitted("DecisionTreeClassifier"))
    return _tables.adapters_by_type[f"{type(obj).__module__}:{type(obj).__qualname__}"][1](obj)


def test_metric_that_calls_a_function_stays_out() -> None:
    from sklearn.metrics import DistanceMetric

    with pytest.raises(transload.Unsupported):
        transload.dumps(DistanceMetric.get_metric("pyfunc", func=np.add), families=("host",))


# ── What would read files ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "made",
    [
        lambda: sklearn.pipeline.Pipeline([("s", sklearn.preprocessing.StandardScaler())], memory="somewhere"), lambda: sklearn.cluster.OPTICS(memory="somewhere"),
        lambda: sklearn.cluster.FeatureAgglomeration(memory="somewhere"), lambda: sklearn.feature_extraction.text.CountVectorizer(input="filename"),
        lambda: sklearn.feature_extraction.text.TfidfVectorizer(input="file"), lambda: sklearn.feature_extraction.text.HashingVectorizer(input="filename"),
    ],
)
def test_estimator_that_would_read_files_is_neither_sent_nor_taken(made: Any) -> None:
    estimator = made()
    with pytest.raises(transload.Unsupported):
        transload.dumps(estimator, families=("host",))
    with pytest.raises(ValueError, match="memory|input"):
        _decoder(f"sklearn.{type(estimator).__name__}")(estimator.__getstate__())
