"""Family pickle: what has no name, or no walk, goes through pickle or cloudpickle. The only place that imports either."""

from __future__ import annotations

import sys
from typing import Any

from . import _core, _errors


def goes_by_value(name: str) -> bool:
    """Tell whether a class or function has to be sent by value: its module is ``__main__``, which is another one elsewhere, or
    was given to ``cloudpickle.register_pickle_by_value``, as it may be missing there.
    """
    module = name.partition(":")[0]
    if module == "__main__":
        return True
    registered = sys.modules.get("cloudpickle")
    if registered is None:
        return False
    names = registered.list_registry_pickle_by_value()
    while names and module:
        if module in names:
            return True
        module = module.rpartition(".")[0]
    return False


def by_value(obj: object, whole: bool) -> tuple[bytes, list[memoryview]]:
    """Pickle `obj`: a class or function by value, or (`whole`) an object with its large buffers apart.

    In one pass: an object gives its state once, also where pickle would stop half-way at something that only cloudpickle takes, or where
    what it names lives in ``__main__``, which is another module elsewhere.
    """
    if _core.pickle_is_forbidden():  # by `strict`, since this call began
        raise _errors.Unsupported("family pickle is not allowed: strict() is on")
    import pickle

    buffers: list[pickle.PickleBuffer] = []
    try:
        import cloudpickle
    except ImportError:
        if not whole:
            raise TypeError(f"cannot send a {type(obj).__qualname__} by value: cloudpickle is not installed") from None
        cloudpickle = pickle
    data = cloudpickle.dumps(obj, protocol=5, buffer_callback=buffers.append if whole else None)
    return data, [_flat(buffer) for buffer in buffers]


def _flat(buffer: Any) -> memoryview:
    try:
        view: memoryview = buffer.raw()
    except BufferError:  # not contiguous
        view = memoryview(memoryview(buffer).tobytes())
    return view


def from_value(data: bytes, buffers: list[memoryview]) -> object:
    """Run the pickle."""
    if _core.pickle_is_forbidden():
        raise _errors.Untrusted("a pickle, and family pickle is not allowed: strict() is on")
    import pickle

    return pickle.loads(data, buffers=buffers)
