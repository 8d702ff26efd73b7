"""explain: which part of an object goes which way, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from . import _core, _trust
from ._errors import Unsupported
from ._message import FAMILIES, _known


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
        Bytes of each frame.
    error : str
        Why the object cannot be encoded with these families; then there is no message. Empty when it can.
    """

    leaves: list[Leaf]
    families: tuple[str, ...] = ()
    header_nbytes: int = 0
    frame_nbytes: list[int] = field(default_factory=list)
    error: str = ""

    @property
    def fallbacks(self) -> list[Leaf]:
        """The leaves that did not go the first way: pickled, copied, or by a generic walk in place of an adapter."""
        return [leaf for leaf in self.leaves if leaf.reason]

    def __str__(self) -> str:
        return self.table()

    def table(self, most: int = 60) -> str:
        """The table, `most` rows of it: fallbacks first, then the largest."""
        rows = sorted(self.leaves, key=lambda leaf: (not leaf.reason, -leaf.nbytes))[:most]
        kept = {id(leaf) for leaf in rows}
        head = ("where", "type", "adapter", "family", "frames", "bytes", "why")
        lines = [head, *(_row(leaf) for leaf in self.leaves if id(leaf) in kept)]
        widths = [max(len(line[i]) for line in lines) for i in range(6)]
        text = ["  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[6]]).rstrip() for line in lines]
        if len(self.leaves) > len(rows):
            text.append(f"… {len(self.leaves) - len(rows)} more")
        if self.error:
            text.append(f"cannot be encoded: {self.error}")
        else:
            frames = f"{len(self.frame_nbytes)} frame{'' if len(self.frame_nbytes) == 1 else 's'}"
            text.append(f"{self.header_nbytes:,} bytes of header, {frames} of {sum(self.frame_nbytes):,} bytes, family {', '.join(self.families)}")
        return "\n".join(text)


def _row(leaf: Leaf) -> tuple[str, ...]:
    frames = ",".join(map(str, leaf.frames[:3])) + (",…" if len(leaf.frames) > 3 else "")
    return (leaf.path, leaf.type, leaf.adapter, leaf.family, frames, f"{leaf.nbytes:,}" if leaf.nbytes else "", leaf.reason)


def explain(obj: object, families: Iterable[str] = FAMILIES) -> Explanation:
    """Tell how `serialize` would write an object: each part, its adapter, family, frames, bytes, and why a fallback happened.

    Encodes the object to find out, and throws the message away.

    Examples
    --------
    >>> import numpy as np
    >>> print(explain({"x": np.zeros((2, 100_000)), "f": lambda: 1}))
    where     type      adapter   family  frames  bytes      why
    obj['x']  ndarray   ndarray   host    0       1,600,000
    obj['f']  function  by value  pickle                     ...
    ... bytes of header, 1 frame of 1,600,000 bytes, family host, pickle
    """
    families = _known(families)
    record: list[list[object]] = []
    try:
        header, frames, used = _core.encode(
            obj, "host" in families or "cuda" in families, _trust.allows_pickle(families), record=record
        )
    except Unsupported as error:
        return Explanation([_leaf(row, final=False) for row in record], error=str(error))
    return Explanation([_leaf(row, final=True) for row in record], used, len(header), [frame.nbytes for frame in frames])


def _leaf(row: list[object], *, final: bool) -> Leaf:
    path, kind, adapter, family, frames, nbytes, reason = row
    assert isinstance(frames, list) and isinstance(nbytes, int)
    # Before the message is laid out the record holds payload numbers, which say nothing to a reader.
    places = tuple(dict.fromkeys(frames)) if final else ()
    return Leaf(str(path), str(kind), str(adapter), str(family), places, nbytes, str(reason))


for _class in (Explanation, Leaf):
    _class.__module__ = "transload"
del _class
