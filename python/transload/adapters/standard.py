"""The standard library: what has no pickle of its own, and stand-ins for reconstructors that would take more than data.

A stand-in checks that it is called as the class's own reduce method says, charges what it copies, and calls the class.
"""

from __future__ import annotations

import collections
import collections.abc
import enum
import functools
import operator
import sys
import types
import typing
from typing import Any

from .. import _core, _tables
from .._registry import register, register_named
from ..trusted import standard as _trusted
from ._checks import charge, integer, need
from ._stand_ins import SEQUENCES, SMALL, class_of, from_atoms, from_items, stand_in, with_attributes


# ── Views and aliases ────────────────────────────────────────────────────────────────────────────────────────


def _decode_mapping_proxy(value: Any) -> Any:
    need(type(value) is dict, "a mapping proxy of no dict")
    return types.MappingProxyType(value)


_MOST_OF_UNION = 1000  # each is compared with all others


def _decode_union(value: Any) -> Any:
    need(type(value) is tuple and 1 < len(value) <= _MOST_OF_UNION, f"a union is of 2 to {_MOST_OF_UNION} types")
    need(all(isinstance(part, (type, types.GenericAlias, types.NoneType)) for part in value), "a union of something else than types")
    charge(len(value))
    return functools.reduce(operator.or_, value)


def _encode_alias(alias: Any) -> tuple[Any, ...]:
    # `type` itself stays off the trust list: called with three arguments it makes classes.
    return None if alias.__origin__ is type else alias.__origin__, alias.__args__, alias.__unpacked__


def _decode_alias(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 3, "an alias is a class, a tuple and whether it is unpacked")
    origin, arguments, unpacked = value
    alias = generic_alias(type if origin is None else origin, arguments)
    return next(iter(alias)) if unpacked is True else alias


def generic_alias(origin: Any, arguments: Any) -> Any:
    """Stand in for ``types.GenericAlias``, which hands attributes on: ``__setstate__`` of an alias of an object would be that object's."""
    need(isinstance(origin, type) and type(arguments) is tuple, "an alias is of a class and a tuple")
    return types.GenericAlias(origin, arguments)


def callable_alias(origin: Any, arguments: Any) -> Any:
    """Stand in for what ``collections.abc.Callable[[…], …]`` reduces to."""
    need(origin is collections.abc.Callable and type(arguments) is tuple and len(arguments) == 2, "not an alias of Callable")
    if type(arguments[0]) is list:
        charge(len(arguments[0]))
    return collections.abc._CallableGenericAlias(origin, arguments)  # type: ignore[attr-defined]


register(types.MappingProxyType, name="standard.mapping_proxy", encode=lambda proxy: dict(proxy.items()), decode=_decode_mapping_proxy)
register(types.UnionType, name="standard.union", encode=lambda union: union.__args__, decode=_decode_union)
register(types.GenericAlias, name="standard.alias", encode=_encode_alias, decode=_decode_alias)
_tables.overrides["types:GenericAlias"] = generic_alias
_tables.overrides["collections.abc:_CallableGenericAlias"] = callable_alias


# ── typing: its aliases reduce to `operator.getitem` of a form ───────────────────────────────────────────────

_FORMS = {type(getattr(typing, name)) for name in ("List", "Callable", "Tuple", "Union", "ClassVar", "Literal", "Concatenate", "Annotated")} - {type}
_ALIASES = (types.GenericAlias, types.UnionType, typing._GenericAlias, typing.TypeVar, typing.ParamSpec, *_FORMS)  # type: ignore[attr-defined]


def typing_alias(form: Any, parameters: Any) -> Any:
    """Stand in for ``operator.getitem``: a form of typing, or a generic class, of types. Not of text, which typing compiles."""
    if form is typing.Literal:
        need(all(isinstance(value, (int, str, bytes, types.NoneType, enum.Enum)) for value in _many(parameters)), "a Literal of something else than literals")
    elif form is typing.Annotated:
        need(type(parameters) is tuple and len(parameters) > 1 and _is_type(parameters[0]), "Annotated without a type")
    else:
        need(_is_form(form), "{} is no form of typing and no generic class", form)
        need(_is_type(parameters), "a parameter is no type")
    return form[parameters]


def _many(parameters: Any) -> tuple[Any, ...]:
    return parameters if type(parameters) is tuple else (parameters,)


