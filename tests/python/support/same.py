"""Whether two objects are the same to the last bit: class, state, layout and sharing, found out by the reduce protocol."""

from __future__ import annotations

import array
import types
from typing import Any

import numpy as np

_ATOMS = (int, str, bytes, bool, type(None), type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, range, slice, np.ufunc, type(...), type(NotImplemented))


def difference(a: Any, b: Any) -> str | None:
    """Where `a` and `b` differ, in words; None when nowhere."""
    return _Walk().walk(a, b, "obj")


def _nodes(tree: Any) -> list[Any]:
    found, todo = [], [getattr(tree.tree, "_node", tree.tree)]
    while todo:
        node = todo.pop()
        found.append((node.level, node.split_dim, node.children, node.split, node.start_idx, node.end_idx) if node.split_dim != -1 else (node.level, node.start_idx, node.end_idx))
        todo += [node.lesser, node.greater] if node.split_dim != -1 else []
    return found


class _Walk:
    def __init__(self) -> None:
        self.pairs: dict[int, int] = {}
        self.keep: list[Any] = []

    def walk(self, a: Any, b: Any, at: str) -> str | None:
        if type(a) is not type(b):
            return f"{at}: {type(a)} became {type(b)}"
        if isinstance(a, float):
            return None if a == b or (a != a and b != b) else f"{at}: {a!r} became {b!r}"
        if type(a) in (int, str, bytes, bool, type(None)):
            return None if a == b else f"{at}: {a!r:.80} became {b!r:.80}"
        if isinstance(a, types.BuiltinMethodType) and not isinstance(a.__self__, (type, types.ModuleType, type(None))):
            return self.walk(a.__self__, b.__self__, f"{at}.__self__") if a.__name__ == b.__name__ else f"{at}: {a!r} became {b!r}"
        if isinstance(a, _ATOMS):
            return None if a is b or a == b else f"{at}: {a!r} became {b!r}"
        if isinstance(a, types.MethodType):
            return self.walk(a.__self__, b.__self__, f"{at}.__self__") if a.__func__ is b.__func__ else f"{at}: {a!r} became {b!r}"
        if isinstance(a, complex):
            return None if repr(a) == repr(b) else f"{at}: {a!r} became {b!r}"
        if id(a) in self.pairs:
            return None if self.pairs[id(a)] == id(b) else f"{at}: shared there, not here"
        self.pairs[id(a)] = id(b)
        self.keep += (a, b)
        if isinstance(a, np.ndarray):
            return self.arrays(a, b, at)
        if isinstance(a, np.generic):  # of a long double some bytes are padding
            return None if a.dtype == b.dtype and (a.tobytes() == b.tobytes() or a.dtype.hasobject or (a.dtype.char in "gG" and bool(a == b))) else f"{at}: {a!r} became {b!r}"
        if isinstance(a, np.dtype):
            return self.dtypes(a, b, at)
        if isinstance(a, memoryview):
            # Views of formats that the struct module lacks are never equal; of objects the bytes are addresses.
            equal = a.tobytes() == b.tobytes() or np.asarray(a).tolist() == np.asarray(b).tolist()
            return None if equal and (a.format, a.shape, a.readonly) == (b.format, b.shape, b.readonly) else f"{at}: {a!r} became {b!r}"
        if type(a) is array.array:
            return None if a.typecode == b.typecode and a == b else f"{at}: {a!r} became {b!r}"
        if type(a) in (list, tuple):
            return self.sequences(a, b, at)
        if type(a) is dict:
            return self.dicts(a, b, at)
        if isinstance(a, (set, frozenset)) and type(a) in (set, frozenset):
            if a == b and sorted(map(str, map(type, a))) == sorted(map(str, map(type, b))):
                return None
            return self.sequences(sorted(a, key=repr), sorted(b, key=repr), at)
        if type(a).__module__.startswith("pyarrow") and hasattr(a, "equals"):
            more = {"check_metadata": True} if type(a).__name__ in ("Field", "RecordBatch", "Schema", "Table") else {}
            if not a.equals(b, **more) or getattr(a, "type", None) != getattr(b, "type", None):
                return f"{at}: Arrow data differ"
            columns = a.columns if hasattr(a, "columns") else [a]
            lengths = [[[len(chunk) for chunk in getattr(column, "chunks", ())] for column in columns] for columns in (columns, b.columns if hasattr(b, "columns") else [b])]
            return None if lengths[0] == lengths[1] else f"{at}: chunks of {lengths[0]} became {lengths[1]}"
        if type(a).__module__.startswith("pyarrow"):
            return None if a == b else f"{at}: {a!r} became {b!r}"
        if type(a).__name__ in ("cKDTree", "KDTree") and type(a).__module__.startswith("scipy."):  # with addresses in their state
            parts = ("data", "indices", "maxes", "mins", "n", "m", "leafsize", "boxsize", "size")
            return self.walk([getattr(a, part) for part in parts] + _nodes(a), [getattr(b, part) for part in parts] + _nodes(b), at)
        return self.reduced(a, b, at)

    def sequences(self, a: Any, b: Any, at: str) -> str | None:
        if len(a) != len(b):
            return f"{at}: {len(a)} items became {len(b)}"
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            if found := self.walk(x, y, f"{at}[{i}]"):
                return found
        return None

    def dicts(self, a: Any, b: Any, at: str) -> str | None:
        if "_cache" in a or "_cache" in b:  # what a library keeps for itself
            a, b = ({key: value for key, value in part.items() if key != "_cache"} for part in (a, b))
            self.keep += (a, b)
        if found := self.sequences(list(a), list(b), f"{at}.keys()"):
            return found
        for key, x, y in zip(a, a.values(), b.values(), strict=True):
            if found := self.walk(x, y, f"{at}[{key!r:.40}]"):
                return found
        return None

    def arrays(self, a: Any, b: Any, at: str) -> str | None:
        if a.shape != b.shape:
            return f"{at}.shape: {a.shape} became {b.shape}"
        if found := self.dtypes(a.dtype, b.dtype, f"{at}.dtype"):
            return found
        if a.flags.writeable != b.flags.writeable:
            return f"{at}: writeable {a.flags.writeable} became {b.flags.writeable}"
        if a.dtype.itemsize and (a.flags.c_contiguous or a.flags.f_contiguous) and (a.flags.c_contiguous, a.flags.f_contiguous) != (b.flags.c_contiguous, b.flags.f_contiguous):
            return f"{at}: C/F order {a.flags.c_contiguous, a.flags.f_contiguous} became {b.flags.c_contiguous, b.flags.f_contiguous}"
        plain_a, plain_b = np.asarray(a), np.asarray(b)
        if a.dtype.hasobject or a.dtype.kind == "T":
            if found := self.sequences(plain_a.ravel().tolist(), plain_b.ravel().tolist(), at):
                return found
        elif a.dtype.names is not None:
            for name in a.dtype.names:
                if found := self.arrays(plain_a[name], plain_b[name], f"{at}[{name!r}]"):
                    return found
        elif plain_a.tobytes() != plain_b.tobytes() and not np.array_equal(plain_a, plain_b, equal_nan=a.dtype.kind in "fcmM"):  # longdouble has padding
            return f"{at}: values differ"
        if isinstance(a, np.ma.MaskedArray):
            for what in ("_mask", "_fill_value", "_hardmask", "_sharedmask", "_baseclass", "_optinfo"):
                if found := self.walk(getattr(a, what), getattr(b, what), f"{at}.{what}"):
                    return found
        if attributes := getattr(a, "__dict__", None):
            return self.dicts({k: v for k, v in attributes.items() if k[:1] != "_"}, {k: v for k, v in b.__dict__.items() if k[:1] != "_"}, f"{at}.__dict__")
        return None

    def dtypes(self, a: Any, b: Any, at: str) -> str | None:
        for what in ("kind", "byteorder", "itemsize", "type", "isalignedstruct", "names", "coerce", "metadata"):
            p, q = getattr(a, what, None), getattr(b, what, None)
            if p != q:
                return f"{at}.{what}: {p} became {q}"
        if a != b and not (a.kind == "T" and a.na_object != a.na_object and b.na_object != b.na_object):
            return f"{at}: {a} became {b}"
        if a.subdtype is not None:
            return self.dtypes(a.subdtype[0], b.subdtype[0], f"{at}.base")
        for name in a.names or ():
            if a.fields[name][1:] != b.fields[name][1:]:
                return f"{at}[{name!r}]: {a.fields[name]} became {b.fields[name]}"
            if found := self.dtypes(a.fields[name][0], b.fields[name][0], f"{at}[{name!r}]"):
                return found
        return None

    def reduced(self, a: Any, b: Any, at: str) -> str | None:
        try:
            x, y = a.__reduce_ex__(5), b.__reduce_ex__(5)
        except TypeError:
            return None if a == b or type(a).__reduce_ex__ is object.__reduce_ex__ else f"{at}: {a!r} became {b!r}"
        if isinstance(x, str):
            return None if a is b else f"{at}: {a!r} became {b!r}"
        x, y = ([list(part) if i in (3, 4) and part is not None else part for i, part in enumerate((*parts, *[None] * (6 - len(parts))))] for parts in (x, y))
        for i, (p, q) in enumerate(zip(x, y, strict=True)):
            if i == 2 and type(p) is type(q) is tuple:
                p, q = (tuple(item for item in part if type(item) is not dict or set(item) != {"_cache"}) for part in (p, q))
            self.keep += (p, q)
            if i == 2 and not p and not q and type(p) in (dict, type(None)) and type(q) in (dict, type(None)):
                continue  # no attributes, and none that were ever set
            if i == 2 and type(p) is type(q) is dict:  # attributes have no order
                p, q = ({key: part[key] for key in sorted(part, key=repr) if key != "_cache"} for part in (p, q))
                self.keep += (p, q)
            if found := self.walk(p, q, at if i == 2 else f"{at}.__reduce__()[{i}]"):
                return found
        return None
