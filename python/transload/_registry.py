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
        that the adapter only half knows; it is then written by its reduce method. Raise `Unsendable` for one that means
        nothing in another process; no other way is tried.
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


def register_array(
    cls: type[T], *, name: str, decode: Callable[[Any], T], takes: Callable[[T], bool] | None = None
) -> None:
    """Register an array class that exports its memory: JAX's, or any with ``__dlpack__`` or ``__cuda_array_interface__``.

    Its arrays then travel as memory of a GPU, or as host memory where they lie there, with dtype, shape and strides.

    Parameters
    ----------
    cls : type
        The class; its subclasses are not meant.
    name : str
        The wire name, as in `register`.
    decode : callable
        ``decode(array)`` returns the array of `cls`. What it gets has ``__dlpack__`` and ``__dlpack_device__``, on a GPU
        also ``__cuda_array_interface__`` (not for bfloat16 and float8, which that does not know), and ``dtype``,
        ``shape`` and ``strides``; its size and strides are checked. Memory of a GPU that a receiver asks for in host
        memory comes as a NumPy array without `decode`.
    takes : callable, optional
        ``takes(array)`` says whether memory is all that the array is. The others are written by their reduce method, as
        are arrays that their class cannot export, or with items of less than a byte, structured, or with strides that
        show little of a large memory.

    Raises
    ------
    ValueError
        As `register`.

    Examples
    --------
    >>> import numpy as np, transload
    >>> class Vector:
    ...     def __init__(self, array): self.array = array
    ...     def __dlpack__(self, **kwargs): return self.array.__dlpack__(**kwargs)
    ...     def __dlpack_device__(self): return self.array.__dlpack_device__()
    >>> transload.register_array(Vector, name="example.vector", decode=lambda array: Vector(np.from_dlpack(array)))
    >>> transload.loads(transload.dumps([Vector(np.arange(3))]))[0].array
    array([0, 1, 2])
    """
    if not callable(decode) or not (takes is None or callable(takes)):
        raise TypeError("decode and takes must be callable")
    from .adapters import arrays  # which imports NumPy

    register(cls, name=name, encode=arrays.encoder(takes), decode=arrays.decoder(decode))


def register_named(
    class_names: Iterable[str], name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any], subclasses: tuple[str, ...] | None = None
) -> None:
    """As `register`, for the classes that ``module:qualified.name`` name, without importing them; for transload's own adapters.

    It takes those subclasses, too, that left the methods in `subclasses` alone, where that is given; where it names none, all of
    them, whatever else goes by the name that they have.

    >>> register_named(["some.module:Class"], "some.class", lambda obj: obj.value, lambda value: None)
    """
    for class_name in class_names:
        _tables.adapters_by_type[class_name] = (name, encode) if subclasses is None else (name, encode, subclasses)
    _tables.adapters_by_name[name] = decode


def register_reduce(class_name: str, reduce: Callable[[Any], tuple[Any, ...]], stand_in: Callable[..., Any]) -> None:
    """Write objects of the class that ``module:qualified.name`` names as ``reduce(obj)`` says, in place of their own reduce method; for transload's own adapters.

    The name is then what a process must trust on both sides, and `stand_in` is called in its place with the arguments. It does not get there by itself.

    >>> register_reduce("some.module:Model", lambda obj: (type(obj), (obj.to_bytes(),)), lambda content: None)
    """
    _tables.adapters_by_type[class_name] = ("", reduce)
    _tables.overrides[class_name] = stand_in


def register_for_subclasses(cls: type, methods: tuple[str, ...]) -> None:
    """Let the adapter of `cls` take those subclasses, too, that left `methods` alone; for transload's own adapters.

    >>> register_for_subclasses(int, ("__reduce__",))
    Traceback (most recent call last):
        ...
    KeyError: <class 'int'>
    """
    name, encode, *_ = _tables.adapters_by_type[cls]
    _tables.adapters_by_type[cls] = (name, encode, methods)


def register_lazy(toplevel_module: str, importer: Callable[[], object]) -> None:
    """Run `importer` once, when the first object of a class from `toplevel_module` is met, or the first wire name that begins with it.

    >>> import transload
    >>> transload.register_lazy("some_library", lambda: None)
    """
    waiting = _tables.lazy.get(toplevel_module)
    if isinstance(waiting, Importers):
        waiting.importers.append(importer)
    else:
        _tables.lazy[toplevel_module] = Importers(toplevel_module, importer)


class Importers:
    """Runs importers once, then leaves the table. Another thread that comes meanwhile waits, and so meets the adapters.

    One that raises is run again next time: without its adapters objects would go another way.
    """

    def __init__(self, toplevel_module: str, importer: Callable[[], object]) -> None:
        self.module = toplevel_module
        self.importers = [importer]
        self.lock = threading.RLock()
        self.thread = 0  # that runs them

    def __call__(self) -> None:
        with self.lock:
            if self.thread:  # an importer that meets its own library comes here again
                return
            self.thread = threading.get_ident()
            try:
                while self.importers:
                    self.importers[0]()
                    del self.importers[0]
            finally:
                self.thread = 0
            if _tables.lazy.get(self.module) is self:
                del _tables.lazy[self.module]

    def elsewhere(self) -> bool:
        """Whether another thread runs them."""
        return self.thread not in (0, threading.get_ident())

    def forget_other_threads(self) -> None:
        """In the child of a fork: a thread that ran them is not here, and what it had begun is begun anew."""
        self.lock = threading.RLock()
        if self.elsewhere():
            self.thread = 0
