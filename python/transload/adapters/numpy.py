"""What the walk leaves to Python of NumPy: subclasses, masked arrays, dtypes with objects or text inside."""

from __future__ import annotations

import copyreg
import functools
import warnings
from typing import Any

import numpy as np

from .. import _core, _tables
from .._registry import register, register_for_subclasses, register_named
from ..trusted import numpy as _trusted
from ._checks import charge, memory, words
from ._stand_ins import class_of, from_atoms, stand_in


def _array(value: object, what: str) -> np.ndarray[Any, Any]:
    if type(value) is not np.ndarray:
        raise ValueError(f"{what} is a {type(value).__qualname__}, not an array")
    return value


# ── Subclasses that leave copying to ndarray ─────────────────────────────────────────────────────────────────


# NumPy's own go by a word: their names stay off the trust list, for whoever may call `numpy.ndarray` or `numpy.recarray` with
# arguments of his choice reads memory as objects.
_OWN: dict[type, str] = {np.matrix: "matrix", np.recarray: "recarray", np.memmap: "memmap"}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2.5 warns of its name
    if hasattr(np.char, "chararray"):
        _OWN[np.char.chararray] = "chararray"
_OWN_BY_NAME = {name: cls for cls, name in _OWN.items()}


def _encode_subclass(a: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    own = _OWN.get(type(a))
    attributes = _attributes(a)
    if own == "memmap":  # what arrives is memory like any other; the file stays behind
        attributes = None
    slots = {name: getattr(a, name) for name in _slots(type(a)) if hasattr(a, name)}
    base = np.ndarray.view(a, np.ndarray)  # a view of the subclass's own making may be of its class again
    return (own or type(a), base, attributes, slots) if slots else (own or type(a), base, attributes)


def _attributes(a: object) -> dict[str, Any] | None:
    attributes = getattr(a, "__dict__", None)
    return dict(attributes) if attributes else None


def _slots(cls: type) -> list[str]:
    """Names of the slots of a class and its bases, as copyreg has them."""
    names: list[str] = copyreg._slotnames(cls)  # type: ignore[attr-defined]
    return names


def _decode_subclass(value: Any) -> np.ndarray[Any, Any]:
    cls, base, attributes, *slots = value
    if isinstance(cls, str):
        cls = _OWN_BY_NAME.get(cls, cls)
    if not (isinstance(cls, type) and issubclass(cls, np.ndarray)):
        raise ValueError(f"{words(cls)} is no subclass of ndarray")
    array = _array(base, "the base").view(cls)
    if attributes is not None:
        if type(attributes) is not dict or cls is np.memmap:
            raise ValueError(f"the attributes of a {cls.__qualname__}")
        if cls in _OWN or cls is np.ma.MaskedArray:
            _core.check_attributes(cls, attributes)
        array.__dict__.update(attributes)
    for name, part in dict(slots[0]).items() if slots else ():
        if name not in _slots(cls):
            raise ValueError(f"{words(name)} is no slot of a {cls.__qualname__}")
        getattr(cls, name).__set__(array, part)
    return array


# ── Masked arrays ────────────────────────────────────────────────────────────────────────────────────────────


def _encode_masked(m: Any) -> tuple[Any, ...]:
    mask = None if m._mask is np.ma.nomask else m._mask
    parts = m._data, mask, m._fill_value, bool(m._hardmask), bool(m._sharedmask), _masked_attributes(m), m._optinfo or None
    return parts if type(m) is np.ma.MaskedArray else (*parts, type(m))


_MASKED_OWN = frozenset(("_baseclass", "_basedict", "_fill_value", "_hardmask", "_isfield", "_mask", "_optinfo", "_sharedmask"))


def _masked_attributes(m: Any) -> dict[str, Any] | None:
    return {name: part for name, part in m.__dict__.items() if name not in _MASKED_OWN} or None


def _decode_masked(value: Any) -> Any:
    if type(value) is not tuple:  # an iterator that does not end would be unpacked
        raise ValueError("a masked array is a tuple")
    data, mask, fill, hard, shared, attributes, *more = value
    notes = more[0] if more else None
    cls: Any = more[1] if len(more) > 1 else np.ma.MaskedArray
    if not (isinstance(cls, type) and issubclass(cls, np.ma.MaskedArray)):
        raise ValueError(f"{words(cls)} is no masked array")
    return _masked(cls, data, mask, fill, (hard, shared), attributes, notes)


def _masked(cls: Any, data: Any, mask: Any, fill: Any, flags: tuple[Any, Any], attributes: Any, notes: Any) -> Any:
    if not isinstance(data, np.ndarray) or isinstance(data, np.ma.MaskedArray):
        raise ValueError("the data of a masked array are no array")
    if mask is not None and (_array(mask, "the mask").shape != data.shape or mask.dtype != np.ma.make_mask_descr(data.dtype)):
        raise ValueError("the mask does not fit the data")
    m: Any = data.view(cls)
    own = m.__dict__  # a MaskedRecords takes attributes for fields
    if mask is not None:
        own["_mask"] = mask
    if fill is not None:
        own["_fill_value"] = _array(fill, "the fill value")
    own["_hardmask"], own["_sharedmask"] = map(bool, flags)
    if attributes is not None:
        if type(attributes) is not dict:
            raise ValueError("the attributes of a masked array are no dict")
        if cls.__module__.startswith("numpy."):
            _core.check_attributes(cls, attributes)
        own.update({name: part for name, part in attributes.items() if name not in _MASKED_OWN})
    if notes is not None:
        if type(notes) is not dict:
            raise ValueError("the notes of a masked array are no dict")
        m._optinfo.update(notes)
    return m


def _encode_masked_records(m: Any) -> tuple[Any, ...]:
    own = m.__dict__
    return m._data, own["_mask"], own["_fill_value"], bool(own["_hardmask"]), bool(own["_sharedmask"]), _masked_attributes(m), own["_optinfo"] or None


def _decode_masked_records(value: Any) -> Any:
    from numpy.ma.mrecords import MaskedRecords

    data, mask, fill, hard, shared, attributes, notes = value
    if not isinstance(data, np.recarray):
        raise ValueError("the records are none")  # noqa: TRY004  the bytes are wrong
    return _masked(MaskedRecords, data, _array(mask, "the mask"), fill, (hard, shared), attributes, notes)


# ── Arrays without raw bytes ─────────────────────────────────────────────────────────────────────────────────


def _encode_other(a: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    dtype: Any = a.dtype
    order: Any = "F" if a.flags.fnc else "C"
    if dtype.kind == "O" and (window := _window(a)) is not None:
        return "window", dtype, a.shape, not a.flags.writeable, window
    if dtype.kind == "T" and any(n > 1 and stride == 0 for n, stride in zip(a.shape, a.strides, strict=True)) and a.size <= _MOST_SHOWN:
        once = a[tuple(slice(1) if stride == 0 else slice(None) for stride in a.strides)]
        return "broadcast", dtype, a.shape, not a.flags.writeable, [once.copy()]
    if dtype.kind == "T":
        return "text" + order, dtype, a.shape, not a.flags.writeable, a.ravel(order).tolist()
    if dtype.names is not None and dtype.hasobject and dtype.type is not np.record and dtype.metadata is None:
        return "fields" + order, dtype, a.shape, not a.flags.writeable, [a[name] for name in dtype.names]
    plain = _plain(dtype)
    if plain is not dtype:
        return "view", dtype, a.shape, not a.flags.writeable, [a.view(plain)]
    if dtype.kind == "O":  # a window that shows too much
        return "view", dtype, a.shape, not a.flags.writeable, [a.copy()]
    raise NotImplementedError(f"arrays of {words(dtype)}")


# Items that a window may show; more of them are written one by one. A few bytes could show one 2**60 times over.
_MOST_SHOWN = 1 << 23


def _window(a: np.ndarray[Any, Any]) -> list[Any] | None:
    """The items that an array shows over and over, once, with strides and offset in items; None where it shows none twice, or too many."""
    itemsize = a.dtype.itemsize
    if not memory(a) // itemsize < a.size <= _MOST_SHOWN or any(stride % itemsize for stride in a.strides):
        return None
    strides = [stride // itemsize for stride in a.strides]
    offset = sum((n - 1) * -stride for n, stride in zip(a.shape, strides, strict=True) if stride < 0)
    forward = a[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in strides)]
    base = np.lib.stride_tricks.as_strided(forward, (memory(a) // itemsize,), (itemsize,), writeable=False)
    return [base.copy(), strides, offset]


def _decode_window(dtype: Any, shape: tuple[int, ...], content: list[Any]) -> np.ndarray[Any, Any]:
    base, strides, offset = content
    if type(strides) is not list or len(strides) != len(shape) or not all(type(n) is int for n in (*strides, offset)):
        raise ValueError("a window without strides and an offset")
    if _array(base, "the items").ndim != 1 or base.dtype != dtype or not 0 < _size(shape) <= _MOST_SHOWN:
        raise ValueError(f"items that do not fit {words(dtype)} and shape {shape}")
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    if offset + sum(n for n in reach if n < 0) < 0 or offset + sum(n for n in reach if n > 0) >= len(base):
        raise ValueError(f"a window of {len(base)} items that reaches beyond them")
    return np.lib.stride_tricks.as_strided(base[offset:], shape, [stride * dtype.itemsize for stride in strides])


def _decode_other(value: Any) -> np.ndarray[Any, Any]:
    form, dtype, shape, readonly, content = value
    if type(form) is not str or not isinstance(dtype, np.dtype) or not isinstance(shape, tuple) or not isinstance(content, list):
        raise ValueError("not (form, dtype, shape, readonly, content)")
    order: Any = "F" if form.endswith("F") else "C"
    if form in ("text", "textC", "textF"):
        if dtype.kind != "T" or _size(shape) != len(content):
            raise ValueError(f"{len(content)} texts for shape {shape} of {words(dtype)}")
        missing = getattr(dtype, "na_object", None)
        for text in content:  # NumPy would ask anything else what array it is
            if type(text) not in _TEXTS and text is not missing:
                raise ValueError(f"a text is a {type(text).__qualname__}")
        charge(len(content))
        array: np.ndarray[Any, Any] = np.array(content, dtype=dtype).reshape(shape, order=order)
    elif form in ("fields", "fieldsC", "fieldsF"):
        names = dtype.names
        if names is None or len(names) != len(content):
            raise ValueError(f"{len(content)} fields for {words(dtype)}")
        for name, field in zip(names, content, strict=True):
            part = dtype.fields[name][0]  # type: ignore[index]
            if not isinstance(field, np.ndarray) or field.shape != shape + part.shape or field.dtype != part.base:
                raise ValueError(f"field {name} does not fit {words(dtype)} and shape {shape}")
        held = sum(min(field.nbytes, memory(field)) for field in content)
        if _size(shape) * dtype.itemsize > 64 * held + (1 << 20):
            raise ValueError(f"{_size(shape)} items of {dtype.itemsize} bytes, of which {held} bytes are given")
        charge(_size(shape) * dtype.itemsize)
        array = np.zeros(shape, dtype, order)
        for name, field in zip(names, content, strict=True):
            array[name] = field
    elif form == "window":
        if dtype.kind != "O" or len(content) != 3:
            raise ValueError(f"a window of {words(dtype)}")
        array = _decode_window(dtype, shape, content)
    elif form == "broadcast":
        once = content[0] if len(content) == 1 else None
        if not isinstance(once, np.ndarray) or once.dtype != dtype or dtype.kind != "T" or _size(shape) > _MOST_SHOWN:
            raise ValueError(f"items that do not fit {words(dtype)} and shape {shape}")
        array = np.broadcast_to(once, shape)
        array.flags.writeable = not readonly
    elif form == "view":
        plain = content[0] if len(content) == 1 else None
        if not isinstance(plain, np.ndarray) or plain.shape != shape or plain.dtype != _plain(dtype):
            raise ValueError(f"the array does not fit {words(dtype)}")
        array = plain.view(dtype)
    else:
        raise ValueError(f"form {words(form)} is not known")
    if readonly:
        array.flags.writeable = False
    return array


_TEXTS = (str, int, float, bool, type(None))


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        if type(n) is not int or n < 0:
            raise ValueError(f"shape {shape}")
        size *= n
    return size


def _plain(dtype: Any) -> Any:
    """The dtype without metadata, scalar classes of its own and titles that are no text, inside too; itself where there are none."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return dtype if dtype.metadata is None and _plain(base) is base else np.dtype((_plain(base), shape))
    if dtype.names is None:
        return dtype if dtype.metadata is None else np.dtype(dtype.str)
    names, formats, offsets, titles, itemsize, aligned = _parts(dtype)
    plain = [_plain(part) for part in formats]
    if dtype.metadata is None and dtype.type is not np.record and all(p is q for p, q in zip(plain, formats, strict=True)) and all(type(t) in (str, type(None)) for t in titles):
        return dtype
    titles = [title if type(title) is str else None for title in titles]
    return _structured(names, plain, offsets, titles, itemsize, aligned)


def _parts(dtype: Any) -> tuple[Any, ...]:
    fields = [dtype.fields[name] for name in dtype.names]
    formats, offsets, titles = [field[0] for field in fields], [field[1] for field in fields], [field[2] if len(field) > 2 else None for field in fields]
    return list(dtype.names), formats, offsets, titles, dtype.itemsize, dtype.isalignedstruct


def _structured(names: Any, formats: Any, offsets: Any, titles: Any, itemsize: Any, aligned: Any) -> Any:
    spec = {"names": names, "formats": formats, "offsets": offsets, "titles": titles, "itemsize": itemsize}
    return np.dtype(spec, align=aligned)  # type: ignore[call-overload]


def _encode_dtype(dtype: Any) -> tuple[Any, ...]:
    if dtype.kind == "T":
        missing = hasattr(dtype, "na_object")
        if missing and not _is_missing(dtype.na_object):
            raise NotImplementedError(f"{words(dtype.na_object)} stands for what is missing")
        return ("text", bool(dtype.coerce), missing, dtype.na_object if missing else None)
    plain, metadata = _plain(dtype), dict(dtype.metadata) if dtype.metadata else None
    if plain is dtype:
        raise NotImplementedError(f"{words(dtype)}")
    if dtype.subdtype is not None:
        return ("sub", False, metadata, dtype.subdtype)
    if dtype.names is not None and any(_plain(part) is not part or type(title) not in (str, type(None)) for part, title in zip(*_parts(dtype)[1:4:2], strict=True)):
        return ("struct", dtype.type is np.record, metadata, _parts(dtype))
    return ("view", dtype.type is np.record, metadata, plain)


def _is_missing(na: Any) -> bool:
    """What stands for a missing text is compared with itself, which an array need not end."""
    return type(na) in (type(None), bool, int, float, str, bytes, np.float64) or f"{type(na).__module__}:{type(na).__qualname__}" == "pandas._libs.missing:NAType"


def _decode_dtype(value: Any) -> Any:
    form, coerce, missing, na = value
    if type(form) is not str:
        raise ValueError("the form of a dtype is no text")
    if form in ("view", "sub", "struct"):
        plain: Any = na
        if type(missing) not in (dict, type(None)):
            raise ValueError("the metadata of a dtype are no dict")
        if form == "sub":
            plain = _decode_subarray(na)
        elif form == "struct":
            plain = _decode_struct(na)
        elif not isinstance(plain, np.dtype):
            raise ValueError("not (form, record, metadata, dtype)")
        if missing is not None:
            plain = np.dtype(plain, metadata=missing)
        return np.dtype((np.record, plain)) if coerce else plain
    if form != "text":
        raise ValueError(f"form {words(form)} is not known")
    if missing and not _is_missing(na):
        raise ValueError(f"{words(na)} stands for what is missing")
    dtypes: Any = np.dtypes
    return dtypes.StringDType(na_object=na, coerce=bool(coerce)) if missing else dtypes.StringDType(coerce=bool(coerce))


_ITEMSIZE = (1 << 31) - 1


def _decode_subarray(parts: Any) -> Any:
    if type(parts) is not tuple or len(parts) != 2 or not isinstance(parts[0], np.dtype) or type(parts[1]) is not tuple or _size(parts[1]) * max(parts[0].itemsize, 1) > _ITEMSIZE:
        raise ValueError("a subarray is a dtype and a shape")
    return np.dtype(parts)


def _decode_struct(parts: Any) -> Any:
    if type(parts) is not tuple or len(parts) != 6:
        raise ValueError("a structure is names, dtypes, offsets, titles, a size and whether it is aligned")
    names, formats, offsets, titles, itemsize, aligned = parts
    if any(type(part) is not list or len(part) != len(names) for part in (names, formats, offsets, titles)) or type(aligned) is not bool:
        raise ValueError("the names, dtypes, offsets and titles of a structure are not as many")
    if not all(type(name) is str for name in names) or not all(isinstance(part, np.dtype) for part in formats):
        raise ValueError("a field is a name and a dtype")
    if not all(type(n) is int and 0 <= n <= _ITEMSIZE for n in (*offsets, itemsize)):
        raise ValueError("an offset or the size of a structure")
    charge(len(names))
    return _structured(names, formats, offsets, titles, itemsize, aligned)
# ── Memoryviews that only NumPy understands, by format or by strides ─────────────────────────────────────────


def _encode_memoryview(view: Any) -> tuple[str, Any]:
    view = memoryview(view)
    try:
        array: Any = np.asarray(view)
    except (ValueError, TypeError, RuntimeError) as error:
        raise NotImplementedError(f"a memoryview of format {view.format}: {error}") from None
    back = memoryview(array)
    if (back.format, back.shape) != (view.format, view.shape):
        raise NotImplementedError(f"a memoryview of format {view.format}, which NumPy takes for {back.format}")
    return view.format, array


def _decode_memoryview(value: Any) -> memoryview:
    form, array = value
    if not issubclass(type(array), np.ndarray):
        raise ValueError("a memoryview of no array")  # noqa: TRY004  the bytes are wrong
    if memoryview(array).format != form:  # where its memory is off alignment NumPy writes the format of a structure otherwise
        writeable = array.flags.writeable
        array = array.copy()
        array.flags.writeable = writeable
    view = memoryview(array)
    if view.format != form:
        raise ValueError(f"a memoryview of format {view.format} as {words(form)}")
    return view


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
    mask = _encode_scalar(m._mask)
    plain = np.ma.make_mask_descr(m._data.dtype)
    if mask.dtype.itemsize == plain.itemsize:  # of raw bytes NumPy takes the mask for raw bytes as well
        mask = mask.view(plain)
    return _encode_scalar(m._data), mask, m._fill_value, bool(m._hardmask)


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
    if type(state) is not dict or type(state.get("bit_generator")) is not str or state["bit_generator"] not in _BIT_GENERATORS or type(state.get("state")) is not dict:
        raise ValueError("the state of a bit generator is none")
    for part in (*state["state"].values(), *(part for name, part in state.items() if name != "state")):
        if not (type(part) in (int, float, str, bool) or isinstance(part, np.number) or (type(part) is np.ndarray and part.dtype.kind in "iu" and part.ndim == 1 and part.size <= 624)):
            raise ValueError(f"{words(part)} in the state of a bit generator")
    name = state["bit_generator"]
    if name == "MT19937":
        _position(state["state"].get("pos"), name, 624)
    if name == "Philox":
        _position(state.get("buffer_pos"), name, 4)
    return state


def _position(value: Any, name: str, most: int) -> None:
    if not (type(value) is int or isinstance(value, np.integer)) or not 0 <= value <= most:
        raise ValueError(f"{name}: position {words(value)} of {most}")


def _encode_bit_generator(generator: Any) -> tuple[Any, ...]:
    return generator.state, generator.seed_seq


def _decode_bit_generator(value: Any) -> Any:
    state, seeds = value
    cls: Any = _BIT_GENERATORS[_checked_state(state)["bit_generator"]]
    if not isinstance(seeds, (np.random.bit_generator.ISeedSequence, type(None))):
        raise ValueError("the seeds are none")
    generator = cls(0)
    if _keeps_seeds(cls):
        generator.__setstate__((state, seeds))
    else:
        generator.state = state
    return generator


@functools.cache
def _keeps_seeds(cls: Any) -> bool:
    """Whether this NumPy's generators have seeds in their state."""
    return hasattr(cls, "__setstate__") and isinstance(cls(0).__reduce__()[2], tuple)


# Mixing takes as many steps as the pool has words, squared; so does cutting a large int into words.
_MOST_WORDS = 1 << 12


def _check_numbers(numbers: Any) -> None:
    """Numbers, texts of numbers, and lists of these, of as many words as a seed may have."""
    nwords, todo = 0, [numbers]
    while todo and nwords <= _MOST_WORDS:
        part = todo.pop()
        if type(part) in (list, tuple):
            nwords += len(part)
            todo.extend(part[: _MOST_WORDS + 1])
        elif type(part) is range:
            nwords += abs(part.stop - part.start)
        elif type(part) is np.ndarray and part.dtype.kind in "iu":
            nwords += part.size
        elif type(part) is int or isinstance(part, np.integer):
            nwords += int(part).bit_length() // 32
        elif type(part) is str:
            nwords += len(part) // 4
        elif part is not None:
            raise ValueError(f"seeds are numbers, not a {type(part).__qualname__}")
    if nwords > _MOST_WORDS:
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


def _encode_random_state(random_state: Any) -> tuple[Any, ...]:
    """The generator, and what it does not know: the second number of the last pair of normal ones."""
    state = random_state.get_state(legacy=False)
    return random_state._bit_generator, state["has_gauss"], state["gauss"]


def _decode_random_state(value: Any) -> Any:
    generator, has_gauss, gauss = value
    if type(generator) not in _BIT_GENERATORS.values():
        raise ValueError(f"a RandomState of a {type(generator).__qualname__}")
    if type(has_gauss) is not int or has_gauss not in (0, 1) or type(gauss) is not float:
        raise ValueError("has_gauss is 0 or 1, gauss a float")
    random_state = np.random.RandomState(generator)
    if has_gauss or gauss:
        random_state.set_state({**generator.state, "has_gauss": has_gauss, "gauss": gauss})
    return random_state


for _class in _BIT_GENERATORS.values():
    register_named([f"{_class.__module__}:{_class.__qualname__}"], "numpy.bit_generator", _encode_bit_generator, _decode_bit_generator)
register(
    np.random.SeedSequence, name="numpy.seeds", encode=lambda s: (s.entropy, s.spawn_key, s.pool_size, s.n_children_spawned), decode=_decode_seeds
)
register(np.random.Generator, name="numpy.generator", encode=lambda g: g.bit_generator, decode=_decode_generator)
register(np.random.RandomState, name="numpy.random_state", encode=_encode_random_state, decode=_decode_random_state)


# ── What subclasses with a reduce of their own begin with ────────────────────────────────────────────────────


def empty_array(cls: Any, shape: Any, code: Any) -> np.ndarray[Any, Any]:
    """Stand in for ``numpy._core.multiarray._reconstruct``: an array without items, which ``__setstate__`` then fills. Not of a masked array, which
    goes another way: its own `__setstate__` would take memory for any shape."""
    subclass = isinstance(cls, type) and issubclass(cls, np.ndarray) and cls is not np.ma.MaskedArray
    if not subclass or type(shape) is not tuple or shape != (0,) or type(code) not in (bytes, str) or code not in (b"b", "b"):
        raise ValueError("an array is rebuilt from its class, (0,) and b'b'")
    return np.ndarray.__new__(cls, (0,), "b")


def _special(key: str, encode: Any, decode: Any) -> None:
    """Adapters that the walk asks for by key, not by class."""
    _tables.adapters_by_type[key] = (key, encode)
    _tables.adapters_by_name[key] = decode


def _ufunc_error(module: str, name: str) -> Any:
    def make(*arguments: Any) -> Any:
        if len(arguments) == 2 and type(arguments[1]) is tuple and isinstance(arguments[0], np.ufunc):  # no loop for these dtypes
            charge(len(arguments[1]))
        elif len(arguments) == 2 and type(arguments[0]) is tuple and isinstance(arguments[1], np.dtype):  # no memory for shape and dtype
            pass
        elif len(arguments) != 5 or not isinstance(arguments[0], np.ufunc) or type(arguments[1]) is not str or type(arguments[4]) is not int:
            raise ValueError(f"a {name} is of a ufunc and dtypes")
        return class_of(module, name)(*arguments)

    return make


def _decode_limits(info: Any) -> Any:
    def decode(dtype: Any) -> Any:
        if not isinstance(dtype, np.dtype) or dtype.kind not in ("iu" if info is np.iinfo else "fc"):
            raise ValueError(f"{info.__name__} of {words(dtype)}")
        return info(dtype)

    return decode


def _decode_no_value(value: Any) -> Any:
    if value is not None:
        raise ValueError("no value with a value")
    return _NO_VALUE


_NO_VALUE: Any = np._NoValue
register(type(_NO_VALUE), name="numpy.no_value", encode=lambda _: None, decode=_decode_no_value)
register(np.iinfo, name="numpy.iinfo", encode=lambda info: info.dtype, decode=_decode_limits(np.iinfo))
register(np.finfo, name="numpy.finfo", encode=lambda info: info.dtype, decode=_decode_limits(np.finfo))
stand_in({"numpy.exceptions": "AxisError"}, from_atoms)
stand_in(_trusted.UFUNC_ERRORS, _ufunc_error)
_special("numpy.subclass", _encode_subclass, _decode_subclass)
_special("numpy.ndarray", _encode_other, _decode_other)
_special("numpy.dtype", _encode_dtype, _decode_dtype)
_special("numpy.scalar", _encode_scalar, _decode_scalar)
_special("numpy.memoryview", _encode_memoryview, _decode_memoryview)
register(np.ma.core.mvoid, name="numpy.masked_void", encode=_encode_masked_void, decode=_decode_masked_void)
register(np.ma.MaskedArray, name="numpy.masked", encode=_encode_masked, decode=_decode_masked)
register_for_subclasses(np.ma.MaskedArray, ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__"))
register_named(["numpy.ma.mrecords:MaskedRecords"], "numpy.masked_records", _encode_masked_records, _decode_masked_records)
for _module in ("numpy._core.multiarray", "numpy.core.multiarray"):
    _tables.overrides[f"{_module}:_reconstruct"] = empty_array
