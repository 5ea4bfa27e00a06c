"""A home to look at."""

import pytest

from nexus.ledgers import Ledgers
from unit.gateway.scene import Scene


@pytest.fixture
def scene(opened: Ledgers) -> Scene:
    """An empty home that can be filled."""
    return Scene(ledgers=opened)
