"""Nothing is left behind: by round trips of every object, by messages that are refused, by objects that fail in mid-walk.

`python tests/python/support/leaks.py KIND 2500` is the long form, 10 000 rounds; docs/measuring.md has its figures.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import pytest
from support import leaks
from support.corpus import kinds

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support", "leaks.py")
_ROUNDS = 60  # four times


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds())
def test_rounds_leave_nothing_behind(kind: str) -> None:
    run = subprocess.run([sys.executable, "-X", "faulthandler", _SCRIPT, kind, str(_ROUNDS)], capture_output=True, text=True, timeout=280)
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    assert run.stdout.count("steady") == 4 * len(leaks.MANNERS)


@pytest.mark.parametrize("what", ["references", "blocks", "objects", "malloc bytes"])
def test_what_is_lost_each_round_is_seen(what: str) -> None:
    class Lost:
        pass

    kept: list[Any] = []
    lose = {
        "references": lambda i: ctypes.pythonapi.Py_IncRef(ctypes.py_object(Lost)),
        "blocks": lambda i: kept.append(str(i) * 10),
        "objects": lambda i: kept.append([i]),
        "malloc bytes": lambda i: kept.append(bytes(2000)),
    }
    found = leaks.growth(lose[what], 30)[what]
    assert found >= (30 * 2000 if what == "malloc bytes" else 27)  # the count itself is off by one or two
