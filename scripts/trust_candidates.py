#!/usr/bin/env python3
"""Prints the names that objects of a library need and the trust list lacks, each with the role it needs.

The output is what a person reviews, line by line, before a name goes into python/transload/trusted: nothing here adds to
a list. docs/security.md says what to ask of a name.

    scripts/trust_candidates.py [standard] [numpy] [pandas] [scipy] [sklearn]
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgpack

from transload import _core, _tables

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "python"))

MAKE, CALL, HAND_ON = "make", "call", "hand_on"


def names_used(header: bytes) -> Iterator[tuple[str, str]]:
    """(name, role) of each use in a header: the walk of docs/format.md, kept to what leads to names."""
    _, _, names, shapes, _, _, root = msgpack.unpackb(header, strict_map_key=False, use_list=True, object_pairs_hook=list)
    todo: list[Any] = [root]

    def name(index: int) -> str:
        text = names[index]
        return text if isinstance(text, str) else "<by value>"

    while todo:
        node = todo.pop()
        if not isinstance(node, list) or not node:
            continue
        if isinstance(node[0], tuple):  # a map
            todo.extend(part for pair in node for part in pair)
            continue
        op, fields = node[0] & 0x3F, node[1:]
        rest: list[Any] = []
        if op in (1, 2, 3, 4, 5, 19, 20, 29):
            todo.extend(fields)
        elif op == 6:
            todo.extend(fields[1:])
        elif op == 7:
            yield name(shapes[fields[0]][0]), MAKE
            todo.extend(fields[1:])
        elif op == 8:
            yield name(fields[0]), HAND_ON
        elif op in (9, 10):
            yield name(fields[0]), CALL if op == 9 else MAKE
            todo.extend(fields[1])
            rest = fields[2:]
        elif op == 11:
            yield name(fields[0]), MAKE
            todo.extend(fields[1])
            todo.extend(value for _, value in fields[2])
            rest = fields[3:]
        elif op == 12:
            todo.append(fields[1])
        elif op == 23:
            todo.extend(fields[2:])
        elif op == 27:
            yield "<pickle>", MAKE
        if rest:
            todo.append(rest[0])
            for group in rest[1:3]:
                todo.extend(group or ())
            if len(rest) > 3 and rest[3] is not None:
                yield name(rest[3]), CALL


def main(libraries: list[str]) -> None:
    warnings.simplefilter("ignore")
    bits = {MAKE: _tables.MAKE, CALL: _tables.CALL, HAND_ON: _tables.HAND_ON}
    needed: dict[str, set[str]] = defaultdict(set)
    example: dict[str, str] = {}
    for library in libraries or ["standard", "numpy", "pandas", "scipy", "sklearn"]:
        for label, value in importlib.import_module(f"support.objects_{library}").objects():
            try:
                header, _, _ = _core.encode(value, ("host", "pickle"))
            except Exception as error:
                print(f"! {label}: {type(error).__name__}: {error}")
                continue
            for name, role in names_used(header):
                if not _tables.trusted.get(name, 0) & bits[role]:
                    needed[name].add(role)
                    example.setdefault(name, label)
    for name in sorted(needed):
        print(f"{name:80} {'|'.join(sorted(needed[name])):20} {example[name]}")


if __name__ == "__main__":
    main(sys.argv[1:])
