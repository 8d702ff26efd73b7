"""Dask's messages to frames and back, for the comms of transload: a document and side frames (`codec`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from distributed.comm import utils as _stock
from distributed.protocol.serialize import Serialize, ToPickle
from distributed.sizeof import safe_sizeof
from distributed.utils import offload

from .. import _core
from . import _wire, codec

__all__ = ["decode_message", "encode_message"]

_WRAPPERS = (Serialize, ToPickle)


async def encode_message(
    msg: Any, serializers: Sequence[str] | None, on_error: str, context: dict[str, Any], allow_offload: bool
) -> list[Any]:
    """Return the frames of a message, the document first. Large ones are made on Dask's thread for that, but not for what stays in a GPU's memory."""

    def encode() -> list[Any]:
        # Nothing is cut into shards, which the receiver would have to join by a copy.
        return codec.dumps(msg, serializers, on_error, context, frame_split_size=sys.maxsize)

    threshold = _stock.OFFLOAD_THRESHOLD
    if threshold and allow_offload:
        size = _core.quick_nbytes(msg, _WRAPPERS, not context.get(_wire.DEVICE))
        if size is None:
            size = safe_sizeof(msg, default_size=-1)  # -1: nested too deep to tell
        if size > threshold or size == -1:
            return await offload(encode)
    return encode()


async def decode_message(
    frames: list[Any], deserialize: bool, deserializers: Sequence[str] | None, allow_offload: bool
) -> Any:
    """Return the message of frames as they came. Large ones are opened on Dask's thread for that."""

    def decode() -> Any:
        return codec.loads(frames, deserialize=deserialize, deserializers=deserializers)

    threshold = _stock.OFFLOAD_THRESHOLD
    if threshold and allow_offload and deserialize and _core.frames_nbytes(frames, False) > threshold:
        return await offload(decode)
    return decode()
