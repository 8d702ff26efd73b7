"""What transload knows without being told: the default trust list, and the adapters of libraries, loaded when their first object is met."""

from __future__ import annotations

import importlib

from . import _tables
from ._registry import register_lazy
from .trusted import NAMES, standard


def _importer(*modules: str) -> None:
    for module in modules:
        importlib.import_module(f"transload.adapters.{module}")


_tables.trusted.update(NAMES)
for _module in ("lightgbm", "numpy", "nvforest", "pandas", "pyarrow", "sklearn", "treelite"):
    register_lazy(_module, lambda module=_module: _importer(module))  # type: ignore[misc]
for _module in ("cupy", "cupyx", "cupy_backends"):
    register_lazy(_module, lambda: _importer("cupy", "cupy_state"))
for _module in ("numba", "rmm", "torch"):
    register_lazy(_module, lambda module=_module: _importer(module))  # type: ignore[misc]
for _module in ("cudf", "pylibcudf"):
    register_lazy(_module, lambda: _importer("cudf", "cudf_pandas"))
register_lazy("cuml", lambda: _importer("cuml"))
register_lazy("dateutil", lambda: _importer("pandas"))
register_lazy("scipy", lambda: _importer("scipy", "scipy_spatial", "scipy_interpolate", "scipy_stats"))
for _module in {"standard", *(name.partition(":")[0].partition(".")[0] for name in standard.NAMES)}:
    register_lazy(_module, lambda: _importer("standard", "iterators"))
register_lazy("pytz", lambda: _importer("zones"))
