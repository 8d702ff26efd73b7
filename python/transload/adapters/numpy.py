"""What the walk leaves to Python of NumPy: subclasses, masked arrays, dtypes with objects or text inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _tables
from .._registry import register, register_named
from ._checks import memory


def _array(value: object, what: str) -> np.ndarray[Any, Any]:
    if type(value) is not np.ndarray:
        raise ValueError(f"{what} is a {type(value).__qualname__}, not an array")
    return value


# ── Subclasses that leave copying to ndarray ─────────────────────────────────────────────────────────────────


# NumPy's own go by a word: their names stay off the trust list, for whoever may call `numpy.ndarray` or `numpy.recarray` with
# arguments of his choice reads memory as objects.
_OWN: dict[type, str] = {np.matrix: "matrix", np.recarray: "recarray", np.memmap: "memmap", np.char.chararray: "chararray"}
_OWN_BY_NAME = {name: cls for cls, name in _OWN.items()}


def _encode_subclass(a: np.ndarray[Any, Any]) -> tuple[type | str, np.ndarray[Any, Any], dict[str, Any] | None]:
    own = _OWN.get(type(a))
    attributes = _attributes(a)
    if own == "memmap":  # what arrives is memory like any other; the file stays behind
        attributes = None
    return own or type(a), a.view(np.ndarray), attributes


def _attributes(a: object) -> dict[str, Any] | None:
    attributes = getattr(a, "__dict__", None)
    return dict(attributes) if attributes else None


def _decode_subclass(value: Any) -> np.ndarray[Any, Any]:
    cls, base, attributes = value
    if isinstance(cls, str):
        cls = _OWN_BY_NAME.get(cls, cls)
    if not (isinstance(cls, type) and issubclass(cls, np.ndarray)):
        raise ValueError(f"{cls!r} is no subclass of ndarray")
    array = _array(base, "the base").view(cls)
    if attributes is not None:
        array.__dict__.update(attributes)
    return array


# ── Masked arrays ────────────────────────────────────────────────────────────────────────────────────────────


def _encode_masked(m: Any) -> tuple[Any, ...]:
    mask = None if m._mask is np.ma.nomask else m._mask
    data = m._data
    attributes = {k: v for k, v in m.__dict__.items() if k not in _MASKED_OWN}
    return data, mask, m._fill_value, bool(m._hardmask), bool(m._sharedmask), attributes or None


_MASKED_OWN = frozenset(("_baseclass", "_basedict", "_fill_value", "_hardmask", "_isfield", "_mask", "_optinfo", "_sharedmask"))


def _decode_masked(value: Any) -> Any:
    data, mask, fill, hard, shared, attributes = value
    if not isinstance(data, np.ndarray) or isinstance(data, np.ma.MaskedArray):
        raise ValueError("the data of a masked array are no array")
    if mask is not None and (_array(mask, "the mask").shape != data.shape or mask.dtype != np.ma.make_mask_descr(data.dtype)):
        raise ValueError("the mask does not fit the data")
    m: Any = data.view(np.ma.MaskedArray)
    if mask is not None:
        m._mask = mask
    if fill is not None:
        m._fill_value = _array(fill, "the fill value")
    m._hardmask = bool(hard)
    m._sharedmask = bool(shared)
    if attributes is not None:
        m.__dict__.update({k: v for k, v in attributes.items() if k not in _MASKED_OWN})
    return m


# ── Arrays without raw bytes ─────────────────────────────────────────────────────────────────────────────────


def _encode_other(a: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    dtype: Any = a.dtype
    if dtype.kind == "T":
        return "text", dtype, a.shape, not a.flags.writeable, a.ravel().tolist()
    if dtype.type is np.record or dtype.metadata:
        return "view", dtype, a.shape, not a.flags.writeable, [a.view(_plain(dtype))]
    if dtype.names is not None and dtype.hasobject:
        return "fields", dtype, a.shape, not a.flags.writeable, [a[name] for name in dtype.names]
    raise NotImplementedError(f"arrays of {dtype!r}")


def _decode_other(value: Any) -> np.ndarray[Any, Any]:
    form, dtype, shape, readonly, content = value
    if type(form) is not str or not isinstance(dtype, np.dtype) or not isinstance(shape, tuple) or not isinstance(content, list):
        raise ValueError("not (form, dtype, shape, readonly, content)")
    if form == "text":
        if dtype.kind != "T" or _size(shape) != len(content):
            raise ValueError(f"{len(content)} texts for shape {shape} of {dtype!r}")
        array: np.ndarray[Any, Any] = np.array(content, dtype=dtype).reshape(shape)
    elif form == "fields":
        names = dtype.names
        if names is None or len(names) != len(content):
            raise ValueError(f"{len(content)} fields for {dtype!r}")
        for name, field in zip(names, content, strict=True):
            part = dtype.fields[name][0]  # type: ignore[index]
            if not isinstance(field, np.ndarray) or field.shape != shape + part.shape or field.dtype != part.base:
                raise ValueError(f"field {name} does not fit {dtype!r} and shape {shape}")
        held = sum(min(field.nbytes, memory(field)) for field in content)
        if _size(shape) * dtype.itemsize > 64 * held + (1 << 20):
            raise ValueError(f"{_size(shape)} items of {dtype.itemsize} bytes, of which {held} bytes are given")
        array = np.zeros(shape, dtype)
        for name, field in zip(names, content, strict=True):
            array[name] = field
    elif form == "view":
        plain = content[0] if len(content) == 1 else None
        if not isinstance(plain, np.ndarray) or plain.shape != shape or plain.dtype != _plain(dtype):
            raise ValueError(f"the array does not fit {dtype!r}")
        array = plain.view(dtype)
    else:
        raise ValueError(f"form {form!r} is not known")
    if readonly:
        array.flags.writeable = False
    return array


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        if type(n) is not int or n < 0:
            raise ValueError(f"shape {shape}")
        size *= n
    return size


def _plain(dtype: Any) -> Any:
    """The dtype without metadata and without a scalar class of its own."""
    if dtype.names is None:
        return np.dtype(dtype.str)
    spec: dict[str, Any] = {"names": list(dtype.names), "formats": [], "offsets": [], "titles": [], "itemsize": dtype.itemsize}
    for name in dtype.names:
        part, offset, *title = dtype.fields[name]
        spec["formats"].append(part)
        spec["offsets"].append(offset)
        spec["titles"].append(title[0] if title else None)
    return np.dtype(spec, align=dtype.isalignedstruct)  # type: ignore[call-overload]


def _encode_dtype(dtype: Any) -> tuple[Any, ...]:
    if dtype.kind == "T":
        missing = hasattr(dtype, "na_object")
        return ("text", bool(dtype.coerce), missing, dtype.na_object if missing else None)
    if dtype.type is np.record or dtype.metadata:
        if dtype.subdtype is not None:
            raise NotImplementedError(f"{dtype!r}")
        return ("view", dtype.type is np.record, dict(dtype.metadata) if dtype.metadata else None, _plain(dtype))
    raise NotImplementedError(f"{dtype!r}")


def _decode_dtype(value: Any) -> Any:
    form, coerce, missing, na = value
    if type(form) is not str:
        raise ValueError("the form of a dtype is no text")
    if form == "view":
        plain: Any = na
        if not isinstance(plain, np.dtype) or not isinstance(missing, (dict, type(None))):
            raise ValueError("not (form, record, metadata, dtype)")
        if missing is not None:
            plain = np.dtype(plain, metadata=missing)
        return np.dtype((np.record, plain)) if coerce else plain
    if form != "text":
        raise ValueError(f"form {form!r} is not known")
    dtypes: Any = np.dtypes
    return dtypes.StringDType(na_object=na, coerce=bool(coerce)) if missing else dtypes.StringDType(coerce=bool(coerce))


# ── Scalars without raw bytes ────────────────────────────────────────────────────────────────────────────────


def _encode_scalar(scalar: Any) -> Any:
    array = np.empty((), scalar.dtype)
    array[()] = scalar
    return array


def _decode_scalar(value: Any) -> Any:
    if _array(value, "the scalar").ndim != 0:
        raise ValueError(f"a scalar of shape {value.shape}")
    return value[()]


def _encode_masked_void(m: Any) -> tuple[Any, ...]:
    return _encode_scalar(m._data), _encode_scalar(m._mask), m._fill_value, bool(m._hardmask)


def _decode_masked_void(value: Any) -> Any:
    data, mask, fill, hard = value
    if _array(data, "the data").ndim != 0 or _array(mask, "the mask").dtype != np.ma.make_mask_descr(data.dtype) or mask.ndim != 0:
        raise ValueError("the mask does not fit the data")
    m: Any = np.ma.core.mvoid(  # type: ignore[no-untyped-call]
        data[()], mask=mask[()], dtype=data.dtype, hardmask=bool(hard)
    )
    if fill is not None:
        m._fill_value = _array(fill, "the fill value")
    return m


# ── Random numbers: positions in a state are looked at, for compiled code does not ───────────────────────────

_BIT_GENERATORS = {cls.__name__: cls for cls in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)}


def _checked_state(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict) or state.get("bit_generator") not in _BIT_GENERATORS:
        raise ValueError("the state of a bit generator is none")
    name = state["bit_generator"]
    if name == "MT19937" and not 0 <= int(state["state"]["pos"]) <= 624:
        raise ValueError(f"MT19937: position {state['state']['pos']} of 624")
    if name == "Philox" and not 0 <= int(state["buffer_pos"]) <= 4:
        raise ValueError(f"Philox: position {state['buffer_pos']} of 4")
    return state


def _encode_bit_generator(generator: Any) -> tuple[Any, ...]:
    return generator.state, generator.seed_seq


def _decode_bit_generator(value: Any) -> Any:
    state, seeds = value
    cls: Any = _BIT_GENERATORS[_checked_state(state)["bit_generator"]]
    if not isinstance(seeds, (np.random.bit_generator.ISeedSequence, type(None))):
        raise ValueError("the seeds are none")
    generator = cls(0)
    generator.state = state
    if hasattr(type(generator), "__setstate__"):
        generator.__setstate__((state, seeds) if _keeps_seeds(generator) else state)
    return generator


def _keeps_seeds(generator: Any) -> bool:
    return isinstance(generator.__reduce__()[2], tuple)


# Mixing takes as many steps as the pool has words, squared; so does cutting a large int into words.
_MOST_WORDS = 1 << 12


def _check_numbers(numbers: Any) -> None:
    """Numbers, texts of numbers, and lists of these, of as many words as a seed may have."""
    words, todo = 0, [numbers]
    while todo and words <= _MOST_WORDS:
        part = todo.pop()
        if type(part) in (list, tuple):
            words += len(part)
            todo.extend(part[: _MOST_WORDS + 1])
        elif isinstance(part, (range, np.ndarray)):
            words += part.size if isinstance(part, np.ndarray) else abs(part.stop - part.start)
        elif type(part) is int or isinstance(part, np.integer):
            words += int(part).bit_length() // 32
        elif type(part) is str:
            words += len(part) // 4
        elif part is not None:
            raise ValueError(f"seeds are numbers, not a {type(part).__qualname__}")
    if words > _MOST_WORDS:
        raise ValueError(f"seeds of more than {_MOST_WORDS} words")


def _decode_seeds(value: Any) -> Any:
    entropy, spawn_key, pool_size, spawned = value
    for numbers in (entropy, spawn_key):
        _check_numbers(numbers)
    if type(pool_size) is not int or not 4 <= pool_size <= _MOST_WORDS or type(spawned) is not int or not 0 <= spawned < 1 << 32:
        raise ValueError("a pool of no size")
    return np.random.SeedSequence(entropy, spawn_key=spawn_key, pool_size=pool_size, n_children_spawned=spawned)


def _decode_generator(value: Any) -> Any:
    if type(value) not in _BIT_GENERATORS.values():
        raise ValueError(f"a Generator of a {type(value).__qualname__}")
    return np.random.Generator(value)


def _decode_random_state(value: Any) -> Any:
    generator, state = value
    if type(generator) not in _BIT_GENERATORS.values():
        raise ValueError(f"a RandomState of a {type(generator).__qualname__}")
    if _checked_state(state)["bit_generator"] != type(generator).__name__:
        raise ValueError("the state is another generator's")
    random_state = np.random.RandomState(generator)
    random_state.__setstate__(state)
    return random_state


for _class in _BIT_GENERATORS.values():
    register_named([f"{_class.__module__}:{_class.__qualname__}"], "numpy.bit_generator", _encode_bit_generator, _decode_bit_generator)
register(
    np.random.SeedSequence, name="numpy.seeds", encode=lambda s: (s.entropy, s.spawn_key, s.pool_size, s.n_children_spawned), decode=_decode_seeds
)
register(np.random.Generator, name="numpy.generator", encode=lambda g: g.bit_generator, decode=_decode_generator)
register(np.random.RandomState, name="numpy.random_state", encode=lambda r: (r._bit_generator, r.get_state(legacy=False)), decode=_decode_random_state)


# ── What subclasses with a reduce of their own begin with ────────────────────────────────────────────────────


def empty_array(cls: Any, shape: Any, code: Any) -> np.ndarray[Any, Any]:
    """Stand in for ``numpy._core.multiarray._reconstruct``: an array without items, which ``__setstate__`` then fills."""
    if not (isinstance(cls, type) and issubclass(cls, np.ndarray)) or shape != (0,) or code not in (b"b", "b"):
        raise ValueError("an array is rebuilt from its class, (0,) and b'b'")
    return np.ndarray.__new__(cls, (0,), "b")


def _special(key: str, encode: Any, decode: Any) -> None:
    """Adapters that the walk asks for by key, not by class."""
    _tables.adapters_by_type[key] = (key, encode)
    _tables.adapters_by_name[key] = decode


_special("numpy.subclass", _encode_subclass, _decode_subclass)
_special("numpy.ndarray", _encode_other, _decode_other)
_special("numpy.dtype", _encode_dtype, _decode_dtype)
_special("numpy.scalar", _encode_scalar, _decode_scalar)
register(np.ma.core.mvoid, name="numpy.masked_void", encode=_encode_masked_void, decode=_decode_masked_void)
register(np.ma.MaskedArray, name="numpy.masked", encode=_encode_masked, decode=_decode_masked)
for _module in ("numpy._core.multiarray", "numpy.core.multiarray"):
    _tables.overrides[f"{_module}:_reconstruct"] = empty_array
