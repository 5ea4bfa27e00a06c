"""Where the month is written: a home that holds nothing, or an earlier month that makes room."""

import shutil
from pathlib import Path

import apsw

from nexus import ledgers
from nexus.config import Config
from nexus.demo import mark
from nexus.errors import HomeError
from nexus.home import PRIVATE_DIRECTORY, Home, HomeLock
from nexus.ledgers import Ledgers, attach, sql

_ELSEWHERE = "Name a place for the demonstration: `nexus --home ~/nexus-demo demo`."


async def prepare(home: Home, config: Config, *, again: bool = False) -> None:
    """Make the home, or put the demonstration that it holds aside. One that holds anything else is refused.

    With `again` a demonstration makes room whatever was added to it. `finish` is to follow.
    """
    if mark.file(home).exists() or _aside(home).exists():
        with HomeLock(home, "alone"):
            _check(home, again=again)
            _put_aside(home)
    elif not home.exists and home.root.exists() and any(home.root.iterdir()):
        raise HomeError(f"{home.root} is not a home, and not empty", hint=_ELSEWHERE)
    elif home.exists and await _is_used(home, config):
        raise HomeError(f"The home at {home.root} holds something already", hint=_ELSEWHERE)
    home.create()
    mark.begin(home)
    ledgers.create(home)
    attach.ensure(home)


def finish(home: Home) -> None:
    """Note what was written, and let go of what was there before."""
    mark.end(home)
    shutil.rmtree(_aside(home), ignore_errors=True)


def _check(home: Home, *, again: bool) -> None:
    if again or mark.is_untouched(home):
        return
    if mark.is_complete(home):
        why = "holds more than the demonstration that was written there"
    else:
        why = "holds a demonstration that was not written to its end"
    raise HomeError(
        f"The home at {home.root} {why}",
        hint=f"`nexus --home {home.root} demo --again` erases all that is in it and begins anew.",
    )


def _put_aside(home: Home) -> None:
    """Move the home's contents out of the way; where that was cut off before, go on with it.

    The mark goes first, so that a complete one never lies beside half a home.
    """
    aside = _aside(home)
    if mark.is_complete(home):
        shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    for directory in (home.state, home.data, home.logs, home.run):
        kept = aside / directory.name
        if kept.exists():
            shutil.rmtree(directory, ignore_errors=True)
        elif directory.exists():
            directory.rename(kept)


async def _is_used(home: Home, config: Config) -> bool:
    # A home whose making was cut off lacks some of them.
    ledgers.create(home)
    async with Ledgers(home, config.ledgers) as opened:
        for database in opened:
            query = sql.queries(database.ledger)["counts"]

            def total(connection: apsw.Connection, query: str = query) -> int:
                return sum(int(str(count)) for _, count in connection.execute(query))

            if await database.read(total):
                return True
    return False


def _aside(home: Home) -> Path:
    return home.root / ".before-demo"
