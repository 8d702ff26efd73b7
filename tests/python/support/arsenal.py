"""Values that an attacker would put where a name of the trust list or an adapter takes one: as nodes of docs/format.md, with the names they use."""

from __future__ import annotations

import random
from typing import Any

import msgpack

MARK = 0x40
(
    REF,
    VALUE,
    LIST,
    TUPLE,
    SET,
    FROZENSET,
    RECORD,
    OBJECT,
    NAME,
    REDUCE,
    NEW,
    NEW_KW,
    ADAPTED,
    BIGINT,
    COMPLEX,
    TEXT,
    BYTES,
    BYTEARRAY,
    MEMORYVIEW,
    SLICE,
    RANGE,
    FLOATS,
    ARRAY,
    OBJECT_ARRAY,
    SCALAR,
    DTYPE,
    ARROW,
    PICKLE,
    ERROR,
    LAST,
    DEVICE,
) = range(31)

# Names that the values below are made of; number 0 is the one that is attacked.
NAMES = (
    "builtins:int",
    "builtins:str",
    "builtins:object",
    "builtins:list",
    "builtins:max",
    "builtins:sum",
    "functools:partial",
    "collections:defaultdict",
    "operator:itemgetter",
    "types:SimpleNamespace",
    "pathlib:PosixPath",
    "decimal:Decimal",
    "fractions:Fraction",
    "zoneinfo:ZoneInfo._unpickle",
    "datetime:datetime",
    "datetime:timedelta",
    "datetime:timezone",
    "builtins:ValueError",
    "re:_compile",
    "types:GenericAlias",
    "collections:OrderedDict",
    "collections:deque",
    "collections:UserList",
    "uuid:UUID",
    "standard.iterator",
    "standard.bytes_io",
    "standard.method",
    "builtins:str.join",
    "numpy:sum",
    "numpy:float64",
    "numpy:dtype",
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.masked",
    "numpy.subclass",
    "pandas.index",
    "pandas.Series",
    "pandas.block",
    "pandas._libs.tslibs.timestamps:_unpickle_timestamp",
    "pandas:CategoricalDtype",
    "pandas._libs.tslibs.offsets:Day",
    "scipy.csr_matrix",
    "cupy.ndarray",
    "sklearn.StandardScaler",
    "sklearn.utils._bunch:Bunch",
)
_NUMBER = {name: i + 1 for i, name in enumerate(NAMES)}


def _name(name: str) -> list[Any]:
    return [NAME, _NUMBER[name]]


def _call(name: str, *arguments: Any, state: Any = None) -> list[Any]:
    return (
        [REDUCE, _NUMBER[name], list(arguments)] if state is None else [REDUCE, _NUMBER[name], list(arguments), state]
    )


def _made(name: str, state: Any) -> list[Any]:
    return [NEW, _NUMBER[name], [], state]


def _adapted(name: str, value: Any) -> list[Any]:
    return [ADAPTED, _NUMBER[name], value]


def _iterator(kind: str, *arguments: Any) -> list[Any]:
    return _adapted("standard.iterator", [TUPLE, kind, [TUPLE, *arguments], [TUPLE]])


def _range_index(n: int) -> list[Any]:
    return _adapted("pandas.index", [TUPLE, "RangeIndex", {"start": 0, "stop": n, "step": 1, "name": None}])


def _int(n: int) -> list[Any]:
    return [BIGINT, n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)]


def _shown(n: int, dtype: str) -> list[Any]:
    """An array that shows the first item of frame 0 `n` times."""
    return [ARRAY, dtype, 0, n, 0, [0], 0]


def _on_gpu(dtype: str, *parts: Any) -> list[Any]:
    """An array of a GPU's memory, frame 1."""
    return _adapted("cupy.ndarray", [TUPLE, [DEVICE, 1, False], [DTYPE, dtype], *parts])


_INDEX = _adapted("pandas.index", [TUPLE, "Index", {"data": [ARRAY, "<i8", bytes(24), 3], "name": None}])
_STRUCT = ["struct", 12, False, [["a", 0, "<i4"], ["b", 4, "<f8"]]]
_MEMORY = {"data": [TUPLE, 16, False], "shape": [TUPLE, 10], "typestr": "<f8", "version": 3}