def _is_form(form: Any) -> bool:
    if isinstance(form, type):
        return next((base for base in form.__mro__ if "__class_getitem__" in vars(base)), None) is typing.Generic
    return type(form) in _FORMS and form is getattr(typing, form._name, None)


def _is_type(parameter: Any) -> bool:
    if type(parameter) in (tuple, list):
        charge(len(parameter))
        return all(_is_type(part) for part in parameter)
    return parameter is None or parameter is ... or isinstance(parameter, (type, _ALIASES))


_tables.overrides["_operator:getitem"] = typing_alias


# ── Methods, and calls of what has no name ───────────────────────────────────────────────────────────────────


def _decode_method(value: Any) -> Any:
    """The walk writes a method of an object as the function, which the trust list must know, and the object."""
    need(type(value) is tuple and len(value) == 2, "a method is a function and an object")
    function, owner = value
    if type(function) is types.FunctionType:
        need(any(part is function for cls in type(owner).__mro__ for part in vars(cls).values()), f"{function.__qualname__} is no method of a {type(owner).__qualname__}")
        return types.MethodType(function, owner)
    need(type(function) in (types.MethodDescriptorType, types.WrapperDescriptorType), f"a {type(function).__qualname__} is no method")
    need(isinstance(owner, function.__objclass__), f"{function.__qualname__} is no method of a {type(owner).__qualname__}")
    return function.__get__(owner, type(owner))


_tables.adapters_by_name["standard.method"] = _decode_method


def call(callee: Any, *arguments: Any) -> Any:
    """Stand in for ``operator.call``, by which the walk writes what a partial or a method of an object is called with, where its function may be called."""
    keywords: dict[str, Any] = {}
    if type(callee) is functools.partial:
        charge(len(callee.args) + len(callee.keywords))
        arguments, keywords, callee = (*callee.args, *arguments), callee.keywords, callee.func
    if type(callee) is types.MethodType and not isinstance(callee.__self__, type):
        arguments, callee = (callee.__self__, *arguments), callee.__func__
    need(isinstance(callee, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)), f"a {type(callee).__qualname__} is called")
    name = f"{callee.__module__}:{callee.__qualname__}"
    need(bool(_tables.trusted.get(name, 0) & _tables.CALL) and _found(name) == callee, f"{name} is not trusted to be called")
    called: Any = _tables.overrides.get(name, callee)
    return called(*arguments, **keywords)


def _found(name: str) -> Any:
    """What is loaded under a name."""
    module, _, path = name.partition(":")
    at: Any = sys.modules.get(module)
    for part in path.split("."):
        at = getattr(at, part, None)
    return at


_tables.overrides["_operator:call"] = call


# ── Patterns ─────────────────────────────────────────────────────────────────────────────────────────────────

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


_tables.overrides["re:_compile"] = compile_pattern


# ── Old reconstructors ───────────────────────────────────────────────────────────────────────────────────────

_BASES = (object, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset)


def reconstructor(cls: Any, base: Any, state: Any) -> Any:
    """Stand in for ``copyreg._reconstructor``, which makes an instance of any class: of those that may be made."""
    need(isinstance(cls, type) and isinstance(base, type) and base in _BASES and issubclass(cls, base), "not a class and its base")
    _check_made(cls)
    if base is object:
        return object.__new__(cls)
    need(type(state) is base, f"the value of {cls.__qualname__} is no {base.__qualname__}")
    obj = base.__new__(cls, state)
    if base.__init__ is not object.__init__:
        base.__init__(obj, state)
    return obj


def new_object(cls: Any) -> Any:
    """Stand in for ``object.__new__``, likewise."""
    need(isinstance(cls, type), "not a class")
    _check_made(cls)
    return object.__new__(cls)


def _check_made(cls: type) -> None:
    name = f"{cls.__module__}:{cls.__qualname__}"
    need(bool(_tables.trusted.get(name, 0) & _tables.MAKE) and _found(name) is cls, f"{name} is not trusted to make an instance")


_tables.overrides["copyreg:_reconstructor"] = reconstructor
_tables.overrides["builtins:object.__new__"] = new_object


# ── Constructors of values: an iterable may be a range of 2**62, a number as many bytes ──────────────────────

