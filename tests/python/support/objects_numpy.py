"""NumPy beside its plain arrays: odd dtypes, arrays of them, masks, generators, limits, errors, functions and classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import polynomial

_META = np.dtype("i4", metadata={"unit": [1, "m"]})
_WITH_META = np.dtype([("a", _META), ("b", "S2")])
_WITH_OBJECT = np.dtype([("a", "i4"), ("o", "O"), ("n", [("x", "f4"), ("y", "O")])])
_TEXT = np.dtypes.StringDType


def _given(array: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(array, name, value)
    return array


def _noted(array: Any, **notes: Any) -> Any:
    array._optinfo.update(notes)
    return array


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _objects(values: list[tuple[Any, ...]]) -> Any:
    array = np.zeros(len(values), _WITH_OBJECT)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _raised(run: Callable[[], Any]) -> BaseException:
    try:
        run()
    except Exception as error:
        return error.with_traceback(None)
    raise AssertionError("nothing was raised")


def _dtypes() -> dict[str, Callable[[], Any]]:
    return {
        "metadata": lambda: _META, "metadata of a field": lambda: _WITH_META, "metadata of a subarray": lambda: np.dtype((_META, (2, 3))), "metadata of all": lambda: np.dtype(_WITH_META, metadata={"whole": True}),
        "metadata of objects": lambda: np.dtype("O", metadata={"vlen": str}), "record": lambda: np.dtype((np.record, [("a", "i4")])), "record inside": lambda: np.dtype([("r", np.dtype((np.record, [("a", "i4")])))]),
        "titles that are no text": lambda: np.dtype([((("t", 1), "a"), "i4"), (("text", "b"), "f4")]), "text": lambda: [_TEXT(), _TEXT(na_object=None), _TEXT(na_object=np.nan, coerce=False), _TEXT(na_object="-")],
        "aligned with gaps": lambda: np.dtype({"names": ["a", "b"], "formats": ["i1", _META], "offsets": [0, 8], "itemsize": 24}), "classes": lambda: [type(np.dtype(c)) for c in "?bBhHiIlLqQefdgFDGSUOMm"],
    }  # fmt: skip


def _arrays() -> dict[str, Callable[[], Any]]:
    return {
        "of metadata": lambda: np.zeros(3, _META), "of a field with metadata": lambda: np.ones(2, _WITH_META), "of metadata in Fortran order": lambda: np.asfortranarray(np.zeros((2, 3), _WITH_META)),
        "of objects with metadata": lambda: np.array(["a", None], np.dtype("O", metadata={"vlen": str})), "of titles that are no text": lambda: np.ones(2, [((("t", 1), "a"), "i4")]),
        "of text": lambda: np.array([["a", "b" * 100], ["", "é😀"]], _TEXT()), "of text in Fortran order": lambda: np.asfortranarray(np.array([["a", "b"], ["c", "d"]], _TEXT())), "of text, 0-d": lambda: np.array("a", _TEXT()),
        "of text that misses": lambda: [np.array(["a", None], _TEXT(na_object=None)), np.array(["a", np.nan], _TEXT(na_object=np.nan)), np.array(["a", 0], _TEXT(na_object=0))], "of text, read-only": lambda: _read_only(np.array(["a"], _TEXT())),
        "of objects in fields": lambda: _objects([(1, [2], (1.5, "x")), (3, None, (0, {}))]), "of objects in fields, Fortran": lambda: np.asfortranarray(np.zeros((2, 3), [("o", "O"), ("a", "i2")])),
        "scalar with an object": lambda: _objects([(1, [2], (1.5, "x"))])[0], "scalar with metadata in a field": lambda: np.ones(1, _WITH_META)[0],
        "masked with notes": lambda: _noted(np.ma.array([1, 2], mask=[0, 1]), history=["read"]), "masked, no mask, notes": lambda: _noted(np.ma.array([1, 2]), a=1), "masked with attributes": lambda: _given(np.ma.array([1], mask=[1]), z=[1]),
        "masked matrix": lambda: np.ma.array(np.matrix([[1, 2]]), mask=[[0, 1]]), "masked in Fortran order": lambda: np.ma.array(np.asfortranarray(np.arange(6.0).reshape(2, 3)), mask=np.asfortranarray(np.eye(2, 3, dtype=bool))),
        "masked record": lambda: np.ma.array([(1, 2)], mask=[(0, 1)], dtype=[("a", "i4"), ("b", "f4")], hard_mask=True)[0], "masked view": lambda: np.ma.array(np.arange(10)[::2], mask=np.arange(5) > 2, fill_value=7),
        "masked is masked": lambda: [np.ma.masked, np.ma.nomask, np.array([np.ma.masked, 1], object)], "views that share": lambda: (lambda m: [m, m[:1]])(np.ma.array([1, 2], mask=[0, 1])),
    }  # fmt: skip


def _others() -> dict[str, Callable[[], Any]]:
    return {
        "limits": lambda: [np.iinfo("i4"), np.iinfo(np.uint64)], "polynomials": lambda: [np.poly1d([1, 2]), polynomial.Polynomial([1, 2]), polynomial.Chebyshev([1, 2], [0, 2]), polynomial.Laguerre([1, 2], symbol="z")],
        "generators": lambda: [np.random.Generator(cls(1)) for cls in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)], "random state": lambda: np.random.RandomState(np.random.PCG64(2)),
        "seeds": lambda: (lambda s: [s, *s.spawn(2)])(np.random.SeedSequence([5, 2**70], spawn_key=(1, 2), pool_size=8)), "no value": lambda: np._NoValue, "index expressions": lambda: [np.s_, np.index_exp],  # type: ignore[attr-defined]
        "ufuncs": lambda: [value for value in vars(np).values() if isinstance(value, np.ufunc)], "methods of ufuncs": lambda: [np.add.reduce, np.multiply.outer, np.maximum.accumulate],
        "functions": lambda: [np.concatenate, np.dot, np.where, np.clip, np.array, np.einsum, np.linalg.norm, np.linalg.solve, np.fft.rfft, np.nanmean, np.histogram, np.unique, np.stack],
        "results": lambda: [np.linalg.eigh(np.eye(2)), np.linalg.svd(np.eye(2)), np.linalg.qr(np.eye(2)), np.linalg.slogdet(np.eye(2)), np.linalg.eig(np.eye(2)), np.unique_all(np.array([1, 1])), np.unique_counts(np.array([1]))],
        "errors": lambda: [
            np.exceptions.AxisError(1, 2), np.exceptions.AxisError("x"), np.exceptions.ComplexWarning("x"), np.linalg.LinAlgError("x"), np.exceptions.DTypePromotionError("x"), np.ma.MaskError("x"),
            _raised(lambda: np.add(["a"], 1)), _raised(lambda: np.empty(10**15)), _raised(lambda: np.add(1.5, 2, out=np.zeros((), "i4"))), _raised(lambda: np.subtract(np.ones(2, "M8[s]"), 1.5)), _raised(lambda: np.ones(2).sum(axis=3))],
    }  # fmt: skip


def values() -> dict[str, Callable[[], Any]]:
    """What travels in family host."""
    groups = {"dtype": _dtypes, "array": _arrays, "numpy": _others}
    return {f"{kind}: {label}": make for kind, group in groups.items() for label, make in group().items()}


PICKLED: dict[str, tuple[Callable[[], Any], str]] = {
    "ndarray, the class": (lambda: np.ndarray, "numpy:ndarray"), "void, the class": (lambda: np.void, "numpy:void"), "memmap, the class": (lambda: np.memmap, "numpy:memmap"), "load": (lambda: np.load, "numpy:load"),
    "vectorize": (lambda: np.vectorize(abs), "numpy:vectorize"), "frompyfunc": (lambda: np.frompyfunc, "numpy:frompyfunc"), "copyto": (lambda: np.copyto, "numpy:copyto"), "ufunc.at": (lambda: np.add.at, "numpy:ufunc.at"),
    "frombuffer": (lambda: np.frombuffer, "numpy:frombuffer"), "global generator": (lambda: np.random.rand, "RandomState.rand"), "errstate": (lambda: np.errstate(all="ignore"), "numpy:errstate"), "ndindex": (lambda: np.ndindex(2), "numpy:ndindex"),
}  # fmt: skip
