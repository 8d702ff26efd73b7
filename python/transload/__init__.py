"""Live objects between processes, hosts and GPUs: exactly, safely, without pickle.

>>> import transload
>>> transload.loads(transload.dumps({"answer": 42}))
{'answer': 42}
"""

from . import _defaults
from ._core import FORMAT_VERSION, __version__, built_with_cuda, device_count
from ._errors import Disconnected, Error, Exhausted, Failed, Malformed, Unsupported, Untrusted
from ._message import Message, deserialize, dumps, loads, serialize
from ._registry import register, register_lazy
from ._trust import is_strict, strict, trust, trusted_names

for _class in (Error, Unsupported, Malformed, Untrusted, Exhausted, Disconnected, Failed, Message):
    _class.__module__ = "transload"
del _class, _defaults

__all__ = [
    "FORMAT_VERSION",
    "Disconnected",
    "Error",
    "Exhausted",
    "Failed",
    "Malformed",
    "Message",
    "Unsupported",
    "Untrusted",
    "__version__",
    "built_with_cuda",
    "deserialize",
    "device_count",
    "dumps",
    "is_strict",
    "loads",
    "register",
    "register_lazy",
    "serialize",
    "strict",
    "trust",
    "trusted_names",
]
