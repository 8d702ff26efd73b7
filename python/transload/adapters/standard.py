"""The standard library: what has no pickle of its own, and stand-ins for reconstructors that would take more than data."""

from __future__ import annotations

import functools
import operator
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
    return re.compile(pattern, int(flags))


_BASES = (object, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset)


def reconstructor(cls: Any, base: Any, state: Any) -> Any:
    """Stand in for ``copyreg._reconstructor``, which makes an instance of any class: of those that may be made."""
    need(isinstance(cls, type) and base in _BASES and issubclass(cls, base), "not a class and its base")
    name = f"{cls.__module__}:{cls.__qualname__}"
    need(bool(_tables.trusted.get(name, 0) & _tables.MAKE), f"{name} is not trusted to make an instance")
    if base is object:
        return object.__new__(cls)
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


_tables.overrides["re:_compile"] = compile_pattern
_tables.overrides["copyreg:_reconstructor"] = reconstructor
_tables.overrides["array:_array_reconstructor"] = array_reconstructor
