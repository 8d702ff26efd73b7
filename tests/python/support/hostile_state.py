"""Estimators whose state lies: fitted ones are sent, the message's values are changed, and what still opens is asked for everything it can do.

    python hostile_state.py                                every estimator, 200 changed messages each
    python hostile_state.py --only SVC,KMeans --cases 5000 --seed 100000
    python hostile_state.py --seconds 3600                 round after round, with new seeds
    python -X faulthandler hostile_state.py --case SVC 4711 -v    one of them, in this process

Each message is opened and used in a process of its own kind: forked, with little address space, killed after 10 s of one call. An exception is a fair answer, and so is a
wrong result; a signal, a hang, an allocation that nothing justifies, a file or hundreds of threads are not. They are told on stdout, one line each, with the seed that makes them again.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_threads] = "1"  # a fork keeps no threads

import numpy as np  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import transload  # noqa: E402
from support import message_tree as tree_of  # noqa: E402
from support.message_tree import ARRAY, DICT, LIST, Node  # noqa: E402

SECONDS = 10  # of one call
FITTING, FITTING_SECONDS = ("fit", "partial_fit"), 2  # the parameters say how long these take, as with honest ones: no hang is told
ROOM = 2 << 30  # bytes of address space that using an estimator may take
OPENING_ROOM = 512 << 20  # and opening one
NTHREADS = 5000  # more than the adapters allow, which is what a large machine's KMeans says

# ── Changes ──────────────────────────────────────────────────────────────────────────────────────────────────

_INTS = (0, 1, -1, 2, -2, 3, 7, 50, 255, 256, 1000, 65_536, 10**6, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 5e-324, 1e-300, 2.0**31, 2.0**63, 1e18)
_DTYPES = ("<f8", "<f4", "<f2", ">f8", "<i8", "<i4", "<i2", "|i1", "|u1", "<u4", "<u8", "|b1", "<c16", "<M8[s]", "<m8[ns]", "<U2", "|S3", "|V8", "|V1")
_FUNCTIONS = ("numpy:log1p", "numpy:exp", "numpy:mean", "builtins:float", "builtins:list", "builtins:len", "builtins:sorted", "sklearn.metrics._ranking:roc_auc_score")


class _Change:
    """Changes of one tree, as the seed says."""

    def __init__(self, rng: random.Random, root: Any, words: list[str]) -> None:
        self.rng, self.root, self.words = rng, root, words
        self.told: list[str] = []

    def once(self) -> None:
        rng = self.rng
        self.places = list(tree_of.walk(self.root))
        self.nodes = list({id(node): node for node in (places[i] for places, i in self.places) if isinstance(node, Node)}.values())
        self.arrays = [node for node in self.nodes if node.op == ARRAY]
        kind = rng.random()
        if self.arrays and kind < 0.40:
            self.array(rng.choice(self.arrays))
        elif kind < 0.62:
            self.scalar()
        elif kind < 0.78:
            self.swap()
        elif kind < 0.88:
            self.keys()
        elif kind < 0.93:
            self.names()
        else:
            self.replace()

    def tell(self, text: str) -> None:
        self.told.append(text)

    # Values in the tree.

    def scalar(self) -> None:
        plain = [(places, i) for places, i in self.places if not isinstance(places[i], Node)]
        if not plain:
            return
        places, i = self.rng.choice(plain)
        old = places[i]
        places[i] = self.like(old)
        self.tell(f"{old!r:.40} -> {places[i]!r:.40}")

    def like(self, old: Any) -> Any:
        rng = self.rng
        if isinstance(old, bool):
            return not old
        if isinstance(old, int):
            return rng.choice((old + 1, old - 1, old * 2, -old, *_INTS)) if abs(old) < 1 << 61 else rng.choice(_INTS)
        if isinstance(old, float):
            return rng.choice(_FLOATS)
        if isinstance(old, str):
            return rng.choice(self.words)
        if isinstance(old, bytes):
            return old[: len(old) // 2]
        return rng.choice((0, 1, -1, 2**31, 0.5, True, "", rng.choice(self.words)))

    def anything(self) -> Any:
        rng = self.rng
        return rng.choice((
            lambda: None, lambda: rng.choice(_INTS), lambda: rng.choice(_FLOATS), lambda: rng.choice(self.words), lambda: rng.random() < 0.5, lambda: Node(LIST), lambda: Node(DICT, keys=[]),
            lambda: Node(tree_of.TUPLE, kids=[rng.choice(_INTS) for _ in range(rng.randrange(4))]), lambda: Node(LIST, kids=[None] * rng.randrange(100)), lambda: self.new_array(),
            lambda: Node(tree_of.OBJECT_ARRAY, [rng.randrange(2, 4), 0], [None] * 2), lambda: Node(tree_of.RANGE, kids=[0, rng.choice((3, 2**62)), 1]), lambda: Node(tree_of.SLICE, kids=[None] * 3),
            lambda: Node(tree_of.NAME, name=rng.choice(_FUNCTIONS)), lambda: Node(tree_of.SCALAR, ["<i8", rng.choice(_INTS[:-3]).to_bytes(8, "little", signed=True)]),
            lambda: rng.choice(self.nodes) if self.nodes else None,
        ))()

    def replace(self) -> None:
        places, i = self.rng.choice(self.places)
        self.tell(f"{places[i]!r:.40} becomes anything")
        places[i] = self.anything()
        self.tell(repr(places[i])[:60])

    def swap(self) -> None:
        """Two nodes of one kind change places, or one stands in both."""
        rng = self.rng
        places, i = rng.choice(self.places)

        def kind(node: Any) -> Any:
            return (node.op, node.name if node.op == tree_of.ADAPTED else None) if isinstance(node, Node) else type(node)

        same = [(others, j) for others, j in self.places if kind(others[j]) == kind(places[i])] if rng.random() < 0.8 else self.places
        others, j = rng.choice(same)
        self.tell(f"{places[i]!r:.50} and {others[j]!r:.50} swap")
        if rng.random() < 0.6:
            places[i], others[j] = others[j], places[i]
        else:
            places[i] = others[j]

    def keys(self) -> None:
        rng = self.rng
        keyed = [node for node in self.nodes if node.keys and node.op != tree_of.NEW_KW]
        known = [key for node in keyed for key in node.keys or [] if isinstance(key, str)] or self.words
        if not keyed:
            return
        node = rng.choice(keyed)
        at = rng.randrange(len(node.keys))
        way = rng.random()
        self.tell(f"key {node.keys[at]!r:.40}: {way:.2f}")
        if way < 0.5:
            del node.keys[at], node.kids[at]
        elif way < 0.8:
            node.keys[at] = rng.choice(known if way < 0.7 else self.words)
        else:
            node.keys.append(rng.choice(known))
            node.kids.append(rng.choice(node.kids))

    def names(self) -> None:
        """A class, function or adapter in the place of another."""
        rng = self.rng
        named = [node for node in self.nodes if node.name is not None]
        if not named:
            return
        node = rng.choice(named)
        if rng.random() < 0.5:
            new = rng.choice(named).name
        elif node.op == tree_of.ADAPTED:
            from transload import _tables

            new = rng.choice(sorted(name for name in _tables.adapters_by_name if name.startswith(("sklearn", "scipy", "numpy"))))
        else:
            from transload import _tables

            role = 1 if node.op == tree_of.OBJECT else 2 if node.op == tree_of.REDUCE else 4 if node.op == tree_of.NAME else 1
            new = rng.choice([name for name, roles in _tables.trusted.items() if roles & role and name.startswith(("sklearn", "scipy", "numpy"))])
        self.tell(f"{node.name} is called {new}")
        node.name = new

    # Arrays.

    def array(self, node: Node) -> None:
        rng = self.rng
        way = rng.choice((self.items, self.items, self.items, self.shape, self.length, self.length, self.reinterpret, self.strides, self.order, self.exchange))
        dtype, data, shape, *_ = node.raw
        self.tell(f"array {dtype!r:.30} {shape}: {way.__name__}")
        way(node)

    def numpy_dtype(self, dtype: Any) -> np.dtype[Any] | None:
        if isinstance(dtype, str):
            return None if "O" in dtype else np.dtype(dtype)
        if isinstance(dtype, list) and dtype[0] == "struct":
            fields = dtype[3]
            formats = [self.numpy_dtype(field[2]) for field in fields]
            if None in formats:
                return None
            return np.dtype({"names": [f[0] for f in fields], "formats": formats, "offsets": [f[1] for f in fields], "itemsize": dtype[1]})  # type: ignore[call-overload,no-any-return]
        return None

    def items(self, node: Node) -> None:
        """Some items become what is hard for an index, a count, a distance."""
        rng = self.rng
        dtype = self.numpy_dtype(node.raw[0])
        if dtype is None or not dtype.itemsize or len(node.raw[1]) < dtype.itemsize:
            return
        values = np.frombuffer(bytearray(node.raw[1][: len(node.raw[1]) // dtype.itemsize * dtype.itemsize]), dtype)
        whole = values
        if dtype.names:
            values = values[rng.choice(dtype.names)]
        if values.ndim > 1:
            values = values.reshape(len(values), -1)[:, 0]
        at: Any = slice(None) if rng.random() < 0.15 else [rng.randrange(len(values)) for _ in range(rng.choice((1, 1, 1, 3)))]
        if values.dtype.kind in "iu":
            bounds = np.iinfo(values.dtype)
            near = rng.choice((len(whole) - 1, len(whole), len(whole) + 1, int(values.max()) + 1, int(values.min()) - 1, *_INTS))
            new: Any = min(max(near, bounds.min), bounds.max)
        elif values.dtype.kind in "fc":
            new = rng.choice(_FLOATS) if rng.random() < 0.8 else rng.random() * 10 ** rng.randrange(-10, 10)
        elif values.dtype.kind == "b":
            values, new = values.view("u1"), rng.choice((0, 1, 2, 255))
        else:
            values, new = whole.view(np.dtype((np.void, dtype.itemsize))).view("u1").reshape(len(whole), -1)[:, 0], rng.randrange(256)  # type: ignore[assignment]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values[at] = new
        self.tell(f"{at} = {new}")
        node.raw[1] = whole.tobytes()

    def lengths(self, node: Node) -> tuple[list[int], int]:
        shape = [node.raw[2]] if isinstance(node.raw[2], int) else list(node.raw[2])
        n = 1
        for length in shape:
            n *= length
        return shape, n

    def set_shape(self, node: Node, shape: list[int]) -> None:
        node.raw[2] = shape[0] if len(shape) == 1 else shape
        del node.raw[4:]
        self.tell(f"shape {shape}")

    def shape(self, node: Node) -> None:
        """The same items, otherwise laid out."""
        shape, n = self.lengths(node)
        if len(node.raw) > 4:
            return
        divisors = [d for d in range(1, min(n, 200) + 1) if n % d == 0] or [0]
        d = self.rng.choice(divisors)
        self.set_shape(node, self.rng.choice(([n], [1, n], [n, 1], [d, n // d if d else 0], shape[::-1], [*shape, 1], [1, *shape], [1] * 20 + [n])))

    def length(self, node: Node) -> None:
        """Fewer or more rows, or columns."""
        rng = self.rng
        dtype = self.numpy_dtype(node.raw[0])
        shape, n = self.lengths(node)
        if dtype is None or not shape or len(node.raw) > 4 or len(node.raw[1]) != n * dtype.itemsize:
            return
        values = np.frombuffer(node.raw[1], dtype).reshape(shape, order="F" if len(node.raw) > 3 and node.raw[3] & 2 else "C")
        axis = rng.randrange(len(shape))
        rows = max(0, rng.choice((0, 1, shape[axis] - 1, shape[axis] + 1, shape[axis] * 2, shape[axis] // 2, 1000)))
        if not shape[axis]:
            values = np.zeros([rows if i == axis else length for i, length in enumerate(shape)], dtype)
        else:
            values = values.take(np.arange(rows) % shape[axis], axis)
        node.raw[1] = values.tobytes()
        self.set_shape(node, list(values.shape))

    def reinterpret(self, node: Node) -> None:
        """The same bytes as items of another kind, or the same numbers in another width."""
        rng = self.rng
        new = rng.choice(_DTYPES)
        dtype = self.numpy_dtype(node.raw[0])
        shape, n = self.lengths(node)
        if dtype is None or len(node.raw[1]) != n * dtype.itemsize:
            return
        if rng.random() < 0.5 and dtype.names is None and dtype.kind in "biuf":
            with np.errstate(all="ignore"), contextlib.suppress(ValueError, TypeError):
                node.raw[1] = np.frombuffer(node.raw[1], dtype).astype(new).tobytes()
                node.raw[0] = new
                self.tell(f"as {new}")
            return
        nitems = len(node.raw[1]) // np.dtype(new).itemsize
        node.raw[0], node.raw[1] = new, node.raw[1][: nitems * np.dtype(new).itemsize]
        self.set_shape(node, shape if nitems == n else [nitems] if len(shape) == 1 or nitems == 0 else [nitems, 1] if nitems % shape[-1] else [nitems // shape[-1], shape[-1]])

    def strides(self, node: Node) -> None:
        rng = self.rng
        dtype = self.numpy_dtype(node.raw[0])
        shape, n = self.lengths(node)
        if dtype is None or not n:
            return
        step = dtype.itemsize
        shown = list(rng.choice((shape, [rng.choice((3, 1000, 10**7)) for _ in shape])))
        strides = [rng.choice((0, 0, step, -step)) if length <= n else 0 for length in shown]
        offset = min(max(0, sum(-s * (m - 1) for s, m in zip(strides, shown, strict=True) if s < 0)), len(node.raw[1]) - step)
        node.raw[2:] = [shown[0] if len(shown) == 1 else shown, 0, strides, offset]
        self.tell(f"{shown} by {strides}")

    def order(self, node: Node) -> None:
        flags = node.raw[3] if len(node.raw) > 3 else 0
        if len(node.raw) <= 4:
            node.raw[3:] = [flags ^ self.rng.choice((1, 2, 3))]

    def exchange(self, node: Node) -> None:
        other = self.rng.choice(self.arrays)
        node.raw, other.raw = other.raw, node.raw

    def new_array(self) -> Node:
        rng = self.rng
        dtype = np.dtype(rng.choice(_DTYPES))
        shape = [rng.choice((0, 1, 2, 3, 6, 60)) for _ in range(rng.randrange(4))]
        n = int(np.prod(shape))
        return Node(ARRAY, [dtype.str, rng.randbytes(n * dtype.itemsize), shape[0] if len(shape) == 1 else shape])


def changed(parts: list[bytes], seed: str, words: list[str]) -> tuple[list[bytes], list[str]]:
    """The message with one to four changes, and what they are in words."""
    rng = random.Random(seed)
    root = Node(LIST, kids=[tree_of.read(parts)])  # so that the root has a place
    change = _Change(rng, root, words)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 4))):
        change.once()
    return tree_of.write(root.kids[0]), change.told


# ── Objects ──────────────────────────────────────────────────────────────────────────────────────────────────


def _words(estimator: Any) -> list[str]:
    """Texts that mean something to an estimator: the choices of its parameters, its attributes."""
    found = {"", "abc", "precomputed", "nan", "default", "warn", "drop", "passthrough", "auto", "callable", "x" * 300}
    for name in dir(estimator):
        if name.endswith("_") and not name.startswith("__"):
            found.add(name)
    found.update(vars(estimator) if hasattr(estimator, "__dict__") else ())
    for constraints in getattr(type(estimator), "_parameter_constraints", {}).values():
        for constraint in constraints if isinstance(constraints, list) else ():
            found.update(str(option) for option in getattr(constraint, "options", ()))
    return sorted(found)


Case = tuple[Callable[[], Any], Callable[[Any], Iterator[tuple[str, Callable[[], Any]]]]]


def cases() -> dict[str, Callable[[], tuple[Any, Callable[[Any], Iterator[tuple[str, Callable[[], Any]]]]]]]:
    """Label → a function that gives an honest object, and what is called on what arrives."""
    from support import calls_sklearn, objects_sklearn

    def public(name: str) -> Any:
        estimator, arguments = objects_sklearn.fitted(name), objects_sklearn.arguments(name)
        there = calls_sklearn.transformed(estimator, arguments)
        return estimator, lambda arrived: calls_sklearn.calls(arrived, arguments, there, changing=True)

    def variant(label: str) -> Any:
        estimator, arguments = objects_sklearn.variant(label)
        there = calls_sklearn.transformed(estimator, arguments)
        return estimator, lambda arrived: calls_sklearn.calls(arrived, arguments, there, changing=True)

    return {
        **{name: lambda name=name: public(name) for name in objects_sklearn.names()},  # type: ignore[misc]
        **{label: lambda label=label: variant(label) for label in objects_sklearn.variant_names()},  # type: ignore[misc]
    }


# ── Using them ───────────────────────────────────────────────────────────────────────────────────────────────


class _Log:
    """What a process is at, and how many messages opened; readable by its parent after it died."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 4096)

    @property
    def opened(self) -> int:
        return int.from_bytes(self.memory[2048:2056], "little")

    @opened.setter
    def opened(self, n: int) -> None:
        self.memory[2048:2056] = n.to_bytes(8, "little")

    def at(self, number: int, stage: str) -> None:
        text = f"{number} {stage}".encode()[:200]
        self.memory[: len(text) + 1] = text + b"\0"

    def read(self) -> tuple[int, str]:
        number, _, stage = bytes(self.memory).split(b"\0")[0].decode().partition(" ")
        return int(number), stage


