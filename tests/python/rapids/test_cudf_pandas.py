"""cudf.pandas on a machine without a GPU: its proxies stand for pandas' objects here."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import transload

pytest.importorskip("cudf")

_START = """
import os, warnings
os.environ["RAPIDS_NO_INITIALIZE"] = "1"
warnings.simplefilter("ignore")
import cudf.pandas
cudf.pandas.install()
import numpy as np
import pandas as pd
import sys, transload
from cudf.pandas import is_proxy_object

def trip(obj):
    return transload.loads([bytes(part) for part in transload.dumps(obj, families=("host",))], families=("host",))
"""

_PROXIES = _START + """
frame = pd.DataFrame({"a": [1, 2], "s": ["x", None]}, index=pd.Index([5, 6], name="i"))
for obj in (frame, frame["a"], frame.index, pd.date_range("2020", periods=3, tz="UTC"), pd.MultiIndex.from_tuples([(1, "a"), (2, "b")]), frame["s"].astype("category"), pd.Timestamp("2020-01-01"), frame["a"].array):
    arrived = trip([obj])[0]
    assert is_proxy_object(obj) and type(arrived) is type(obj), (type(obj), type(arrived))
    assert repr(arrived) == repr(obj)
    assert "pickle" not in str(transload.explain(obj))
pd.testing.assert_frame_equal(trip(frame), frame)
values = frame[["a"]].values
assert np.array_equal(trip(values), values) and type(trip(values)) is type(values)
shared = trip([frame, frame])
assert shared[0] is shared[1]
real = frame._fsproxy_wrapped  # pandas' own stays that
assert not is_proxy_object(trip(real)) and type(trip(real)) is type(real)
groups = frame.groupby("a")
try:
    transload.dumps(groups, families=("host",))
except transload.Unsupported:
    pass
print(*(bytes(part).hex() for part in transload.dumps({"frame": frame, "at": pd.Timestamp("2020-01-01")}, families=("host",))))
"""


def _run(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_proxies_are_proxies_again() -> None:
    parts = _run(_PROXIES).split()
    arrived = transload.loads([bytes.fromhex(part) for part in parts], families=("host",))
    assert type(arrived["frame"]) is pd.DataFrame and type(arrived["at"]) is pd.Timestamp  # cudf.pandas is not on here
    assert arrived["frame"].index.name == "i" and np.array_equal(arrived["frame"]["a"], [1, 2])


def test_pandas_objects_of_others_stay_pandas() -> None:
    frame = pd.DataFrame({"a": [1, 2], "s": ["x", None]})
    parts = [bytes(part).hex() for part in transload.dumps(frame, families=("host",))]
    script = _START + """
arrived = transload.loads([bytes.fromhex(part) for part in sys.argv[1:]], families=("host",))
assert not is_proxy_object(arrived) and type(arrived).__name__ == "DataFrame"
print(arrived["a"].sum())
"""
    assert _run(script, *parts).split()[-1] == "3"
