"""Checks the wheel in the folder given: one file for every CPython from 3.11, whole, and with no library a bare
machine lacks; then imports it on every such CPython found on this machine."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
           "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}  # fmt: skip

# A second interpreter in the process is told why it cannot have the module; the first one's goes on.
SECOND_INTERPRETER = """
import os, sys, transload
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
code = f"import sys; sys.path[:0] = {sys.path!r}\\ntry: import transload\\nexcept ImportError as error: open('said', 'w').write(str(error))"
run = interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string
for kind in ("isolated", "legacy") if sys.version_info >= (3, 13) else (None,):
    run(interpreters.create(kind) if kind else interpreters.create(isolated=False), code)
    said = open("said").read()  # isolated ones are refused by CPython itself from 3.13 on
    assert "sub-interpreter" in said or "does not support loading in subinterpreters" in said, said
    os.remove("said")
    assert transload.loads(transload.dumps([1, {"a": 2.5}])) == [1, {"a": 2.5}]
"""


def interpreters() -> list[str]:
    """Every CPython >= 3.11 on PATH or under pyenv, one per minor version."""
    places = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = sorted(pyenv.glob("versions/*/bin")) + [p for p in places if "shims" not in p.parts]
    found = {}
    for place in places:
        for path in place.glob("python3.*") if place.is_dir() else ():
            if re.fullmatch(r"python3\.\d+", path.name) and int(path.name[8:]) >= 11:
                found.setdefault(path.name, str(path))
    return [found[name] for name in sorted(found, key=lambda name: int(name[8:]))]


def main(folder: str) -> int:
    (wheel,) = Path(folder).glob("*.whl")
    assert re.fullmatch(r"transload-[^-]+-cp311-abi3-linux_\w+\.whl", wheel.name), wheel.name
    with tempfile.TemporaryDirectory() as scratch:
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            archive.extractall(scratch)
        for name in ("transload/_core.abi3.so", "transload/_core.pyi", "transload/py.typed", "transload/__init__.py"):
            assert name in names, f"{name} is not in the wheel"
        assert [n for n in names if n.endswith(".so")] == ["transload/_core.abi3.so"], sorted(names)
        listing = subprocess.run(["readelf", "-d", f"{scratch}/transload/_core.abi3.so"], check=True, text=True,
                                 capture_output=True).stdout  # fmt: skip
        needed = set(re.findall(r"NEEDED.*\[(.+)\]", listing))
        assert needed <= ALLOWED, f"the module needs {sorted(needed - ALLOWED)}"
    print(f"{wheel.name}: {wheel.stat().st_size // 1000} kB, needs {', '.join(sorted(needed))}", flush=True)

    # nanobind-backend is the one dependency; it comes from the cache or the index, as for any user.
    for python in interpreters():
        with tempfile.TemporaryDirectory() as scratch:
            install = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                "--target", scratch, "--python-version", Path(python).name[6:], "--only-binary=:all:",
                str(wheel)], text=True, capture_output=True)  # fmt: skip
            if install.returncode:
                print(f"{python}: {install.stderr.strip()}")
                return 1
            code = ("import sys, transload._core as core; "
                    "print('Python', sys.version.split()[0], 'transload', core.__version__, "
                    "'cuda' if core.built_with_cuda() else 'no cuda', core.device_count(), 'devices')")  # fmt: skip
            env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"PYTHONPATH": scratch}
            for text in (code, SECOND_INTERPRETER):
                run = subprocess.run([shutil.which(python) or python, "-X", "faulthandler", "-c", text], env=env, cwd=scratch)
                if run.returncode:
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
