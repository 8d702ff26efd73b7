"""treelite. A model is the bytes of its own serialisation, which name their version: treelite refuses or warns as it does for a file.

treelite reads those bytes without looking, so its model is not on the default trust list: who calls ``transload.trust(treelite.Model)`` trusts the senders.
"""

from __future__ import annotations

from typing import Any

from .._registry import register_reduce
from ._checks import need


def _reduce_model(model: Any) -> tuple[Any, ...]:
    return type(model), (bytes(model.serialize_bytes()),)


def _model(content: Any) -> Any:
    import treelite

    need(type(content) is bytes, "a model is bytes")
    return treelite.Model.deserialize_bytes(content)


register_reduce("treelite.model:Model", _reduce_model, _model)
