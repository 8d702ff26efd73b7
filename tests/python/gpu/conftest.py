"""Tests that need a GPU and CuPy; each skips itself elsewhere."""

import pytest

import transload


def pytest_collection_modifyitems(items):
    if transload.device_count() == 0:
        for item in items:
            if "gpu" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason="no GPU here"))


@pytest.fixture
def cp():
    return pytest.importorskip("cupy")
