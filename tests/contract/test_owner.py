"""A database does the work of one home."""

import pytest

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
        home.create()
    await _opened(mine, url)
    with pytest.raises(EngineOwnerError, match="another home"):
        await _opened(other, url)
    moved = mine.root.rename(mine.root.with_name("moved"))
    await _opened(Home(moved), url)
