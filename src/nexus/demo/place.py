"""Where the month is written: a home that holds nothing, or an earlier month that makes room."""

import shutil
from pathlib import Path

import apsw

from nexus import ledgers
from nexus.config import Config
from nexus.errors import HomeError
from nexus.home import Home, HomeLock
from nexus.ledgers import Ledgers, attach, sql


async def prepare(home: Home, config: Config) -> None:
    """Make the home, or empty the demonstration that it holds. One that holds anything else is refused."""
    if not home.exists and home.root.exists() and any(home.root.iterdir()):
        raise _refused(f"{home.root} is not a home, and not empty")
    if _mark(home).exists():
        with HomeLock(home, "alone"):
            for directory in (home.data, home.state, home.logs, home.run):
                shutil.rmtree(directory)
    elif home.exists and await _is_used(home, config):
        raise _refused(f"The home at {home.root} holds something already")
    home.create()
    ledgers.create(home)
    attach.ensure(home)
    _mark(home).write_text("Made by `nexus demo`, which may make it anew.\n", encoding="utf-8")


async def _is_used(home: Home, config: Config) -> bool:
    async with Ledgers(home, config.ledgers) as opened:
        for database in opened:
            query = sql.queries(database.ledger)["counts"]

            def total(connection: apsw.Connection, query: str = query) -> int:
                return sum(int(str(count)) for _, count in connection.execute(query))

            if await database.read(total):
                return True
    return False


def _refused(message: str) -> HomeError:
    return HomeError(message, hint="Name a place for the demonstration: `nexus --home ~/nexus-demo demo`.")


def _mark(home: Home) -> Path:
    return home.state / "demo"
