"""Builds of the Python package for a measurement: with other options than the wheel's, beside it, never installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def package(name: str, *options: str) -> Path:
    """The folder whose `transload` was built in build/NAME with these CMake options beyond the wheel's (incremental)."""
    folder = ROOT / "build" / name
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    configure = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DTRANSLOAD_BUILD_PYTHON=ON",
                 "-DTRANSLOAD_BUILD_TESTS=OFF", "-DTRANSLOAD_STATIC_DEPENDENCIES=ON", "-DTRANSLOAD_CUDA=OFF", f"-DPython_EXECUTABLE={sys.executable}", *options]  # fmt: skip
    for command in (configure, ["cmake", "--build", str(folder), "--target", "_core"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    there = folder / "package"
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "transload", there / "transload", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (module,) = (folder / "bindings").glob("_core*.so")
    shutil.copy(module, there / "transload")
    return there


def site_packages() -> list[str]:
    """Where this Python's packages are. A child gets them with `-S`, as an editable transload there would win over the one that is measured."""
    return [path for path in sys.path if "site-packages" in path]
