"""Replaying every migration gives exactly what a new home gets."""

import re
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from nexus.home import LEDGERS
from nexus.ledgers import migrate, sql


def structure(path: Path) -> dict[str, tuple[str, str]]:
    """Every object of a database by name: its type, and its statement without layout and comments."""
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT name, type, coalesce(sql, '') FROM sqlite_schema").fetchall()
    connection.close()
    return {str(name): (str(kind), _squeezed(str(statement))) for name, kind, statement in rows}


def _squeezed(statement: str) -> str:
    without_comments = re.sub(r"--[^\n]*", "", statement)
    return re.sub(r"\s+", " ", re.sub(r"\s*([,()])\s*", r"\1", without_comments.replace('"', ""))).strip()


def rows(path: Path, table: str) -> Sequence[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    found = [tuple(row) for row in connection.execute(f"SELECT * FROM {table}").fetchall()]
    connection.close()
    return found


@pytest.mark.parametrize("ledger", LEDGERS)
def test_replaying_all_migrations_equals_the_schema(ledger: str, tmp_path: Path) -> None:
    migrate.build(tmp_path / "new.db", ledger)
    migrate.build(tmp_path / "replayed.db", ledger, migrate.latest(ledger))

    assert structure(tmp_path / "replayed.db") == structure(tmp_path / "new.db")


@pytest.mark.parametrize("ledger", LEDGERS)
def test_a_file_at_any_older_version_is_brought_up_to_date(ledger: str, tmp_path: Path) -> None:
    migrate.build(tmp_path / "new.db", ledger)
    for version in range(1, migrate.latest(ledger)):
        path = tmp_path / f"{version}.db"
        migrate.build(path, ledger, version)
        connection = apsw.Connection(str(path))
        taken = migrate.upgrade(connection, ledger)
        assert migrate.upgrade(connection, ledger) == []
        connection.close()

        assert taken == [name for number, name, _ in sql.migrations(ledger) if number > version]
        assert structure(path) == structure(tmp_path / "new.db")


@pytest.mark.parametrize("ledger", LEDGERS)
def test_migrations_are_numbered_without_gaps_and_recorded(ledger: str, tmp_path: Path) -> None:
    numbers = [number for number, _, _ in sql.migrations(ledger)]
    assert numbers == list(range(1, len(numbers) + 1))

    migrate.build(tmp_path / "new.db", ledger)
    recorded = [(row[0], row[1]) for row in rows(tmp_path / "new.db", "schema_migrations")]
    assert recorded == [(number, name) for number, name, _ in sql.migrations(ledger)]


def test_the_comparison_sees_a_missing_index(tmp_path: Path) -> None:
    migrate.build(tmp_path / "a.db", "events")
    migrate.build(tmp_path / "b.db", "events")
    connection = apsw.Connection(str(tmp_path / "b.db"))
    connection.execute("DROP INDEX events_occurred")
    connection.close()

    assert structure(tmp_path / "a.db") != structure(tmp_path / "b.db")
