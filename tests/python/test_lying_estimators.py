"""Trees that lie: large ones are looked at by a thread beside the decoding, and nothing may walk one before that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import transload

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
