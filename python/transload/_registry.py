"""Adapters: how objects of one class become values that the walk can write, and come back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from . import _tables

T = TypeVar("T")


def register(cls: type[T], *, name: str, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
    """Register an adapter for a class.

    Objects whose class is exactly `cls` are then written as ``encode(obj)`` under the wire name, wherever they sit in an object.

    Parameters
    ----------
    cls : type
        The class; its subclasses are not meant.
    name : str
        The wire name: letters, digits, ``.``, ``_``, ``-``; no colon. Both sides register the same. A first part that is the
        top-level module of `cls` lets a receiver load a lazy adapter by it.
    encode : callable
        ``encode(obj)`` returns any value that transload can encode: arrays in it travel as frames. Raise NotImplementedError for an object
        that the adapter only half knows; it is then written by its reduce method.
    decode : callable
        ``decode(value)`` returns the object. It gets whatever the bytes say: check it.

    Raises
    ------
    ValueError
        For a wire name with other signs in it, or one that is registered for another class.

    Examples
    --------
    >>> import transload
    >>> class Celsius:
    ...     def __init__(self, degrees): self.degrees = degrees
    >>> transload.register(Celsius, name="example.celsius", encode=lambda c: c.degrees, decode=lambda d: Celsius(float(d)))
    >>> transload.loads(transload.dumps([Celsius(21.5)]))[0].degrees
    21.5
    """
    if not name or not all(c.isalnum() or c in "._-" for c in name) or not name.isascii():
        raise ValueError(f"wire name {name!r}: letters, digits, '.', '_' and '-' are allowed")
    known = _tables.adapters_by_name.get(name)
    if known is not None and _tables.adapters_by_type.get(cls, (None,))[0] != name:
        raise ValueError(f"wire name {name!r} is registered for another class")
    if not callable(encode) or not callable(decode):
        raise TypeError("encode and decode must be callable")
    _tables.adapters_by_type[cls] = (name, encode)
    _tables.adapters_by_name[name] = decode


def register_named(class_names: Iterable[str], name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """As `register`, for the classes that ``module:qualified.name`` name, without importing them; for transload's own adapters.

    >>> register_named(["some.module:Class"], "some.class", lambda obj: obj.value, lambda value: None)
    """
    for class_name in class_names:
        _tables.adapters_by_type[class_name] = (name, encode)
    _tables.adapters_by_name[name] = decode


def register_lazy(toplevel_module: str, importer: Callable[[], object]) -> None:
    """Run `importer` once, when the first object of a class from `toplevel_module` is met, or the first wire name that begins with it.

    >>> import transload
    >>> transload.register_lazy("some_library", lambda: None)
    """
    waiting = _tables.lazy.get(toplevel_module)
    if isinstance(waiting, _Importers):
        waiting.importers.append(importer)
    else:
        _tables.lazy[toplevel_module] = _Importers(importer)


class _Importers:
    """Runs importers once; the walk drops it afterwards. Another thread that comes meanwhile waits, and so meets the adapters."""

    def __init__(self, importer: Callable[[], object]) -> None:
        self.importers = [importer]
        self.lock = threading.RLock()

    def __call__(self) -> None:
        with self.lock:
            while self.importers:  # an importer that meets its own library comes here again
                self.importers.pop(0)()
