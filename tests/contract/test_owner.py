"""A database does the work of one home; an empty one can be looked at."""

import os
import subprocess

import pytest

from acceptance.program import NEXUS
from contract.postgres import Postgres
from nexus.config import EngineConfig
from nexus.engine import Engine, Settings
from nexus.engine.errors import EngineOwnerError
from nexus.home import Home


async def _opened(home: Home, url: str) -> None:
    engine = Engine(Settings.of_home(home, EngineConfig(database=url)))
    await engine.open(serve=False)
    await engine.close()


async def test_a_second_home_is_refused_and_the_first_comes_back(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = postgres.new_database()
    mine, other = (Home(tmp_path_factory.mktemp(name)) for name in ("mine", "other"))
    for home in (mine, other):
        home.create_files()
    await _opened(mine, url)
    with pytest.raises(EngineOwnerError, match="another home"):
        await _opened(other, url)
    moved = mine.root.rename(mine.root.with_name("moved"))
    await _opened(Home(moved), url)


def test_an_empty_database_can_be_looked_at(postgres: Postgres, home: Home) -> None:
    """As everybody does who has just made it, and before a home was served with it."""
    variables = {**os.environ, "NEXUS_ENGINE_DATABASE": postgres.new_database(), "NO_COLOR": "1"}

    def said(*words: str) -> tuple[int, str]:
        command = [str(NEXUS), "--home", str(home.root), *words]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    code, text = said("engine", "status")
    assert code == 1
    assert "No work has run" in text
    code, text = said("doctor")
    assert code == 0, text
    assert "engine: on Postgres, 0 executions not ended" in text
