"""The mark of a demonstration: what the home held when the month was written, so that more is noticed."""

import json
import os
from pathlib import Path
from typing import Any, Final

import apsw

from nexus.home import LEDGERS, Home

# Vectors are made of what is there, also by a home that merely runs.
_COMPARED: Final = tuple(name for name in LEDGERS if name != "embeddings")


def begin(home: Home) -> None:
    """Say that a month is being written."""
    _write(home, {})


def end(home: Home) -> None:
    """Say that the month is written, and note all that there is."""
    _write(home, _held(home))


def is_complete(home: Home) -> bool:
    """Whether a month was written to its end."""
    return bool(_read(home))


def is_untouched(home: Home) -> bool:
    """Whether the home holds what was written, and nothing else."""
    return is_complete(home) and _read(home) == _held(home)


def file(home: Home) -> Path:
    """Where the mark is."""
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


def _held(home: Home) -> dict[str, Any]:
    """How many rows each table has and which one is the last; the files of agents and automations."""
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
