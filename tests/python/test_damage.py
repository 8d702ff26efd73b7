"""Damaged messages: an object or a transload.Error, never a crash, a hang or another exception; what still opens can be used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.mutate import MANNERS, OBJECTS

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support", "mutate.py")
_LIBRARY = {"pandas": "pandas", "sparse": "scipy", "arrow": "pyarrow", "gpu": "scipy", "values": "numpy", "library": "numpy", "arrays": "numpy"}


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("label", OBJECTS)
def test_damage_is_told_or_harmless(label: str, manner: str) -> None:
    pytest.importorskip(_LIBRARY.get(label, "sklearn"))
    run = subprocess.run([sys.executable, "-X", "faulthandler", _SCRIPT, label, manner], capture_output=True, text=True, timeout=280)
    assert run.returncode == 0, run.stderr[-2000:]
    wrong = [line for line in run.stdout.splitlines() if line.startswith("WRONG")]
    assert not wrong, wrong[:5]
    assert "tried" in run.stdout
