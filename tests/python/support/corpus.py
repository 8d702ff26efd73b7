"""Every object of these tests, one by one: what sanitizers, leak tests and threads walk over."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

KINDS = {"python": "", "values": "", "numpy": "numpy", "arrays": "numpy", "scipy": "scipy", "pandas": "pandas", "tables": "pyarrow", "sklearn": "sklearn"}

# Fitting all of scikit-learn takes over a minute; these have state of each kind. TRANSLOAD_TEST_ALL=1 takes the others, too.
ESTIMATORS = (
    "AdaBoostClassifier", "Birch", "CountVectorizer", "DecisionTreeClassifier", "ExtraTreeRegressor", "GaussianMixture", "GradientBoostingRegressor",
    "HashingVectorizer", "HistGradientBoostingClassifier", "IsolationForest", "IsotonicRegression", "KBinsDiscretizer", "KMeans", "KNeighborsClassifier",
    "KernelDensity", "Lasso", "LinearSVC", "LocalOutlierFactor", "LogisticRegression", "MLPClassifier", "MiniBatchKMeans", "NearestNeighbors", "NuSVR",
    "OneHotEncoder", "OrdinalEncoder", "PCA", "PolynomialFeatures", "QuantileTransformer", "RandomForestRegressor", "SGDClassifier", "SVC", "SimpleImputer",
    "SplineTransformer", "StandardScaler", "TargetEncoder", "TfidfVectorizer",
)  # fmt: skip


def kinds() -> list[str]:
    """The modules `objects_<kind>` whose library is installed here."""
    return [kind for kind, library in KINDS.items() if not library or importlib.util.find_spec(library) is not None]


def corpus(kind: str) -> Iterator[tuple[str, Any]]:
    """The objects of one module with a label."""
    module = importlib.import_module(f"support.objects_{kind}")
    if kind == "sklearn" and not os.environ.get("TRANSLOAD_TEST_ALL"):
        made: Any = ((name, module.fitted(name)) for name in ESTIMATORS)
    elif hasattr(module, "values"):
        made = ((label, make()) for label, make in module.values().items())
    else:
        made = module.objects()
    for label, thing in made:
        yield f"{kind}: {label}", thing
