"""scikit-learn: every public estimator, fitted, through family host."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transload

sklearn = pytest.importorskip("sklearn")

from support import calls_sklearn, message_tree  # noqa: E402
from support import objects_sklearn as objects  # noqa: E402
from support.same import difference  # noqa: E402
from support.trips import host, host_readonly  # noqa: E402


def _assert_like_pickle(estimator: Any, arrived: Any) -> None:
    """Same to the last bit, but for what pickle loses too (Bunch keeps no attributes)."""
    found = difference(estimator, arrived)
    if found:
        assert found == difference(estimator, pickle.loads(pickle.dumps(estimator)))


_ADDRESS = re.compile("0x[0-9a-f]+")


def _outputs(estimator: Any, arguments: tuple[Any, ...], there: Any) -> dict[str, Any]:
    """What each public method gives, or the exception it raises."""
    got: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, call in calls_sklearn.calls(estimator, arguments, there):
            try:
                got[label] = call()
            except Exception as error:  # the same on both sides
                got[label] = (type(error), str(error)[:40])
    return got


def _assert_alike(here: dict[str, Any], there: dict[str, Any]) -> None:
    assert here.keys() == there.keys()
    for label, value in here.items():
        if difference(value, there[label]) is not None:
            _assert_close(value, there[label], label)


def _assert_close(a: Any, b: Any, label: str) -> None:
    """Sums of floats depend on how memory is aligned."""
    assert type(a) is type(b), label
    if hasattr(a, "toarray"):
        a, b = a.toarray(), b.toarray()
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b), label
        for x, y in zip(a, b, strict=True):
            _assert_close(x, y, label)
    elif isinstance(a, (np.ndarray, np.generic, float)) and np.asarray(a).dtype.kind in "fc":
        np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-9, err_msg=label)
    else:
        assert difference(a, b) is None or _ADDRESS.sub("", repr(a)) == _ADDRESS.sub("", repr(b)), label


def _assert_does_alike(estimator: Any, travel: Any, arguments: tuple[Any, ...]) -> None:
    there = calls_sklearn.transformed(estimator, arguments)  # first: methods that draw numbers change the estimator
    arrived = travel(estimator)
    _assert_like_pickle(estimator, arrived)
    here = _outputs(estimator, arguments, there)
    assert sum(not isinstance(value, tuple) or not (value and isinstance(value[0], type)) for value in here.values()) >= 3  # most methods give something
    _assert_alike(here, _outputs(arrived, arguments, there))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", objects.names())
def test_estimator_arrives_whole_and_every_method_does_alike(name: str) -> None:
    _assert_does_alike(objects.fitted(name), host, objects.arguments(name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", objects.variant_names())
def test_estimator_fitted_otherwise_arrives_whole_and_every_method_does_alike(label: str) -> None:
    estimator, arguments = objects.variant(label)
    _assert_does_alike(estimator, host, arguments)


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
    there = calls_sklearn.transformed(estimator, objects.arguments(name))
    arrived = host_readonly(estimator)
    _assert_alike(_outputs(estimator, objects.arguments(name), there), _outputs(arrived, objects.arguments(name), there))


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


class _OfAUser(sklearn.linear_model.Ridge):
    """A subclass is not its base."""


def test_subclass_of_an_estimator_goes_by_pickle_where_that_is_allowed() -> None:
    x, _, z = objects.data()
    model = _OfAUser().fit(x, z)
    with pytest.raises(transload.Unsupported, match="_OfAUser is not on the trust list"):
        transload.dumps(model, families=("host",))
    message = transload.serialize(model, families=("host", "pickle"))
    assert message.families == ("host", "pickle")
    with pytest.raises(transload.Untrusted):
        transload.deserialize(message, families=("host",))
    arrived = transload.deserialize(message, families=("host", "pickle"))
    assert type(arrived) is _OfAUser and np.array_equal(arrived.coef_, model.coef_)


def test_requests_for_metadata_arrive() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = sklearn.preprocessing.StandardScaler().set_fit_request(sample_weight=True)
        search = sklearn.model_selection.GridSearchCV(sklearn.pipeline.make_pipeline(scaler, sklearn.linear_model.Ridge().set_fit_request(sample_weight=False)), {}, cv=2)
        arrived = host(search)
        assert repr(arrived.get_metadata_routing()) == repr(search.get_metadata_routing())
        assert arrived.estimator[0].get_metadata_routing().fit.requests == {"sample_weight": True}


def test_names_of_columns_and_pandas_output_arrive() -> None:
    frame = pytest.importorskip("pandas").DataFrame(objects.data()[0], columns=list("abcdef"))
    scaler = host(sklearn.preprocessing.StandardScaler().set_output(transform="pandas").fit(frame))
    assert list(scaler.feature_names_in_) == list("abcdef") == list(scaler.transform(frame).columns)
    with pytest.raises(ValueError, match="feature names"):
        scaler.transform(frame.rename(columns={"a": "z"}))


def test_attribute_that_stands_before_a_method_is_not_sent_by_host() -> None:
    model = objects.fitted("Ridge")
    model.predict = len
    with pytest.raises(transload.Unsupported):
        transload.dumps(model, families=("host",))


# ── Hostile state ────────────────────────────────────────────────────────────────────────────────────────────


def _tampered(estimator: Any, change: Any) -> list[Any]:
    """The message of an estimator after `change` wrote into its arrays, where scikit-learn itself looks no more."""
    arrived = pickle.loads(pickle.dumps(estimator))
    change(arrived)
    return transload.dumps(arrived, families=("host",))


def _tree_message(change: Any, max_depth: int | None = None, nvalues: int | None = None) -> Any:
    """The tree that the adapter makes of changed nodes."""
    tree = objects.fitted("DecisionTreeClassifier").tree_
    n_features, n_classes, n_outputs, depth, nodes, values = _encoded(tree)
    nodes = nodes.copy()
    change(nodes)
    return _decoder("sklearn.tree")((n_features, n_classes, n_outputs, depth if max_depth is None else max_depth, nodes, values[:nvalues]))


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


@pytest.mark.parametrize("lie", [{"max_depth": 0}, {"max_depth": -1}, {"max_depth": 1 << 40}, {"nvalues": 1}, {"nvalues": 0}])
def test_tree_that_lies_about_its_size_is_refused(lie: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_depth|shape"):
        _tree_message(lambda nodes: None, **lie)


@pytest.mark.parametrize(("field", "value"), [("left", 99), ("right", 0), ("left", 2), ("feature_idx", -1), ("is_leaf", 1), ("is_categorical", 1)])
def test_predictor_whose_nodes_lead_astray_is_refused(field: str, value: int) -> None:
    nodes, *bits = _encoded(objects.fitted("HistGradientBoostingClassifier")._predictors[0][0])
    nodes = nodes.copy()
    nodes[field][0] = value
    with pytest.raises(ValueError, match="node|bitset"):
        _decoder("sklearn.predictor")((nodes, *bits))


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


# Each of these ended the process, or made it wait for threads, at the call that is named.
@pytest.mark.parametrize(
    ("name", "attribute", "value", "says"),
    [
        ("FeatureAgglomeration", "labels_", np.array([0, 1, 2**63 - 1, 0, 1, 0]), "labels_"),  # transform: bincount wrote beyond its counts
        ("FeatureAgglomeration", "labels_", np.array([0, 1, -1, 0, 1, 0]), "labels_"),
        ("DictionaryLearning", "n_jobs", 2**31, "n_jobs"),  # transform: as many slices
        ("RandomForestClassifier", "n_jobs", 10**9, "n_jobs"),  # predict: as many threads
        ("NearestNeighbors", "n_jobs", -(10**9), "n_jobs"),
        ("PolynomialFeatures", "_max_degree", 10**6, "_max_degree"),  # get_feature_names_out: as many powers
        ("PolynomialFeatures", "_max_degree", 5000, "can be named"),
        ("Binarizer", "n_features_in_", 10**12, "n_features_in_"),  # get_feature_names_out: as many texts
        ("Ridge", "coef_", np.broadcast_to(1.0, (10**7, 6)), "coef_ shows"),
        ("SGDRegressor", "coef_", np.ones(1), "coef_ does not fit"),  # partial_fit: wrote six weights into one
        ("SGDClassifier", "coef_", np.ones((3, 2)), "coef_ does not fit"),
        ("SGDClassifier", "_average_coef", np.ones((3, 2)), "_average_coef does not fit"),
        ("Perceptron", "intercept_", np.ones(1), "intercept_ does not fit"),
        ("SGDOneClassSVM", "n_features_in_", None, "n_features_in_"),
        ("MiniBatchKMeans", "_counts", np.ones(2), "_counts does not fit"),  # partial_fit: counted beyond it
        ("RadiusNeighborsClassifier", "_y", np.zeros(3, int), "_y does not fit"),
        ("SVC", "kernel", np.add, "kernel is a function"),  # decision_function: columns that the result need not have
    ],
)
def test_state_that_would_take_the_process_down_is_refused(name: str, attribute: str, value: Any, says: str) -> None:
    state = objects.fitted(name).__getstate__()
    state[attribute] = value
    with pytest.raises(ValueError, match=says):
        _decoder(f"sklearn.{name}")(state)


@pytest.mark.parametrize("labels", [np.full(60, 10**9), np.full(60, -(2**62)), np.zeros(3, int)])
def test_labels_of_neighbours_outside_the_classes(labels: Any) -> None:
    """Compiled code counts by them where no tree finds the neighbours; else NumPy looks them up."""
    x, y = objects.arguments("KNeighborsClassifier")
    from sklearn.neighbors import KNeighborsClassifier

    brute = KNeighborsClassifier(algorithm="brute").fit(x, y).__getstate__()
    with pytest.raises(ValueError, match="_y"):
        _decoder("sklearn.KNeighborsClassifier")({**brute, "_y": labels})
    with_tree = KNeighborsClassifier(algorithm="ball_tree").fit(x, y).__getstate__()
    model = _decoder("sklearn.KNeighborsClassifier")({**with_tree, "_y": labels})
    for method in ("predict", "predict_proba"):
        with pytest.raises(IndexError):
            getattr(model, method)(x)


def test_leaves_that_follow_themselves_are_refused() -> None:
    model = objects.fitted("Birch")
    leaf = model.dummy_leaf_
    while leaf.next_leaf_ is not None:
        leaf = leaf.next_leaf_
    leaf.next_leaf_ = model.dummy_leaf_
    with pytest.raises(transload.Malformed, match="comes after itself"):
        transload.loads(transload.dumps(model, families=("host",)))


def test_support_vectors_of_a_computed_kernel_are_columns_that_it_has() -> None:
    estimator, _ = objects.variant("svc precomputed")
    state = estimator.__getstate__()
    assert _decoder("sklearn.SVC")(dict(state)).support_.max() < state["shape_fit_"][0]
    state["support_"] = state["support_"] + 60
    with pytest.raises(ValueError, match="support_"):
        _decoder("sklearn.SVC")(state)


def test_sender_leaves_a_kernel_that_is_a_function_to_the_next_family() -> None:
    x, y, _ = objects.data()
    with pytest.raises(transload.Unsupported):
        transload.dumps(sklearn.svm.SVC(kernel=np.inner).fit(x, y), families=("host",))


def test_state_that_is_named_again_and_again_is_paid_for() -> None:
    # A few bytes each, and each a look at the whole list of trees.
    root = message_tree.read(transload.dumps(objects.fitted("RandomForestClassifier"), ("host",)))
    members = next(kid for key, kid in zip(root.kids[0].keys, root.kids[0].kids, strict=True) if key == "estimators_")
    members.kids = members.kids[:1] * 3000
    forests = [message_tree.Node(message_tree.ADAPTED, kids=[root.kids[0]], name=root.name) for _ in range(3000)]
    with pytest.raises(transload.Malformed, match="copy what they are made of"):
        transload.loads(message_tree.write(message_tree.Node(message_tree.LIST, kids=forests)))


def test_many_features_are_believed_where_an_array_has_as_many_columns() -> None:
    wide = objects.fitted("Ridge")
    wide.coef_ = np.zeros(1 << 25, "f4")[None]
    wide.n_features_in_ = 1 << 25
    assert _decoder("sklearn.Ridge")(wide.__getstate__()).n_features_in_ == 1 << 25


@pytest.mark.parametrize("names", ["SVC,KMeans,RandomForestClassifier,HistGradientBoostingClassifier", "KNeighborsClassifier,FeatureAgglomeration,Ridge,knn kd_tree,svc precomputed,OneHotEncoder"])
def test_replay_of_estimators_whose_state_lies(names: str) -> None:
    tool = Path(__file__).parent / "support" / "hostile_state.py"
    run = subprocess.run([sys.executable, str(tool), "--only", names, "--cases", "40"], capture_output=True, text=True, timeout=400, check=False)
    assert run.returncode == 0 and " wrong 0" in run.stdout, run.stdout + run.stderr
    assert int(run.stdout.rpartition("opened ")[2].split()[0]) > 50  # most still open, and are used


@pytest.mark.parametrize("value", [("CyHuberLoss",), ("CyHuberLoss", "x"), ("CyHuberLoss", 1.0, 2.0), ("CyHalfSquaredError", 1.0), ("CyLossFunction",), ("np",), "CyHuberLoss", range(2**62), ()])
def test_loss_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="loss"):
        _decoder("sklearn.loss")(value)


@pytest.mark.parametrize("version", ["1_5_2", "1_7_2"])
def test_message_of_an_older_version_warns_and_predicts_as_there(version: str) -> None:
    # Boosting as well, which pickle cannot open: the module of its losses had no importable name. Made by tests/data/v1/sklearn_golden.py.
    with pytest.warns(sklearn.exceptions.InconsistentVersionWarning) as warned:
        golden = transload.load(Path(__file__).parents[1] / "data" / "v1" / f"sklearn_{version}.tld")
    assert {str(each.message.original_sklearn_version) for each in warned if hasattr(each.message, "original_sklearn_version")} == {version.replace("_", ".")}
    assert len(golden["models"]) == 6
    for name, (model, method, expected) in golden["models"].items():
        np.testing.assert_allclose(getattr(model, method)(golden["x"]), expected, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("part", ["idx_array", "node_data", "n_levels", "leaf", "bounds", "weight"])
def test_neighbour_tree_that_leads_astray_is_refused(part: str) -> None:
    from sklearn.neighbors import KDTree

    name, *state = _encoded(KDTree(objects.data()[0], leaf_size=5))
    state = [value.copy() if isinstance(value, np.ndarray) else value for value in state]
    state[2] = state[2].view(KDTree(np.ones((1, 1))).__getstate__()[2].dtype)
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
