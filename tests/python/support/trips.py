"""How objects travel in tests: through family host alone, with frames copied as a socket would."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import transload


def host(obj: Any) -> Any:
    """There and back in family host; frames are fresh writable memory."""
    header, *frames = transload.dumps(obj, families=("host",))
    return transload.loads([bytes(header), *(bytearray(frame) for frame in frames)], families=("host",))


def host_readonly(obj: Any) -> Any:
    """As `host`, with frames that cannot be written to."""
    return transload.loads([bytes(part) for part in transload.dumps(obj, families=("host",))], families=("host",))


def host_misaligned(obj: Any) -> Any:
    """As `host`, with frames that begin at odd addresses."""
    header, *frames = transload.dumps(obj, families=("host",))
    return transload.loads([header, *(memoryview(bytearray(1) + frame)[1:] for frame in frames)], families=("host",))


def host_uncopied(obj: Any) -> Any:
    """Within the process: arrays may lie in the memory of those that were sent."""
    return transload.loads(transload.dumps(obj, families=("host",)), families=("host",))


def host_in_one_piece(obj: Any) -> Any:
    """By way of Dask's packed frames, as to disk: all in one writable buffer, behind their lengths."""
    from distributed.protocol.utils import pack_frames, unpack_frames

    return transload.loads(unpack_frames(bytearray(pack_frames(transload.dumps(obj, families=("host",))))), families=("host",))


def host_by_file(obj: Any) -> Any:
    """By way of `save` and `load`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "object")
        transload.save(path, obj, ("host",))
        return transload.load(path, ("host",))


EVERY_WAY: dict[str, Callable[[Any], Any]] = {
    "writable": host, "read-only": host_readonly, "misaligned": host_misaligned, "uncopied": host_uncopied, "in one piece": host_in_one_piece, "file": host_by_file,
}  # fmt: skip


def nbytes(obj: Any) -> int:
    """Bytes of the message in family host."""
    return transload.serialize(obj, families=("host",)).nbytes
