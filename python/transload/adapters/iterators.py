"""Iterators where they stand: those of containers, and those of itertools that call nothing.

`map`, `filter`, `starmap`, `groupby` and their kind call a function whenever somebody asks for an item, and `tee` reads where its state points
without looking: they are pickle's.
"""

from __future__ import annotations

import collections
import itertools
import sys
import warnings
from array import array
from collections.abc import Callable
from typing import Any

from .. import _tables
from ._checks import charge, integer, need

_SEQUENCES = (list, tuple, str, bytes, bytearray, range)
_BACKWARDS = (list, tuple, str, bytes, bytearray, array)
_dict: dict[Any, Any] = {}
_ordered: collections.OrderedDict[Any, Any] = collections.OrderedDict()
_deque: collections.deque[Any] = collections.deque()
_EMPTY: tuple[Any, ...] = ([], (), "", "\xff", b"", bytearray(), range(0), range(1 << 70), _dict, _dict.values(), _dict.items(), set(), array("b"), _ordered)
_DEQUE: Any = type(iter(_deque))
_DEQUE_BACKWARDS: Any = type(reversed(_deque))
_CLASSES: frozenset[type] = frozenset((
    *(type(iter(empty)) for empty in _EMPTY),
    *(type(reversed(empty)) for empty in _EMPTY if type(empty) is not set),
    _DEQUE, _DEQUE_BACKWARDS, enumerate, zip, itertools.count, itertools.cycle, itertools.repeat, itertools.chain, itertools.compress, itertools.islice, itertools.product,
    itertools.permutations, itertools.combinations, itertools.combinations_with_replacement, itertools.zip_longest, itertools.accumulate,
))  # fmt: skip


def _of(container: Any, classes: tuple[type, ...]) -> Any:
    need(type(container) in classes, f"an iterator over a {type(container).__qualname__}")
    return container


def _iterator(part: Any) -> Any:
    need(type(part) in _CLASSES, f"a {type(part).__qualname__} is no iterator that is known here")
    return part


def _iterator_or_none(part: Any) -> Any:
    return part if type(part) is tuple and not part else _iterator(part)  # zip_longest has () for those at their end


def _pool(items: Any) -> Any:
    need(type(items) is tuple, "items are in a tuple")
    charge(len(items))
    return items


def _picks(items: Any, length: Any) -> tuple[Any, int]:
    charge(integer(length, "the number of items to pick", 0, max(len(_pool(items)), 1 << 10)))
    return items, length


def _number(value: Any) -> Any:
    classes = [getattr(sys.modules.get(module), name, None) for module, name in (("decimal", "Decimal"), ("fractions", "Fraction"))]
    need(type(value) in (int, float, complex, bool, *classes), f"counting by a {type(value).__qualname__}")
    return value


def _place(value: Any) -> Any:
    return value if value is None else integer(value, "a place", 0, sys.maxsize)


def _accumulate(iterator: Any, function: Any) -> Any:
    need(function is None, "an iterator that calls a function")
    return itertools.accumulate(_iterator(iterator))


# What each reduces to: its arguments looked at, and the object made of them.
_MAKERS: dict[str, Callable[..., Any]] = {
    "iter": lambda container: iter(_of(container, (*_SEQUENCES, array))),
    "reversed": lambda container: reversed(_of(container, _BACKWARDS)),
    "_deque_iterator": lambda container, index: _DEQUE(_of(container, (collections.deque,)), integer(index, "a place", 0, len(container))),
    "_deque_reverse_iterator": lambda container, index: _DEQUE_BACKWARDS(_of(container, (collections.deque,)), integer(index, "a place", 0, len(container))),
    "enumerate": lambda iterator, start: enumerate(_iterator(iterator), _number(start)),
    "zip": lambda *iterators: zip(*map(_iterator, iterators), strict=False),  # strict is its state
    "count": lambda *numbers: itertools.count(*map(_number, numbers)),
    "cycle": lambda iterator: itertools.cycle(_iterator(iterator)),
    "repeat": lambda value, *times: itertools.repeat(value, *(integer(n, "how often", 0, sys.maxsize) for n in times)),
    "chain": lambda: itertools.chain(),
    "compress": lambda iterator, choices: itertools.compress(_iterator(iterator), _iterator(choices)),
    "islice": lambda iterator, *places: itertools.islice(_iterator(iterator), *map(_place, places)),
    "product": lambda *pools: itertools.product(*map(_pool, pools)),
    "permutations": lambda items, length: itertools.permutations(*_picks(items, length)),
    "combinations": lambda items, length: itertools.combinations(*_picks(items, length)),
    "combinations_with_replacement": lambda items, length: itertools.combinations_with_replacement(*_picks(items, length)),
    "zip_longest": lambda *iterators: itertools.zip_longest(*map(_iterator_or_none, iterators)),
    "accumulate": _accumulate,
}
# What is given to `__setstate__`, which looks at the rest: a place, places, an item.
_STATES: dict[str, Callable[[Any], bool]] = {
    "iter": lambda state: type(state) is int,
    "reversed": lambda state: type(state) is int,
    "zip": lambda state: state is True,
    "cycle": lambda state: type(state) is tuple and len(state) == 2 and type(state[0]) is list and type(state[1]) in (int, bool),
    "chain": lambda state: type(state) is tuple and 0 < len(state) < 3 and all(type(part) in _CLASSES for part in state),
    "islice": lambda state: type(state) is int and 0 <= state <= sys.maxsize,
    "product": lambda state: _are_places(state),
    "permutations": lambda state: type(state) is tuple and len(state) == 2 and all(map(_are_places, state)),
    "combinations": lambda state: _are_places(state),
    "combinations_with_replacement": lambda state: _are_places(state),
    "zip_longest": lambda state: True,
    "accumulate": lambda state: True,
}


def _are_places(state: Any) -> bool:
    return type(state) is tuple and all(type(place) is int for place in state)


def _encode(iterator: Any) -> tuple[Any, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # itertools gives this up in Python 3.14; until then it is as good as before
        function, arguments, *rest = iterator.__reduce__()
    state = tuple(part for part in rest[:1] if part is not None)
    kind = function.__name__
    try:
        _make(kind, arguments, state, with_state=False)
    except ValueError as error:
        raise NotImplementedError(str(error)) from None
    return kind, arguments, state


def _decode(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 3, "an iterator is a kind, arguments and a state")
    return _make(*value, with_state=True)


def _make(kind: Any, arguments: Any, state: Any, *, with_state: bool) -> Any:
    need(type(kind) is str and kind in _MAKERS, "{} is no iterator that is known here", kind)
    need(type(arguments) is tuple and type(state) is tuple and len(state) < 2, "arguments or a state that are none")
    need(all(_STATES[kind](part) if kind in _STATES else False for part in state), f"the state of {kind}")
    iterator = _MAKERS[kind](*arguments)
    if with_state and state:
        iterator.__setstate__(*state)
    return iterator


for _class in _CLASSES:
    _tables.adapters_by_type[_class] = ("standard.iterator", _encode)
_tables.adapters_by_name["standard.iterator"] = _decode
