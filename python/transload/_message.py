"""serialize and its kin: an object to a message and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import _core
from ._errors import Unsupported
from ._gpu import memory_of
from ._walk import decode, encode

FAMILIES = ("cuda", "host", "pickle", "error")
DECODE_FAMILIES = ("cuda", "host")

COMPRESSIONS = (None, "auto", "lz4", "zstd")

Buffer = Any  # bytes-like of any kind; collections.abc.Buffer needs Python 3.12


def _pickle_buffer(frame: Buffer) -> Any:
    from pickle import PickleBuffer

    return PickleBuffer(frame)


def _in_host_memory(frame: Buffer) -> Buffer:
    """Return `frame`, or a copy in host memory of a GPU's."""
    memory = frame if isinstance(frame, _core.DeviceMemory) else memory_of(frame)
    return frame if memory is None else memory.to_host()


class Message:
    """A header and its frames.

    Attributes
    ----------
    header : bytes
        One msgpack value that says everything except the bulk bytes (docs/format.md).
    frames : list of memoryview or DeviceMemory
        The bulk bytes, 1-D and contiguous; those of family cuda on their device. Large ones lie where the object has them: change the object before the frames
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

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles are the header and the frames, in host memory; from protocol 5 on a pickler may take the frames out of band."""
        whole = bytes if protocol < 5 else _pickle_buffer
        return Message, (bytes(self.header), [whole(_in_host_memory(frame)) for frame in self.frames], self.families)

    @property
    def nbytes(self) -> int:
        """Bytes of header and frames together."""
        return memoryview(self.header).nbytes + _core.frames_nbytes(self.frames)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of header and frames together, as they are once compressed frames are opened."""
        nbytes: list[int] = _core.inspect(self.header)["frames"]
        return memoryview(self.header).nbytes + sum(nbytes)

    @property
    def codecs(self) -> tuple[str | None, ...]:
        """What each frame is compressed with: ``"lz4"``, ``"zstd"`` or None. Empty where no frame is."""
        found: tuple[str | None, ...] = _core.inspect(self.header)["codecs"]
        return found

    @property
    def checksums(self) -> tuple[int, ...]:
        """XXH3-64 of each frame as stored. Empty where the header has none."""
        found: tuple[int, ...] = _core.inspect(self.header)["checksums"]
        return found

    def __repr__(self) -> str:
        families = ", ".join(self.families) or "?"
        return f"<Message: {memoryview(self.header).nbytes} bytes of header, {len(self.frames)} frames, family {families}>"


def _encoded(obj: object, families: Iterable[str]) -> tuple[bytes, list[memoryview], tuple[str, ...]]:
    if type(families) is not tuple:
        families = tuple(families)
    try:
        return encode(obj, families)
    except Unsupported as error:
        if "error" not in families:
            raise
        return _core.encode_error(str(error)), [], ("error",)


def _stored(
    encoded: tuple[bytes, list[memoryview], tuple[str, ...]], compression: str | None, level: int | None, checksum: bool
) -> tuple[bytes, list[memoryview], tuple[str, ...]]:
    """What was encoded, with its frames compressed where that pays, and summed up where asked."""
    _check_compression(compression, level)
    header, frames, _ = _core.store(encoded[0], encoded[1], compression, level, checksum)
    return header, frames, encoded[2]


def _check_compression(compression: str | None, level: int | None) -> None:
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression {compression!r} is none of {', '.join(map(repr, COMPRESSIONS))}")
    if level is not None and compression not in ("auto", "zstd"):
        raise ValueError(f"level {level}: of zstd, which compression {compression!r} never takes")


def serialize(
    obj: object,
    families: Iterable[str] = FAMILIES,
    *,
    compression: str | None = None,
    level: int | None = None,
    checksum: bool = False,
) -> Message:
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
    compression : {None, "auto", "lz4", "zstd"}
        Compress each frame of 8 KiB and more where that pays: where a sample of it, and then all of it, shrinks to 70 % or
        less. ``"auto"`` takes lz4, and zstd where only that brings it. Frames that do not shrink stay as they are, borrowed.
    level : int, optional
        Of zstd: 1 (the default) to 22, higher is smaller and slower; or below 0, faster.
    checksum : bool
        Put the XXH3 of each frame, as it is stored, into the header. Who reads the message compares it before anything else
        is done with the frame.

    Returns
    -------
    Message
        Payloads above 64 KiB are borrowed from `obj`, not copied, unless they were compressed.

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
    >>> small = serialize({"x": np.arange(100_000) % 100}, compression="auto")
    >>> small.codecs, small.nbytes < small.raw_nbytes / 2
    (('lz4',), True)
    """
    return Message(*_parts(obj, families, compression, level, checksum))


