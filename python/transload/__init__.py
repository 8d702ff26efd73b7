"""Live objects between processes, hosts and GPUs: exactly, safely, without pickle.

>>> import transload
>>> transload.loads(transload.dumps({"answer": 42}))
{'answer': 42}
"""

from . import _defaults
from ._core import FORMAT_VERSION, __version__, built_with_cuda, device_count
from ._errors import Disconnected, Error, Exhausted, Failed, Malformed, Unsupported, Untrusted
from ._explain import Explanation, Leaf, explain
from ._files import load, save
from ._message import Message, deserialize, dumps, loads, serialize
from ._registry import register, register_lazy
from ._trust import is_strict, strict, trust, trusted_names

for _class in (Error, Unsupported, Malformed, Untrusted, Exhausted, Disconnected, Failed, Message, Explanation, Leaf):
    _class.__module__ = "transload"
del _class, _defaults

__all__ = [
    "FORMAT_VERSION",
    "Disconnected",
    "Error",
    "Exhausted",
    "Explanation",
    "Failed",
    "Leaf",
    "Malformed",
    "Message",
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
    "register_lazy",
    "save",
    "serialize",
    "strict",
    "trust",
    "trusted_names",
]
