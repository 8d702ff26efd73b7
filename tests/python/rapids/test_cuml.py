"""cuML's estimators on a machine without a GPU: as they are made, and fitted by hand with host memory. gpu/test_cuml_gpu.py fits each and predicts."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

os.environ.setdefault("RAPIDS_NO_INITIALIZE", "1")
pytest.importorskip("cuml")

import cuml

import transload
from transload.adapters import cuml as adapter
from transload.trusted import cuml as trusted

pytestmark = pytest.mark.filterwarnings("ignore")


def trip(obj: Any) -> Any:
    return transload.loads([bytes(part) for part in transload.dumps(obj, families=("host",))], families=("host",))


def _class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


CLASSES = [(module, name) for module, names in trusted.ESTIMATORS.items() for name in names.split()]
_ARGUMENTS: dict[str, Any] = {
    "OneVsOneClassifier": lambda: {"estimator": cuml.LogisticRegression(C=3.0)}, "OneVsRestClassifier": lambda: {"estimator": cuml.LogisticRegression(C=3.0)},
    "ColumnTransformer": lambda: {"transformers": [("a", cuml.preprocessing.StandardScaler(), [0])]},
}  # fmt: skip
_NEED_A_GPU = ("ARIMA", "AutoARIMA", "ExponentialSmoothing")


def _made(cls: type, arguments: Any) -> Any:
    if cls.__name__.endswith("MG"):
        return cls(handle=object())
    return cls(**arguments)


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_every_estimator_as_it_is_made(module: str, name: str) -> None:
    if name in _NEED_A_GPU:
        pytest.skip("is made on a GPU alone")
    cls = _class(module, name)
    estimator = _made(cls, _ARGUMENTS.get(name, dict)())
    if hasattr(estimator, "verbose"):
        estimator.verbose = 5
    if hasattr(estimator, "output_type"):
        estimator.output_type = "numpy"
    arrived = trip(estimator)
    assert type(arrived) is cls and "pickle" not in str(transload.explain(estimator))
    assert list(vars(arrived)) == list(vars(estimator))
    assert repr(arrived.get_params()) == repr(estimator.get_params())
    for attribute, value in vars(estimator).items():
        if attribute != "handle":
            assert type(vars(arrived)[attribute]) is type(value), attribute
    assert vars(arrived).get("handle") is None


def test_the_list_has_every_estimator_of_this_version() -> None:
    import pkgutil

    from cuml.internals.base import Base

    listed = {(module, name) for module, name in CLASSES}
    missing = set()
    for found in pkgutil.walk_packages(cuml.__path__, "cuml."):
        if any(part in found.name for part in (".dask", ".accel", ".testing", ".tests", ".benchmark", ".health_checks", "_thirdparty")):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            continue
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, Base) and cls.__module__.startswith("cuml."):
                missing.add((cls.__module__, cls.__qualname__))
    missing -= listed
    bases = {"Base", "_BaseVectorizer", "MGFitMixin", "BaseDecompositionMG", "_BaseMulticlassClassifier", "_BaseDiscreteNB", "_BaseNB", "NeighborsBase", "_BaseRandomProjection", "SVMBase", "BaseRandomForestModel"}
    assert {name for _, name in missing} <= bases, missing


def _fitted() -> dict[str, Any]:
    """Estimators with fitted attributes in host memory, as they are after fit."""
    f4 = np.float32
    rng = np.random.default_rng(0)
    table = rng.random((20, 3), f4)
    kmeans = cuml.KMeans(n_clusters=4)
    kmeans.cluster_centers_, kmeans.n_features_in_, kmeans.labels_ = rng.random((4, 3), f4), 3, np.arange(20, dtype=np.int32) % 4
    pca = cuml.PCA(n_components=2)
    pca.n_components_, pca.n_features_in_ = 2, 3
    pca.components_, pca.singular_values_, pca.mean_ = np.asfortranarray(rng.random((2, 3), f4)), rng.random(2, f4), rng.random(3, f4)
    tsvd = cuml.TruncatedSVD(n_components=2)
    tsvd.n_features_in_, tsvd.components_ = 3, rng.random((2, 3), f4)
    svc = cuml.svm.SVC()
    svc.n_features_in_, svc.shape_fit_ = 3, (20, 3)
    svc.support_, svc.support_vectors_, svc.dual_coef_, svc.intercept_ = np.arange(5, dtype=np.int32), np.asfortranarray(table[:5]), rng.random((1, 5), f4), rng.random(1, f4)
    lars = cuml.linear_model.Lars()
    lars.n_features_in_, lars.active_, lars.beta_, lars.coef_ = 3, np.array([2, 0], np.int32), rng.random(2, f4), rng.random(3, f4)
    density = cuml.neighbors.KernelDensity()
    density.n_features_in_, density._X, density._sample_weight, density.bandwidth_ = 3, table, rng.random(20, f4), 1.0
    neighbors = cuml.neighbors.KNeighborsClassifier()
    neighbors.n_features_in_, neighbors._fit_X, neighbors.n_samples_fit_, neighbors._y, neighbors._fit_method = 3, table, 20, np.arange(20, dtype=np.int32) % 2, "brute"
    umap = cuml.UMAP(n_components=2)
    umap.n_features_in_, umap._raw_data, umap._sigmas, umap._rhos = 3, table, rng.random(20, f4), rng.random(20, f4)
    umap.embedding_ = _class("cuml.internals.outputs", "ArrayIndexPair")(rng.random((20, 2), f4), None)
    cd = cuml.solvers.CD()
    cd.n_features_in_, cd.coef_, cd.intercept_ = 3, rng.random(3, f4), 0.5
    ridge = cuml.Ridge()
    ridge.coef_, ridge.intercept_, ridge.n_features_in_, ridge.classes_ = [rng.random(3), {"deep": rng.random(2)}], rng.random(1), 3, np.array(["a", "b"])
    return {"KMeans": kmeans, "PCA": pca, "TruncatedSVD": tsvd, "SVC": svc, "Lars": lars, "KernelDensity": density, "KNeighborsClassifier": neighbors, "UMAP": umap, "CD": cd, "Ridge": ridge}


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.flags.f_contiguous == b.flags.f_contiguous and a.flags.c_contiguous == b.flags.c_contiguous and np.array_equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if type(a).__qualname__ in ("ReflectedAttr.Cache",):
        return _same(a.value, b.value) and (a._cache is None) == (b._cache is None)
    return _same(vars(a), vars(b)) if hasattr(a, "__dict__") and type(a).__module__.startswith("cuml") else bool(a == b)


@pytest.mark.parametrize("name", ["KMeans", "PCA", "TruncatedSVD", "SVC", "Lars", "KernelDensity", "KNeighborsClassifier", "UMAP", "CD", "Ridge"])
def test_fitted_attributes_keep_values_types_and_orders(name: str) -> None:
    estimator = _fitted()[name]
    arrived = trip(estimator)
    assert _same(vars(arrived), vars(estimator)) and "pickle" not in str(transload.explain(estimator))
    shared = trip([estimator, estimator])
    assert shared[0] is shared[1]


def test_what_was_given_out_in_other_forms_stays_behind() -> None:
    estimator = _fitted()["KMeans"]
    vars(estimator)["cluster_centers_"]._cache["numpy"] = np.zeros(100_000)
    assert transload.serialize(estimator, ("host",)).nbytes < 10_000
    assert vars(trip(estimator))["cluster_centers_"]._cache == {}


LIES: list[tuple[str, dict[str, Any]]] = [
    ("KMeans", {"n_clusters": 400}), ("KMeans", {"n_features_in_": 300}), ("KMeans", {"n_clusters": "many"}), ("KMeans", {"cluster_centers_": "none"}), ("KMeans", {"cluster_centers_": np.zeros((4, 3), "i4")}),
    ("PCA", {"n_components_": 3}), ("PCA", {"mean_": np.zeros(2, "f4")}), ("PCA", {"singular_values_": np.zeros(2, "f8")}),
    ("TruncatedSVD", {"n_components": 30}), ("SVC", {"_support_": np.arange(50, dtype="i4")}), ("SVC", {"shape_fit_": (20, 300)}), ("SVC", {"dual_coef_": np.zeros(2, "f4")}), ("SVC", {"_support_": np.arange(5.0)}),
    ("Lars", {"active_": np.array([2, 3], "i4")}), ("Lars", {"active_": np.array([-1, 0], "i4")}), ("Lars", {"beta_": np.zeros(1, "f4")}), ("KernelDensity", {"_sample_weight": np.zeros(3, "f4")}),
    ("KernelDensity", {"_X": np.zeros((20, 2), "f4")}), ("KNeighborsClassifier", {"n_samples_fit_": 2000}), ("KNeighborsClassifier", {"_y": np.zeros(3, "i4")}), ("KNeighborsClassifier", {"_fit_X": np.zeros((20, 3))}),
    ("KNeighborsClassifier", {"_fit_X": np.zeros((20, 3), "f4", order="F")}), ("UMAP", {"_sigmas": np.zeros(2, "f4")}), ("UMAP", {"n_components": 3}), ("UMAP", {"_raw_data": np.zeros((21, 3), "f4")}), ("CD", {"coef_": np.zeros(2, "f4")}),
    ("CD", {"coef_": np.zeros(3, "f2")}), ("KMeans", {"cluster_centers_": np.zeros((4, 3), "f2")}), ("UMAP", {"_raw_data": np.zeros((20, 3), "f2")}), ("UMAP", {"_sigmas": np.zeros(20, "f2"), "_rhos": np.zeros(20, "f2")}),
    ("SVC", {"dual_coef_": np.zeros((1, 5)), "intercept_": np.zeros(1)}), ("SVC", {"support_vectors_": scipy.sparse.csc_matrix(np.ones((5, 3), "f4"))}),
    ("SVC", {"_support_": np.arange(0, dtype="i4"), "support_vectors_": "none", "dual_coef_": np.zeros((1, 0), "f4")}),
    ("KNeighborsClassifier", {"_fit_X": scipy.sparse.csc_matrix(np.ones((20, 3), "f4"))}), ("UMAP", {"_raw_data": scipy.sparse.coo_matrix(np.ones((20, 3), "f4"))}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lie"), LIES, ids=lambda value: value if isinstance(value, str) else next(iter(value)))
def test_sizes_that_do_not_fit_are_malformed(name: str, lie: dict[str, Any]) -> None:
    estimator = _fitted()[name]
    for attribute, value in lie.items():
        held = vars(estimator).get(attribute)
        if type(held).__qualname__ == "ReflectedAttr.Cache":
            held.value = value
        else:
            vars(estimator)[attribute] = value
    with pytest.raises(transload.Malformed):
        trip(estimator)


def test_values_that_are_no_estimators() -> None:
    true = adapter._encode_estimator(_fitted()["KMeans"])
    for value in (None, (), true[:2], ("cuml.cluster.kmeans:Nothing", {}, []), ("os:system", {}, []), (true[0], [], []), (true[0], {1: 2}, []), (true[0], {"a": 1}, ["b"]), (true[0], {"a": 1}, {})):
        with pytest.raises(ValueError):
            adapter._decode_estimator(value)


def test_hdbscan_trees_are_looked_at() -> None:
    tree = np.zeros(3, [("parent", "i8"), ("child", "i8"), ("lambda_val", "f8"), ("child_size", "i8")])
    tree["parent"], tree["child"], tree["child_size"] = 3, [0, 1, 2], 1
    state = {"_state_dict": {"n_leaves": 3, "n_clusters": 1, "core_dists": np.zeros(3, "f4"), "inverse_label_map": np.zeros(1, "i8"), "condensed_tree": tree}, "n_features_in_": 2, "labels_": np.array([0, -1, 0])}
    adapter._hdbscan(state)
    for field, value in (("parent", 99), ("parent", 1), ("child", -1), ("child", 99), ("child_size", 0), ("child_size", 99)):
        bad = tree.copy()
        bad[field][1] = value
        with pytest.raises(ValueError):
            adapter._hdbscan({**state, "_state_dict": {**state["_state_dict"], "condensed_tree": bad}})
    for change in ({"core_dists": np.zeros(2, "f4")}, {"inverse_label_map": np.zeros(2, "i8")}, {"inverse_label_map": np.zeros(1, "i4")}, {"core_dists": np.zeros(3, "f2")}, {"n_leaves": 2}, {"condensed_tree": tree["child"]}):
        with pytest.raises(ValueError):
            adapter._hdbscan({**state, "_state_dict": {**state["_state_dict"], **change}})
    with pytest.raises(ValueError):
        adapter._hdbscan({**state, "labels_": np.array([0, 1, 0])})


class Mine(cuml.Ridge):
    """A user's own estimator."""


