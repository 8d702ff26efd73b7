"""Attacks names of the trust list, or adapters, in a process of its own; whatever an attack did beside raising is told on stdout, a line each.

    python -X faulthandler attacks.py {called,made,adapted,function} COUNT SEED FILE < targets

FILE holds the attack that runs, for whoever sees this process end. What opens is used, unless it may be endless.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import os
import pickle
import pkgutil
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import transload
import transload.adapters
from support import arsenal

ROOM = 2 << 30  # address space
GROWTH = 400 << 20  # of resident memory by one message of some kilobytes
SECONDS = 1.5  # of one message; the bound on shared parts alone may take some tenths

_DOES = (
    "os.",
    "subprocess.",
    "shutil.",
    "socket.",
    "ctypes.",
    "pty.",
    "webbrowser.",
    "urllib.",
    "ftplib.",
    "smtplib.",
    "tempfile.",
    "sqlite3.",
    "syslog.",
    "msvcrt.",
    "winreg.",
)
_RUNS = (
    "exec",
    "compile",
    "code.__new__",
    "function.__new__",
    "pickle.find_class",
    "builtins.input",
    "builtins.breakpoint",
    "cpython.run_command",
    "cpython.run_file",
    "mmap.__new__",
)
_events: list[str] = []
_watching = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "import":
        top = str(arguments[0]).partition(".")[0]
        _events.append(
            "imports of its library" if top in sys.modules or top in ("transload",) else f"import {arguments[0]}"
        )
    elif event == "open" and arguments[0] != "/proc/self/maps":
        if "zoneinfo" not in str(arguments[0]) and "tzdata" not in str(arguments[0]):
            _events.append(f"open {arguments[0]!r}")
    elif event.startswith("ctypes.dl") and any(
        library in str(arguments).lower() for library in ("openblas", "gomp", "iomp", "mkl", "blis")
    ):
        pass  # threadpoolctl counts the threads of libraries that are loaded already
    elif event == "compile" and arguments[0] == b"def foo(self, *args, **kwargs): pass":
        pass  # scikit-learn asks for the signature of this text of its own
    elif event == "compile" and isinstance(arguments[0], bytes) and arguments[0].isalpha():
        pass  # typing's forward references: a name
    elif event.startswith(_DOES) or event in _RUNS:
        _events.append(f"{event} {arguments!r}")


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    global _watching
    _events.clear()
    _watching = True
    try:
        yield
    finally:
        _watching = False


def _told(what: str) -> None:
    print(what, flush=True)


def _looks_for_versions(event: str) -> bool:
    """scikit-learn asks which packages are installed when an estimator is used for the first time."""
    return event.startswith("os.listdir") or (
        event.startswith("open ") and (".dist-in" in event or event.rstrip("'").endswith((".zip", "site-packages")))
    )


def _check(label: str, events_of_use: bool = False) -> None:
    if "imports of its library" in _events:  # which opens and runs files of that library
        found = [event for event in _events if event.startswith("import ")]
    else:
        found = list(_events)
    if events_of_use:  # copying and pickling look for classes; that is what they are asked for
        label += ", used"
        found = [
            event
            for event in found
            if not event.startswith(("pickle.find_class", "import ")) and not _looks_for_versions(event)
        ]
    if found:
        _told(f"DOES {label}: {[f'{event:.200}' for event in found[:3]]}")


_USES: tuple[Callable[[Any], Any], ...] = (
    repr,
    str,
    len,
    hash,
    bool,
    dir,
    float,
    int,
    copy.copy,
    pickle.dumps,
    lambda x: x == x,
    lambda x: x + x,
    lambda x: x[0],
    lambda x: x < x,
    lambda x: next(iter(x)),
    lambda x: transload.dumps(x, ("host",)),
    lambda x: "".join(traceback.format_exception(x)),
    lambda x: x.sum(),
    lambda x: x.toarray() if max(x.shape) < 1000 else None,
    lambda x: x.sort_values(),
    lambda x: x.isna(),
    lambda x: x.astype(str),
    lambda x: x.astype(object),
    lambda x: x.predict([[0.0, 1.0, 2.0]]),
    lambda x: x.transform([[0.0, 1.0, 2.0]]),
    lambda x: x.score([[0.0]], [0]),
    lambda x: x.get_params(),
    lambda x: x.to_pandas(),
    lambda x: x.validate(full=True),
    lambda x: x.isoformat(),
    lambda x: x.utcoffset(None),
    lambda x: x.random(3),
)


def _use(thing: Any) -> None:
    import numpy as np

    for use in (*_USES, np.asarray):
        try:
            use(thing)
        except Exception:
            pass


def _peak() -> int:
    """KiB that were resident at most. getrusage would begin with the peak of the process that started this one."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _message(kind: str, target: str, attack: arsenal.Attack) -> list[bytes]:
    return arsenal.message(target, getattr(attack, kind)())


def main(kind: str, count: int, seed: str, progress: str) -> None:
    warnings.simplefilter("ignore")
    targets: dict[str, list[str]] = json.load(sys.stdin)
    for library in ("numpy", "pandas", "pyarrow", "scipy", "sklearn", "zoneinfo", "linecache"):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    from transload import _tables, trusted

    homes = (
        {name.partition(":")[0] for name in _tables.trusted}
        | set(trusted.sklearn.ESTIMATORS)
        | {"xml.etree.ElementTree"}
    )
    for module in sorted(homes):  # a name's own module is imported when it is met
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    for module in pkgutil.iter_modules(transload.adapters.__path__):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"transload.adapters.{module.name}")
    for value in arsenal.PLAIN:  # what is imported when its first object is met
        with contextlib.suppress(Exception):
            _use(transload.loads(arsenal.message("builtins:int", [arsenal.LIST, value]), device="host")[0])
    sys.addaudithook(_hook)
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    tried = opened = 0
    with open(progress, "w") as at:
        for target, keys in targets.items():
            for i in range(count):
                nasty = 0.25 if i % 2 == 0 and kind != "function" else 0.0
                label = f"{kind} {target} {seed}/{i}"
                at.seek(0)
                at.write(f"{label}\n")
                at.truncate()
                at.flush()
                tried += 1
                attack = arsenal.Attack(f"{seed}/{target}/{i}", tuple(keys), nasty)
                message = [
                    bytes(part)
                    for part in (
                        arsenal.message("builtins:int", [arsenal.LIST, *attack.arguments()])
                        if kind == "function"
                        else _message(kind, target, attack)
                    )
                ]
                before, began, thing = _peak(), time.process_time(), None
                try:
                    if kind == "function":
                        given = transload.loads(message, ("host",), device="host")
                        function = _find(target)
                        with _watched():
                            function(*given)
                        _check(label, events_of_use=True)
                        continue
                    with _watched():
                        thing = transload.loads(message, ("host",), device="host")
                except Exception as error:
                    if kind != "function" and not isinstance(error, (transload.Error, MemoryError)):
                        _told(f"RAISES {label}: {type(error).__name__}: {error!s:.100}")
                _check(label, events_of_use=kind == "function")
                took, grew = (
                    time.process_time() - began,
                    (_peak() - before) << 10,
                )
                if took > SECONDS and kind != "function":
                    _told(f"TAKES {label}: {took:.1f} s")
                if grew > GROWTH:
                    _told(f"GROWS {label}: {grew >> 20} MB")
                if thing is not None:
                    opened += 1
                    if not nasty:
                        with _watched():
                            _use(thing)
                        _check(label, events_of_use=True)
    print(f"tried {tried} opened {opened}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
