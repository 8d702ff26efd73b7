"""Models of treelite's, and damage to them in a process of its own.

python forests.py KIND TRIES: prints how many damaged models were refused and how many were let through, which are then loaded, asked and dumped.
"""

from __future__ import annotations

import functools
import os
import random
import resource
import sys
import warnings
from typing import Any

import numpy as np


@functools.cache
def data() -> Any:
    return np.random.default_rng(0).random((60, 5))


def _labels() -> Any:
    return np.arange(60) % 3


def _sklearn(name: str, *, regression: bool = False, **parameters: Any) -> Any:
    import sklearn.ensemble
    import treelite

    model = getattr(sklearn.ensemble, name)(random_state=0, **parameters)
    return treelite.sklearn.import_model(model.fit(data(), data()[:, 0] if regression else _labels()))


def _multi_output() -> Any:
    import sklearn.ensemble
    import treelite

    both = np.stack([data()[:, 0], data()[:, 1]], axis=1)
    return treelite.sklearn.import_model(sklearn.ensemble.RandomForestRegressor(5, max_depth=4, random_state=0).fit(data(), both))


def _float32() -> Any:
    import treelite
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    builder = ModelBuilder(
        threshold_type="float32", leaf_output_type="float32",
        metadata=Metadata(num_feature=5, task_type="kBinaryClf", average_tree_output=False, num_target=1, num_class=[1], leaf_vector_shape=(1, 1)),
        tree_annotation=TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]), postprocessor=PostProcessorFunc(name="sigmoid", sigmoid_alpha=1.0), base_scores=[0.5], attributes={"note": "kept"},
    )  # fmt: skip
    builder.start_tree()
    builder.start_node(0)
    builder.numerical_test(feature_id=1, threshold=0.5, default_left=True, opname="<", left_child_key=1, right_child_key=2)
    builder.end_node()
    for key, value in ((1, -1.0), (2, 2.0)):
        builder.start_node(key)
        builder.leaf(value)
        builder.end_node()
    builder.end_tree()
    assert treelite
    return builder.commit()


def _categories() -> Any:
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    builder = ModelBuilder(
        threshold_type="float64", leaf_output_type="float64",
        metadata=Metadata(num_feature=5, task_type="kRegressor", average_tree_output=True, num_target=1, num_class=[1], leaf_vector_shape=(1, 1)),
        tree_annotation=TreeAnnotation(num_tree=2, target_id=[0, 0], class_id=[0, 0]), postprocessor=PostProcessorFunc(name="identity"), base_scores=[0.0],
    )  # fmt: skip
    for _ in range(2):
        builder.start_tree()
        builder.start_node(0)
        builder.categorical_test(feature_id=0, default_left=False, category_list=[0, 3, 17], category_list_right_child=True, left_child_key=1, right_child_key=2)
        builder.end_node()
        builder.start_node(1)
        builder.numerical_test(feature_id=4, threshold=0.25, default_left=False, opname="<=", left_child_key=3, right_child_key=4)
        builder.end_node()
        for key in (2, 3, 4):
            builder.start_node(key)
            builder.leaf(float(key))
            builder.end_node()
        builder.end_tree()
    return builder.commit()


MODELS: dict[str, Any] = {
    "forest": lambda: _sklearn("RandomForestClassifier", n_estimators=20, max_depth=5),
    "regression": lambda: _sklearn("RandomForestRegressor", regression=True, n_estimators=5, max_depth=4),
    "boosting": lambda: _sklearn("GradientBoostingClassifier", n_estimators=4, max_depth=3),
    "isolation": lambda: _sklearn("IsolationForest", n_estimators=6, max_samples=30),
    "several outputs": _multi_output,
    "float32": _float32,
    "categories": _categories,
}


def _damaged(content: bytes, rng: random.Random) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out))
        way = rng.randrange(5)
        if way == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            out[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        elif way == 2:
            out[at : at + 4] = rng.choice((0, 1, 2, 5, 50, 2**31 - 1, 2**32 - 1)).to_bytes(4, "little")
        elif way == 3:
            out[at : at + 8] = rng.choice((0, 1, 2**32, 2**63, 2**64 - 1)).to_bytes(8, "little")
        else:
            other = rng.randrange(len(out))
            out[at : at + 8] = out[other : other + 8]
    return bytes(out[: len(content)].ljust(len(content), b"\0"))


def main(kind: str, tries: int) -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import treelite

    import transload
    from transload.adapters import treelite as adapter

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    warnings.simplefilter("ignore")
    content = MODELS[kind]().serialize_bytes()
    rng = random.Random(0)
    refused = taken = 0
    for _ in range(tries):
        try:
            model = adapter._decode_model(_damaged(content, rng))
        except (ValueError, transload.Error):
            refused += 1
            continue
        taken += 1
        for ask in (lambda: treelite.gtil.predict(model, data()), lambda: treelite.gtil.predict_leaf(model, data()), model.dump_as_json, model.serialize_bytes, model.get_header_accessor):
            try:
                ask()
            except (treelite.TreeliteError, UnicodeDecodeError, ValueError):
                pass
    print(refused, taken)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
