"""A file of an earlier release becomes exactly what a new home gets, step by step, or stays as it is."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import pytest

from migration import later_release
from nexus.config import LedgersConfig
from nexus.errors import LedgerCorruptError, SchemaError
from nexus.home import LEDGERS
from nexus.ledgers import health, migrate, sql
from nexus.ledgers.connection import connect

_ADD = "INSERT INTO automations (id, name, hook_point) VALUES ('aut_1', 'tidy', 'runAutomations')"


@pytest.fixture
def later() -> Iterator[None]:
    """What this program is in the test: a later release."""
    with later_release.installed():
        yield


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


def build_first(path: Path) -> None:
    """A runtime ledger of 0.1.0 with a row in it."""
    migrate.build(path, "runtime", sql.BASELINE)
    connection = apsw.Connection(str(path))
    connection.execute(_ADD)
    connection.close()


@pytest.mark.parametrize("ledger", LEDGERS)
def test_replaying_all_migrations_equals_the_schema(ledger: str, tmp_path: Path) -> None:
    migrate.build(tmp_path / "new.db", ledger)
    migrate.build(tmp_path / "replayed.db", ledger, migrate.latest(ledger))

    assert structure(tmp_path / "replayed.db") == structure(tmp_path / "new.db")


@pytest.mark.parametrize("ledger", LEDGERS)
def test_migrations_are_numbered_from_the_baseline_without_gaps_and_recorded(
    ledger: str, tmp_path: Path
) -> None:
    numbers = [number for number, _, _ in sql.migrations(ledger)]
    assert numbers == list(range(sql.BASELINE, sql.BASELINE + len(numbers)))

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


@pytest.mark.usefixtures("later")
def test_a_file_at_any_earlier_version_is_brought_up_to_date_with_its_rows(tmp_path: Path) -> None:
    migrate.build(tmp_path / "new.db", "runtime")
    versions = [number for number, _, _ in sql.migrations("runtime")]
    assert len(versions) >= 4
    for version in versions[:-1]:
        path = tmp_path / f"{version}.db"
        migrate.build(path, "runtime", version)
        connection = apsw.Connection(str(path))
        connection.execute(_ADD)
        taken = migrate.upgrade(connection, "runtime")
        assert migrate.upgrade(connection, "runtime") == []
        assert connection.execute("SELECT name FROM automations").fetchall() == [("tidy",)]
        connection.close()

        assert taken == [name for number, name, _ in sql.migrations("runtime") if number > version]
        assert structure(path) == structure(tmp_path / "new.db")


@pytest.mark.usefixtures("later")
def test_doctor_announces_a_migration_and_opening_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "runtime.db"
    build_first(path)

    [problem] = health.inspect(path, "runtime")
    newest = migrate.latest("runtime")
    assert problem.kind == "old-schema"
    assert problem.message.startswith(f"runtime.db has schema {sql.BASELINE} of {newest}")

    connection = connect(path, "runtime", LedgersConfig(), writes=False)
    assert connection.execute("SELECT mood FROM automations").fetchall() == [("calm",)]
    connection.close()
    assert list(health.inspect(path, "runtime")) == []


def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.db"
    migrate.build(path, "events")
    known = sql.migrations("events")
    number = known[-1][0] + 1
    broken = (*known, (number, "9999_broken", "CREATE TABLE half (id TEXT); INSERT INTO nowhere VALUES (1);"))
    monkeypatch.setattr(sql, "migrations", lambda ledger: broken)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]

    with pytest.raises(SchemaError, match="9999_broken"):
        connect(path, "events", LedgersConfig(), writes=True)

    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == number - 1
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").get == 0
    connection.close()


@pytest.mark.usefixtures("later")
def test_a_migration_of_the_same_name_that_did_something_else_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "runtime.db"
    build_first(path)
    connection = apsw.Connection(str(path))
    connection.execute("ALTER TABLE invocations ADD COLUMN mood TEXT")
    connection.close()

    with pytest.raises(SchemaError, match=f"table invocations is not the one of schema {sql.BASELINE}"):
        connect(path, "runtime", LedgersConfig(), writes=True)
    [problem] = health.inspect(path, "runtime")
    assert problem.kind == "unreadable"


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "events.db"))
    connection.execute("CREATE TABLE recipes (id)")
    connection.close()

    with pytest.raises(LedgerCorruptError, match="another program"):
        connect(tmp_path / "events.db", "events", LedgersConfig(), writes=True)


def test_a_ledger_in_another_ones_place_is_refused(tmp_path: Path) -> None:
    migrate.build(tmp_path / "memory.db", "events")

    with pytest.raises(LedgerCorruptError, match="memory ledger's file contains the events ledger"):
        connect(tmp_path / "memory.db", "memory", LedgersConfig(), writes=True)


def test_a_file_from_a_newer_program_is_refused(tmp_path: Path) -> None:
    migrate.build(tmp_path / "memory.db", "memory")
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    connection.pragma("user_version", 999)
    connection.close()

    with pytest.raises(SchemaError, match="999"):
        connect(tmp_path / "memory.db", "memory", LedgersConfig(), writes=True)
