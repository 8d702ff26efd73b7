"""Family pickle: what has no name, or no walk, goes through pickle or cloudpickle. The only place that imports either."""

from __future__ import annotations

from typing import Any


def by_value(obj: object, whole: bool) -> tuple[bytes, list[memoryview]]:
    """Pickle `obj`: a class or function by value, or (`whole`) an object with its large buffers apart."""
    import pickle

    buffers: list[pickle.PickleBuffer] = []
    if whole:
        try:
            data = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
            if b"__main__" not in data:  # what lives in __main__ here is unknown to a __main__ elsewhere
                return data, [_flat(buffer) for buffer in buffers]
        except Exception:
            pass
        buffers.clear()
    try:
        import cloudpickle
    except ImportError:
        raise TypeError(f"cannot send a {type(obj).__qualname__} by value: cloudpickle is not installed") from None
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
    import pickle

    return pickle.loads(data, buffers=buffers)
