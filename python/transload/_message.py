"""serialize and its kin: an object to a message and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import _core, _trust
from ._errors import Unsupported

FAMILIES = ("cuda", "host", "pickle", "error")
DECODE_FAMILIES = ("cuda", "host")

Buffer = Any  # bytes-like of any kind; collections.abc.Buffer needs Python 3.12


class Message:
    """A header and its frames.

    Attributes
    ----------
    header : bytes
        One msgpack value that says everything except the bulk bytes (docs/format.md).
    frames : list of memoryview
        The bulk bytes, 1-D and contiguous. Large ones lie where the object has them: change the object before the frames
        were sent, and the change is sent. Each keeps its memory alive.
    families : tuple of str
        Which families were used: ``("host",)``, or with ``"pickle"`` when something had to be pickled, or ``("error",)``. Empty
        on a message that was received.
    """

    __slots__ = ("families", "frames", "header")

    def __init__(self, header: Buffer, frames: Sequence[Buffer], families: tuple[str, ...] = ()) -> None:
        self.header = header
        self.frames = frames
        self.families = families

    @property
    def nbytes(self) -> int:
        """Bytes of header and frames together."""
        return memoryview(self.header).nbytes + sum(memoryview(frame).nbytes for frame in self.frames)

    def __repr__(self) -> str:
        families = ", ".join(self.families) or "?"
        return f"<Message: {memoryview(self.header).nbytes} bytes of header, {len(self.frames)} frames, family {families}>"


def _known(families: Iterable[str]) -> tuple[str, ...]:
    families = tuple(families)
    for family in families:
        if family not in FAMILIES:
            raise ValueError(f"family {family!r} is none of {', '.join(FAMILIES)}")
    return families


def serialize(obj: object, families: Iterable[str] = FAMILIES) -> Message:
    """Encode an object.

    Families are tried as they are listed, part by part of the object: ``host`` writes it by what is known of its
    class, ``pickle`` takes what ``host`` may not (names that are not trusted) or cannot (lambdas), ``error`` turns a
    failure into a message that raises where it is decoded. ``explain`` tells which part went which way.

    Parameters
    ----------
    obj : object
        Anything.
    families : iterable of str
        Some of ``"cuda"``, ``"host"``, ``"pickle"``, ``"error"``.

    Returns
    -------
    Message
        Payloads above 64 KiB are borrowed from `obj`, not copied.

    Raises
    ------
    Unsupported
        When no listed family takes a part of the object; the text says which part.

    Examples
    --------
    >>> import numpy as np
    >>> message = serialize({"x": np.arange(100_000)})
    >>> message.families, len(message.frames), message.frames[0].nbytes
    (('host',), 1, 800000)
    """
    families = _known(families)
    pickle = _trust.allows_pickle(families)
    try:
        return Message(*_core.encode(obj, "host" in families or "cuda" in families, pickle))
    except Unsupported as error:
        if "error" not in families:
            raise
        return Message(_core.encode_error(str(error)), [], ("error",))


def deserialize(message: Message, families: Iterable[str] = DECODE_FAMILIES) -> Any:
    """Rebuild the object of a message.

    Parameters
    ----------
    message : Message
        From `serialize`, or made of a received header and frames.
    families : iterable of str
        The families this call accepts. Without ``"pickle"`` the bytes can only pick among the names on the trust list.

    Returns
    -------
    object
        Arrays lie in the message's frames where these are aligned and, for arrays that were writable, writable; else in one
        copy. Frames of this process's own `serialize` are shared with the object they came from.

    Raises
    ------
    Malformed
        For bytes that are not what the format says.
    Untrusted
        For names that are not trusted, before anything is built.

    Examples
    --------
    >>> deserialize(serialize([1, (2.5, {"three"})]))
    [1, (2.5, {'three'})]
    """
    return _core.decode(message.header, message.frames, _trust.allows_pickle(_known(families)))


def dumps(obj: object, families: Iterable[str] = FAMILIES) -> list[Any]:
    """As `serialize`, as a list: the header, then the frames.

    >>> header, = dumps("text")
    >>> loads([header])
    'text'
    """
    message = serialize(obj, families)
    return [message.header, *message.frames]


def loads(frames: Sequence[Buffer], families: Iterable[str] = DECODE_FAMILIES) -> Any:
    """As `deserialize`, from a list of the header and the frames, bytes-like of any kind.

    >>> loads([bytes(part) for part in dumps({1: "one"})])
    {1: 'one'}
    """
    if len(frames) == 0:
        raise ValueError("no frames: the first is the header")
    return _core.decode(frames[0], frames[1:], _trust.allows_pickle(_known(families)))
