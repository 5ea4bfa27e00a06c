"""What every test may use: a home of its own, never the person's."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nexus import ledgers
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import attach
from nexus.testing import ModelServer

pytest_plugins = ["leftovers"]

# No test depends on how fast the machine is.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.fixture(autouse=True)
def no_home_of_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A complete, empty home."""
    made = Home(tmp_path / "home")
    made.create()
    ledgers.create(made)
    attach.ensure(made)
    return made


@pytest.fixture
async def opened(home: Home) -> AsyncIterator[ledgers.Ledgers]:
    """The ledgers of a complete, empty home."""
    async with ledgers.Ledgers(home, LedgersConfig()) as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model server with nothing to say yet."""
    with ModelServer() as made:
        yield made
