"""torch: tensors on a GPU. Tensors in host memory go the way of every object, by their reduce method."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._errors import Unsupported
from .._gpu import span_of
from .._registry import register_named
from ._checks import need
from ._device import Shaped, library, on_host, shows_little

_DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def _encode(tensor: Any) -> tuple[Any, ...]:
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if not tensor.is_cuda or tensor.layout is not torch.strided or dtype not in _DTYPES or tensor.is_conj() or tensor.is_neg() or vars(tensor):
        raise NotImplementedError("only plain strided tensors on a GPU have an adapter")
    plain = tensor.detach()
    itemsize = plain.element_size()
    shape = tuple(plain.shape)
    _, high = _span(itemsize, shape, plain.stride())
    if shows_little(0, high, shape, itemsize):
        plain = plain.contiguous()
        _, high = _span(itemsize, shape, plain.stride())
    stream = torch.cuda.current_stream(plain.device).cuda_stream or 1
    memory = _core.DeviceMemory(plain.data_ptr(), high, plain.device.index, plain, stream)
    return memory, dtype, shape, tuple(plain.stride()), bool(tensor.requires_grad)


def _span(itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """As `span_of`, of strides in items, as torch has them."""
    return span_of(itemsize, shape, tuple(stride * itemsize for stride in strides))


def _decode(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 5, "a tensor has 5 parts")
    memory, name, shape, strides, requires_grad = value
    need(isinstance(memory, _core.DeviceMemory), "the memory of a tensor is no memory of a GPU")
    need(type(name) is str and name in _DTYPES, "a tensor has no such dtype")
    for lengths, what in ((shape, "shape"), (strides, "strides")):
        need(type(lengths) is tuple and len(lengths) <= 64 and all(type(n) is int and 0 <= n < 1 << 60 for n in lengths), f"the {what} of a tensor")
    need(len(shape) == len(strides) and type(requires_grad) is bool, "the parts of a tensor")
    itemsize = 2 if name == "bfloat16" else np.dtype(name).itemsize
    _, high = _span(itemsize, shape, strides)
    need(high <= memory.nbytes, f"a tensor of shape {shape} does not fit into {memory.nbytes} bytes")
    if on_host(memory):
        if name == "bfloat16":
            raise Unsupported("NumPy has no bfloat16: a tensor of it cannot come to host memory")
        return np.ndarray(shape, np.dtype(name), memory.host_view(), 0, tuple(n * itemsize for n in strides))
    torch = library("torch")
    dtype = getattr(torch, name)
    if memory.nbytes == 0:
        tensor = torch.empty(shape, dtype=dtype, device=f"cuda:{memory.device}")
    else:
        whole = torch.as_tensor(Shaped(memory, "|u1", (memory.nbytes,), None, 0), device=f"cuda:{memory.device}")
        tensor = torch.empty(0, dtype=dtype, device=whole.device).set_(whole.untyped_storage(), 0, shape, strides)
    return tensor.requires_grad_() if requires_grad else tensor


register_named(["torch:Tensor"], "torch.tensor", _encode, _decode)