PLAIN: list[Any] = [
    None, True, False, 0, -1, 1, 3, 2**31, 2**62, -(2**63), 2**64 - 1, _int(2**70), _int(-(2**20000)), 0.0, 1.5, float("nan"), float("inf"), 1e300,
    "", "x", "a.b", "../../etc/passwd", "/etc/passwd", "a" * 3000, "1e999999999", "0" * 4000, "D", "ns", "UTC", "float64", "O", "unlink", "\0", [TEXT, b"\xed\xa0\x80"],
    b"", b"\xff" * 16, bytes(1000), [COMPLEX, 1.0, 2.0], [LIST], [LIST, 1, 2, 3], [LIST, "a", "b"], [TUPLE], [TUPLE, 1, 2], [TUPLE, 0], [TUPLE, None, {}], [TUPLE, [TUPLE]], {}, {"a": 1},
    {"n": 1, "normalize": False}, {"__array_interface__": _MEMORY}, [SET, 1], [FROZENSET, 1], [SLICE, None, 2, None], [RANGE, 0, 3, 1], [BYTEARRAY, b"abc"], [MEMORYVIEW, "B", b"abc", 3, True],
    _name("builtins:int"), _name("builtins:str"), _name("builtins:object"), _name("builtins:max"), _name("numpy:sum"), _name("numpy:float64"), _name("numpy:dtype"),
    _call("operator:itemgetter", 0), _call("types:SimpleNamespace", state={"shape": [TUPLE, 2], "dtype": [DTYPE, "<f8"], "strides": [TUPLE, 8], "tree_": None}),
    _call("pathlib:PosixPath", "/nowhere/victim"), _call("decimal:Decimal", "1e99999"), _call("fractions:Fraction", "1/3"), _call("zoneinfo:ZoneInfo._unpickle", "Europe/Paris", True),
    _call("datetime:datetime", b"\x07\xe8\x01\x01\0\0\0\0\0\0"), _call("datetime:timedelta", 1), _call("datetime:timezone", _call("datetime:timedelta", 0)), _call("builtins:ValueError", "x"),
    _call("re:_compile", "a+", 0), _call("types:GenericAlias", _name("builtins:list"), [TUPLE, _name("builtins:int")]), _call("collections:OrderedDict"), _call("collections:deque"),
    _call("collections:defaultdict", _name("builtins:int")), _call("functools:partial", _name("builtins:max"), state=[TUPLE, _name("builtins:max"), [TUPLE, 1, 2], {}, None]),
    _made("collections:UserList", {"data": [LIST, 1]}), _made("uuid:UUID", {"int": 5}), _adapted("standard.bytes_io", [TUPLE, b"abc", 0, None]), _iterator("iter", [LIST, 1, 2]),
    _iterator("enumerate", _iterator("iter", [TUPLE, 1, 2]), 0), _adapted("standard.method", [TUPLE, _name("builtins:str.join"), ", "]),
    [ARRAY, "<i8", bytes(24), 3], [ARRAY, "<f8", bytes(24), 3], [ARRAY, "<f8", bytes(48), [2, 3]], [ARRAY, "<i4", b"\xff" * 12, 3], [ARRAY, "<i4", bytes(12), 3], [ARRAY, "|b1", b"\x02\xff\0", 3],
    [ARRAY, "<u2", b"\xff\x7f" * 3, 3], [ARRAY, "|S3", b"abc\xff\0\0", 2], [ARRAY, "<U1", b"\xff" * 4, 1], [ARRAY, "<M8[ns]", b"\x7f" * 16, 2], [ARRAY, "<m8[s]", b"\x80" * 16, 2],
    [ARRAY, "<f8", b"", [0, 5]], [ARRAY, "<f8", bytes(8), []], [ARRAY, "<f16", b"\xff" * 32, 2], [ARRAY, "<c16", b"\xff" * 32, 2], [ARRAY, _STRUCT, b"\xff" * 24, 2], [ARRAY, "|V0", b"", 5],
    [OBJECT_ARRAY, 2, 0, None, "x"], [OBJECT_ARRAY, [2, 1], 0, 1, 2.5], [OBJECT_ARRAY, 0, 0], [SCALAR, "<f8", b"\xff" * 8], [SCALAR, "<M8[ns]", b"\x7f" * 8], [DTYPE, "|O"], [DTYPE, "<f8"],
    [DTYPE, ["struct", 8, False, [["a", 0, "|O"]]]], [DTYPE, "|V0"], [DTYPE, ["sub", "|O", [2]]], [DTYPE, "<M8[ns]"], [DTYPE, "<U5"], _adapted("numpy.dtype", [TUPLE, "text", True, False, None]),
    _adapted("numpy.masked", [TUPLE, [ARRAY, "<f8", bytes(24), 3], [ARRAY, "|b1", bytes(3), 3], None, False, False, None]),
    _adapted("numpy.subclass", [TUPLE, "matrix", [ARRAY, "<f8", bytes(48), [2, 3]], None]), _INDEX, _range_index(3),
    _adapted("pandas.Series", {"_mgr": _adapted("pandas.block", [TUPLE, _INDEX, [ARRAY, "<f8", bytes(24), 3], None]), "_typ": "series", "_metadata": [LIST, "_name"], "attrs": {},
                               "_flags": {"allows_duplicate_labels": True}, "_name": None}),
    _call("pandas._libs.tslibs.timestamps:_unpickle_timestamp", 2**62, None, None, 10), _made("pandas:CategoricalDtype", {"categories": _INDEX, "ordered": False}),
    _call("pandas._libs.tslibs.offsets:Day", 1),
    _adapted("scipy.csr_matrix", {"_shape": [TUPLE, 2, 3], "data": [ARRAY, "<f8", bytes(8), 1], "indices": [ARRAY, "<i4", bytes(4), 1], "indptr": [ARRAY, "<i4", bytes(12), 3], "maxprint": 50}),
    [DEVICE, 1, False], [DEVICE, 1, True], _on_gpu("<f8", [TUPLE, 3]), _on_gpu("<i4", [TUPLE, 2, 3]), _on_gpu("<i4", [TUPLE, 3], [TUPLE, -4], 8), _on_gpu("|V0", [TUPLE, 5]), "csr_matrix", "dia_matrix",
    [TUPLE, _on_gpu("<f8", [TUPLE, 3]), _on_gpu("<i4", [TUPLE, 3]), _on_gpu("<i4", [TUPLE, 3])],
    [TUPLE, "csr_matrix", [TUPLE, 2, 3], [TUPLE, [ARRAY, "<f8", bytes(8), 1], [ARRAY, "<i4", bytes(4), 1], [ARRAY, "<i4", bytes(12), 3]], {}],
    [TUPLE, "dia_matrix", [TUPLE, 2, 3], [TUPLE, [ARRAY, "<f8", bytes(24), [1, 3]], _on_gpu("<i4", [TUPLE, 1])], {}], [TUPLE, [DEVICE, 1, False], "float64", [TUPLE, 3], [TUPLE, 1], False],
    _adapted("sklearn.StandardScaler", {"with_mean": True, "with_std": True, "copy": True}), [NEW, _NUMBER["sklearn.utils._bunch:Bunch"], [], None, None, ["predict", _name("builtins:max")]],
]  # fmt: skip


