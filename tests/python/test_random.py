"""Random nested objects: what arrives is what pickle would bring, and what was sent."""

from __future__ import annotations

import datetime
import decimal
import fractions
import pickle
import uuid
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.same import difference
from support.trips import host, host_readonly

atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**200), 2**200), st.floats(), st.complex_numbers(), st.text(), st.text(st.characters(codec=None)), st.binary(max_size=3000),
    st.dates(), st.datetimes(timezones=st.one_of(st.none(), st.just(datetime.UTC))), st.timedeltas(), st.decimals(allow_nan=False), st.fractions(), st.uuids(),
    st.builds(range, st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([1, 2, -1])), st.builds(slice, st.integers(), st.none(), st.integers()), st.builds(bytearray, st.binary()),
)
keys = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.tuples(st.integers(), st.text()), st.frozensets(st.integers()), st.dates(), st.uuids())
_DTYPES = ["?", "i1", "u2", "i4", ">i8", "f2", "f4", ">f8", "c16", "S3", "U2", "M8[s]", "m8[ns]"]


@st.composite
def arrays(draw: Any) -> np.ndarray[Any, Any]:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    dtype = np.dtype(draw(st.sampled_from(_DTYPES)))
    size = int(np.prod(shape, dtype=int))
    array: np.ndarray[Any, Any] = np.random.RandomState(draw(st.integers(0, 100))).randint(0, 99, size).astype(dtype).reshape(shape)
    change = draw(st.sampled_from(["none", "F", "reverse", "stride", "transpose", "readonly", "broadcast"]))
    if change == "F":
        array = np.asfortranarray(array)
    elif change == "reverse" and array.ndim:
        array = array[::-1]
    elif change == "stride" and array.ndim:
        array = array[::2]
    elif change == "transpose":
        array = array.T
    elif change == "readonly":
        array.flags.writeable = False
    elif change == "broadcast":
        array = np.broadcast_to(array, (2, *array.shape))
    return array


leaves = st.one_of(atoms, arrays(), st.sampled_from([np.float32(1.5), np.int64(-3), np.datetime64("2024"), np.dtype("i4")]))
nested = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.lists(st.floats(), max_size=40), st.tuples(inner), st.tuples(inner, inner), st.dictionaries(keys, inner, max_size=4), st.dictionaries(st.sampled_from("abcd"), inner),
        st.sets(keys, max_size=4), st.frozensets(keys, max_size=4), st.builds(lambda x: [x, x, (x,)], inner),
    ),
    max_leaves=25,
)
_many = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@_many
@given(nested)
def test_random_object_arrives_whole(thing: Any) -> None:
    assert difference(thing, host(thing)) is None


@_many
@given(nested)
def test_random_object_arrives_whole_from_read_only_frames(thing: Any) -> None:
    assert difference(thing, host_readonly(thing)) is None


@_many
@given(nested)
def test_random_object_arrives_as_pickle_would_bring_it(thing: Any) -> None:
    def pickled(x: Any) -> Any:  # which makes broadcasts and slices compact, so both go through it
        return pickle.loads(pickle.dumps(x, protocol=5))

    assert difference(pickled(thing), pickled(host(thing))) is None


@given(st.one_of(st.decimals(), st.fractions(), st.uuids()))
def test_random_numbers_of_the_library(number: decimal.Decimal | fractions.Fraction | uuid.UUID) -> None:
    assert repr(host(number)) == repr(number)