def _from_bytes(module: str, name: str) -> Any:
    def make(*arguments: Any) -> Any:
        need(len(arguments) < 2 and all(type(argument) in (bytes, bytearray, *SEQUENCES) for argument in arguments), f"{name} is of bytes or of a list of numbers")
        charge(sum(map(len, arguments)))
        return class_of(module, name)(*arguments)

    return make


def _mapping(*arguments: Any) -> Any:
    """Stand in for ``dict``: pairs are of two."""
    need(len(arguments) < 2, "a dict of more than one argument")
    for argument in arguments:
        need(type(argument) is dict or (type(argument) in SEQUENCES and all(type(pair) in SEQUENCES and len(pair) == 2 for pair in argument)), "a dict is of a dict or of pairs")
        charge(len(argument))
        _core.charge_keys(argument if type(argument) is dict else [pair[0] for pair in argument])
    return dict(*arguments)


def _text(*arguments: Any) -> Any:
    """Stand in for ``str``: of text or a number, which need no method."""
    need(len(arguments) < 2 and all(type(argument) in (str, int, float, bool) for argument in arguments), "str is of text or a number")
    return str(*arguments)


def _default_dict(*arguments: Any) -> Any:
    """Stand in for ``collections.defaultdict``, whose items come behind."""
    need(len(arguments) < 2, "a defaultdict is of a function")
    return collections.defaultdict(*arguments)


def _namespace() -> Any:
    """Stand in for ``types.SimpleNamespace``, whose attributes come behind."""
    return types.SimpleNamespace()


def _decimal(text: Any) -> Any:
    """Stand in for ``decimal.Decimal``: of text."""
    if type(text) is not str:
        raise ValueError(f"a Decimal of a {type(text).__qualname__}")
    if len(text) > SMALL:
        charge(len(text))
    return class_of("decimal", "Decimal")(text)


def _path(module: str, name: str) -> Any:
    def make(*parts: Any) -> Any:
        for part in parts:
            if type(part) is not str:
                raise ValueError(f"a {name} of a {type(part).__qualname__}")
            if len(part) > SMALL:
                charge(len(part))
        return class_of(module, name)(*parts)

    return make


_FRACTION_BITS = 1 << 16


