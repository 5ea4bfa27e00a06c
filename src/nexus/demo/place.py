"""Where the month is written: a home that holds nothing, or an earlier month that makes room."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

import apsw

from nexus import ledgers
from nexus.config import Config
from nexus.errors import HomeError
from nexus.home import LEDGERS, PRIVATE_DIRECTORY, Home, HomeLock
from nexus.ledgers import Ledgers, attach, sql

# Vectors are made of what is there, also by a home that merely runs.
_COMPARED: Final = tuple(name for name in LEDGERS if name != "embeddings")


def begin(home: Home) -> None:
    """Say that a month is being written."""
    _write(home, {})


def end(home: Home) -> None:
    """Say that the month is written, and note all that there is."""
    _write(home, _describe_contents(home))


def is_complete(home: Home) -> bool:
    """Whether a month was written to its end."""
    return bool(_read(home))


def is_untouched(home: Home) -> bool:
    """Whether the home holds what was written, and nothing else."""
    return is_complete(home) and _read(home) == _describe_contents(home)


def file(home: Home) -> Path:
    """Return where the mark is."""
    return home.state / "demo"


def _write(home: Home, held: dict[str, Any]) -> None:
    building = file(home).with_name(".demo.new")
    building.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    building.replace(file(home))


def _read(home: Home) -> Any:
    try:
        return json.loads(file(home).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _describe_contents(home: Home) -> dict[str, Any]:
    """Count how many rows each table has and which one is the last; the files of agents and automations."""
    files = [found for folder in (home.meeseeks, home.state / "hooks") for found in _files(folder)]
    return {
        "files": {str(found.relative_to(home.root)): list(_stamp(found)) for found in files},
        "ledgers": {name: _tables(home.ledger(name)) for name in _COMPARED},
    }


def _files(folder: Path) -> list[Path]:
    return sorted(
        Path(at, name) for at, _, names in os.walk(folder) for name in names if not name.endswith(".pyc")
    )


def _stamp(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_size, found.st_mtime_ns


def _tables(ledger: Path) -> dict[str, list[int | None]] | None:
    try:
        connection = apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.CantOpenError:
        return None
    try:
        connection.set_busy_timeout(5_000)
        named = "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        found = {str(name): bool(wr) for name, wr in connection.execute(named)}
        return {name: _last(connection, name, rowids=not wr) for name, wr in sorted(found.items())}
    finally:
        connection.close()


def _last(connection: apsw.Connection, table: str, *, rowids: bool) -> list[int | None]:
    last = "max(rowid)" if rowids else "NULL"
    row: Any = connection.execute(f'SELECT count(*), {last} FROM "{table}"').get  # noqa: S608 - a table's own name
    return list(row)


_ELSEWHERE = "Use another home: `nexus --home ~/nexus-demo demo`."


async def prepare(home: Home, config: Config, *, again: bool = False) -> None:
    """Make the home, or put the demonstration that it holds aside. One that holds anything else is refused.

    With `again` a demonstration makes room whatever was added to it. `finish` is to follow.
    """
    if file(home).exists() or _aside(home).exists():
        with HomeLock(home, "alone"):
            _check(home, again=again)
            _put_aside(home)
    elif not home.exists and home.root.exists() and any(home.root.iterdir()):
        raise HomeError(f"{home.root} is not an empty folder", hint=_ELSEWHERE)
    elif home.exists and await _is_used(home, config):
        raise HomeError(f"The home at {home.root} already contains data", hint=_ELSEWHERE)
    home.create_files()
    begin(home)
    ledgers.create(home)
    attach.ensure(home)


def finish(home: Home) -> None:
    """Note what was written, and let go of what was there before."""
    end(home)
    shutil.rmtree(_aside(home), ignore_errors=True)


def _check(home: Home, *, again: bool) -> None:
    if again or is_untouched(home):
        return
    why = "contains more than the demo" if is_complete(home) else "contains an incomplete demo"
    raise HomeError(
        f"The home at {home.root} {why}",
        hint=f"Pass `--again` to replace everything in it: `nexus --home {home.root} demo --again`.",
    )


def _put_aside(home: Home) -> None:
    """Move the home's contents out of the way; where that was cut off before, go on with it.

    The mark goes first, so that a complete one never lies beside half a home.
    """
    aside = _aside(home)
    if is_complete(home):
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
