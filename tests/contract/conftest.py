"""Both databases for the contract: an SQLite file, and a Postgres that is started for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.harness import Harnesses
from contract.postgres import Postgres, binary
from nexus.engine import Settings
from nexus.engine.prepare import prepared


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if binary("initdb") is None or binary("pg_ctl") is None:
        pytest.skip("there are no Postgres programs on this machine: install postgresql to run this part")
    cluster = Postgres()
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def template(postgres: Postgres) -> str:
    """The name of a database with the engine's tables: copying it is quicker than making them again."""
    url = postgres.new_database()
    prepared(Settings(database=url)).close()
    return url.rpartition("/")[2]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of either kind, without any work in it."""
    if request.param == "sqlite":
        return str(tmp_path / "engine.db")
    cluster: Postgres = request.getfixturevalue("postgres")
    return cluster.new_database(request.getfixturevalue("template"))


@pytest.fixture
def harnesses(database: str, tmp_path: Path) -> Iterator[Harnesses]:
    made = Harnesses(database, tmp_path)
    yield made
    made.stop()
