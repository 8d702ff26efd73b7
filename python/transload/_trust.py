"""Which names the bytes may pick: the trust list, and the switch that forbids pickle."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from . import _core, _tables

_C = TypeVar("_C", bound=type)
_added: dict[str, None] = {}


@overload
def trust(cls: _C, /) -> _C: ...
@overload
def trust(*names_or_classes: str | type | Any) -> Any: ...
def trust(*names_or_classes: Any) -> Any:
    """Put classes or functions on this process's trust list.

    A trusted class may be made, called and handed on by a message; its methods that rebuild it (``__new__``, ``__setstate__``, …) then run on
    whatever the bytes say, so they must hold against any arguments. Both sides of a transfer need the name: the sender,
    to write the object in family host, and the receiver, to rebuild it.

    Parameters
    ----------
    *names_or_classes : str or class or function
        ``"module:qualified.name"``, or the thing itself. Only exact names count: trusting a module or a base class trusts nothing else.

    Returns
    -------
    class
        The class, when it is the only argument: so ``trust`` is a class decorator as well.

    Raises
    ------
    ValueError
        For a name without a colon, or something that cannot be imported by its name (a lambda, a class inside a function).

    Examples
    --------
    >>> import dataclasses, transload
    >>> transload.trust("decimal:Decimal")
    >>> "decimal:Decimal" in transload.trusted_names()
    True
    """
    for item in names_or_classes:
        if isinstance(item, str):
            module, colon, path = item.partition(":")
            if not (module and colon and path) or ":" in path:
                raise ValueError(f"{item!r} is no name of the form 'module:qualified.name'")
            name = item
        else:
            name = _name_of(item)
        _tables.trusted[name] = _tables.ALL
        _added[name] = None
    if len(names_or_classes) == 1 and not isinstance(names_or_classes[0], str):
        return names_or_classes[0]
    return None


def _name_of(item: Any) -> str:
    path = getattr(item, "__qualname__", None)
    module = getattr(item, "__module__", None)
    if not isinstance(path, str) or not isinstance(module, str):
        raise ValueError(f"{item!r} is neither a name nor a class or function")
    if "<" in path:
        raise ValueError(f"{module}:{path} cannot be imported by that name; a message could not name it")
    return f"{module}:{path}"


def trusted_names() -> tuple[str, ...]:
    """The names that this process put on the trust list itself, beside the default ones.

    >>> isinstance(trusted_names(), tuple)
    True
    """
    return tuple(_added)


def strict(on: bool = True) -> None:
    """Forbid pickle in this process: from now on none is written or read, whatever a call's ``families`` says.

    >>> import transload
    >>> transload.strict()
    >>> transload.dumps(lambda: 1, families=("host", "pickle"))
    Traceback (most recent call last):
        ...
    transload.Unsupported: obj: ...
    >>> transload.strict(False)
    """
    _core.forbid_pickle(on)


def is_strict() -> bool:
    """Whether `strict` is on."""
    return _core.pickle_is_forbidden()


