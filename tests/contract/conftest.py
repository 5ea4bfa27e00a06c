"""Both databases for the contract: an SQLite file, and a Postgres that is started for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.harness import Harnesses
from contract.postgres import Postgres
from nexus.engine import Settings
from nexus.engine.prepare import prepare_database


@pytest.fixture(scope="session")
def template(postgres: Postgres) -> str:
    """The name of a database with the engine's tables: copying it is quicker than making them again."""
    url = postgres.new_database()
    prepare_database(Settings(database=url)).close()
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def template_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as an SQLite file."""
    file = tmp_path_factory.mktemp("engine") / "engine.db"
    prepare_database(Settings(database=file)).close()
    return file


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of either kind, without any work in it."""
    if request.param == "sqlite":
        return str(shutil.copy(request.getfixturevalue("template_file"), tmp_path / "engine.db"))
    cluster: Postgres = request.getfixturevalue("postgres")
    return cluster.new_database(request.getfixturevalue("template"))


@pytest.fixture
def harnesses(database: str, tmp_path: Path) -> Iterator[Harnesses]:
    made = Harnesses(database, tmp_path)
    yield made
    made.stop()
