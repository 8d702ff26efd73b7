"""LightGBM. A booster is its model's own text, as bytes that can be a frame, and what Python holds beside it.

LightGBM's parser ends the process on most texts that are damaged, so neither its booster nor its estimators are on the default trust list:
who calls ``transload.trust(lightgbm.Booster)`` trusts the senders.
"""

from __future__ import annotations

from typing import Any

from .._registry import register_reduce
from ._checks import need


def _reduce_booster(booster: Any) -> tuple[Any, ...]:
    state = booster.__getstate__()
    text = state.pop("_handle", None)
    return type(booster), (None if text is None else text.encode(), state)


def _booster(text: Any, state: Any) -> Any:
    import lightgbm

    need(text is None or type(text) is bytes, "the model of a booster is bytes")
    need(type(state) is dict and "handle" not in state and "_handle" not in state, "the state of a booster is no dict without a handle")
    booster = lightgbm.Booster.__new__(lightgbm.Booster)
    booster.__setstate__({**state, "_handle": None if text is None else text.decode()})
    return booster


register_reduce("lightgbm.basic:Booster", _reduce_booster, _booster)
