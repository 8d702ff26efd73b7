"""numba: arrays on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._registry import register_named
from ._device import Shaped, library, parts_of, rebuilt


def _compacted(array: Any) -> Any:
    """A copy that is contiguous. numba copies only whole allocations, so it goes by the host."""
    from numba import cuda

    return cuda.to_device(np.ascontiguousarray(array.copy_to_host()))


def _encode(array: Any) -> tuple[Any, ...]:
    device = array.gpu_data.context.device.id if hasattr(array.gpu_data, "context") else 0
    return parts_of(array, array.dtype, array.__cuda_array_interface__, device, _compacted)


def _decode(value: Any) -> Any:
    return rebuilt(value, _on_device)


def _on_device(memory: _core.DeviceMemory, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int) -> Any:
    cuda = library("numba.cuda")
    if memory.nbytes == 0:
        return cuda.device_array(shape, dtype)
    return cuda.as_cuda_array(Shaped(memory, dtype.str, shape, strides, offset), sync=False)


register_named(["numba.cuda.cudadrv.devicearray:DeviceNDArray"], "numba.device_array", _encode, _decode)
