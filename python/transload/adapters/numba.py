"""numba: arrays on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._registry import register_named
from ._device import Shaped, checked, host_array, on_host, parts_of


def _compacted(array: Any) -> Any:
    """A copy that is contiguous. numba copies only whole allocations, so it goes by the host."""
    from numba import cuda

    return cuda.to_device(np.ascontiguousarray(array.copy_to_host()))


def _encode(array: Any) -> tuple[Any, ...]:
    interface = array.__cuda_array_interface__
    parts = parts_of(array, interface, array.gpu_data.context.device.id if hasattr(array.gpu_data, "context") else 0, _compacted)
    return parts[0], array.dtype, *parts[2:]


def _decode(value: Any) -> Any:
    memory, dtype, shape, strides, offset = checked(value)
    if on_host(memory):
        return host_array(memory, dtype, shape, strides, offset)
    from numba import cuda

    if memory.nbytes == 0:
        return cuda.device_array(shape, dtype)
    return cuda.as_cuda_array(Shaped(memory, dtype.str, shape, strides, offset), sync=False)


register_named(["numba.cuda.cudadrv.devicearray:DeviceNDArray"], "numba.device_array", _encode, _decode)
