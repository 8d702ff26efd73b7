"""Live objects between processes, hosts and GPUs: exactly, safely, without pickle.

>>> import transload
>>> transload.loads(transload.dumps({"answer": 42}))
{'answer': 42}
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _defaults, _gpu, _process
from ._core import FORMAT_VERSION, DeviceMemory, __version__, built_with_cuda, device_count
from ._errors import Disconnected, Error, Exhausted, Failed, Malformed, Unsendable, Unsupported, Untrusted
from ._files import load, save
from ._message import Message, deserialize, dumps, loads, serialize
from ._registry import register, register_array, register_lazy
from ._trust import is_strict, strict, trust, trusted_names

if _TYPE_CHECKING:
    from ._explain import Explanation, Leaf, StoredFrame, explain


def __getattr__(name: str) -> object:
    # dataclasses, which these use, cost more to import than all of transload.
    if name in ("Explanation", "Leaf", "StoredFrame", "explain"):
        from . import _explain

        return getattr(_explain, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


for _class in (Error, Unsupported, Unsendable, Malformed, Untrusted, Exhausted, Disconnected, Failed, Message):
    _class.__module__ = "transload"
del _class, _defaults, _process

__all__ = [
    "FORMAT_VERSION",
    "DeviceMemory",
    "Disconnected",
    "Error",
    "Exhausted",
    "Explanation",
    "Failed",
    "Leaf",
    "Malformed",
    "Message",
    "StoredFrame",
    "Unsendable",
    "Unsupported",
    "Untrusted",
    "__version__",
    "built_with_cuda",
    "deserialize",
    "device_count",
    "dumps",
    "explain",
    "is_strict",
    "load",
    "loads",
    "register",
    "register_array",
    "register_lazy",
    "save",
    "serialize",
    "strict",
    "trust",
    "trusted_names",
]
