"""A small home for each test of forgetting."""

import pytest

from nexus.ledgers import Ledgers
from unit.ledgers.forgetting.scene import Scene


@pytest.fixture
def scene(opened: Ledgers) -> Scene:
    return Scene(opened)
