"""What test_kinds runs on workers: makers, comparisons, counters."""

import numpy as np
import pandas as pd
from support import kinds
from support.same import difference


def make(kind):
    return kinds.TABLES[kind]()


def differences(kind, arrived):
    """Return where what `kind` names and what arrived differ, by label."""
    made = make(kind)
    found = {label: difference(thing, arrived[label]) for label, thing in made.items()}
    return {label: text for label, text in found.items() if text}


def same(x):
    return x


def spill(dask_worker):
    while dask_worker.data.fast:
        assert dask_worker.data.evict() != -1
    return len(dask_worker.data.slow)


def flags():
    readonly, small = np.zeros(100_000), np.zeros(3)
    readonly.flags.writeable = small.flags.writeable = False
    return {"x": [np.zeros(100_000), readonly, small, np.zeros(3)], "frame": pd.DataFrame({"a": np.zeros(100_000)}), "bag": kinds.Bag(a=readonly, b=readonly)}


def look(flags):
    flags["frame"].iloc[0, 0] = 1
    return [x.flags.writeable for x in flags["x"]], flags["bag"].a.flags.writeable, flags["bag"].a is flags["bag"].b is flags["x"][1]


def deep(wrap):
    return kinds.nested({"dict": lambda x: {"c": x}, "attributes": lambda x: kinds.Bag(a=x), "column": lambda x: pd.Series(kinds.object_array(x), dtype=object)}[wrap], 600)


def counted():
    kinds.Counted.calls = 0
    return [kinds.Counted.HOW[how](b"if __name__ == '__main__':") for how in kinds.Counted.HOW]


def calls():
    return kinds.Counted.calls


def images():
    kinds.Image.calls.clear()
    return [1.5, kinds.Image(np.zeros(5)), kinds.Bag(i=kinds.Image(np.zeros(100_000))), {"k": (None, kinds.Stranger(kinds.Image(1)))}]


def depth(made):
    n = 0
    while not isinstance(made, str):
        made, n = made["c"] if isinstance(made, dict) else made.iloc[0] if isinstance(made, pd.Series) else made.a, n + 1
    return n


def image_calls():
    return list(kinds.Image.calls)


def cut_from_large():
    return [[None, kinds.Part(thing)] for thing in kinds.cut_from_large(20_000).values()]
