"""A value that cannot be encoded or decoded is the error of what needs it; nothing stalls, and the workers work on.

In stock Dask the transfers between workers below wait for ever (distributed#6705).
"""

import threading
import time

import numpy as np
import pytest
from distributed import Variable, get_client, wait

import transload
import transload.dask

roadside = pytest.importorskip("roadside")
pytestmark = pytest.mark.timeout(60)

BAD = {
    "a lock": (roadside.Holder, "lock"),
    "a bad __reduce__": (roadside.CannotLeave, "cannot leave its process"),
    "fails on arrival": (roadside.CannotArrive, "cannot be built here"),
}


def nothing_stands(client):
    """Wait until no worker has a Refusal any more."""

    def refusals(dask_worker):
        from transload.dask import _worker

        return _worker._roles[dask_worker].holds_refusals()

    end = time.monotonic() + 10
    while any(client.run(refusals).values()):
        assert time.monotonic() < end
        time.sleep(0.05)


def works(client, a, b):
    """Data still go both ways."""
    x = client.submit(np.arange, 1000, workers=a, pure=False)
    y = client.submit(np.arange, 1000, workers=b, pure=False)
    assert client.submit(lambda x, y: int((x + y).sum()), x, y, workers=b).result(timeout=20) == 999_000
    assert client.submit(lambda x, y: int((x - y).sum()), x, y, workers=a).result(timeout=20) == 0


@pytest.mark.parametrize("what", BAD)
def test_worker_to_worker(client, a, b, what):
    make, text = BAD[what]
    x = client.submit(make, workers=a)
    y = client.submit(lambda x: 1, x, workers=b)
    with pytest.raises(Exception, match=text):
        y.result(timeout=20)
    assert client.who_has(x)[x.key] == (a,)  # the scheduler never takes the refusal for a copy
    assert client.submit(lambda x: 2, x, workers=a).result(timeout=20) == 2  # where it is, it can be used
    nothing_stands(client)
    works(client, a, b)


@pytest.mark.parametrize("what", BAD)
def test_one_bad_among_several_in_one_message(client, a, b, what):
    """Only the task that needs the bad one fails; the others that came in the same message are used."""
    make, text = BAD[what]
    good = [client.submit(np.full, 100, i, workers=a, key=f"good-{what}-{i}") for i in range(5)]
    bad = client.submit(make, workers=a, key=f"bad-{what}")
    wait([*good, bad])
    needs_all = client.submit(lambda *v: len(v), bad, *good, workers=b, pure=False)
    with pytest.raises(Exception, match=text):
        needs_all.result(timeout=20)
    needs_good = client.submit(lambda *v: int(sum(x[0] for x in v)), *good, workers=b, pure=False)
    assert needs_good.result(timeout=20) == 10
    nothing_stands(client)


def test_task_error_can_be_retried(client, a, b):
    """A Refusal is dropped, so the next try fetches the value anew, and gets it once it can travel."""
    x = client.submit(roadside.Sometimes, workers=a)
    y = client.submit(lambda x: x.fine, x, workers=b)
    with pytest.raises(Exception, match="not now"):
        y.result(timeout=20)

    def mend():
        roadside.Sometimes.fine = True

    client.run(mend)
    try:
        nothing_stands(client)
        y.retry()
        assert y.result(timeout=20) is True
    finally:
        client.run(lambda: setattr(__import__("roadside").Sometimes, "fine", False))


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("direct", [False, True])
def test_gather(client, what, direct):
    make, text = BAD[what]
    x = client.submit(make)
    with pytest.raises(Exception, match=text):
        client.gather(x, direct=direct)
    assert client.submit(lambda x: 3, x).result(timeout=20) == 3


def test_gather_inside_a_task_does_not_see_the_refusal(client, a, b):
    x = client.submit(roadside.Holder, workers=a)
    y = client.submit(lambda x: 1, x, workers=b)
    with pytest.raises(Exception, match="lock"):
        y.result(timeout=20)

    Variable("bad").set(x)

    def inside():
        try:
            return type(get_client().gather(Variable("bad").get(timeout=10))).__name__
        except Exception as error:
            return f"error: {error}"

    assert "lock" in client.submit(inside, workers=b).result(timeout=20)


@pytest.mark.parametrize("what", ["a lock", "a bad __reduce__"])
@pytest.mark.parametrize("direct", [False, True])
def test_scatter(client, what, direct):
    make, text = BAD[what]
    with pytest.raises(Exception, match=text):
        client.scatter(make(), direct=direct, hash=False)


@pytest.mark.parametrize("direct", [False, True])
def test_scatter_of_what_fails_on_arrival(client, a, b, direct):
    with pytest.raises(Exception, match="cannot be built here"):
        client.scatter(roadside.CannotArrive(), direct=direct, hash=False)
    works(client, a, b)


@pytest.mark.parametrize("what", ["a lock", "fails on arrival"])
def test_replicate(client, a, b, what):
    """Stock Dask copies again and again, for ever."""
    make, text = BAD[what]
    x = client.submit(make, workers=a)
    wait(x)
    with pytest.raises(Exception, match=text):
        client.replicate(x, n=2)
    assert client.submit(lambda x: 4, x, workers=a).result(timeout=20) == 4
    works(client, a, b)


def test_actor(client):
    actor = client.submit(roadside.Counter, actor=True).result()
    for call in (
        lambda: actor.give("lock").result(timeout=20),
        lambda: actor.give("late").result(timeout=20),
        lambda: actor.add(roadside.CannotLeave()).result(timeout=20),
        lambda: actor.add(threading.Lock()).result(timeout=20),
        lambda: actor.add(roadside.CannotArrive()).result(timeout=20),
    ):
        with pytest.raises(Exception, match="lock|cannot"):
            call()
    assert actor.add([1, 2]).result(timeout=20) == [1, 2]


def test_run(client):
    with pytest.raises(Exception, match="lock"):
        client.run(threading.Lock)


def test_refusal_survives_spilling_as_a_refusal(client, b):
    def there_and_back():
        from distributed.protocol.serialize import deserialize_bytes, serialize_bytelist

        from transload.dask._wire import Refusal

        there = b"".join(serialize_bytelist(Refusal(transload.Untrusted("m:C")), on_error="raise"))
        back = deserialize_bytes(there)
        return type(back).__name__, type(back.error).__name__, str(back.error)

    assert client.submit(there_and_back, workers=b).result() == ("Refusal", "Untrusted", "m:C")


def test_refusal_is_never_sent(client):
    from distributed.protocol import Serialize, deserialize
    from distributed.protocol.serialize import serialize_and_split

    from transload.dask import _wire

    for serializers, error in ((None, TypeError), (["dask", "pickle", "error", _wire.MARKER], transload.Untrusted)):
        refusal = Serialize(_wire.Refusal(transload.Untrusted("m:C")))
        header, frames = _wire.encode(serialize_and_split, refusal, serializers, "message", None, None, speaking=True)
        with pytest.raises(error, match="m:C"):
            deserialize(header, frames)
