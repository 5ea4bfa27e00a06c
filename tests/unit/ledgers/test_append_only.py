"""What was recorded stays: the database itself refuses to change an event or a fact."""

from pathlib import Path

import apsw
import pytest

from nexus.ledgers import migrate

EVENT = """
INSERT INTO events (id, channel, external_id, direction, content)
VALUES ('e1', 'cli', 'x1', 'inbound', 'first')
"""
FACT = "INSERT INTO facts (id, fact) VALUES ('f1', 'first')"


@pytest.fixture
def ledger(tmp_path: Path) -> apsw.Connection:
    """Both append-only tables, as a foreign program would open them: no pragma of ours."""
    migrate.build(tmp_path / "events.db", "events")
    migrate.build(tmp_path / "memory.db", "memory")
    connection = apsw.Connection(str(tmp_path / "events.db"))
    connection.execute("ATTACH ? AS memory", (str(tmp_path / "memory.db"),))
    connection.execute(EVENT)
    connection.execute(FACT)
    return connection


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET content = 'changed'",
        "UPDATE events SET occurred_at = '1970'",
        "DELETE FROM events",
        "DELETE FROM events WHERE id = 'e1'",
        "INSERT OR REPLACE INTO events (id, channel, direction, content) VALUES ('e1', 'cli', 'inbound', '')",
        "REPLACE INTO events (seq, id, channel, direction, content) VALUES (1, 'e2', 'cli', 'inbound', 'x')",
        "REPLACE INTO events (id, channel, external_id, direction, content) "
        "VALUES ('e3', 'cli', 'x1', 'inbound', 'x')",
        "INSERT INTO events (id, channel, direction, content) VALUES ('e1', 'cli', 'inbound', 'x') "
        "ON CONFLICT (id) DO UPDATE SET content = 'changed'",
        "UPDATE facts SET fact = 'changed'",
        "UPDATE facts SET confidence = 0.1",
        "DELETE FROM facts",
        "INSERT OR REPLACE INTO facts (id, fact) VALUES ('f1', 'changed')",
        "REPLACE INTO facts (seq, id, fact) VALUES (1, 'f2', 'changed')",
    ],
)
def test_no_statement_changes_or_removes_what_was_recorded(ledger: apsw.Connection, statement: str) -> None:
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        ledger.execute(statement)

    assert ledger.execute("SELECT content FROM events").fetchall() == [("first",)]
    assert ledger.execute("SELECT fact FROM facts").fetchall() == [("first",)]


def test_without_the_guard_a_replacement_would_pass_unseen(ledger: apsw.Connection) -> None:
    ledger.execute("DROP TRIGGER events_are_not_replaced")

    ledger.execute(
        "REPLACE INTO events (id, channel, direction, content) VALUES ('e1', 'cli', 'inbound', 'changed')"
    )

    assert ledger.execute("SELECT content FROM events").fetchall() == [("changed",)]


def test_the_same_observation_may_be_made_any_number_of_times(ledger: apsw.Connection) -> None:
    for _ in range(3):
        ledger.execute(
            "INSERT INTO relationships (source_entity_id, target_entity_id, relation_type, fact) "
            "VALUES ('tyler', 'anthropic', 'WORKS_AT', 'Tyler works at Anthropic')"
        )

    rows = ledger.execute("SELECT id, valid_at, created_at FROM relationships ORDER BY id").fetchall()
    assert len({row[0] for row in rows}) == 3
    assert all(row[1] == row[2] for row in rows)


def test_a_relationship_without_its_ends_is_refused(ledger: apsw.Connection) -> None:
    with pytest.raises(apsw.ConstraintError, match="source_entity_id and relation_type"):
        ledger.execute("INSERT INTO relationships (fact) VALUES ('something')")


def test_ids_made_in_sql_are_ulids_of_now(ledger: apsw.Connection) -> None:
    from nexus import ids

    before = ids.new("fact")
    made = f"fact_{ledger.execute('SELECT ulid FROM ulids').get}"
    after = ids.new("fact")

    assert len(made) == len(before)
    # SQLite tells the time in days: of that, a millisecond may be lost.
    assert _ms(before) - 1 <= _ms(made) <= _ms(after)


def _ms(id_: str) -> int:
    """The time in an id."""
    ms = 0
    for character in id_.partition("_")[2][:10]:
        ms = ms * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    return ms
