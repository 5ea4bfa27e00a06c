"""Everything that a home holds, byte for byte, to compare two homes; and a home that holds something."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import apsw

from nexus.automations.registration import Write
from nexus.config import LedgersConfig
from nexus.home import LEDGERS, Home
from nexus.ledgers import events, memory
from nexus.ledgers.connection import connect
from nexus.ledgers.database import Work

P = ParamSpec("P")
T = TypeVar("T")

_TABLES = """
SELECT name FROM pragma_table_list
WHERE schema = 'main' AND type = 'table' AND name <> 'sqlite_schema' ORDER BY name
"""

_EXACT = "typeof({0}), CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) ELSE {0} END"


def rows(home: Home) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table in order: for each value its type and its very bytes."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for ledger in LEDGERS:
        connection = writing(home, ledger)
        try:
            for (table,) in connection.execute(_TABLES).fetchall():
                found[f"{ledger}.{table}"] = _exactly(connection, str(table))
        finally:
            connection.close()
    return found


def files(home: Home) -> dict[str, tuple[int, bytes | str | None]]:
    """config.toml and all below state/: the mode, and the bytes or where a link points."""
    return {
        str(path.relative_to(home.root)): (path.lstat().st_mode, _content(path))
        for path in [home.config_file, home.state, *home.state.rglob("*")]
    }


def writing(home: Home, ledger: str) -> apsw.Connection:
    """A connection that may write; the caller closes it."""
    return connect(home.ledger(ledger), ledger, LedgersConfig(synchronous="normal"), writes=True)


def execute(home: Home, ledger: str, statement: str, values: tuple[Any, ...] | dict[str, Any] = ()) -> Any:
    """Run one statement on a ledger; returns the first value that it gave."""
    connection = writing(home, ledger)
    try:
        return connection.execute(statement, values).get
    finally:
        connection.close()


def furnish(home: Home, count: int = 50) -> None:
    """Put something into each kind of place: events and facts, numbers, blobs, scripts."""
    said = [
        events.NewEvent(
            channel="cli",
            content=f"message {number} about otters",
            external_id=str(number),
            participants=(events.Participant(role="sender", identifier="anna"),),
        )
        for number in range(count)
    ]
    recorded = _write(home, "events", lambda connection: events.append(connection, said))
    learned = [memory.NewFact(fact=f"{event} was said", source_event_id=event) for event in recorded]
    _write(home, "memory", lambda connection: memory.append_facts(connection, learned))
    execute(home, "embeddings", "INSERT INTO embedding_models (id, dimensions) VALUES ('m', 2)")
    execute(
        home,
        "embeddings",
        "INSERT INTO embeddings (target_type, target_id, model_id, vector, source_text_hash)"
        " VALUES ('event', ?, 'm', x'00ff00ff', 'h')",
        (recorded[0],),
    )
    script = home.scripts / "greet.py"
    script.write_text("print('hello')\n")
    script.chmod(0o700)
    (home.state / "empty").mkdir(mode=0o700)


def _write(home: Home, ledger: str, work: Callable[[apsw.Connection], list[str]]) -> list[str]:
    connection = writing(home, ledger)
    try:
        connection.execute("BEGIN IMMEDIATE")
        made = work(connection)
        connection.execute("COMMIT")
        return made
    finally:
        connection.close()


def _exactly(connection: apsw.Connection, table: str) -> list[tuple[Any, ...]]:
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    exact = ", ".join(_EXACT.format(f'"{name}"') for (name,) in columns)
    found = connection.execute(f'SELECT {exact} FROM "{table}"')
    return [tuple(map(_bits, row)) for row in found]


def _bits(value: Any) -> Any:
    return struct.pack("d", value) if isinstance(value, float) else value


def _content(path: Path) -> bytes | str | None:
    if path.is_symlink():
        return str(path.readlink())
    return path.read_bytes() if path.is_file() else None


def directly(connection: apsw.Connection) -> Write:
    """Runs work on a connection of the test's own, without a transaction around it."""

    def write(work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return work(connection, *args, **kwargs)

    return write
