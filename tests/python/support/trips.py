"""How objects travel in tests: through family host alone, with frames copied as a socket would."""

from __future__ import annotations

from typing import Any

import transload


def host(obj: Any) -> Any:
    """There and back in family host; frames are fresh writable memory."""
    header, *frames = transload.dumps(obj, families=("host",))
    return transload.loads([bytes(header), *(bytearray(frame) for frame in frames)], families=("host",))


def host_readonly(obj: Any) -> Any:
    """As `host`, with frames that cannot be written to."""
    return transload.loads([bytes(part) for part in transload.dumps(obj, families=("host",))], families=("host",))


def nbytes(obj: Any) -> int:
    """Bytes of the message in family host."""
    return transload.serialize(obj, families=("host",)).nbytes
