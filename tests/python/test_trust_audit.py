"""Every name of the trust list and every adapter is judged and attacked.

tests/data/trust/judged.txt has a line a name: what it is judged to be. A name without a judgement fails here, and so does one that is not what its
judgement says. Each is then attacked, in processes of their own, with `support/arsenal.py`: nothing may be imported, opened, run, started, allocated
beyond the message, or end the process. A longer campaign is the same with other seeds: `python tests/python/test_trust_audit.py 100`.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload import _tables
from transload.trusted import NAMES

_MAKE, _CALL, _HAND_ON = _tables.MAKE, _tables.CALL, _tables.HAND_ON
_JUDGED_PATH = Path(__file__).parents[1] / "data" / "trust" / "judged.txt"
_JUDGED = dict(line.split("\t")[::-1] for line in _JUDGED_PATH.read_text().splitlines())
for _module in ("numpy", "pandas", "pyarrow", "scipy", "sklearn", "standard", "cupy", "numba", "rmm", "torch", "cudf", "cuml"):
    if importlib.util.find_spec(_module) or _module in ("standard", "cupy", "numba", "rmm", "torch", "cudf", "cuml"):  # on the host without their libraries
        importlib.import_module(f"transload.adapters.{_module}")


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            at: Any = importlib.import_module(module)
            for part in path.split("."):
                at = getattr(at, part)
    except (ImportError, AttributeError):
        return None
    return at


# Modules whose functions touch the system, and what they are called there.
_SYSTEM = frozenset(
    ["os", "posix", "nt", "subprocess", "sys", "importlib", "runpy", "code", "codeop", "ctypes", "pickle", "_pickle", "marshal", "shelve", "socket", "ssl", "shutil", "tempfile", "glob", "webbrowser", "multiprocessing", "_thread", "builtins_io"]
)
_NEVER = frozenset(
    ["eval", "exec", "compile", "open", "input", "breakpoint", "__import__", "getattr", "setattr", "delattr", "vars", "globals", "locals", "type", "memoryview", "super", "property", "classmethod", "staticmethod", "attrgetter", "methodcaller", "setitem", "delitem", "load", "loads", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "save", "savez", "savetxt", "tofile", "dump", "dumps", "frombuffer", "frompyfunc", "vectorize", "from_dlpack", "read_csv", "read_pickle", "read_sql", "query", "system", "popen"]
)


def _is_function(thing: Any, roles: int, name: str) -> bool:
    module, _, path = name.partition(":")
    return (
        callable(thing)
        and not isinstance(thing, type)
        and module.partition(".")[0] not in _SYSTEM
        and path.rpartition(".")[2] not in _NEVER
    )


def _is_class(thing: Any, roles: int, name: str) -> bool:
    return (
        isinstance(thing, type) or type(thing).__module__ in ("typing", "typing_extensions", "types") or callable(thing)
    ) and not (isinstance(thing, type) and issubclass(thing, type))


def _is_exception(thing: Any, roles: int, name: str) -> bool:
    """Making one runs the interpreter's own code, which keeps what it is given, or code that was read and is on the list as keeping it."""
    if not isinstance(thing, type) or not issubclass(thing, BaseException):
        return False
    return bool(roles & _tables.KEEP) or type(thing.__init__).__name__ == "wrapper_descriptor"


def _is_looked_at(thing: Any, roles: int, name: str) -> bool:
    return name in _tables.state_checks


def _is_state(thing: Any, roles: int, name: str) -> bool:
    """Instances are made without arguments that are believed, and their attributes are data."""
    return (
        isinstance(thing, type)
        and not issubclass(thing, (type, BaseException))
        and "numpy.ndarray" not in {f"{cls.__module__}.{cls.__qualname__}" for cls in thing.__mro__}
    )


# What is to be made sure of for each judgement: roles that it may have, and what the thing is.
_KINDS: dict[str, tuple[tuple[int, ...], Callable[[Any, int, str], bool]]] = {
    "class": ((_HAND_ON,), _is_class),  # to be asked what it is, or called by its user
    "function": ((_HAND_ON,), _is_function),  # likewise; touches nothing but its arguments
    "value": ((_HAND_ON,), lambda thing, roles, name: not callable(thing) or type(thing).__module__ == "typing"),
    "constructor": (
        (_CALL, _CALL | _HAND_ON),
        lambda thing, roles, name: callable(thing),
    ),  # looks at all that it is given, itself
    "stand-in": (
        (_CALL, _CALL | _HAND_ON),
        lambda thing, roles, name: name in _tables.overrides,
    ),  # ours is called in its place
    "exception": ((_CALL | _HAND_ON, _CALL), _is_exception),
    "exception, stand-in": (
        (_CALL | _HAND_ON, _CALL),
        lambda thing, roles, name: (
            isinstance(thing, type) and issubclass(thing, BaseException) and name in _tables.overrides
        ),
    ),
    "state": ((_MAKE, _MAKE | _HAND_ON), _is_state),
    "state, looked at": ((_MAKE, _MAKE | _HAND_ON), _is_looked_at),
}