def _is_small(node: Any) -> bool:
    if isinstance(node, (int, float)):
        return abs(node) < 1000
    if isinstance(node, (str, bytes)):
        return len(node) < 100 and "e9" not in str(node)
    if isinstance(node, dict):
        return all(map(_is_small, node.values()))
    return (
        not isinstance(node, list)
        or not node
        or (node[0] not in (BIGINT, REDUCE, ADAPTED) and all(map(_is_small, node)))
    )


_SMALL = [node for node in PLAIN if _is_small(node)]

_ENDLESS = [RANGE, 0, 1 << 62, 1]
_ENDLESS_SUM = _call(
    "functools:partial", _name("builtins:sum"), state=[TUPLE, _name("builtins:sum"), [TUPLE, _ENDLESS], {}, None]
)
# What does not end when it is listed, summed, shown or hashed. A REF by word is one of `_PRELUDE`.
NASTY: list[Any] = [
    _ENDLESS, _shown(1 << 40, "<i8"), _shown(1 << 40, "|b1"), _shown(1 << 33, "<f8"), [ARRAY, "<f8", b"", [1 << 40, 0]], _range_index(1 << 62), _range_index(1 << 40), _ENDLESS_SUM,
    _on_gpu("<i4", [TUPLE, 1 << 40], [TUPLE, 0], 0), _on_gpu("|V0", [TUPLE, 1 << 40]), _call("collections:defaultdict", _ENDLESS_SUM), _iterator("repeat", 1), _iterator("count", 0, 1), _iterator("cycle", _iterator("iter", [LIST, 1])),
    *([REF, word] for word in ("tuples", "lists", "dicts", "arrays", "ring", "knot")), [LIST, [REF, "tuples"]], [TUPLE, [REF, "tuples"], 1], {"a": [REF, "lists"]},
]  # fmt: skip


def _doubling(depth: int = 45) -> tuple[list[Any], dict[str, int]]:
    """Objects whose parts double with each level, and two that hold themselves."""
    nodes: list[Any] = []
    numbers: dict[str, int] = {}

    def add(node: list[Any], word: str) -> None:
        numbers[word] = len(nodes)
        nodes.append(node)

    for word, first, link in (
        ("tuples", [MARK | TUPLE, "y"], lambda at: [MARK | TUPLE, at, at]),
        ("lists", [MARK | LIST, "y"], lambda at: [MARK | LIST, at, at]),
        ("dicts", [MARK | VALUE, {"y": 1}], lambda at: [MARK | VALUE, {"a": at, "b": at}]),
        ("arrays", [MARK | OBJECT_ARRAY, 2, 0, 1, 2], lambda at: [MARK | OBJECT_ARRAY, 2, 0, at, at]),
    ):
        add(first, word)
        for _ in range(depth):
            add(link([REF, numbers[word]]), word)
    add([MARK | LIST, [REF, len(nodes)]], "ring")
    add([MARK | VALUE, {"c": [REF, len(nodes)]}], "knot")
    return nodes, numbers


