"""explain: which part of an object goes which way, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from . import _core
from ._errors import Unsupported
from ._message import FAMILIES, _check_compression
from ._walk import encode


@dataclass(frozen=True, slots=True)
class Leaf:
    """One part of an object as it was written.

    Attributes
    ----------
    path : str
        Where it sits, as an expression on ``obj``.
    type : str
        Its class.
    adapter : str
        Who wrote it: ``ndarray``, ``arrow``, ``graph`` (an object by its state), a registered wire name, ``name`` (an untrusted class or function by name), ``by value``, ``pickle``.
    family : str
        ``host`` or ``pickle``.
    frames : tuple of int
        The frames its bytes lie in; small parts share frame 0.
    nbytes : int
        Bytes in frames.
    reason : str
        Why it was not written in the first way there is: a fallback, or a copy. Empty when it was.
    """

    path: str
    type: str
    adapter: str
    family: str
    frames: tuple[int, ...]
    nbytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class StoredFrame:
    """What compression did with one frame.

    Attributes
    ----------
    codec : str or None
        ``lz4``, ``zstd``, or None: the frame is stored as it is.
    raw_nbytes : int
        Its bytes before.
    nbytes : int
        Its bytes as stored.
    reason : str
        Why it is stored as it is. Empty when it is not.
    """

    codec: str | None
    raw_nbytes: int
    nbytes: int
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What `explain` found. ``print`` shows it as a table.

    Attributes
    ----------
    leaves : list of Leaf
        In the order of the walk.
    families : tuple of str
        Families used, as in ``Message.families``.
    header_nbytes : int
        Bytes of the header.
    frame_nbytes : list of int
        Bytes of each frame, before compression.
    stored : list of StoredFrame
        What compression did with each frame. Empty when none was asked for.
    error : str
        Why the object cannot be encoded with these families; then there is no message. Empty when it can.
    """

    leaves: list[Leaf]
    families: tuple[str, ...] = ()
    header_nbytes: int = 0
    frame_nbytes: list[int] = field(default_factory=list)
    stored: list[StoredFrame] = field(default_factory=list)
    error: str = ""

    @property
    def fallbacks(self) -> list[Leaf]:
        """The leaves that did not go the first way: pickled, copied, or by a generic walk in place of an adapter."""
        return [leaf for leaf in self.leaves if leaf.reason]

    @property
    def saved_nbytes(self) -> int:
        """Bytes that compression saved."""
        return sum(frame.raw_nbytes - frame.nbytes for frame in self.stored)

    def __str__(self) -> str:
        return self.table()

    def table(self, most: int = 60) -> str:
        """The table, `most` rows of it: fallbacks first, then the largest."""
        rows = sorted(self.leaves, key=lambda leaf: (not leaf.reason, -leaf.nbytes))[:most]
        kept = {id(leaf) for leaf in rows}
        head = ("where", "type", "adapter", "family", "frames", "bytes", "why")
        text = _aligned([head, *(_row(leaf) for leaf in self.leaves if id(leaf) in kept)])
        if len(self.leaves) > len(rows):
            text.append(f"… {len(self.leaves) - len(rows)} more")
        if self.stored:
            largest = sorted(range(len(self.stored)), key=lambda i: -self.stored[i].raw_nbytes)[:most]
            shown = [_stored_row(i, self.stored[i]) for i in sorted(largest)]
            text += ["", *_aligned([("frame", "bytes", "stored", "codec", "saved", "why not"), *shown])]
            if len(self.stored) > len(shown):
                text.append(f"… {len(self.stored) - len(shown)} more")
            text.append("")
        if self.error:
            text.append(f"cannot be encoded: {self.error}")
        else:
            frames = f"{len(self.frame_nbytes)} frame{'' if len(self.frame_nbytes) == 1 else 's'}"
            saved = f", {self.saved_nbytes:,} saved by compression" if self.stored else ""
            text.append(
                f"{self.header_nbytes:,} bytes of header, {frames} of {sum(self.frame_nbytes):,} bytes{saved}, family {', '.join(self.families)}"
            )
        return "\n".join(text)


def _row(leaf: Leaf) -> tuple[str, ...]:
    frames = ",".join(map(str, leaf.frames[:3])) + (",…" if len(leaf.frames) > 3 else "")
    return (leaf.path, leaf.type, leaf.adapter, leaf.family, frames, f"{leaf.nbytes:,}" if leaf.nbytes else "", leaf.reason)


def _stored_row(i: int, frame: StoredFrame) -> tuple[str, ...]:
    saved = f"{100 * (1 - frame.nbytes / frame.raw_nbytes):.1f} %" if frame.codec else ""
    return (str(i), f"{frame.raw_nbytes:,}", f"{frame.nbytes:,}", frame.codec or "", saved, frame.reason)


def _aligned(lines: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip() for line in lines]


def explain(
    obj: object,
    families: Iterable[str] = FAMILIES,
    *,
    compression: str | None = None,
    level: int | None = None,
    checksum: bool = False,
) -> Explanation:
    """Tell how `serialize` would write an object: each part, its adapter, family, frames, bytes, and why a fallback happened; and
    with `compression` what that does with each frame, what it saves, and why not.

    Encodes the object to find out, and throws the message away. Parameters as in `serialize`.

    Examples
    --------
    >>> import numpy as np
    >>> print(explain({"x": np.zeros((2, 100_000)), "f": lambda: 1}))
    where     type      adapter   family  frames  bytes      why
    obj['x']  ndarray   ndarray   host    0       1,600,000
    obj['f']  function  by value  pickle                     ...
    ... bytes of header, 1 frame of 1,600,000 bytes, family host, pickle
    >>> print(explain([np.zeros((2, 100_000)), np.random.default_rng(0).random(100_000)], compression="auto"))
    where   type     adapter  family  frames  bytes      why
    obj[0]  ndarray  ndarray  host    0       1,600,000
    obj[1]  ndarray  ndarray  host    1       800,000
    <BLANKLINE>
    frame  bytes      stored   codec  saved   why not
    0      1,600,000  6,...    lz4    99.6 %
    1      800,000    800,000                 lz4 leaves 101 % of a sample; zstd leaves 94 % of a sample
    <BLANKLINE>
    ... bytes of header, 2 frames of 2,400,000 bytes, 1,593,... saved by compression, family host
    """
    _check_compression(compression, level)
    record: list[list[object]] = []
    try:
        header, frames, used = encode(obj, families, record=record)
    except Unsupported as error:
        return Explanation([_leaf(row, final=False) for row in record], error=str(error))
    frame_nbytes = [frame.nbytes for frame in frames]
    stored: list[StoredFrame] = []
    if compression is not None or checksum:
        header, _, report = _core.store(header, frames, compression, level, checksum)
        if compression is not None:
            stored = [StoredFrame(*row) for row in report]
    return Explanation([_leaf(row, final=True) for row in record], used, len(header), frame_nbytes, stored)


def _leaf(row: list[object], *, final: bool) -> Leaf:
    path, kind, adapter, family, frames, nbytes, reason = row
    assert isinstance(frames, list) and isinstance(nbytes, int)
    # Before the message is laid out the record holds payload numbers, which say nothing to a reader.
    places = tuple(dict.fromkeys(frames)) if final else ()
    return Leaf(str(path), str(kind), str(adapter), str(family), places, nbytes, str(reason))


for _class in (Explanation, Leaf, StoredFrame):
    _class.__module__ = "transload"
del _class
