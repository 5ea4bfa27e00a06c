"""Fixtures for pytest; a conftest.py takes them with `pytest_plugins = ["nexus.testing.pytest_plugin"]`."""

from collections.abc import Iterator

import pytest

from nexus.testing import ModelServer


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """A running model server with an empty script."""
    with ModelServer() as server:
        yield server
