"""Trees that lie: large ones are looked at by a thread beside the decoding, and nothing may walk one before that."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import transload
from support import message_tree

sklearn_tree = pytest.importorskip("sklearn.tree")


def _fitted(nodes: int = 3000) -> Any:
    rng = np.random.default_rng(0)
    x = rng.random((nodes, 4))
    return sklearn_tree.DecisionTreeClassifier(random_state=0).fit(x, rng.integers(0, 2, nodes))


def _damaged(obj: object) -> list[Any]:
    """A message in which the last inner node of a large tree names a child far outside."""
    header, *frames = transload.dumps(obj, ("host",))
    copies = [bytearray(frame) for frame in frames]
    dtype = sklearn_tree._tree.NODE_DTYPE
    whole = next(copy for copy in copies if len(copy) % dtype.itemsize == 0 and len(copy) > 64 * 1024)
    records = np.frombuffer(whole, dtype)
    inner = np.flatnonzero(records["left_child"] != -1)[-1]
    records["left_child"][inner] = 10**9
    return [header, *copies]


@transload.trust
class Asks:
    """Predicts as soon as it is rebuilt."""

    asked = 0

    def __init__(self, model: Any) -> None:
        self.model = model

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        Asks.asked += 1
        self.model.predict(np.zeros((1, 4)))


def test_a_large_tree_that_lies_is_refused_with_its_place() -> None:
    tree = _fitted()
    assert tree.tree_.node_count >= 1000
    with pytest.raises(transload.Malformed, match=r"obj\[1\]\['model'\]\['tree_'\]: node \d+: child 1000000000"):
        transload.loads(_damaged([{"model": None}, {"model": tree}]))


def test_who_allows_pickle_trusts_the_sender_with_trees_too() -> None:
    # The look at the nodes protects from hostile senders; one that may send code needs no tree to do harm.
    back = transload.loads(_damaged(_fitted()), ("host", "pickle"))
    assert back.tree_.node_count >= 1000


def test_no_method_of_the_message_sees_a_tree_before_it_was_looked_at() -> None:
    Asks.asked = 0
    with pytest.raises(transload.Malformed, match="child 1000000000"):
        transload.loads(_damaged(Asks(_fitted())))
    assert Asks.asked == 0
    assert transload.loads(transload.dumps(Asks(_fitted()), ("host",))).model.tree_.node_count >= 1000
    assert Asks.asked == 1


def test_a_tree_that_says_less_depth_than_it_has_is_refused() -> None:
    tree = _fitted()
    frames = transload.dumps(tree, ("host",))
    depth = tree.tree_.max_depth
    header = bytes(frames[0])
    # max_depth stands in the header as a small int, once, behind its key or in a shape; try each place where its byte occurs.
    refused = 0
    for at in (i for i, byte in enumerate(header) if byte == depth):
        try:
            transload.loads([header[:at] + bytes([depth - 1]) + header[at + 1 :], *(bytearray(f) for f in frames[1:])])
        except transload.Malformed as error:
            refused += f"max_depth is {depth - 1}" in str(error)
        except transload.Error:
            pass
    assert refused == 1


def test_the_thread_ends_when_decoding_fails_elsewhere() -> None:
    import threading

    before = threading.active_count()
    frames = transload.dumps([_fitted(), "text"], ("host",))
    header = bytes(frames[0])
    cut = header.replace(b"\xa4text", b"\xa4te\xff\xfe")
    for _ in range(20):
        with pytest.raises(transload.Malformed):
            transload.loads([cut, *(bytearray(f) for f in frames[1:])])
    assert threading.active_count() == before
    with open("/proc/self/status") as status:
        nthreads = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
    for _ in range(20):
        with pytest.raises(transload.Malformed):
            transload.loads([cut, *(bytearray(f) for f in frames[1:])])
    with open("/proc/self/status") as status:
        assert next(int(line.split()[1]) for line in status if line.startswith("Threads:")) <= nthreads


def test_kmeans_that_asks_for_a_billion_threads_is_refused() -> None:
    # OpenMP ended the process at the first predict.
    from sklearn.cluster import KMeans

    model = KMeans(2, n_init=1, random_state=0).fit(np.random.default_rng(0).random((20, 2)))
    assert (transload.loads(transload.dumps(model, ("host",))).predict([[0.0, 0.0]]) == model.predict([[0.0, 0.0]])).all()
    model._n_threads = 10**9
    with pytest.raises(transload.Malformed, match="_n_threads"):
        transload.loads(transload.dumps(model, ("host",)))


_WITHOUT_THREADS = """
import os, resource, sys, threading
import numpy as np, transload
from sklearn import ensemble
import transload.adapters.sklearn, transload.adapters.numpy
from test_lying_estimators import _damaged
rng = np.random.default_rng(0)
forest = ensemble.RandomForestClassifier(20, random_state=0).fit(rng.random((3000, 4)), rng.integers(0, 2, 3000))
message, lying = transload.dumps(forest, ("host",)), _damaged(forest)
transload.loads(message)
if os.getuid() == 0: os.setuid(65534)  # the limit does not hold for root
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try: threading.Thread(target=print).start()
except RuntimeError: print("no thread to be had")
print(len(transload.loads(message).estimators_))
try: transload.loads(lying)
except transload.Malformed as error: print("child 1000000000" in str(error))
"""


def test_trees_are_looked_at_where_no_thread_is_to_be_had() -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, "-X", "faulthandler", "-c", _WITHOUT_THREADS], env=env, capture_output=True, text=True, timeout=120)
    assert run.stdout == "no thread to be had\n20\nTrue\n", run.stderr[-2000:]

# ── Lists that grow after an estimator was looked at ─────────────────────────────────────────────────────────


def _fits(nfeatures: int) -> Any:
    x = np.random.default_rng(0).random((20, nfeatures))
    return sklearn_tree.DecisionTreeClassifier(random_state=0).fit(x, np.arange(20) % 2)


def _inside_its_own_list(*later: object) -> list[bytes]:
    """A list of a model that holds a forest, and what comes later: it is the forest's own list of trees, which is empty when the forest is looked at."""
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import RandomForestClassifier

    x = np.random.default_rng(0).random((20, 2))
    holder = DummyClassifier().fit(x, np.arange(20) % 2)
    holder.forest = RandomForestClassifier(1, random_state=0).fit(x, np.arange(20) % 2)
    root = message_tree.read(transload.dumps([holder, *later], ("host",)))
    forest = next(node for node in message_tree.nodes(root) if node.name == "sklearn.RandomForestClassifier")
    state = forest.kids[0]
    state.kids[state.keys.index("estimators_")] = root
    return message_tree.write(root)


def test_a_list_of_trees_that_grows_after_the_look_is_looked_at_again() -> None:
    # Walking the tree of 50 features, the forest of two read beyond its rows.
    arrived = transload.loads(_inside_its_own_list(_fits(2)))
    assert arrived[0].forest.estimators_ is arrived
    with pytest.raises(transload.Malformed, match="other features"):
        transload.loads(_inside_its_own_list(_fits(50)))


def test_no_method_of_the_message_sees_a_forest_whose_list_grew() -> None:
    Asks.asked = 0
    with pytest.raises(transload.Malformed, match="other features"):
        transload.loads(_inside_its_own_list(_fits(50), Asks(_fits(4))))
    assert Asks.asked == 0
