"""Functions and classes that every machine of a test cluster can import, as a user's own package would be."""

import threading

import numpy as np
import pandas as pd


def make_frame():
    when = pd.date_range("2013", periods=1000)
    return pd.DataFrame({"x": np.arange(1000.0), "name": ["a", "b"] * 500, "when": when})


def total(x):
    return float(np.sum(x["x"] if isinstance(x, pd.DataFrame) else x))


class Point:
    """Rebuilt from its state; trusted nowhere unless a test does it."""

    def __init__(self, x=0, y=0):
        self.x, self.y = x, y

    def __eq__(self, other):
        return type(other) is Point and (self.x, self.y) == (other.x, other.y)

    __hash__ = None


class Holder:
    """Holds a lock: nothing can encode it."""

    def __init__(self):
        self.lock = threading.Lock()


class CannotLeave:
    """Its `__reduce__` fails."""

    def __reduce__(self):
        raise RuntimeError("this object cannot leave its process")


def _explode(*args):
    raise RuntimeError("this object cannot be built here")


class CannotArrive:
    """It is encoded without complaint and fails on arrival."""

    def __reduce__(self):
        return _explode, (1,)


class Counter:
    """An actor."""

    n = 0

    def add(self, values):
        self.n += len(values)
        return values

    def give(self, what):
        return {"lock": threading.Lock, "late": CannotArrive}[what]()


def _sometimes(fine):
    if not Sometimes.fine:
        raise RuntimeError("not now")
    return Sometimes()


class Sometimes:
    """It can be rebuilt only where `fine` is true."""

    fine = False

    def __reduce__(self):
        return _sometimes, (True,)
