"""The walk over an object, in C++. cudf.pandas stands in front of pandas for whoever asks for it by name; the walk and its adapters mean pandas itself."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from typing import Any

from . import _core


def encode(obj: object, families: Iterable[str], **options: Any) -> tuple[bytes, list[Any], tuple[str, ...]]:
    """As ``_core.encode``."""
    if "cudf.pandas" not in sys.modules:
        return _core.encode(obj, families, **options)
    with _pandas_itself():
        return _core.encode(obj, families, **options)


def decode(header: Any, frames: Any, families: Any, most_nbytes: int | None, device: int | None) -> Any:
    """As ``_core.decode``."""
    if "cudf.pandas" not in sys.modules:
        return _core.decode(header, frames, families, most_nbytes, device)
    with _pandas_itself():
        return _core.decode(header, frames, families, most_nbytes, device)


def _pandas_itself() -> contextlib.AbstractContextManager[Any]:
    accelerator = sys.modules.get("cudf.pandas.module_accelerator")
    return contextlib.nullcontext() if accelerator is None else accelerator.disable_module_accelerator()
