"""Forks and the end of the interpreter: what other threads have begun is finished first, or forgotten where they are not."""

from __future__ import annotations

import atexit
import os
import time

from . import _core, _tables
from ._registry import Importers

# A library's import is let finish before a fork; a call of another thread before the interpreter ends. Seconds.
IMPORT_PATIENCE = 30.0
CALL_PATIENCE = 5.0


def _lazy() -> list[Importers]:
    return [importers for importers in list(_tables.lazy.values()) if isinstance(importers, Importers)]


def _before_fork() -> None:
    """The child has only the thread that forks: locks that others hold would be held in it for ever, by us and by Python's own import."""
    deadline = time.monotonic() + IMPORT_PATIENCE
    while any(importers.elsewhere() for importers in _lazy()) and time.monotonic() < deadline:
        time.sleep(0.001)


def _after_fork_in_child() -> None:
    _core.forked()
    for importers in _lazy():
        importers.forget_other_threads()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
atexit.register(_core.end_calls, CALL_PATIENCE)