def _limit(nbytes: int) -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + nbytes, resource.RLIM_INFINITY))


def _nthreads() -> int:
    return len(os.listdir("/proc/self/task"))


def use(number: int, message: list[bytes], calls: Any, log: _Log, tell: Callable[[str], None]) -> None:
    """Open a message and call everything."""
    log.at(number, "opening")
    _limit(OPENING_ROOM)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        arrived = transload.loads(message)
    except MemoryError as error:
        tell(f"MEMORY opening: {error}")
        return
    except transload.Error as error:
        if isinstance(error.__cause__, MemoryError):
            tell(f"MEMORY opening: {error}")
        if isinstance(error.__cause__, SystemError):
            tell(f"SYSTEM opening: {error}")
        return
    except BaseException as error:
        tell(f"WRONG {type(error).__name__} opening: {error}")
        return
    log.opened += 1
    _limit(ROOM)
    try:
        todo = calls(arrived)
        for name, call in todo:
            log.at(number, name)
            signal.setitimer(signal.ITIMER_PROF, FITTING_SECONDS if name in FITTING else SECONDS)
            try:
                call()
            except MemoryError as error:
                if os.environ.get("HOSTILE_MEMORY"):  # an exception as any other; to see which there are
                    tell(f"MEMORY {type(arrived).__name__}.{name}: {error!s:.100}")
            except SystemError as error:
                tell(f"SYSTEM {type(arrived).__name__}.{name}: {error!s:.100}")
            except Exception:
                pass
            if _nthreads() > NTHREADS:
                tell(f"THREADS {type(arrived).__name__}.{name}: {_nthreads()}")
    except Exception:  # calls() asks the class of what arrived
        pass
    log.at(number, "dropping")
    del arrived


