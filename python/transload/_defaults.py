"""What transload knows without being told: the default trust list, and the adapters of libraries, loaded when their first object is met."""

from __future__ import annotations

import importlib

from . import _tables
from ._registry import register_lazy
from .trusted import NAMES


def _importer(module: str) -> None:
    importlib.import_module(f"transload.adapters.{module}")


_tables.trusted.update(NAMES)
for _module in ("numpy", "pandas", "pyarrow", "scipy", "sklearn"):
    register_lazy(_module, lambda module=_module: _importer(module))  # type: ignore[misc]
for _module in ("array", "builtins", "collections", "copyreg", "fractions", "http", "re", "standard", "time", "types", "uuid"):
    register_lazy(_module, lambda: _importer("standard"))