def fraction(*arguments: Any) -> Any:
    """Stand in for ``fractions.Fraction``: without exponents, which would make a number of as many digits; two numbers are reduced in quadratic time."""
    import fractions
    import re

    if len(arguments) == 1 and type(arguments[0]) is str:
        need(re.fullmatch(r"-?[0-9]+(/[0-9]+)?", arguments[0], re.ASCII) is not None, "a fraction is a number or two")
        charge(len(arguments[0]))
    else:
        need(all(type(n) is int and n.bit_length() <= _FRACTION_BITS for n in arguments), f"a fraction is of numbers of at most {_FRACTION_BITS} bits")
        charge(sum(n.bit_length() for n in arguments) // 8)
    return fractions.Fraction(*arguments)


def array_reconstructor(cls: Any, typecode: Any, machine_format: Any, content: Any) -> Any:
    """Stand in for ``array._array_reconstructor``: the class may be made, the format is one that there is."""
    import array

    need(isinstance(cls, type) and issubclass(cls, array.array) and type(typecode) is str and typecode in array.typecodes, "not an array.array of a known typecode")
    if cls is not array.array:
        _check_made(cls)
    integer(machine_format, "the format of an array", 0, 21)
    need(type(content) is bytes, "the content of an array is not bytes")
    charge(len(content))
    return array._array_reconstructor(cls, typecode, machine_format, content)  # type: ignore[attr-defined]


def _partial(*arguments: Any) -> Any:
    """Stand in for ``functools.partial``, whose arguments come behind. A partial of a partial copies the arguments of both: a chain of them would take quadratic memory."""
    need(len(arguments) == 1 and callable(arguments[0]), "a partial is made of a function, its arguments come as state")
    need(type(arguments[0]) is not functools.partial or bool(arguments[0].__dict__), "a partial of a partial is one partial")
    return functools.partial(arguments[0])


def _check_partial(state: Any) -> None:
    need(type(state) is tuple and len(state) == 4, "the state of a partial is no tuple of four")
    function, arguments, keywords, attributes = state
    need(callable(function) and type(arguments) is tuple and type(keywords) in (dict, types.NoneType), "the state of a partial is not function, arguments, keywords")
    need(type(attributes) in (dict, types.NoneType), "the attributes of a partial are no dict")


def _zone(key: Any, from_cache: Any) -> Any:
    """Stand in for ``ZoneInfo._unpickle``: the name of a zone, which opens no other file than that zone's."""
    import re
    import zoneinfo

    need(type(key) is str and re.fullmatch(r"[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,3}", key) is not None, "no name of a time zone")
    integer(int(from_cache) if type(from_cache) is bool else from_cache, "from_cache", 0, 1)
    return zoneinfo.ZoneInfo._unpickle(key, from_cache)  # type: ignore[attr-defined]


def _random() -> Any:
    """Stand in for ``random.Random``, whose state comes behind."""
    import random

    return random.Random()


def _check_random(state: Any) -> None:
    """The words of a Mersenne twister."""
    need(type(state) is tuple and len(state) == 3 and type(state[1]) is tuple and all(type(word) is int and 0 <= word < 1 << 32 for word in state[1]), "the state of a Random is none")


def _signature(parameters: Any = ()) -> Any:
    """Stand in for ``inspect.Signature``, which takes any iterable."""
    import inspect

    need(type(parameters) is tuple, "a signature is of a tuple")
    charge(len(parameters))
    return inspect.Signature(parameters)


def _parameter(name: Any, kind: Any) -> Any:
    """Stand in for ``inspect.Parameter``."""
    import inspect

    need(type(name) is str and isinstance(kind, inspect._ParameterKind), "a parameter is a name and a kind")
    return inspect.Parameter(name, kind)


_MOST_LOGGERS = 1 << 14


def _logger(name: Any = None) -> Any:
    """Stand in for ``logging.getLogger``: a logger stays in the process for good, so messages make a limited number."""
    import logging

    if name is None:
        return logging.getLogger()
    need(type(name) is str and len(name) <= 256, "the name of a logger")
    known = logging.root.manager.loggerDict
    need(name in known or len(known) < _MOST_LOGGERS, f"more than {_MOST_LOGGERS} loggers")
    return logging.getLogger(name)


stand_in({"builtins": "tuple list set frozenset", "collections": "Counter OrderedDict deque", "time": "struct_time", "os": "stat_result statvfs_result terminal_size"}, from_items)
stand_in({"posix": "times_result uname_result", "resource": "struct_rusage", "pwd": "struct_passwd", "grp": "struct_group"}, from_items)
stand_in({"builtins": "bytes bytearray"}, _from_bytes)
stand_in({"builtins": "int float bool complex"}, from_atoms)
stand_in(dict.fromkeys(("pathlib", "pathlib._local"), "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath"), _path)
_tables.overrides["builtins:dict"] = _mapping
_tables.overrides["builtins:str"] = _text
_tables.overrides["collections:defaultdict"] = _default_dict
_tables.overrides["types:SimpleNamespace"] = _namespace
_tables.overrides["decimal:Decimal"] = _decimal
_tables.overrides["fractions:Fraction"] = fraction
_tables.overrides["array:_array_reconstructor"] = array_reconstructor
_tables.overrides["functools:partial"] = _partial
_tables.overrides["random:Random"] = _random
_tables.overrides["zoneinfo:ZoneInfo._unpickle"] = _zone
_tables.state_checks["functools:partial"] = _check_partial
_tables.state_checks["random:Random"] = _check_random
_tables.overrides["inspect:Signature"] = _signature
_tables.overrides["inspect:Parameter"] = _parameter
_tables.overrides["logging:getLogger"] = _logger


# ── Members, exceptions ──────────────────────────────────────────────────────────────────────────────────────


_MOST_FLAGS = 1 << 12  # combinations of flags stay in their class for good


def _member(module: str, name: str) -> Any:
    def make(value: Any) -> Any:
        need(type(value) in (int, str, types.NoneType), f"the value of a {name}")  # members are compared with what they cannot hash
        known = class_of(module, name)._value2member_map_
        need(type(value) is not int or value in known or (-(1 << 32) < value < 1 << 32 and len(known) < _MOST_FLAGS), f"a {name} that is none, or more than {_MOST_FLAGS} of them")
        return class_of(module, name)(value)

    return make


def _group(module: str, name: str) -> Any:
    def make(*arguments: Any) -> Any:
        need(len(arguments) == 2 and type(arguments[1]) in SEQUENCES, "a group is a text and a list of exceptions")
        charge(len(arguments[1]))
        return class_of(module, name)(*arguments)

    return make


def _syntax_error(module: str, name: str) -> Any:
    def make(*arguments: Any) -> Any:
        need(len(arguments) < 2 or type(arguments[1]) is tuple, "the place of a syntax error is a tuple")
        return class_of(module, name)(*arguments)

    return make


def _unicode_error(module: str, name: str) -> Any:
    given_as = (bytes, bytearray) if name == "UnicodeDecodeError" else (str,)

    def make(*arguments: Any) -> Any:
        need(len(arguments) == (4 if name == "UnicodeTranslateError" else 5), f"arguments of a {name}")
        *encoding, given, start, end, reason = arguments
        need(type(given) in given_as and all(type(text) is str for text in (*encoding, reason)), f"a {name} without texts")
        for place in (start, end):  # str() reads there without looking
            integer(place, f"the place of a {name}", 0, len(given))
        charge(len(given))
        return class_of(module, name)(*arguments)

    return make


def _check_unicode_error(state: Any) -> None:
    need(type(state) is dict and not {"encoding", "object", "start", "end", "reason"} & set(state), "a UnicodeError with its own fields in the state")


def _check_import_error(state: Any) -> None:
    """Whoever prints the error in Python 3.12 and later imports its module to look for names like `name_from` there: of modules that are loaded already."""
    need(type(state) is dict, "the state of an ImportError is no dict")
    if "name_from" in state and not (type(state.get("name")) is str and state["name"] in sys.modules):
        del state["name_from"]


stand_in({"builtins": "UnicodeDecodeError UnicodeEncodeError UnicodeTranslateError"}, _unicode_error)
for _name in ("UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError"):
    _tables.state_checks[f"builtins:{_name}"] = _check_unicode_error
for _name in ("ImportError", "ModuleNotFoundError"):
    _tables.state_checks[f"builtins:{_name}"] = _check_import_error
stand_in(_trusted.ENUMERATIONS, _member)
stand_in(_trusted.EXCEPTIONS_OF_ATOMS, from_atoms)
stand_in({"builtins": "BaseExceptionGroup ExceptionGroup"}, _group)
stand_in({"builtins": "SyntaxError IndentationError TabError"}, _syntax_error)


# ── Streams in memory, trees of elements ─────────────────────────────────────────────────────────────────────


_BEHIND_THE_END = 1 << 24  # the next write takes memory up to the position


def _decode_bytes_io(value: Any) -> Any:
    import io

    need(type(value) is tuple and len(value) == 3 and type(value[0]) is bytes, "a BytesIO is bytes, a position and attributes")
    stream = io.BytesIO(value[0])
    stream.seek(integer(value[1], "the position of a BytesIO", 0, len(value[0]) + _BEHIND_THE_END))
    return with_attributes(stream, value[2])


def _decode_string_io(value: Any) -> Any:
    import io

    need(type(value) is tuple and len(value) == 4, "a StringIO is text, a newline, a position and attributes")
    text, newline, position, attributes = value
    need(type(text) is str and newline in (None, "", "\n", "\r", "\r\n"), "a StringIO of no text, or with a newline that is none")
    charge(len(text))
    stream = io.StringIO(None, newline)
    stream.__setstate__((text, newline, integer(position, "the position of a StringIO", 0, len(text) + _BEHIND_THE_END), None))  # type: ignore[attr-defined]
    return with_attributes(stream, attributes)


def _decode_element(value: Any) -> Any:
    from xml.etree import ElementTree

    need(type(value) is tuple and len(value) == 5, "an element is a tag, attributes, a text, a tail and elements")
    tag, attributes, text, tail, children = value
    need(type(attributes) is dict and type(children) is list, "an element with attributes or elements that are none")
    charge(len(attributes) + len(children))
    element: Any = ElementTree.Element(tag, attributes)
    element.text, element.tail = text, tail
    element.extend(children)
    return element


register_named(["_io:BytesIO"], "standard.bytes_io", lambda stream: (stream.getvalue(), stream.tell(), dict(stream.__dict__) or None), _decode_bytes_io)
register_named(["_io:StringIO"], "standard.string_io", lambda stream: (*stream.__getstate__()[:3], dict(stream.__dict__) or None), _decode_string_io)
register_named(["xml.etree.ElementTree:Element"], "standard.element", lambda element: (element.tag, dict(element.attrib), element.text, element.tail, list(element)), _decode_element)