def _child(label: str, parts: list[bytes], words: list[str], calls: Any, numbers: range, log: _Log, report: int) -> None:
    sys.setrecursionlimit(1000)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in numbers:
            log.at(number, "changing")
            signal.alarm(20 * SECONDS)  # of a deadlock; CPU time is counted per call
            message, _ = changed(parts, f"{label} {number}", words)
            use(number, message, calls, log, lambda text, number=number: os.write(report, f"{label} {number} {text}\n".encode()))  # type: ignore[misc]
            if os.listdir("."):
                os.write(report, f"{label} {number} FILE {os.listdir('.')}\n".encode())
                break
        os.chdir("/")
    os._exit(0)


def run(label: str, made: Any, numbers: range) -> tuple[int, int, list[str]]:
    """Try the numbers; how many were tried, how many opened, and what was found."""
    honest, calls = made
    parts = [bytes(part) for part in transload.dumps(honest, families=("host",))]
    words = _words(honest)
    log = _Log()
    found: list[str] = []
    start = numbers.start
    while start < numbers.stop:
        log.at(start, "starting")
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(reading)
                _child(label, parts, words, calls, range(start, numbers.stop), log, writing)
            except BaseException as error:
                os.write(writing, f"{label} {log.read()} {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(9)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            lines = pipe.read().decode(errors="replace").splitlines()
        _, status = os.waitpid(pid, 0)
        found += lines
        number, stage = log.read()
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            if name != "SIGPROF" or stage not in FITTING:
                found.append(f"{label} {number} {'HANG' if name in ('SIGPROF', 'SIGALRM') else 'CRASH ' + name} {stage}")
        elif os.WEXITSTATUS(status):
            found.append(f"{label} {number} EXIT {os.WEXITSTATUS(status)} {stage}")
        else:
            break
        start = number + 1
    return len(numbers), log.opened, found


def one(label: str, number: int, *, verbose: bool) -> None:
    """One message, in this process."""
    honest, calls = cases()[label]()
    parts = [bytes(part) for part in transload.dumps(honest, families=("host",))]
    message, told = changed(parts, f"{label} {number}", _words(honest))
    print(*told, sep="\n")
    try:
        arrived = transload.loads(message)
    except transload.Error as error:
        print("refused:", error)
        return
    for name, call in calls(arrived):
        if verbose:
            print(name, flush=True)
        try:
            call()
        except Exception as error:
            if verbose:
                print(f"    {type(error).__name__}: {error!s:.300}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--case", nargs=2)
    parser.add_argument("-v", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if given.case:
        one(given.case[0], int(given.case[1]), verbose=given.v)
        return 0
    known = cases()
    labels = given.only.split(",") if given.only else list(known)
    until = time.monotonic() + given.seconds
    tried = opened = wrong = 0
    seed = given.seed
    made: dict[str, Any] = {}
    while True:
        for label in labels:
            if label not in made:
                made[label] = known[label]()
            ntried, nopened, found = run(label, made[label], range(seed, seed + given.cases))
            tried, opened, wrong = tried + ntried, opened + nopened, wrong + len(found)
            for line in found:
                print(line, flush=True)
            if given.v:
                print(f"{label}: so far {tried} tried, {opened} opened, {wrong} wrong", flush=True)
        seed += given.cases
        if time.monotonic() >= until:
            break
    print(f"tried {tried} opened {opened} wrong {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
