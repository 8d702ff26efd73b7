"""Writes sklearn_<version>.tld beside this file, with the scikit-learn that is installed; run once a version.

    python tests/data/v1/sklearn_golden.py
"""

from pathlib import Path

import numpy as np
import sklearn
from sklearn import ensemble, linear_model, neighbors, pipeline, preprocessing, svm

import transload


def made():
    rng = np.random.default_rng(0)
    x = rng.random((40, 4))
    y = (x[:, 0] > 0.5).astype(int)
    models = {
        "forest": (ensemble.RandomForestClassifier(2, max_depth=3, random_state=0), "predict_proba"),
        "boosting": (ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0), "predict_proba"),
        "histograms": (ensemble.HistGradientBoostingRegressor(max_iter=2, max_leaf_nodes=4, min_samples_leaf=5, random_state=0), "predict"),
        "neighbours": (neighbors.KNeighborsClassifier(3, algorithm="kd_tree"), "predict_proba"),
        "vectors": (svm.SVC(), "decision_function"),
        "pipeline": (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()), "predict_proba"),
    }
    return {"x": x, "models": {name: (model.fit(x, y), method, getattr(model, method)(x)) for name, (model, method) in models.items()}}


if __name__ == "__main__":
    transload.save(Path(__file__).parent / f"sklearn_{sklearn.__version__.replace('.', '_')}.tld", made(), families=("host",))
