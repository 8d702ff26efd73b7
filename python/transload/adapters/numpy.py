"""What the walk leaves to Python of NumPy: subclasses, masked arrays, dtypes with objects or text inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _tables
from .._registry import register


def _array(value: object, what: str) -> np.ndarray[Any, Any]:
    if type(value) is not np.ndarray:
        raise ValueError(f"{what} is a {type(value).__qualname__}, not an array")
    return value


# ── Subclasses that leave copying to ndarray ─────────────────────────────────────────────────────────────────


def _encode_subclass(a: np.ndarray[Any, Any]) -> tuple[type, np.ndarray[Any, Any], dict[str, Any] | None]:
    return type(a), a.view(np.ndarray), _attributes(a)


def _attributes(a: object) -> dict[str, Any] | None:
    attributes = getattr(a, "__dict__", None)
    return dict(attributes) if attributes else None


def _decode_subclass(value: Any) -> np.ndarray[Any, Any]:
    cls, base, attributes = value
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
    if dtype.names is not None and dtype.hasobject:
        return "fields", dtype, a.shape, not a.flags.writeable, [a[name] for name in dtype.names]
    raise NotImplementedError(f"arrays of {dtype!r}")


def _decode_other(value: Any) -> np.ndarray[Any, Any]:
    form, dtype, shape, readonly, content = value
    if not isinstance(dtype, np.dtype) or not isinstance(shape, tuple) or not isinstance(content, list):
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
            part = dtype.fields[name][0]
            if not isinstance(field, np.ndarray) or field.shape != shape + part.shape or field.dtype != part.base:
                raise ValueError(f"field {name} does not fit {dtype!r} and shape {shape}")
        array = np.empty(shape, dtype)
        for name, field in zip(names, content, strict=True):
            array[name] = field
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


def _encode_dtype(dtype: Any) -> tuple[Any, ...]:
    if dtype.kind == "T":
        missing = hasattr(dtype, "na_object")
        return ("text", bool(dtype.coerce), missing, dtype.na_object if missing else None)
    raise NotImplementedError(f"{dtype!r}")


def _decode_dtype(value: Any) -> Any:
    form, coerce, missing, na = value
    if form != "text":
        raise ValueError(f"form {form!r} is not known")
    dtypes: Any = np.dtypes
    return dtypes.StringDType(na_object=na, coerce=bool(coerce)) if missing else dtypes.StringDType(coerce=bool(coerce))


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
register(np.ma.MaskedArray, name="numpy.masked", encode=_encode_masked, decode=_decode_masked)
for _module in ("numpy._core.multiarray", "numpy.core.multiarray"):
    _tables.overrides[f"{_module}:_reconstruct"] = empty_array
