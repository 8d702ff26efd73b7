"""save and load: the container on disk, memory-mapped and checksummed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import _core
from ._message import DECODE_FAMILIES, FAMILIES, Message, deserialize, in_host_memory, serialize


def _bytes(path: str | os.PathLike[str]) -> bytes:
    """As the system wants it: a name need not be text."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte in a path")
    return name


def save(
    path: str | os.PathLike[str],
    obj: object,
    families: Iterable[str] = FAMILIES,
    *,
    sync: bool = False,
    compression: str | None = None,
    level: int | None = None,
) -> int:
    """Write an object to a file.

    The file appears whole or not at all: it is written under another name beside `path` and then renamed. Every frame has its
    checksum there.

    Parameters
    ----------
    path : path-like
        An existing file is replaced.
    obj : object
        As in `serialize`; so is `families`, except that ``"error"`` never makes a file: what cannot be written raises.
    sync : bool
        Wait until the bytes and the name are on the disk.
    compression, level
        As in `serialize`. Frames that are compressed cannot be mapped: `load` opens them into memory.

    Returns
    -------
    int
        Bytes of header and frames, as they are stored.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.tld")
    >>> nbytes = save(path, {"weights": np.ones((1000, 1000))})
    >>> load(path)["weights"].sum()
    np.float64(1000000.0)
    """
    message = serialize(obj, [family for family in in_host_memory(families) if family != "error"], compression=compression, level=level)
    _core.save(_bytes(path), message.header, message.frames, sync)
    return message.nbytes


def load(
    path: str | os.PathLike[str],
    families: Iterable[str] = DECODE_FAMILIES,
    *,
    check: bool = True,
    most_nbytes: int | None = None,
    device: int | str | None = None,
) -> Any:
    """Read an object that `save` wrote.

    The file is mapped: arrays lie in its pages and cost memory only as they are touched. Pages are private, so writing to an array does not
    write to the file.

    Parameters
    ----------
    path : path-like
        Must not be cut short while objects from it live; replacing it, as `save` does, is safe.
    families : iterable of str
        As in `deserialize`: without ``"pickle"`` the file can only pick among the names on the trust list.
    check : bool
        Compare the checksum of every frame first, which reads the whole file. The header's is always compared.
    most_nbytes : int, optional
        As in `deserialize`: what compressed frames may claim.
    device : int, "host" or None
        As in `deserialize`: where a GPU's memory goes.

    Raises
    ------
    Malformed
        For a file that is no container, is damaged or cut short; the text names field and offset.
    """
    return deserialize(read(path, check=check), families, most_nbytes=most_nbytes, device=device)


def read(path: str | os.PathLike[str], *, check: bool = True) -> Message:
    """The message in a file, without rebuilding the object. As `load` otherwise."""
    return Message(*_core.open(_bytes(path), check))
