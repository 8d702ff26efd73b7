"""What is called in place of a library's own constructors: they take any iterable, and any number that becomes as many bytes."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

from .. import _core, _tables
from ._checks import charge, need

SEQUENCES = (list, tuple)
ATOMS = (int, float, str, bytes, bool, types.NoneType)
_HASHING = ("set", "frozenset", "Counter", "OrderedDict")
SMALL = 64  # copying so much costs no more than the object that holds it


def stand_in(homes: dict[str, str], make: Callable[[str, str], Callable[..., Any]]) -> None:
    """Call what ``make(module, name)`` returns in place of each of `homes`, names by module."""
    for module, names in homes.items():
        for name in names.split():
            _tables.overrides[f"{module}:{name}"] = make(module, name)


@functools.cache
def class_of(module: str, name: str) -> Any:
    """The class, imported when it is called for the first time."""
    return getattr(importlib.import_module(module), name)


def _first(pair: Any) -> Any:
    need(type(pair) in SEQUENCES and len(pair) == 2, "a pair is a list or tuple of two")
    return pair[0]


def from_items(module: str, name: str) -> Any:
    """Of lists, tuples, dicts, sets and numbers alone: whatever iterates over them comes to an end."""

    def make(*arguments: Any) -> Any:
        for argument in arguments:
            if type(argument) in (list, tuple, dict, set, frozenset):
                if len(argument) > SMALL:
                    charge(len(argument))
                    if name in _HASHING:
                        _core.charge_keys(argument if name != "OrderedDict" or type(argument) is dict else [*map(_first, argument)])
            elif type(argument) not in (int, types.NoneType):
                raise ValueError(f"{name} of a {type(argument).__qualname__}: of lists, tuples and dicts alone")
        return class_of(module, name)(*arguments)

    return make


def from_atoms(module: str, name: str) -> Any:
    """Of numbers and text alone."""

    def make(*arguments: Any) -> Any:
        need(len(arguments) < 16 and all(type(argument) in ATOMS for argument in arguments), f"{name} is of numbers and text alone")
        charge(sum(len(argument) for argument in arguments if type(argument) in (str, bytes)))
        return class_of(module, name)(*arguments)

    return make


def with_attributes(made: Any, attributes: Any) -> Any:
    """`made` with what else it was given; None for nothing."""
    if attributes is not None:
        need(type(attributes) is dict, "attributes are a dict")
        _core.check_attributes(type(made), attributes)
        made.__dict__.update(attributes)
    return made


def of_state(module: str, name: str, check: Callable[[dict[str, Any]], None]) -> Callable[[Any], Any]:
    """A decoder: the attributes, looked at before an object holds them."""

    def decode(state: Any) -> Any:
        need(type(state) is dict, "the state is no dict")
        check(state)
        cls = class_of(module, name)
        _core.check_attributes(cls, state)
        made = cls.__new__(cls)
        made.__dict__.update(state)
        return made

    return decode
