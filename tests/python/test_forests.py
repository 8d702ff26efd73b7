"""Forests of treelite's: written as treelite writes them, looked at before it reads them, and predicting the same."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import transload
from support.trips import EVERY_WAY, host
from transload import _core

treelite = pytest.importorskip("treelite")
pytest.importorskip("sklearn")

from support.forests import MODELS, data  # noqa: E402

KINDS = pytest.mark.parametrize("kind", MODELS)


@KINDS
def test_models_predict_the_same_and_are_the_same_bytes(kind: str) -> None:
    model = MODELS[kind]()
    content = model.serialize_bytes()
    for way, there_and_back in EVERY_WAY.items():
        arrived = there_and_back(model)
        assert arrived.serialize_bytes() == content, way
        assert np.array_equal(treelite.gtil.predict(arrived, data()), treelite.gtil.predict(model, data()), equal_nan=True)
        assert arrived.dump_as_json() == model.dump_as_json() and arrived.num_tree == model.num_tree
    one, two = host([model, model])
    assert one is two


@KINDS
def test_bytes_are_gathered_as_treelite_writes_them(kind: str) -> None:
    model = MODELS[kind]()
    content = model.serialize_bytes()
    assert _core.forest_of_treelite(treelite.core._LIB._name, model.handle.value) == content
    task, ntrees, nnodes, nfeatures = _core.check_forest(content)
    assert ntrees == model.num_tree and nfeatures == model.num_feature and nnodes >= ntrees and 0 <= task <= 4


@KINDS
def test_without_statistics_it_predicts_the_same(kind: str) -> None:
    model = MODELS[kind]()
    slim, task = _core.forest_for_prediction(model.serialize_bytes())
    assert task == _core.check_forest(slim)[0]
    assert (len(slim) < len(model.serialize_bytes())) == (kind not in ("float32", "categories")) and _core.check_forest(slim) == _core.check_forest(model.serialize_bytes())
    assert np.array_equal(treelite.gtil.predict(treelite.Model.deserialize_bytes(slim), data()), treelite.gtil.predict(model, data()), equal_nan=True)


def test_a_model_is_one_frame_in_one_copy() -> None:
    model = MODELS["forest"]()
    message = transload.serialize([model, model], ("host",))
    assert len(message.frames) == 1 and len(message.header) < 200 and message.nbytes < len(model.serialize_bytes()) + 300
    assert "pickle" not in str(transload.explain(model))


def test_models_outlive_what_they_came_in() -> None:
    import gc

    arrived = host(MODELS["forest"]())
    twice = treelite.Model.concatenate([arrived, arrived])
    gc.collect()
    assert np.allclose(treelite.gtil.predict(twice, data()), treelite.gtil.predict(arrived, data()))
    handle = arrived._transload_block
    del arrived
    gc.collect()
    assert handle.nbytes > 0


@pytest.mark.parametrize(("major", "minor", "taken"), [(4, 0, True), (4, 99, True), (3, 9, False), (5, 0, False), (99, 0, False), (-4, 0, False)])
@pytest.mark.filterwarnings("ignore")
def test_versions_as_treelite_takes_them(major: int, minor: int, taken: bool) -> None:
    content = bytearray(MODELS["forest"]().serialize_bytes())
    content[:8] = struct.pack("<ii", major, minor)
    if taken:
        assert _core.check_forest(bytes(content), (4, 8, 1))[1] == 20
        return
    with pytest.raises(transload.Unsupported, match=rf"major_ver, minor_ver, patch_ver are {major}\.{minor}.*treelite 4\.8\.1"):
        _core.check_forest(bytes(content), (4, 8, 1))
    message = transload.dumps(MODELS["forest"](), ("host",))
    damaged = [bytes(message[0]), bytes(content)]
    with pytest.raises(transload.Unsupported, match="major_ver"):
        transload.loads(damaged, ("host",))


def _fields(content: bytes) -> dict[str, tuple[int, int]]:
    """Offset and item size of some fields of the first tree."""
    at = {}
    place = 12
    doubles = content[12] == 3
    place += 2
    at["num_tree"] = (place, 8)
    place += 8
    at["num_feature"] = (place, 4)
    at["task_type"] = (place + 4, 1)
    at["num_target"] = (place + 6, 4)
    place += 10

    def array(name: str, size: int) -> None:
        nonlocal place
        (n,) = struct.unpack_from("<Q", content, place)
        at[name + " length"] = (place, 8)
        at[name] = (place + 8, size)
        place += 8 + n * size

    for name, size in (("num_class", 4), ("leaf_vector_shape", 4), ("target_id", 4), ("class_id", 4), ("postprocessor", 1)):
        array(name, size)
    place += 8
    array("base_scores", 8)
    array("attributes", 1)
    at["options"] = (place, 4)
    at["num_nodes"] = (place + 4, 4)
    at["has_categorical_split"] = (place + 8, 1)
    place += 9
    number = 8 if doubles else 4
    for name, size in (("node_type", 1), ("cleft", 4), ("cright", 4), ("split_index", 4), ("default_left", 1), ("leaf_value", number), ("threshold", number), ("cmp", 1), ("right_child", 1), ("leaf_vector", number), ("vector_begin", 8), ("vector_end", 8), ("category_list", 4), ("category_begin", 8), ("category_end", 8), ("data_count", 8), ("data_count_present", 1)):
        array(name, size)
    return at


LIES = [
    ("num_tree", 2**60), ("num_tree", 19), ("num_tree", 21), ("num_feature", -1), ("num_feature", 1), ("task_type", 9), ("num_target", 0), ("num_target", 7), ("num_class", 0), ("num_class", 2**31 - 1), ("leaf_vector_shape", 5),
    ("target_id", 9), ("class_id", 99), ("base_scores length", 1), ("base_scores length", 2**60), ("options", 3), ("options", -1), ("num_nodes", 0), ("num_nodes", -5), ("num_nodes", 10**6), ("has_categorical_split", 7), ("node_type", 3),
    ("node_type", -1), ("node_type", 0), ("cleft", 0), ("cleft", -1), ("cleft", 10**6), ("cright", -7), ("cright", 1), ("split_index", 99), ("split_index", -1), ("default_left", 2), ("cmp", 0), ("cmp", 6), ("right_child", 255),
    ("vector_begin", 2**60), ("vector_end", 2**60), ("vector_end", 1), ("category_begin", 1), ("category_end", 2**63), ("data_count_present", 5), ("data_count length", 3), ("leaf_vector length", 2**61), ("postprocessor length", 10**5),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), LIES)
def test_lies_are_malformed_and_name_the_field(field: str, value: int) -> None:
    content = bytearray(MODELS["forest"]().serialize_bytes())
    place, size = _fields(bytes(content))[field]
    content[place : place + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    with pytest.raises((transload.Malformed, transload.Unsupported), match="forest byte"):
        _core.check_forest(bytes(content))


def test_a_circle_is_found() -> None:
    content = bytearray(MODELS["forest"]().serialize_bytes())
    place, size = _fields(bytes(content))["cleft"]
    inner = next(i for i in range(1, 50) if struct.unpack_from("<i", content, place + 4 * i)[0] != -1)
    struct.pack_into("<i", content, place + 4 * inner, struct.unpack_from("<i", content, place)[0])
    with pytest.raises(transload.Malformed, match="is the child of two"):
        _core.check_forest(bytes(content))


def test_categories_that_ask_for_too_much_memory() -> None:
    content = bytearray(MODELS["categories"]().serialize_bytes())
    fields = _fields(bytes(content))
    (n,) = struct.unpack_from("<Q", content, fields["category_list length"][0])
    assert n > 0
    struct.pack_into("<I", content, fields["category_list"][0], 2**32 - 1)
    with pytest.raises(transload.Malformed, match="category 4294967295"):
        _core.check_forest(bytes(content))


@pytest.mark.parametrize("short", [0, 1, 11, 12, 13, 40, 100, 200, -1])
def test_bytes_that_end(short: int) -> None:
    content = MODELS["forest"]().serialize_bytes()
    for cut in (content[:short], content + b"\0"):
        with pytest.raises(transload.Malformed, match="forest byte"):
            _core.check_forest(cut)


@KINDS
def test_damaged_forests_are_refused_or_harmless(kind: str) -> None:
    """In a process that is watched: whatever is let through is loaded, asked and dumped."""
    script = Path(__file__).parent / "support" / "forests.py"
    done = subprocess.run([sys.executable, "-X", "faulthandler", str(script), kind, "1500"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    refused, taken = map(int, done.stdout.split()[-2:])
    assert refused > 300 and taken > 100  # both are tried


def test_values_that_are_no_forests() -> None:
    from transload.adapters import treelite as adapter

    for value in (None, 5, "text", bytearray(b"x"), []):
        with pytest.raises(ValueError):
            adapter._decode_model(value)
    with pytest.raises(transload.Unsupported, match="no such library|cannot open"):
        _core.treelite_of_forest("/no/such library.so", MODELS["forest"]().serialize_bytes())


def test_a_model_that_is_not_loaded_steps_back() -> None:
    with pytest.raises(transload.Unsupported):
        transload.dumps(treelite.Model(handle=None), ("host",))


def test_every_kind_has_an_input_for_the_fuzzer() -> None:
    folder = Path(__file__).parents[1] / "fuzz" / "corpus" / "forest"
    assert {path.name for path in folder.iterdir()} >= {kind.replace(" ", "_") for kind in MODELS}
    for kind in MODELS:
        assert _core.check_forest((folder / kind.replace(" ", "_")).read_bytes())[1] > 0
