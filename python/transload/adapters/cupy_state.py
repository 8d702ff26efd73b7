"""CuPy beside its arrays: generators of random numbers, ufuncs, kernels, and what must stay in its process.

CuPy's own pickles of streams, functions and memory hold their addresses, which in another process are those of
something else, or of nothing. They are refused, also where pickle is allowed.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from .. import _tables
from .._errors import Unsendable, Unsupported
from .._registry import register_named
from ._checks import integer, need
from ._device import library

# ── handles ──────────────────────────────────────────────────────────────────────────────────────────────────

_HANDLES = {
    "cupy.cuda.stream": "_BaseStream Stream ExternalStream Event",
    "cupy.cuda.function": "CPointer Function Module LinkState",
    "cupy.cuda.graph": "Graph",
    "cupy.cuda.texture": "CUDAarray ResourceDescriptor TextureObject SurfaceObject",
    "cupy.cuda.cufft": "Plan1d PlanNd XtPlanNd",
    "cupy.cuda.device": "Handle",
    "cupy_backends.cuda.libs.nccl": "NcclCommunicator",
    "cupyx.cusparse": "BaseDescriptor SpMatDescriptor SpVecDescriptor DnVecDescriptor DnMatDescriptor",
}
_MEMORY = {
    "cupy.cuda.memory": "BaseMemory Memory MemoryAsync ManagedMemory SystemMemory UnownedMemory PooledMemory"
    " MemoryPointer CFunctionAllocatorMemory PythonFunctionAllocatorMemory CFunctionAllocator PythonFunctionAllocator"
    " MemoryPool MemoryAsyncPool SingleDeviceMemoryPool _Chunk _Arena",
    "cupy.cuda.pinned_memory": "PinnedMemory PinnedMemoryPointer PinnedMemoryPool PooledPinnedMemory _EventWatcher",
}


def _names(classes: dict[str, str]) -> list[str]:
    return [f"{module}:{name}" for module, names in classes.items() for name in names.split()]


def _refuse_handle(obj: object) -> Any:
    raise Unsendable(f"CuPy's {type(obj).__qualname__} is a handle of this process; make one where it is needed")


def _refuse_memory(obj: object) -> Any:
    name = type(obj).__qualname__
    raise Unsendable(f"CuPy's {name} is an address of this process; an array over the memory can be sent")


def _refuse_random_state(obj: object) -> Any:
    raise Unsendable(
        "CuPy's RandomState: cuRAND does not tell where it stands, and it would go on with other numbers;"
        " a cupy.random.Generator can be sent"
    )


def _nothing(value: object) -> Any:
    raise ValueError("what stays in its process cannot arrive")


register_named(_names(_HANDLES), "cupy.handle", _refuse_handle, _nothing)
register_named(_names(_MEMORY), "cupy.memory", _refuse_memory, _nothing)
register_named(["cupy.random._generator:RandomState"], "cupy.random_state", _refuse_random_state, _nothing)


# ── generators ───────────────────────────────────────────────────────────────────────────────────────────────

_BIT_GENERATORS = ("XORWOW", "MRG32k3a", "Philox4x3210")
_BIT_GENERATOR_PARTS = {"lock", "_seed_seq", "_current_device_id", "_seed", "_size", "_state"}


def _encode_bit_generator(generator: Any) -> tuple[Any, ...]:
    own = vars(generator)
    if set(own) != _BIT_GENERATOR_PARTS:
        raise Unsendable(f"CuPy's {type(generator).__qualname__} with attributes {', '.join(sorted(own))}")
    with generator.lock, sys.modules["cupy"].cuda.Device(own["_current_device_id"]):
        state = own["_state"].copy()  # as it is now: the next numbers change it
    return type(generator).__name__, int(own["_size"]), int(own["_seed"]), own["_seed_seq"], state


def _decode_bit_generator(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 5, "a generator has 5 parts")
    name, size, seed, sequence, state = value
    need(type(name) is str and name in _BIT_GENERATORS, "no generator")
    integer(size, "the size of a generator", 0, 1 << 40)
    integer(seed, "the seed of a generator", 0, (1 << 32) - 1)
    need(isinstance(sequence, np.random.SeedSequence), "the seeds of a generator are no SeedSequence")
    if type(state) is np.ndarray:
        raise Unsupported("CuPy's generators need a GPU")
    cupy = library("cupy")
    need(type(state) is cupy.ndarray and state.dtype == np.int8 and state.ndim == 1, "the state of a generator")
    cls = getattr(cupy.random, name)
    generator = cls.__new__(cls)
    need(state.nbytes == size * generator._type_size(), f"{state.nbytes} bytes are no state of {size} generators")
    with state.device:
        state = state.copy()  # its own, aligned as cuRAND needs it
    parts = {
        "lock": threading.Lock(),
        "_seed_seq": sequence,
        "_current_device_id": state.device.id,
        "_seed": np.uint32(seed),
        "_size": size,
        "_state": state,
    }
    vars(generator).update(parts)
    return generator


def _encode_generator(generator: Any) -> Any:
    own = vars(generator)
    if set(own) != {"bit_generator", "_binomial_state"}:  # the latter is made anew of each n and p
        raise Unsendable(f"CuPy's Generator with attributes {', '.join(sorted(own))}")
    return own["bit_generator"]


def _decode_generator(bit_generator: Any) -> Any:
    cupy = library("cupy")
    need(isinstance(bit_generator, cupy.random.BitGenerator), "a Generator of no generator")
    return cupy.random.Generator(bit_generator)


_MODULE = "cupy.random._bit_generator"
register_named(
    [f"{_MODULE}:{name}" for name in _BIT_GENERATORS],
    "cupy.bit_generator",
    _encode_bit_generator,
    _decode_bit_generator,
)
register_named(["cupy.random._generator_api:Generator"], "cupy.generator", _encode_generator, _decode_generator)


# ── ufuncs and kernels ───────────────────────────────────────────────────────────────────────────────────────

_UFUNC_MODULES = ("cupy", "cupyx.scipy.special")
_ufuncs: dict[int, tuple[str, str]] = {}


def _encode_ufunc(ufunc: Any) -> tuple[str, str]:
    for module in _UFUNC_MODULES:
        loaded = sys.modules.get(module)
        if id(ufunc) not in _ufuncs and loaded is not None:
            _ufuncs.update((id(v), (module, name)) for name, v in vars(loaded).items() if type(v) is type(ufunc))
    place = _ufuncs.get(id(ufunc))
    if place is None or getattr(sys.modules[place[0]], place[1], None) is not ufunc:
        raise Unsendable(f"the ufunc {ufunc.name} has no name in {' or '.join(_UFUNC_MODULES)}")
    return place


def _decode_ufunc(value: Any) -> Any:
    need(type(value) is tuple and len(value) == 2 and all(type(part) is str for part in value), "a ufunc is a name")
    module, name = value
    need(module in _UFUNC_MODULES, "a ufunc of {}", module)
    ufunc = vars(library(module)).get(name)
    need(type(ufunc) is library("cupy").ufunc, "{} is no ufunc of {}", name, module)
    return ufunc


register_named(["cupy._core._kernel:ufunc"], "cupy.ufunc", _encode_ufunc, _decode_ufunc)


def _reduce_elementwise(kernel: Any) -> tuple[Any, ...]:
    """As the kernel itself, without what was compiled for this process."""
    function, args, state = kernel.__reduce_ex__(5)
    compiled = (kernel._elementwise_kernel_memo, kernel._cached_codes, kernel._params_type_memo)
    return function, args, tuple({} if any(part is memo for memo in compiled) else part for part in state)


_tables.adapters_by_type["cupy._core._kernel:ElementwiseKernel"] = ("", _reduce_elementwise)
