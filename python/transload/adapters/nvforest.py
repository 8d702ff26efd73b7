"""nvForest: an inference model is the forest that it was made of and how it was asked to lie in memory; it is made anew, on this device, ready to predict.

nvForest makes its models of treelite's bytes with a parser of its own, which believes them: they are looked at before. What it asks of treelite's
model is answered from the bytes, so that they are parsed once.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import _core
from .._errors import Unsupported
from .._registry import register_named
from ._checks import integer, need
from ._device import device_place, library, on_host

_CLASSES = [f"{device}ForestInference{task}" for device in ("CPU", "GPU") for task in ("Classifier", "Regressor")]
_LAYOUTS = ("depth_first", "breadth_first", "layered")
_PRECISIONS = (None, "single", "double", "native", "float32", "float64")


class _Forest:
    """What nvForest asks of a model of treelite's."""

    def __init__(self, content: bytes, task: int) -> None:
        self.content = content
        self.task = task

    def serialize_bytes(self) -> bytes:
        return self.content

    def get_header_accessor(self) -> _Forest:
        return self

    def get_field(self, name: str) -> int:
        if name != "task_type":
            raise NotImplementedError(f"nvForest asks for {name}")
        return self.task


def load(content: bytes, **how: Any) -> Any:
    """Return an inference model of a forest's bytes; `how` as for ``nvforest.load_from_treelite_model``."""
    model = library("nvforest").load_from_treelite_model(_Forest(*_core.forest_for_prediction(content)), **how)
    model.forest._treelite_model_bytes = content
    return model


def _encode_model(model: Any) -> tuple[Any, ...]:
    forest = model.forest
    on_gpu = forest.device == "gpu"
    align = None if forest.align_bytes == (0 if on_gpu else 64) else forest.align_bytes
    return device_place() if on_gpu else None, forest.treelite_model_bytes, forest.layout, forest.default_chunk_size, align, forest.precision


def _decode_model(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 6, "an inference model has 6 parts")
    place, content, layout, chunk, align, precision = value
    need(place is None or type(place) is _core.DeviceMemory, "the place of an inference model")
    need(type(content) is bytes, "a forest is bytes")
    need(type(layout) is str and layout in _LAYOUTS, "{} is no layout of a forest", layout)
    need(precision in _PRECISIONS, "{} is no precision", precision)
    for number, what in ((chunk, "a chunk"), (align, "an alignment")):
        need(number is None or integer(number, what, 0, 1 << 20) >= 0, what)
    device = "gpu" if place is not None and not on_host(place) else "cpu"
    return load(content, device=device, layout=layout, default_chunk_size=chunk, align_bytes=align, precision=precision)


register_named([f"nvforest._forest_inference:{name}" for name in _CLASSES], "nvforest.model", _encode_model, _decode_model)


def ready(estimator: Any) -> None:
    """Give a forest of cuML the inference model that fit gives it; where no GPU is, it makes one when it is asked."""
    if _core.device_count() == 0:
        return
    handle = getattr(sys.modules.get("cuml.internals.base"), "get_handle", None)
    try:
        estimator._nvforest_model = load(estimator._treelite_model_bytes, device="gpu", layout="depth_first", handle=handle() if handle else None)
    except (Unsupported, NotImplementedError, TypeError, AttributeError):  # another version, which cuML knows how to ask
        vars(estimator).pop("_nvforest_model", None)
