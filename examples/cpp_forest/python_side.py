"""python_side.py write FILE: trains a forest and saves it. python_side.py read FILE: loads it, asks it, and says whether it is the same.

python_side.py library: where treelite's shared library is.
"""

import sys

import numpy as np
import treelite
from sklearn.ensemble import RandomForestClassifier

import transload

rows = np.random.default_rng(0).random((300, 8))


def forest():
    return treelite.sklearn.import_model(RandomForestClassifier(50, max_depth=6, random_state=0).fit(rows, np.arange(300) % 4))


if sys.argv[1] == "library":
    print(treelite.core._LIB._name)
elif sys.argv[1] == "write":
    transload.save(sys.argv[2], forest())
else:
    model = transload.load(sys.argv[2])
    same = np.array_equal(treelite.gtil.predict(model, rows), treelite.gtil.predict(forest(), rows))
    print(f"Python loaded a forest of {model.num_tree} trees, which predicts {'the same' if same else 'otherwise'}")
