"""The objects of the golden containers beside this file: format version 1 as it was first written.

They are read, never written again: a reader of today must give these objects. `python tests/data/v1/golden.py NAME …` writes
the containers of names that are new.
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np

import transload
from transload import _core

HERE = Path(__file__).parent


@transload.trust
@dataclasses.dataclass
class Engine:
    kind: str
    power_kw: float


Engine.__module__ = "golden"


def plain():
    return [None, True, False, 0, -1, 2**63, 2**64, -(2**64), 0.5, float("-inf"), "é", "\ud800", b"xy", bytearray(b"z"), 1 + 2j]


def containers():
    shared = [1, "two"]
    return {"list": shared, "again": shared, "tuple": (1, (2,)), "set": {7}, "frozen": frozenset(["x"]), 3: range(0, 9, 2), None: slice(1, None)}


def cycle():
    ring: list = []
    ring.append(ring)
    knot: tuple = ([],)
    knot[0].append(knot)
    return [ring, knot]


def arrays():
    base = np.arange(24, dtype="<f8").reshape(2, 3, 4)
    frozen = np.arange(5, dtype="<i2")
    frozen.flags.writeable = False
    return {
        "c": base,
        "window": base[:, ::2],
        "fortran": np.asfortranarray(np.arange(6, dtype="<i4").reshape(2, 3)),
        "read-only": frozen,
        "text": np.array(["a", "bc"]),
        "bytes": np.array([b"x", b"yz"]),
        "days": np.array(["2026-11-30"], "<M8[D]"),
        "empty": np.empty((0, 3), "<f4"),
        "scalar": np.float32(1.5),
        "records": np.array([(1, (0.5, 1.5))], dtype=[("a", "<i4"), ("b", "<f8", (2,))]),
        "objects": np.array([1, "x", None], dtype=object),
        "big-endian": np.arange(3, dtype=">i4"),
        "large": np.arange(20_000, dtype="<i4"),
    }


def instance():
    return [Engine("diesel", 310.5), Engine("electric", 400.0), Engine]


def dtypes():
    """Long dtypes, written once in meta."""
    node = np.dtype([("left", "<u4"), ("value", "<f8"), ("bits", "<u2", (3,))])
    return [np.array([(i, i / 2, (i, 0, 1))], node) for i in range(3)] + [np.zeros(2, [("only", "S3")]), node, np.zeros((), node)[()]]


def compressed():
    """Three frames: one in lz4, one in zstd, one as it is; all summed up in the header as well."""
    number = 1
    noise = bytearray()
    while len(noise) < 10_000:
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
        noise += (number >> 40).to_bytes(3, "little")
    return [np.arange(3000, dtype="<i4") // 50, np.frombuffer(bytes(b * 24 // 256 for b in noise), "u1"), np.frombuffer(bytes(noise), "u1")]


OBJECTS = {make.__name__: make for make in (plain, containers, cycle, arrays, instance, dtypes, compressed)}

if __name__ == "__main__":
    sys.modules["golden"] = sys.modules["__main__"]
    for name in sys.argv[1:]:
        path = HERE / f"{name}.tld"
        assert not path.exists(), f"{path} is there: golden messages are not written again"
        if name == "compressed":
            header, frames, _ = _core.encode(OBJECTS[name](), ("host",), pack_limit=100)
            header, frames, _ = _core.store(header, frames, "auto", None, True)
            _core.save(bytes(path), header, frames, False)
        else:
            transload.save(path, OBJECTS[name]())
