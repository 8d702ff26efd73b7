"""A message as a tree that tests can change and write again: docs/format.md read by other means (the msgpack package), as a stranger would.

Bulk bytes lie in the tree, where their payload number stood; a written message has them inline, so it is one header without frames. An object that
is met twice is written once and named by number after that, whatever the tree said of it before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack

MARK = 0x40
(REF, VALUE, LIST, TUPLE, SET, FROZENSET, RECORD, OBJECT, NAME, REDUCE, NEW, NEW_KW, ADAPTED, BIGINT, COMPLEX, TEXT, BYTES, BYTEARRAY, MEMORYVIEW, SLICE, RANGE, FLOATS, ARRAY,
 OBJECT_ARRAY, SCALAR, DTYPE, ARROW, PICKLE, ERROR, LAST) = range(30)
DICT = 100  # a plain dict, by map or by RECORD

# How many fields of a node are read by position before its nodes begin; None where all are.
_RAW: dict[int, int | None] = {
    VALUE: None, LIST: 0, TUPLE: 0, SET: 0, FROZENSET: 0, BIGINT: None, COMPLEX: None, TEXT: None, BYTEARRAY: None, MEMORYVIEW: None, SLICE: 0, RANGE: 0,
    FLOATS: None, ARRAY: None, OBJECT_ARRAY: 2, SCALAR: None, DTYPE: None, ARROW: None, ERROR: None, LAST: 0,
}


class Node:
    """A tagged node: `raw` is read by position, `kids` are nodes (scalars, Nodes), `more` are the raw arrays of nodes after them."""

    __slots__ = ("keys", "kids", "name", "op", "raw")

    def __init__(self, op: int, raw: list[Any] | None = None, kids: list[Any] | None = None, name: Any = None, keys: list[Any] | None = None) -> None:
        self.op = op
        self.raw = raw if raw is not None else []
        self.kids = kids if kids is not None else []
        self.name = name  # of a class, function or adapter: text
        self.keys = keys  # of an OBJECT or NEW_KW; of a DICT, whose keys are nodes

    def __repr__(self) -> str:
        return f"<{self.op} {self.name or ''} {self.raw!r:.60} {len(self.kids)}>"


class _Pairs(list[tuple[Any, Any]]):
    """A msgpack map, whose keys may be arrays."""


class Absent:
    """A field after construction that is not there."""


class _Reader:
    def __init__(self, names: list[Any], shapes: list[Any], dtypes: list[Any], payloads: list[bytes]) -> None:
        self.names, self.shapes, self.dtypes, self.payloads = names, shapes, dtypes, payloads
        self.marked: list[Any] = []

    def data(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else self.payloads[value]

    def node(self, value: Any) -> Any:
        if isinstance(value, _Pairs):
            return self.dict_of(Node(DICT, keys=[]), value)
        if not isinstance(value, list):
            return value
        op, fields = value[0] & ~MARK, value[1:]
        if op == REF:
            return self.marked[fields[0]]
        if op == VALUE and not isinstance(fields[0], _Pairs):  # text that is met again: what it is counts, not which
            if value[0] & MARK:
                self.marked.append(fields[0])
            return fields[0]
        node = Node(op)
        if value[0] & MARK:
            self.marked.append(node)
        if op == VALUE:
            node.op, node.keys = DICT, []
            return self.dict_of(node, fields[0])
        if op in (RECORD, OBJECT):
            name, *node.keys = self.shapes[fields[0]]
            node.op, node.name = (DICT, None) if op == RECORD else (OBJECT, self.names[name])
            node.kids = [self.node(kid) for kid in fields[1:]]
        elif op in (NAME, ADAPTED):
            node.name = self.names[fields[0]]
            node.kids = [self.node(kid) for kid in fields[1:]]
        elif op in (REDUCE, NEW, NEW_KW):
            self.constructed(node, fields)
        elif op == BYTES:
            node.op, node.raw = VALUE, [self.data(fields[0])]
        else:
            nraw = _RAW[op]
            nraw = len(fields) if nraw is None else nraw
            node.raw, node.kids = fields[:nraw], [self.node(kid) for kid in fields[nraw:]]
            if op in (ARRAY, SCALAR, DTYPE) and isinstance(node.raw[0], int):
                node.raw[0] = self.dtypes[node.raw[0]]
            if op in (BYTEARRAY, FLOATS):
                node.raw[0] = self.data(node.raw[0])
            elif op in (MEMORYVIEW, ARRAY):
                node.raw[1] = self.data(node.raw[1])
        return node

    def dict_of(self, node: Node, pairs: _Pairs) -> Node:
        assert node.keys is not None
        for key, value in pairs:
            node.keys.append(self.node(key))
            node.kids.append(self.node(value))
        return node

    def constructed(self, node: Node, fields: list[Any]) -> None:
        """kids: arguments, keyword arguments, state, items, pairs, each a LIST node (raw) or a node."""
        node.name = self.names[fields[0]]
        node.kids.append(Node(LIST, kids=[self.node(kid) for kid in fields[1]]))
        rest = fields[2:]
        if node.op == NEW_KW:
            node.keys = [key for key, _ in rest[0]]
            node.kids.append(Node(LIST, kids=[self.node(kid) for _, kid in rest[0]]))
            rest = rest[1:]
        rest += [None] * (4 - len(rest))
        node.kids.append(self.node(rest[0]))
        for part in rest[1:3]:
            node.kids.append(None if part is None else Node(LIST, kids=[self.node(kid) for kid in part]))
        node.raw = [None if rest[3] is None else self.names[rest[3]]]


def align(nbytes: int) -> int:
    """Where a packed payload begins: a multiple of this."""
    if nbytes >= 4096:
        return 64
    return min(nbytes & -nbytes, 16) if nbytes else 1


def _payloads(layout: Any, sizes: list[Any], frames: list[bytes]) -> list[bytes]:
    if layout is None:
        return []
    pack_limit, split_limit = layout
    at, ends = 0, {}
    for p, size in enumerate(sizes):
        if isinstance(size, int) and size <= pack_limit:
            at += -at % align(size)
            ends[p] = at
            at += size
    rest = iter(frames)
    pack = next(rest) if at else b""
    whole: dict[int, bytes] = {p: pack[begin : begin + sizes[p]] for p, begin in ends.items()}
    for p, size in enumerate(sizes):
        if isinstance(size, int) and p not in whole:
            parts = []
            while size > 0:
                parts.append(next(rest))
                size -= min(size, split_limit)
            whole[p] = b"".join(parts)
    return [whole[p] if isinstance(size, int) else whole[size[0]][size[1] : size[1] + size[2]] for p, size in enumerate(sizes)]


def read(parts: list[Any]) -> Any:
    """The root of a message, given as `transload.dumps` returns it."""
    header, *frames = (bytes(part) for part in parts)
    _, meta, names, shapes, layout, sizes, root = msgpack.unpackb(header, object_pairs_hook=_Pairs, strict_map_key=False)
    return _Reader(names, shapes, dict(meta).get("!dtypes", []), _payloads(layout, sizes, frames)).node(root)


class _Writer:
    def __init__(self) -> None:
        self.packer = msgpack.Packer(autoreset=False)
        self.names: dict[Any, int] = {}
        self.shapes: dict[Any, int] = {}
        self.times: dict[int, int] = {}
        self.numbers: dict[int, int] = {}

    def count(self, root: Any) -> None:
        todo = [root]
        while todo:
            node = todo.pop()
            if isinstance(node, Node):
                self.times[id(node)] = self.times.get(id(node), 0) + 1
                if self.times[id(node)] == 1:
                    todo += node.kids
                    if node.op == DICT:
                        todo += node.keys or []

    def name(self, name: Any) -> int:
        return self.names.setdefault(name, len(self.names))

    def head(self, node: Node, nfields: int, op: int | None = None) -> None:
        self.packer.pack_array_header(nfields + 1)
        op = node.op if op is None else op
        if self.times.get(id(node), 0) > 1:
            self.numbers[id(node)] = len(self.numbers)
            op |= MARK
        self.packer.pack(op)

    def node(self, node: Any) -> None:
        if not isinstance(node, Node):
            self.packer.pack(node)
        elif id(node) in self.numbers:
            self.packer.pack([REF, self.numbers[id(node)]])
        elif node.op == DICT:
            if self.times.get(id(node), 0) > 1:
                self.head(node, 1, VALUE)
            self.packer.pack_map_header(len(node.kids))
            for key, kid in zip(node.keys or [], node.kids, strict=True):
                self.node(key)
                self.node(kid)
        elif node.op == OBJECT:
            shape = (self.name(node.name), *(node.keys or []))
            self.head(node, 1 + len(node.kids))
            self.packer.pack(self.shapes.setdefault(shape, len(self.shapes)))
            self.nodes(node.kids)
        elif node.op in (NAME, ADAPTED):
            self.head(node, 1 + len(node.kids))
            self.packer.pack(self.name(node.name))
            self.nodes(node.kids)
        elif node.op in (REDUCE, NEW, NEW_KW):
            self.constructed(node)
        else:
            self.head(node, len(node.raw) + len(node.kids))
            for value in node.raw:
                self.packer.pack(value)
            self.nodes(node.kids)

    def nodes(self, nodes: list[Any]) -> None:
        for node in nodes:
            self.node(node)

    def array(self, part: Any) -> None:
        """A raw array of nodes; what is none, for it was swapped, is written as an array of one."""
        kids = part.kids if isinstance(part, Node) and part.op == LIST else [part]
        self.packer.pack_array_header(len(kids))
        self.nodes(kids)

    def constructed(self, node: Node) -> None:
        nkw = node.op == NEW_KW
        self.head(node, 6 + nkw)
        self.packer.pack(self.name(node.name))
        self.array(node.kids[0])
        if nkw:
            kids = node.kids[1].kids if isinstance(node.kids[1], Node) else []
            keys = (node.keys or [])[: len(kids)]
            self.packer.pack_map_header(len(keys))
            for key, kid in zip(keys, kids, strict=False):
                self.packer.pack(key)
                self.node(kid)
        self.node(node.kids[1 + nkw])
        for part in node.kids[2 + nkw :]:
            self.packer.pack(None) if part is None else self.array(part)
        self.packer.pack(None if node.raw[0] is None else self.name(node.raw[0]))


def write(root: Any) -> list[bytes]:
    """The message of a tree, for `transload.loads`."""
    writer = _Writer()
    writer.count(root)
    writer.node(root)
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(7)
    for part in (1, {}, list(writer.names), [list(shape) for shape in writer.shapes], None, []):
        packer.pack(part)
    return [packer.bytes() + writer.packer.bytes()]


def walk(root: Any) -> Iterator[tuple[list[Any], int]]:
    """Every place of a node: a list and an index into it, so that it can be read and replaced. The root is in none."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        if not isinstance(node, Node) or id(node) in seen:
            continue
        seen.add(id(node))
        for places in (node.kids, node.keys if node.op == DICT else None):
            for i, kid in enumerate(places or []):
                yield places, i  # type: ignore[misc]
                todo.append(kid)


def nodes(root: Any) -> Iterator[Node]:
    """Every tagged node once, the root first."""
    if isinstance(root, Node):
        yield root
    seen = {id(root)}
    for places, i in walk(root):
        if isinstance(places[i], Node) and id(places[i]) not in seen:
            seen.add(id(places[i]))
            yield places[i]
