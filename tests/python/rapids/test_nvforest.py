"""nvForest's models on the CPU, and cuML's forests with a forest that scikit-learn made: what needs no GPU of them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("RAPIDS_NO_INITIALIZE", "1")
pytest.importorskip("nvforest")

import cuml
import nvforest

import transload
from support.forests import MODELS, data
from transload.adapters import nvforest as adapter

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = data().astype("f4")


def trip(obj: Any) -> Any:
    return transload.loads([bytes(part) for part in transload.dumps(obj, families=("host",))], families=("host",))


@pytest.mark.parametrize("kind", ["forest", "regression", "boosting", "float32", "categories"])
@pytest.mark.parametrize("how", [{}, {"layout": "breadth_first", "precision": "double"}, {"layout": "layered", "default_chunk_size": 16, "align_bytes": 128}], ids=["plain", "double", "layered"])
def test_models_of_the_cpu_are_ready_to_predict(kind: str, how: dict[str, Any]) -> None:
    model = nvforest.load_from_treelite_model(MODELS[kind](), device="cpu", **how)
    arrived = trip(model)
    assert type(arrived) is type(model) and "pickle" not in str(transload.explain(model))
    for name in ("layout", "precision", "default_chunk_size", "align_bytes", "device", "treelite_model_bytes", "num_trees", "num_features", "num_outputs", "elem_postprocessing"):
        assert getattr(arrived.forest, name) == getattr(model.forest, name), name
    assert np.array_equal(arrived.predict(ROWS), model.predict(ROWS))
    assert np.array_equal(arrived.predict_per_tree(ROWS), model.predict_per_tree(ROWS)) and np.array_equal(arrived.apply(ROWS), model.apply(ROWS))


def test_values_that_are_no_models() -> None:
    place, content, *how = adapter._encode_model(nvforest.load_from_treelite_model(MODELS["float32"](), device="cpu"))
    assert adapter._decode_model((place, content, *how)).predict(ROWS).shape[0] == len(ROWS)
    for value in (
        None, (place, content), ("gpu", content, *how), (place, "text", *how), (place, content, "sideways", *how[1:]), (place, content, how[0], -1, *how[2:]), (place, content, how[0], how[1], "far", how[3]),
        (place, content, *how[:3], "half"), (place, content[:-1], *how), (place, b"", *how),
    ):  # fmt: skip
        with pytest.raises((ValueError, transload.Error)):
            adapter._decode_model(value)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "RandomForestRegressor", "IsolationForest"])
def test_forests_of_cuml(name: str) -> None:
    estimator = getattr(cuml.ensemble, name)(n_estimators=20)
    estimator._treelite_model_bytes = MODELS["forest"]().serialize_bytes()
    estimator.n_features_in_ = 5
    arrived = trip(estimator)
    assert type(arrived) is type(estimator) and arrived._treelite_model_bytes == estimator._treelite_model_bytes and "pickle" not in str(transload.explain(estimator))
    assert arrived.as_treelite().num_tree == 20
    vars(estimator)["_nvforest_model"] = object()  # what fit leaves there stays behind, and is made anew where a GPU is
    assert "_nvforest_model" not in vars(trip(estimator))
    for lie in (b"", b"x" * 100, estimator._treelite_model_bytes[:-1], "text"):
        estimator._treelite_model_bytes = lie
        with pytest.raises((transload.Malformed, transload.Unsupported)):
            trip(estimator)
