"""A model server for the examples. A test fails where it is asked for more, or less, than was scripted."""

from collections.abc import Iterator

import pytest

from nexus.testing import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as made:
        yield made
        made.assert_exhausted()
