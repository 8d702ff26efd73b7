"""rmm: buffers of device memory."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._gpu import LEGACY_STREAM, memory_of
from .._registry import register_named
from ._checks import need
from ._device import library, on_host


def _encode(buffer: Any) -> _core.DeviceMemory:
    memory = memory_of(buffer)
    assert memory is not None
    return _core.DeviceMemory(memory.pointer, memory.nbytes, memory.device, buffer, LEGACY_STREAM)


def _decode(memory: Any) -> Any:
    need(isinstance(memory, _core.DeviceMemory), "a buffer is memory of a GPU")
    if on_host(memory):
        return memory.host_view()
    rmm = library("rmm")
    if isinstance(memory.owner, rmm.DeviceBuffer) and memory.owner.ptr == memory.pointer and memory.owner.size == memory.nbytes:
        return memory.owner  # it landed in one
    buffer = rmm.DeviceBuffer(size=memory.nbytes)
    if memory.nbytes:
        buffer.copy_from_device(memory)
    return buffer


register_named(["rmm.pylibrmm.device_buffer:DeviceBuffer", "rmm:DeviceBuffer"], "rmm.device_buffer", _encode, _decode)