_PRELUDE, _WORDS = _doubling()


def _resolved(node: Any) -> tuple[Any, bool, bool]:
    """The node with numbers for words, whether there were any, and whether it shows frames."""
    if isinstance(node, dict):
        parts = {key: _resolved(value) for key, value in node.items()}
        return (
            {key: part[0] for key, part in parts.items()},
            any(part[1] for part in parts.values()),
            any(part[2] for part in parts.values()),
        )
    if not isinstance(node, list):
        return node, False, False
    if len(node) == 2 and node[0] == REF and isinstance(node[1], str) and node[1] in _WORDS:
        return [REF, _WORDS[node[1]]], True, False
    found = [_resolved(part) for part in node]
    shows = (len(node) == 7 and node[0] == ARRAY and node[2] == 0) or (len(node) == 3 and node[0] == DEVICE and type(node[2]) is bool)
    return [part[0] for part in found], any(part[1] for part in found), shows or any(part[2] for part in found)


def message(target: str, root: Any) -> list[bytes]:
    """The message whose root uses `target` as name 0."""
    root, doubles, shows = _resolved(root)
    frames = [bytes(8), bytes(24)] if shows else []
    return [
        msgpack.packb(
            [
                1,
                {"!kinds": [0, 2]} if frames else {},
                [target, *NAMES],
                [],
                [0, 1 << 40] if frames else None,
                [8, 24] if frames else [],
                [LAST, *_PRELUDE, root] if doubles else root,
            ]
        ),
        *frames,
    ]


class Attack:
    """Messages against one name or wire name, as the seed says; `keys` are attributes that honest objects have."""

    def __init__(self, seed: str, keys: tuple[str, ...] = (), nasty: float = 0.25) -> None:
        self._rng = random.Random(seed)
        self._keys = (
            *keys,
            "a",
            "n",
            "__dict__",
            "__class__",
            "__array_interface__",
            "__reduce_ex__",
            "data",
            "name",
            "args",
        )
        self._nasty = nasty

    def _one(self) -> Any:
        return self._rng.choice(NASTY if self._rng.random() < self._nasty else PLAIN)

    def _value(self) -> Any:
        chance = self._rng.random()
        if chance < 0.8:
            return self._one()
        if chance < 0.9:
            return [self._rng.choice((LIST, TUPLE)), *(self._one() for _ in range(self._rng.randrange(4)))]
        return self._dict(3)

    def _dict(self, most: int) -> dict[str, Any]:
        return {self._rng.choice(self._keys): self._one() for _ in range(self._rng.randrange(most))}

    def _state(self) -> Any:
        chance = self._rng.random()
        if chance < 0.5:
            return self._dict(6)
        if chance < 0.7:
            return [TUPLE, *(self._value() for _ in range(self._rng.randrange(8)))]
        if chance < 0.8:
            return [TUPLE, self._rng.choice((None, {})), self._dict(3)]
        return self._value()

    def _with_state(self, root: list[Any], chance: float) -> list[Any]:
        if self._rng.random() < chance:
            root.append(self._state() if self._rng.random() < 0.9 else None)
            if self._rng.random() < 0.15:
                root.append([self._value() for _ in range(self._rng.randrange(3))])
                if self._rng.random() < 0.5:
                    root.append([self._value() for _ in range(2 * self._rng.randrange(3))])
        return root

    def called(self) -> list[Any]:
        return self._with_state(
            [REDUCE, 0, [self._value() for _ in range(self._rng.choice((0, 1, 1, 1, 2, 2, 3, 4, 5, 6)))]], 0.3
        )

    def made(self) -> list[Any]:
        if self._rng.random() < 0.1:
            return [NEW_KW, 0, [], self._dict(3)]
        return self._with_state([NEW, 0, [self._value() for _ in range(self._rng.choice((0, 0, 0, 1, 2)))]], 0.9)

    def adapted(self) -> list[Any]:
        chance = self._rng.random()
        if chance < 0.5:
            return [ADAPTED, 0, [TUPLE, *(self._value() for _ in range(self._rng.randrange(8)))]]
        return [ADAPTED, 0, self._dict(6) if chance < 0.7 else self._value()]

    def arguments(self) -> list[Any]:
        """Values alone, for a function that is handed on: what its user may call it with. Small ones, for it may take as long as it is asked to."""
        return [self._rng.choice(_SMALL) for _ in range(self._rng.randrange(4))]
