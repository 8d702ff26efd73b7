"""Reads damaged messages of one object in a process of its own; whatever is neither an object nor a transload.Error is told on stdout.

    python -X faulthandler mutate.py LABEL MANNER [TRIES]

A crash is seen by whoever started it. What still opens is used, for damage may only show there.
"""

from __future__ import annotations

import itertools
import os
import random
import resource
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import transload  # noqa: E402


def _values() -> Any:
    shared = [1, 2]
    loop: list[Any] = [shared, shared]
    loop.append(loop)
    return {"a": [1, -5, 2**70, 1.5, None, True, "text", b"bytes", (1, {2}), frozenset({3})], "loop": loop, (1, "k"): bytearray(b"x" * 40), "view": memoryview(b"abc"), "floats": [1.5] * 20, "slice": slice(1, 2), "range": range(5), "sur": "\ud800"}


def _library() -> Any:
    import collections
    import datetime
    import decimal
    import re
    import uuid

    return [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), decimal.Decimal("1.5"), uuid.UUID(int=5), re.compile("a+"), collections.OrderedDict(a=1), collections.Counter("aab"), collections.deque([1], 3), ValueError("x")]


def _arrays() -> Any:
    return [np.arange(5), np.arange(12.0).reshape(3, 4).T, np.arange(10)[::2], np.broadcast_to(1.5, (3, 4)), np.array(["a", "bc"]), np.array([None, "x"], object), np.float32(3), np.dtype("i4,f8"), np.zeros(2, "i4,f8"),
            np.ma.array([1, 2], mask=[0, 1]), np.random.RandomState(1), np.datetime64("2024"), np.arange(3.0)[::-1], np.rec.array([(1, 2.0)], dtype="i4,f8")]


def _pandas() -> Any:
    import pandas as pd

    return pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": pd.Categorical(["x", "y", "x"]), "d": pd.date_range("2024", periods=3), "s": ["p", None, "q"], "n": pd.array([1, None, 3], dtype="Int64")},
                        index=pd.MultiIndex.from_tuples([("u", 1), ("v", 2), ("u", 3)]))