def test_subclasses_pipelines_and_splits() -> None:
    transload.trust(Mine)
    mine = Mine(alpha=4.0)
    mine.coef_, mine.extra = np.arange(3.0), [1]
    assert _same(vars(trip(mine)), vars(mine)) and type(trip(mine)) is Mine
    pipeline = cuml.pipeline.Pipeline([("scale", cuml.preprocessing.StandardScaler()), ("fit", cuml.Ridge(alpha=3.0))])
    arrived = trip(pipeline)
    assert [type(step) for _, step in arrived.steps] == [type(step) for _, step in pipeline.steps] and arrived.steps[1][1].alpha == 3.0
    from cuml.model_selection import KFold

    assert trip(KFold(3)).n_splits == 3
    assert trip(cuml.internals.logger.level_enum.debug) is cuml.internals.logger.level_enum.debug


def test_a_receiver_without_cuml_is_told() -> None:
    parts = [bytes(part) for part in transload.dumps(_fitted()["Ridge"], families=("host",))]
    script = """
import sys
sys.modules["cuml"] = None
import transload
try:
    transload.loads([bytes.fromhex(part) for part in sys.argv[1:]])
except transload.Unsupported as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", script, *(part.hex() for part in parts)], capture_output=True, text=True, check=True).stdout
    assert "cuml" in out


_ACCEL = """
import os, warnings
os.environ["RAPIDS_NO_INITIALIZE"] = "1"
warnings.simplefilter("ignore")
import cuml.accel, sys, transload
cuml.accel.install()
from cuml.accel.estimator_proxy import is_proxy
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
ridge = Ridge(alpha=2.0)
assert is_proxy(ridge)
parts = [bytes(part) for part in transload.dumps([ridge, make_pipeline(StandardScaler(), Ridge(alpha=5.0))], families=("host",))]
arrived, pipeline = transload.loads(parts, families=("host",))
assert is_proxy(arrived) and type(arrived) is type(ridge) and arrived.alpha == 2.0
assert is_proxy(pipeline[1]) and pipeline[1].alpha == 5.0
print(*(part.hex() for part in parts))
"""


def test_proxies_of_cuml_accel() -> None:
    found = subprocess.run([sys.executable, "-c", _ACCEL], capture_output=True, text=True, check=True).stdout.split("\n")[-2].split()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ridge, pipeline = transload.loads([bytes.fromhex(part) for part in found], families=("host",))
    assert type(ridge).__module__ == "sklearn.linear_model._ridge" and ridge.alpha == 2.0  # nothing is accelerated here
    assert pipeline[1].alpha == 5.0