def test_every_name_is_judged_and_no_other() -> None:
    unjudged = [name for name in NAMES if name not in _JUDGED]
    gone = [name for name in _JUDGED if name not in NAMES]
    assert not unjudged, (
        f"read what these do with any arguments and state, then judge them in {_JUDGED_PATH.name}: {unjudged}"
    )
    assert not gone, f"judged, and no longer on the list: {gone}"
    assert set(_JUDGED.values()) <= set(_KINDS)
    assert list(_JUDGED) == sorted(_JUDGED)


@pytest.mark.parametrize("kind", _KINDS)
def test_names_are_what_they_are_judged_to_be(kind: str) -> None:
    roles_of_kind, holds = _KINDS[kind]
    wrong = []
    nfound = 0
    for name, judged in _JUDGED.items():
        if judged != kind:
            continue
        roles = NAMES[name] & (_MAKE | _CALL | _HAND_ON)
        if roles not in roles_of_kind and roles & ~_HAND_ON != roles_of_kind[0] & ~_HAND_ON:
            wrong.append(f"{name}: roles {roles}")
        thing = _found(name)
        if thing is None:  # of another version, or of a library that is not here
            continue
        nfound += 1
        if not holds(thing, NAMES[name], name):
            wrong.append(f"{name}: a {type(thing).__qualname__}")
    assert not wrong
    assert nfound > 0


def test_nothing_on_the_list_may_run_text_or_touch_the_system() -> None:
    for name in NAMES:
        module, _, path = name.partition(":")
        assert path.rpartition(".")[2] not in _NEVER, name
        if module.partition(".")[0] in _SYSTEM:  # records, members and exceptions alone
            assert _JUDGED[name] in ("exception", "exception, stand-in", "stand-in"), name


# ── Attacks ──────────────────────────────────────────────────────────────────────────────────────────────────

_SCRIPT = Path(__file__).parent / "support" / "attacks.py"


def _keys(name: str) -> list[str]:
    """Attributes that an instance may have, by what its constructor takes and its classes declare."""
    import inspect

    cls = _found(name)
    if not isinstance(cls, type):
        return []
    keys: dict[str, None] = {}
    try:
        keys |= dict.fromkeys(inspect.signature(cls.__init__).parameters)
    except (TypeError, ValueError):
        pass
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        keys |= dict.fromkeys((slots,) if isinstance(slots, str) else tuple(slots))
        keys |= dict.fromkeys(base.__dict__.get("__annotations__", ()))
    keys.pop("self", None)
    return list(keys)


def _targets(kind: str) -> dict[str, list[str]]:
    if kind == "adapted":
        estimators = {
            f"sklearn.{name}": f"{module}:{name}"
            for module, names in importlib.import_module("transload.trusted.sklearn").ESTIMATORS.items()
            for name in names.split()
        }
        own = [
            name
            for name, decode in _tables.adapters_by_name.items()
            if getattr(decode, "__module__", "").startswith("transload.")
        ]
        return {name: _keys(estimators[name]) if name in estimators else [] for name in sorted(own)}
    if kind == "function":
        return {name: [] for name, judged in _JUDGED.items() if judged == "function" and _found(name) is not None}
    role = {"called": _CALL, "made": _MAKE}[kind]
    return {
        name: _keys(name) if kind == "made" else [] for name in NAMES if NAMES[name] & role and _found(name) is not None
    }


def attack(kind: str, count: int, seed: str) -> list[str]:
    """What attacks of one kind did beside raising."""
    targets = _targets(kind)
    told: list[str] = []
    names = sorted(targets)
    while names:
        with tempfile.NamedTemporaryFile("r") as progress:
            run = subprocess.run(
                [sys.executable, "-X", "faulthandler", str(_SCRIPT), kind, str(count), seed, progress.name], input=json.dumps({name: targets[name] for name in names}), capture_output=True,
                text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}, timeout=None if count > 20 else 900,
            )  # fmt: skip
            told += [line for line in run.stdout.splitlines() if not line.startswith("tried")]
            if run.returncode == 0:
                return told
            at = progress.read().strip()
        told.append(f"ENDS {at}: status {run.returncode}\n{run.stderr[-1500:]}")
        last = at.split(" ")[1] if at else names[-1]
        names = [name for name in names if name > last]
    return told


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["called", "made", "adapted", "function"])
def test_attacks_do_nothing_but_raise(kind: str) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("pyarrow")
    assert not attack(kind, 4, "ci")


def test_attack_that_succeeds_is_told(tmp_path: Path) -> None:
    """The watch over the attacks sees what it should: an adapter that opens, imports and takes memory."""
    script = f"""
import os, sys
sys.path.insert(0, {str(_SCRIPT.parents[1])!r})
import transload
from support import attacks
def decode(value):
    open({str(tmp_path / "x")!r}, "w").close()
    os.system("true")
    import this
    return bytearray(500 << 20)
class Thing: pass
sys.stdout.flush()
transload.register(Thing, name="test.thing", encode=lambda thing: None, decode=decode)
attacks.main("adapted", 1, "x", {str(tmp_path / "at")!r})
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        input='{"test.thing": []}',
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "DOES" in run.stdout and "os.system" in run.stdout, run.stderr
    assert "GROWS" in run.stdout


if __name__ == "__main__":
    for _kind in ("called", "made", "adapted", "function"):
        _told = attack(_kind, int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "0")
        print(_kind, *_told, sep="\n")
