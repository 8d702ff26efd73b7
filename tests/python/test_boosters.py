"""XGBoost and LightGBM: their models travel where both sides trust them, and are refused with a way out where not. test_forests.py has treelite's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import transload
from support.trips import host
from transload import _tables


def _data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.random((60, 5)), np.arange(60) % 3


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Trusts names until the test is over."""
    return lambda *names: [monkeypatch.setitem(_tables.trusted, name, _tables.ALL) for name in names]


def _xgboost(**parameters: Any) -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1, **parameters).fit(*_data())


def _lightgbm() -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=3, num_leaves=5, min_child_samples=5, verbose=-1, n_jobs=1).fit(*_data())


_CLASSES = {
    _xgboost: ("xgboost.core:Booster", "xgboost.sklearn:XGBClassifier"), _lightgbm: ("lightgbm.basic:Booster", "lightgbm.sklearn:LGBMClassifier"),
}


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_xgboost_predicts_the_same_and_keeps_attributes(trusted: Any, booster: str) -> None:
    model = _xgboost(booster=booster)
    model.get_booster().set_attr(note="kept")
    model.get_booster().feature_names = list("abcde")
    trusted(*_CLASSES[_xgboost])
    arrived = host(model)
    assert np.array_equal(arrived.predict_proba(_data()[0]), model.predict_proba(_data()[0]))
    assert arrived.get_params() == model.get_params() or repr(arrived.get_params()) == repr(model.get_params())
    assert arrived.get_booster().attributes() == model.get_booster().attributes()
    assert arrived.get_booster().feature_names == list("abcde")
    assert arrived.get_booster().save_raw() == model.get_booster().save_raw()


def test_lightgbm_predicts_the_same_and_keeps_parameters(trusted: Any) -> None:
    model = _lightgbm()
    trusted(*_CLASSES[_lightgbm])
    arrived = host(model)
    assert np.array_equal(arrived.predict_proba(_data()[0]), model.predict_proba(_data()[0]))
    assert arrived.get_params() == model.get_params() and arrived.booster_.params == model.booster_.params
    assert arrived.booster_.model_to_string() == model.booster_.model_to_string()
    assert arrived.booster_.best_iteration == model.booster_.best_iteration


@pytest.mark.parametrize("make", [_xgboost, _lightgbm])
def test_model_is_neither_sent_nor_taken_without_trust(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Their parsers end the process on damaged bytes.
    model, names = make(), _CLASSES[make]
    with pytest.raises(transload.Unsupported, match=f'transload.trust\\("{names[-1]}"\\)'):
        transload.dumps(model, ("host",))
    with monkeypatch.context() as both:
        for name in names:
            both.setitem(_tables.trusted, name, _tables.ALL)
        message = transload.dumps([model], ("host",))
    with pytest.raises(transload.Untrusted, match="transload.trust"):
        transload.loads(message, ("host",))
    with monkeypatch.context() as some:
        for name in names[1:]:  # the estimator alone is not enough
            some.setitem(_tables.trusted, name, _tables.ALL)
        with pytest.raises(transload.Untrusted, match=names[0]):
            transload.loads(message, ("host",))


def test_matrix_of_xgboost_has_no_way_to_travel(trusted: Any) -> None:
    xgboost = pytest.importorskip("xgboost")
    trusted("xgboost.core:DMatrix")
    with pytest.raises(ValueError, match="pointers cannot be pickled") as raised:  # as pickle's, and where
        transload.dumps({"m": xgboost.DMatrix(_data()[0])}, ("host",))
    assert raised.value.__notes__ == ["transload: while encoding obj['m'].handle"]
