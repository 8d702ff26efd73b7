"""Golden containers: what was written once is read for ever."""

import sys
from pathlib import Path

import pytest
from support.same import difference

import transload
from transload._files import read

DATA = Path(__file__).parents[1] / "data"
sys.path.insert(0, str(DATA / "v1"))
import golden  # noqa: E402


@pytest.mark.parametrize("name", [n for n in golden.OBJECTS if n != "cycle"])
def test_a_golden_container_gives_its_object(name):
    assert difference(golden.OBJECTS[name](), transload.load(DATA / "v1" / f"{name}.tld")) is None


def test_a_golden_cycle_is_a_cycle():
    ring, knot = transload.load(DATA / "v1" / "cycle.tld")
    assert ring[0] is ring
    assert type(knot) is tuple and knot[0][0] is knot


def test_shared_objects_of_a_golden_container_are_one():
    value = transload.load(DATA / "v1" / "containers.tld")
    assert value["list"] is value["again"]


def test_a_golden_container_has_frames_of_each_codec():
    message = read(DATA / "v1" / "compressed.tld")
    assert message.codecs == ("lz4", "zstd", None)
    assert len(message.checksums) == 3