def _parts(
    obj: object, families: Iterable[str], compression: str | None, level: int | None, checksum: bool
) -> tuple[bytes, list[Any], tuple[str, ...]]:
    if compression is None and not checksum and level is None:
        return _encoded(obj, families)
    return _stored(_encoded(obj, in_host_memory(families)), compression, level, checksum)


def in_host_memory(families: Iterable[str]) -> list[str]:
    """Families for frames that are looked into or written to a file: a GPU's memory comes to host memory."""
    names = ["host" if family == "cuda" else family for family in families]
    return [name for i, name in enumerate(names) if name not in names[:i]]


def deserialize(
    message: Message,
    families: Iterable[str] = DECODE_FAMILIES,
    *,
    most_nbytes: int | None = None,
    device: int | str | None = None,
) -> Any:
    """Rebuild the object of a message.

    Parameters
    ----------
    message : Message
        From `serialize`, or made of a received header and frames.
    families : iterable of str
        The families this call accepts. Without ``"pickle"`` the bytes can only pick among the names on the trust list; without
        ``"host"`` and ``"cuda"`` only what was pickled whole is taken.
    most_nbytes : int, optional
        Bytes that compressed frames may claim together; a message that claims more raises `Exhausted` before one is opened.
        None: the memory of this machine.
    device : int, "host" or None
        Where a GPU's memory goes that comes in host memory: a device by its number, None for the current one. ``"host"`` leaves it in
        host memory, brings there what comes on a device, and rebuilds arrays of GPU libraries as NumPy's.

    Returns
    -------
    object
        Arrays lie in the message's frames where these are aligned and, for arrays that were writable, writable; else in one
        copy, as those of compressed frames do. Frames of this process's own `serialize` are shared with the object they came from.

    Raises
    ------
    Malformed
        For bytes that are not what the format says.
    Untrusted
        For names that are not trusted, before anything is built.
    Unsupported
        For an object that this process cannot have: a GPU's memory without a GPU, a library that is not here.

    Examples
    --------
    >>> deserialize(serialize([1, (2.5, {"three"})]))
    [1, (2.5, {'three'})]
    """
    return decode(message.header, message.frames, families, most_nbytes, _device_number(device))


def _device_number(device: int | str | None) -> int | None:
    if device is None:
        return None
    if device == "host":
        return int(_core.HOST_TWIN)
    if not isinstance(device, int) or device < 0:
        raise ValueError(f"device {device!r} is neither a number nor 'host'")
    return device


def dumps(
    obj: object,
    families: Iterable[str] = FAMILIES,
    *,
    compression: str | None = None,
    level: int | None = None,
    checksum: bool = False,
) -> list[Any]:
    """As `serialize`, as a list: the header, then the frames.

    >>> header, = dumps("text")
    >>> loads([header])
    'text'
    """
    header, frames, _ = _parts(obj, families, compression, level, checksum)
    return [header, *frames]


def loads(
    frames: Sequence[Buffer],
    families: Iterable[str] = DECODE_FAMILIES,
    *,
    most_nbytes: int | None = None,
    device: int | str | None = None,
) -> Any:
    """As `deserialize`, from a list of the header and the frames, bytes-like of any kind.

    >>> loads([bytes(part) for part in dumps({1: "one"})])
    {1: 'one'}
    """
    if len(frames) == 0:
        raise ValueError("no frames: the first is the header")
    return decode(frames[0], frames[1:], families, most_nbytes, _device_number(device))
