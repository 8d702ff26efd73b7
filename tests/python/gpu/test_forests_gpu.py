"""Forests on a GPU: cuML's and nvForest's arrive ready to predict, and predict the same."""

import operator

import numpy as np
import pytest

pytest.importorskip("cuml")
pytest.importorskip("nvforest")

import transload

if transload.device_count() == 0:
    pytest.skip("no GPU here", allow_module_level=True)

import cuml
import cupy as cp
import nvforest

from support.forests import MODELS, data

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore")]
FAMILIES = pytest.mark.parametrize("families", [("cuda", "host"), ("host",)], ids=["cuda", "host"])

rows = cp.random.RandomState(0).rand(2000, 20).astype("f4")
labels = (rows.sum(axis=1) > 10).astype("i4") + (rows[:, 0] > 0.5)


def trip(obj, families, **options):
    header, *frames = transload.dumps(obj, families=families)
    return transload.loads([bytes(header), *frames], **options)


def _classifier():
    return cuml.ensemble.RandomForestClassifier(n_estimators=20, max_depth=8).fit(rows, labels)


MADE = {
    "classifier": _classifier,
    "one tree": lambda: cuml.ensemble.RandomForestClassifier(n_estimators=1, max_depth=1).fit(rows, labels),
    "regressor": lambda: cuml.ensemble.RandomForestRegressor(n_estimators=20, max_depth=8).fit(rows, rows.sum(axis=1)),
    "doubles": lambda: cuml.ensemble.RandomForestRegressor(n_estimators=5).fit(rows.astype("f8"), rows.sum(axis=1).astype("f8")),
    "isolation": lambda: cuml.ensemble.IsolationForest(n_estimators=20).fit(rows),
}


@FAMILIES
@pytest.mark.parametrize("name", MADE)
def test_forests_of_cuml_are_ready_on_arrival(name, families):
    model = MADE[name]()
    arrived = trip(model, families)
    assert "pickle" not in str(transload.explain(model, families))
    assert vars(arrived).get("_nvforest_model") is not None, "it would be parsed when it is asked first"
    asked = rows.astype("f8") if name == "doubles" else rows
    for question in ("predict", "predict_proba", "score_samples", "decision_function"):
        if hasattr(model, question):
            assert cp.array_equal(cp.asarray(getattr(arrived, question)(asked)), cp.asarray(getattr(model, question)(asked))), question
    assert arrived._treelite_model_bytes == model._treelite_model_bytes
    assert arrived._nvforest_model.forest.treelite_model_bytes == model._nvforest_model.forest.treelite_model_bytes
    again = trip(arrived, families)
    assert cp.array_equal(cp.asarray(again.predict(asked)), cp.asarray(model.predict(asked)))


@FAMILIES
@pytest.mark.parametrize("kind", ["forest", "regression", "boosting", "float32", "categories"])
def test_models_of_nvforest(kind, families):
    model = nvforest.load_from_treelite_model(MODELS[kind](), device="gpu")
    asked = cp.asarray(data(), dtype="f4")
    arrived = trip(model, families)
    assert type(arrived) is type(model) and arrived.forest.device == "gpu"
    assert cp.array_equal(cp.asarray(arrived.predict(asked)), cp.asarray(model.predict(asked)))
    here = trip(model, families, device="host")
    assert here.forest.device == "cpu" and np.allclose(np.asarray(here.predict(data().astype("f4"))), cp.asarray(model.predict(asked)).get(), atol=1e-5)


def test_a_forest_from_a_worker_is_asked_on_every_worker(client):
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    combined = client.gather(client.submit(operator.itemgetter(0), [_classifier()], workers=[workers[0]], pure=False))
    (everywhere,) = client.scatter([combined], broadcast=True)
    for worker in workers:
        got = client.gather(client.submit(lambda model, asked: model.predict(asked), everywhere, rows, workers=[worker], pure=False))
        assert cp.array_equal(cp.asarray(got), cp.asarray(combined.predict(rows)))
