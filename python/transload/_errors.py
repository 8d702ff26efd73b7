"""The exceptions of transload: one class a kind, named for what the caller does next."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors that transload itself raises."""


class Unsupported(Error, NotImplementedError):
    """No allowed family takes the object, or this process cannot rebuild it; the text says where in the object and why."""


class Unsendable(Unsupported):
    """What an adapter raises for an object that means nothing in another process: no family takes it, pickle neither."""


class Malformed(Error, ValueError):
    """The bytes are not what their format says; the text names the field and its offset. Drop the message."""


class Untrusted(Malformed):
    """The bytes name a class or function that this process does not trust, or hold a pickle where none is allowed."""


class Exhausted(Error, MemoryError):
    """Memory, or a limit of this process, ran out. Spill or retry."""


class Disconnected(Error, ConnectionError):
    """The other side is gone."""


class Failed(Error, RuntimeError):
    """Something else went wrong; nothing is known to help."""
