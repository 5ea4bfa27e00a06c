"""What every test may use: a home of its own, never the person's."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from contract.postgres import Postgres, binary
from new_homes import new_home
from nexus import ledgers
from nexus.config import LedgersConfig
from nexus.engine.schedules import Upkeep
from nexus.home import Home
from nexus.testing import ModelServer

pytest_plugins = ["leftovers", "unhurried"]

# A process asks for the system's time zone once, so no test can set it for itself alone.
os.environ["TZ"] = "UTC"

# No test depends on how fast the machine is.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `scripts/check --quick` leaves out: what takes long opens a home or needs a server."""
    for item in items:
        needs_home = isinstance(item, pytest.Function) and "home" in item.fixturenames
        if needs_home or {"channels", "hosting", "testing"} & set(item.nodeid.split("/")):
            item.add_marker(pytest.mark.whole)


@pytest.fixture(autouse=True)
def no_home_of_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))


def _leave(_: Upkeep) -> None:
    pass


@pytest.fixture(autouse=True)
def a_clock_that_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's home may be years ahead of the machine: the engine must not think the clock was set back."""
    monkeypatch.setattr(Upkeep, "_set_back", _leave)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A complete, empty home."""
    return new_home(tmp_path / "home")


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if binary("initdb") is None or binary("pg_ctl") is None:
        pytest.skip("there are no Postgres programs on this machine: install postgresql to run this part")
    cluster = Postgres()
    cluster.start()
    yield cluster
    cluster.stop()
