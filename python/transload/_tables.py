"""The tables that the walk in C++ looks into. They are plain dicts, filled by `_trust` and `_registry`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _core, _errors, _pickle

# What may be done with a trusted name (bindings/globals.hpp has the same numbers).
MAKE = 1  # cls.__new__, then its state
CALL = 2  # call it with arguments from the bytes
HAND_ON = 4  # put the class or function itself into an object
ANY_STATE = 8  # give state to what a call returns, even where others hold that too
KEEP = 16  # it keeps its arguments as they are, and neither copies nor hashes nor prints what is in them
ALL = MAKE | CALL | HAND_ON | ANY_STATE

trusted: dict[str, int] = {}
overrides: dict[str, object] = {}
state_checks: dict[str, Callable[[Any], None]] = {}
# Class, its name, or a key that the walk asks for: (wire name, encode or kind), and for adapters that are meant for subclasses too,
# a word, or the methods that a subclass must have left alone.
adapters_by_type: dict[object, tuple[str, object] | tuple[str, object, object]] = {}
adapters_by_name: dict[str, Callable[[Any], Any]] = {}
lazy: dict[str, Callable[[], object]] = {}

_core.set_tables(
    trusted,
    overrides,
    state_checks,
    adapters_by_type,
    adapters_by_name,
    lazy,
    {
        "unsupported": _errors.Unsupported,
        "unsendable": _errors.Unsendable,
        "malformed": _errors.Malformed,
        "untrusted": _errors.Untrusted,
        "exhausted": _errors.Exhausted,
        "disconnected": _errors.Disconnected,
        "failed": _errors.Failed,
    },
    _pickle.goes_by_value,
    _pickle.by_value,
    _pickle.from_value,
)
