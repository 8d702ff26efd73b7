"""The standard library: what has no pickle of its own, and stand-ins for reconstructors that would take more than data."""

from __future__ import annotations

import collections
import functools
import importlib
import operator
import time
import types
from typing import Any

from .. import _tables
from .._registry import register
from ._checks import integer, need

# ── Views and unions ─────────────────────────────────────────────────────────────────────────────────────────


def _decode_mapping_proxy(value: Any) -> Any:
    need(type(value) is dict, "a mapping proxy of no dict")
    return types.MappingProxyType(value)


def _decode_union(value: Any) -> Any:
    need(type(value) is tuple and len(value) > 1, "a union of fewer than two")
    need(all(isinstance(part, (type, types.GenericAlias, types.NoneType)) for part in value), "a union of something else than types")
    return functools.reduce(operator.or_, value)


register(types.MappingProxyType, name="standard.mapping_proxy", encode=lambda proxy: dict(proxy.items()), decode=_decode_mapping_proxy)
register(types.UnionType, name="standard.union", encode=lambda union: union.__args__, decode=_decode_union)


# ── Stand-ins ────────────────────────────────────────────────────────────────────────────────────────────────

_PATTERN_LENGTH = 1 << 14


def compile_pattern(pattern: Any, flags: Any) -> Any:
    """Stand in for ``re._compile``. Compiling foreign text runs nothing, but costs time: it is bounded; what matches it later runs on your data."""
    import re

    need(type(pattern) in (str, bytes) and len(pattern) <= _PATTERN_LENGTH, f"a pattern is text or bytes of at most {_PATTERN_LENGTH}")
    need(type(flags) is int or isinstance(flags, re.RegexFlag), "the flags of a pattern are no int")
    need(not int(flags) & int(re.DEBUG) and 0 <= int(flags) < 1 << 16, f"flags {flags} of a pattern")
    need(_spans(re, pattern, int(flags)) <= _PATTERN_SPAN, "the sets of a pattern span too many characters")
    return re.compile(pattern, int(flags))


# Without regard to case, a set is compiled character by character.
_PATTERN_SPAN = 16 * 0x110000


def _spans(re: Any, pattern: Any, flags: int) -> int:
    """Characters in the ranges of a pattern."""
    total = 0
    todo = [re._parser.parse(pattern, flags).data]
    while todo:
        part = todo.pop()
        if isinstance(part, re._parser.SubPattern):
            todo.append(part.data)
        elif isinstance(part, (list, tuple)):
            if len(part) == 2 and part[0] is re._constants.RANGE:
                total += part[1][1] - part[1][0]
            else:
                todo.extend(part)
    return total


_BASES = (object, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset)


def reconstructor(cls: Any, base: Any, state: Any) -> Any:
    """Stand in for ``copyreg._reconstructor``, which makes an instance of any class: of those that may be made."""
    need(isinstance(cls, type) and base in _BASES and issubclass(cls, base), "not a class and its base")
    name = f"{cls.__module__}:{cls.__qualname__}"
    need(bool(_tables.trusted.get(name, 0) & _tables.MAKE), f"{name} is not trusted to make an instance")
    if base is object:
        return object.__new__(cls)
    need(type(state) is base, f"the value of {name} is no {base.__qualname__}")
    obj = base.__new__(cls, state)
    if base.__init__ is not object.__init__:
        base.__init__(obj, state)
    return obj


def array_reconstructor(cls: Any, typecode: Any, machine_format: Any, content: Any) -> Any:
    """Stand in for ``array._array_reconstructor``: the format is one that there is."""
    import array

    need(cls is array.array and type(typecode) is str and typecode in array.typecodes, "not array.array of a known typecode")
    integer(machine_format, "the format of an array", 0, 21)
    need(type(content) is bytes, "the content of an array is not bytes")
    return array._array_reconstructor(cls, typecode, machine_format, content)  # type: ignore[attr-defined]


# Constructors that take any iterable: of a range of 2**62, or of an array that shows one item so often, they would make as many objects.


def _filled(cls: type) -> Any:
    def make(*arguments: Any) -> Any:
        need(all(type(argument) in (list, tuple, dict, int, types.NoneType) for argument in arguments), f"arguments of {cls.__qualname__}: of lists, tuples and dicts alone")
        return cls(*arguments)

    return make


def _group(cls: type) -> Any:
    def make(*arguments: Any) -> Any:
        need(len(arguments) == 2 and type(arguments[1]) in (list, tuple), "a group is a text and a list of exceptions")
        return cls(*arguments)

    return make


def _syntax_error(cls: type) -> Any:
    def make(*arguments: Any) -> Any:
        need(len(arguments) < 2 or type(arguments[1]) is tuple, "the place of a syntax error is a tuple")
        return cls(*arguments)

    return make


def _member(module: str, name: str) -> Any:
    def make(value: Any) -> Any:
        need(type(value) in (int, str, types.NoneType), f"the value of a {name}")  # members are compared with what they cannot hash
        return getattr(importlib.import_module(module), name)(value)

    return make


_FRACTION_BITS = 1 << 20


def fraction(*arguments: Any) -> Any:
    """Stand in for ``fractions.Fraction``: without exponents, which would make a number of as many digits; two numbers are reduced in quadratic time."""
    import fractions
    import re

    if len(arguments) == 1 and type(arguments[0]) is str:
        need(re.fullmatch(r"-?[0-9]+(/[0-9]+)?", arguments[0], re.ASCII) is not None, "a fraction is a number or two")
    else:
        need(all(type(n) is int and n.bit_length() <= _FRACTION_BITS for n in arguments), f"a fraction is of numbers of at most {_FRACTION_BITS} bits")
    return fractions.Fraction(*arguments)


def generic_alias(origin: Any, arguments: Any) -> Any:
    """Stand in for ``types.GenericAlias``, which hands attributes on: ``__setstate__`` of an alias of an object would be that object's."""
    need(isinstance(origin, type) and type(arguments) is tuple, "an alias is of a class and a tuple")
    return types.GenericAlias(origin, arguments)


_class: type
for _class in (collections.OrderedDict, collections.deque, collections.Counter, time.struct_time):
    _tables.overrides[f"{_class.__module__}:{_class.__qualname__}"] = _filled(_class)
for _class in (BaseExceptionGroup, ExceptionGroup):
    _tables.overrides[f"builtins:{_class.__qualname__}"] = _group(_class)
for _class in (SyntaxError, IndentationError, TabError):
    _tables.overrides[f"builtins:{_class.__qualname__}"] = _syntax_error(_class)
for _module, _name in (("http", "HTTPStatus"), ("re", "RegexFlag"), ("uuid", "SafeUUID")):
    _tables.overrides[f"{_module}:{_name}"] = _member(_module, _name)
_tables.overrides["fractions:Fraction"] = fraction
_tables.overrides["types:GenericAlias"] = generic_alias
_tables.overrides["re:_compile"] = compile_pattern
_tables.overrides["copyreg:_reconstructor"] = reconstructor
_tables.overrides["array:_array_reconstructor"] = array_reconstructor