def _sparse() -> Any:
    import scipy.sparse as sp

    base = sp.random_array((6, 5), density=0.4, random_state=1)
    return [getattr(sp, f"{form}_array")(base) for form in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")]


def _scipy(kind: str) -> Any:
    from support import objects_scipy

    return [make() for make in getattr(objects_scipy, f"_{kind}")().values()]


def _arrow() -> Any:
    import pyarrow as pa

    return pa.table({"a": [1, None, 3], "s": ["x", None, "yy"], "l": [[1], [], None], "d": pa.array(["p", "q", "p"]).dictionary_encode()})


class _OnGpu:
    """What an object of a GPU library sends: its parts, some of them memory of a GPU, which its host twin stands in for."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class _Array(_OnGpu):
    pass


class _Matrix(_OnGpu):
    pass


class _Tensor(_OnGpu):
    pass


def _gpu() -> Any:
    from transload import _core
    from transload.adapters import cupy, torch

    for cls, decode in ((_Array, cupy._decode_array), (_Matrix, cupy._decode_sparse), (_Tensor, torch._decode)):
        transload.register(cls, name=f"test.{cls.__name__}", encode=lambda thing: thing.parts, decode=decode)

    def array(a: Any) -> _Array:
        return _Array(_core.DeviceMemory(a.ctypes.data, a.nbytes, _core.HOST_TWIN, a), a.dtype, a.shape, a.strides, 0)

    values, i4 = np.arange(1.0, 5.0), np.array([0, 1, 2, 4], "i4")
    forms = [("csr_matrix", (3, 5), (array(values), array(i4), array(i4))), ("csc_matrix", (5, 3), (array(values), array(i4), array(i4))), ("coo_matrix", (5, 5), (array(values), array(i4), array(i4))),
             ("dia_matrix", (3, 3), (array(np.ones((4, 3))), array(i4)))]
    whole = array(np.arange(30_000.0)).parts[0]
    return [array(np.arange(12.0).reshape(3, 4)), array(np.zeros(2, "i4,f8")), whole, whole.window(8, 80), [_Matrix(*form, {"_has_canonical_format": True}) for form in forms], _Tensor(whole, "float32", (3, 4), (1, 3), True)]


def _python(kind: str) -> Any:
    from support import objects_python

    return [make() for label, make in objects_python.values().items() if label.startswith(kind)]


def _estimator(name: str) -> Any:
    from support import objects_sklearn

    return objects_sklearn.fitted(name)


OBJECTS: dict[str, Any] = {
    "values": _values, "library": _library, "arrays": _arrays, "pandas": _pandas, "sparse": _sparse, "arrow": _arrow, "gpu": _gpu,
    **{kind: (lambda kind=kind: _scipy(kind)) for kind in ("spatial", "interpolate", "stats")},
    **{kind: (lambda kind=kind: _python(kind)) for kind in ("iterator", "named", "typing", "exception", "object")},
    **{
        name: (lambda name=name: _estimator(name))
        for name in ("DecisionTreeClassifier", "RandomForestRegressor", "GradientBoostingClassifier", "HistGradientBoostingClassifier", "KNeighborsClassifier", "KernelDensity", "SVC", "KMeans", "IsolationForest", "OneHotEncoder")
    },
}


def _use(thing: Any, depth: int = 0) -> None:
    """Touch what opened."""
    for method in ("predict", "transform", "score_samples"):
        if hasattr(thing, method):
            from support import objects_sklearn

            getattr(thing, method)(objects_sklearn.data()[0][:5])
    if type(thing).__module__.startswith("scipy.") and not hasattr(thing, "toarray"):
        _ask(thing)
    if isinstance(thing, np.ndarray):
        thing.tolist()
    elif isinstance(thing, (list, tuple)) and depth < 3:
        for part in thing:
            _use(part, depth + 1)
    elif hasattr(thing, "host_view"):
        sum(thing.host_view())
    elif hasattr(thing, "__next__"):
        list(itertools.islice(thing, 20))
    elif hasattr(thing, "toarray"):
        if max(thing.shape) < 1000:
            thing.toarray(), thing @ np.ones(thing.shape[-1])
    elif hasattr(thing, "validate"):
        thing.validate(full=True), thing.to_pylist()
    elif type(thing).__module__.startswith("pandas"):
        repr(thing), thing.sum(numeric_only=True), thing.groupby(level=0).size()
    else:
        repr(thing)


def _ask(thing: Any) -> None:
    """Call what walks trees, triangles, knots and grids in compiled code."""
    where = np.random.default_rng(1).random((5, 2))
    calls: list[Any] = [
        lambda: thing.query(where, k=2), lambda: thing.query_ball_point(where, 0.3), lambda: thing.query_pairs(0.1), lambda: thing.count_neighbors(thing, 0.2), lambda: thing.find_simplex(where), lambda: thing.vertex_neighbor_vertices,
        lambda: thing.sort_vertices_of_regions(), lambda: thing.as_matrix(), lambda: thing(where), lambda: thing(where[:, 0]), lambda: thing(where[0], where[1]), lambda: thing.integrate(0, 1), lambda: thing.antiderivative()(0.5), lambda: thing.derivative()(0.5),
        lambda: thing.roots(), lambda: thing.set_smoothing_factor(0.5), lambda: thing.ev(where[0], where[1]), lambda: thing.pdf(where[:, 0]), lambda: thing.rvs(2), lambda: thing.cdf(0.5), lambda: thing.pre_order(), lambda: thing.subsets(), lambda: thing.tree,
    ]  # fmt: skip
    for call in calls:
        try:
            call()
        except Exception:
            pass


def damaged(parts: list[bytes], manner: str, tries: int = 1500) -> Iterator[list[bytes]]:
    """Messages that are damaged in one manner, about `tries` places of them."""
    rng = random.Random(7)
    if manner == "header cut":
        for n in range(0, len(parts[0]), max(1, len(parts[0]) // (10 * tries))):
            yield [parts[0][:n], *parts[1:]]
    elif manner == "header bytes":
        step = max(1, len(parts[0]) // tries)
        for at in range(0, len(parts[0]), step):
            for value in (parts[0][at] ^ 1, parts[0][at] ^ 0x80, 0, 0xC0, 0xFF, 0x7F, rng.randrange(256)):
                yield [parts[0][:at] + bytes((value,)) + parts[0][at + 1 :], *parts[1:]]
    elif manner == "frame bytes":
        for _ in range(tries):
            copies = [bytearray(part) for part in parts]
            which = rng.randrange(1, len(parts)) if len(parts) > 1 else 0
            for _ in range(rng.choice((1, 1, 4))):
                if copies[which]:
                    copies[which][rng.randrange(len(copies[which]))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            yield [bytes(parts[0]), *map(bytes, copies[1:])] if which else [bytes(copies[0])]
    elif manner == "header spliced":
        header = parts[0]
        for _ in range(tries):
            a, b, n = rng.randrange(len(header)), rng.randrange(len(header)), rng.randrange(1, 12)
            yield [header[:a] + header[b : b + n] + header[a + rng.choice((0, n)) :], *parts[1:]]


MANNERS = ("header cut", "header bytes", "frame bytes", "header spliced")


_SLOW = ("spatial", "interpolate", "stats")  # to use what opens takes longer than to open it


def main(label: str, manner: str, tries: int) -> None:
    """Try them all; print what was wrong, then how many there were."""
    warnings.simplefilter("ignore")
    thing = OBJECTS[label]()
    parts = [bytes(part) for part in transload.dumps(thing, families=("host",))]
    transload.loads(parts, device="host")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 30), used + (8 << 30)))
    tried = opened = 0
    for message in damaged(parts, manner, tries):
        tried += 1
        try:
            got = transload.loads(message, device="host")
        except (transload.Error, MemoryError):
            continue
        except BaseException as error:
            print(f"WRONG {type(error).__name__}: {error}")
            continue
        opened += 1
        try:
            _use(got)
        except Exception:
            pass
    print(f"tried {tried} opened {opened}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 60 if sys.argv[1] in _SLOW else 1500)
