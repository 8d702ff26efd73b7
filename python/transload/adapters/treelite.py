"""treelite: a model is the bytes of its own serialisation, gathered and handed over by treelite's buffer protocol, without its parser.

The bytes are looked at here (`_core.check_forest`) before treelite has them: it believes what stands in them.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from .. import _core
from .._errors import Unsupported
from .._registry import register_named
from ._checks import need
from ._device import library


@functools.cache
def _treelite() -> tuple[Any, str, tuple[int, int, int]]:
    """The module, its library's path and version."""
    treelite = library("treelite")
    major, minor, patch = (*treelite.__version__.partition("+")[0].split("."), "0", "0")[:3]
    version = int(major), int(minor), int("".join(c for c in patch if c.isdigit()) or 0)
    return treelite, str(treelite.core._LIB._name), version


def checked(content: Any) -> int:
    """Look at a forest that treelite, of the version that is here, will load; returns its task type."""
    need(type(content) is bytes, "a forest is bytes")
    try:
        version = _treelite()[2]
    except Unsupported:
        version = None
    return _core.check_forest(content, version)[0]


def _encode_model(model: Any) -> bytes:
    if model.handle is None:
        raise NotImplementedError("a model that is not loaded")
    _, path, version = _treelite()
    if version[0] != 4:
        raise NotImplementedError(f"treelite {'.'.join(map(str, version))}, where 4 is known")
    return _core.forest_of_treelite(path, model.handle.value)


def _decode_model(content: Any) -> Any:
    need(type(content) is bytes, "a forest is bytes")
    treelite, path, version = _treelite()
    handle, block = _core.treelite_of_forest(path, content, version)
    model = treelite.Model(handle=ctypes.c_void_p(handle))
    model._transload_block = block  # it goes after the model, which is freed by its __del__
    return model


register_named(["treelite.model:Model"], "treelite.Model", _encode_model, _decode_model)
