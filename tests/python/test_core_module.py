"""Facts of the compiled module itself."""

import importlib.metadata
import subprocess
import sys

import transload
from transload import _core


def test_version_is_the_one_of_the_package():
    assert transload.__version__ == _core.__version__ == importlib.metadata.version("transload")


def test_module_uses_the_stable_abi():
    assert _core.__file__.endswith(".abi3.so")


def test_no_device_is_counted_where_the_driver_is_hidden():
    code = "from transload import _core; print(_core.device_count())"
    run = subprocess.run([sys.executable, "-c", code], env={"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True)
    assert run.stdout == "0\n", run.stderr


def test_import_brings_no_third_party_library():
    code = "import sys, transload; print([m for m in ('numpy', 'pandas', 'pyarrow', 'dask', 'distributed', 'sklearn') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stderr


def test_copies_are_aligned_writable_and_their_own():
    given = [b"", bytearray(b"abc"), bytes(range(256)) * 4000]
    copies = _core.copied(given)
    assert [bytes(copy) for copy in copies] == [bytes(part) for part in given]
    copies[1][0] = 0
    assert given[1] == b"abc"
    assert _core.copied(memoryview(b"xy")[i : i + 1] for i in range(2))[1] == b"y"
    for wrong in (None, [1]):
        try:
            _core.copied(wrong)
        except TypeError:
            continue
        raise AssertionError(wrong)
