"""Seals: a fact that something else changed is found; what Nexus itself does leaves seals that match."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from nexus.home import Home
from nexus.ledgers import Ledgers, backup, forgetting, guards, health, memory, sql, transfer
from nexus.ledgers.forgetting import Target
from nexus.ledgers.memory import NewFact, seals

_FACTS = [NewFact(id=f"fact_{n}", fact=f"Fact number {n}", confidence=0.5) for n in range(1, 6)]


@pytest.fixture
async def told(opened: Ledgers) -> Ledgers:
    await opened.memory.write(memory.append_facts, _FACTS)
    return opened


async def _tampered(ledgers: Ledgers, statement: str) -> None:
    def change(connection: apsw.Connection) -> None:
        with guards.suspend(connection, guards.refusals_of("facts")):
            connection.execute(statement)

    await ledgers.memory.write(change)


async def _breaks(ledgers: Ledgers) -> list[tuple[int, str]]:
    return await ledgers.memory.read(lambda c: [(each.seq, each.what) for each in seals.breaks(c)])


async def _unsealed(ledgers: Ledgers) -> int:
    return await ledgers.memory.read(seals.count_unsealed)


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("UPDATE facts SET fact = 'planted' WHERE seq = 2", [(2, "changed")]),
        ("UPDATE facts SET confidence = 1.0 WHERE seq = 3", [(3, "changed")]),
        ("UPDATE facts SET created_at = '2020-01-01T00:00:00.000Z' WHERE seq = 1", [(1, "changed")]),
        ("UPDATE facts SET source_event_id = 'evt_planted' WHERE seq = 5", [(5, "changed")]),
        ("UPDATE facts SET metadata_json = '{\"a\": 1}' WHERE seq = 5", [(5, "changed")]),
        ("DELETE FROM facts WHERE seq = 4", [(4, "removed")]),
        ("DELETE FROM facts WHERE seq > 3", [(4, "removed"), (5, "removed")]),
        ("DELETE FROM facts", [(n, "removed") for n in range(1, 6)]),
        ("INSERT INTO facts (seq, id, fact) VALUES (-1, 'fact_x', 'planted')", [(-1, "inserted")]),
        ("UPDATE facts SET fact = 'a' WHERE seq IN (1, 5)", [(1, "changed"), (5, "changed")]),
    ],
)
async def test_a_fact_that_was_changed_or_removed_is_found(
    told: Ledgers, tampering: str, found: list[tuple[int, str]]
) -> None:
    assert await _breaks(told) == []

    await _tampered(told, tampering)

    assert await _breaks(told) == found
    problems = [each.kind for each in health.inspect(told.home.ledger("memory"), "memory")]
    assert "broken-seal" in problems


async def test_every_column_of_a_fact_is_sealed(told: Ledgers) -> None:
    columns = await told.memory.read(
        lambda c: [str(row[1]) for row in c.execute("PRAGMA table_info(facts)") if row[1] != "seq"]
    )
    for column in columns:
        value = "0.25" if column == "confidence" else "'planted'"
        episode = "PRAGMA defer_foreign_keys = ON; " if column == "source_episode_id" else ""
        with pytest.raises(_FoundError):
            await told.memory.write(
                _look_and_roll_back(f"{episode}UPDATE facts SET {column} = {value} WHERE seq = 2")
            )
    assert await _breaks(told) == []


class _FoundError(Exception):
    """Found, and not to be kept."""


def _look_and_roll_back(statement: str) -> Callable[[apsw.Connection], None]:
    def work(connection: apsw.Connection) -> None:
        with guards.suspend(connection, guards.refusals_of("facts")):
            connection.execute(statement).fetchall()
        assert [each.seq for each in seals.breaks(connection)] == [2], statement
        raise _FoundError

    return work


async def test_seals_cannot_be_changed_or_dropped_by_stray_sql(told: Ledgers) -> None:
    for statement in (
        "DELETE FROM fact_seals",
        "UPDATE fact_seals SET digest = x'00'",
        "INSERT OR REPLACE INTO fact_seals VALUES (1, x'00')",
    ):
        with pytest.raises(apsw.ConstraintError):
            await told.memory.write(sql.run, statement)


async def test_facts_written_with_plain_sql_are_sealed_with_the_next_ones(told: Ledgers) -> None:
    await told.memory.write(lambda c: c.execute("INSERT INTO facts (id, fact) VALUES ('fact_sql', 'plain')"))
    assert await _unsealed(told) == 1
    assert await _breaks(told) == []

    await told.memory.write(memory.append_facts, [NewFact(fact="another")])

    assert await _unsealed(told) == 0
    await _tampered(told, "UPDATE facts SET fact = 'planted' WHERE id = 'fact_sql'")
    assert await _breaks(told) == [(6, "changed")]


async def test_forgetting_leaves_seals_that_match(told: Ledgers) -> None:
    await told.identity.write(_ada)
    await _tampered(told, "UPDATE facts SET source_entity_id = 'ent_ada' WHERE seq = 2")
    await told.memory.write(seals.accept)
    assert await told.memory.write(seals.seal) == 4

    assert await forgetting.forget(told, Target(kind="entity", value="ent_ada"), actor="test")

    assert await told.memory.read(lambda c: c.execute("SELECT count(*) FROM facts").get) == 4
    assert (await _breaks(told), await _unsealed(told)) == ([], 0)
    reasons = "SELECT reason, broken FROM fact_reseals ORDER BY created_at, reason"
    assert await told.memory.read(lambda c: c.execute(reasons).fetchall()) == [("accepted", 1), ("forget", 0)]


async def test_forgetting_does_not_cover_up_what_was_changed_before(told: Ledgers) -> None:
    await told.identity.write(_ada)
    await told.memory.write(memory.append_facts, [NewFact(fact="Ada likes tea", source_entity_id="ent_ada")])
    await _tampered(told, "UPDATE facts SET fact = 'planted' WHERE seq = 3")

    assert await forgetting.forget(told, Target(kind="entity", value="ent_ada"), actor="test")

    assert await told.memory.read(seals.count_broken_before) == 1
    kinds = [each.kind for each in health.inspect(told.home.ledger("memory"), "memory")]
    assert kinds.count("broken-seal") >= 1
    await told.memory.write(seals.accept)
    await told.memory.write(seals.seal)
    assert not list(health.inspect(told.home.ledger("memory"), "memory"))


async def test_what_was_broken_counts_though_a_clock_was_ahead_when_it_was_accepted(told: Ledgers) -> None:
    add = "INSERT INTO fact_reseals (id, reason, broken, created_at) VALUES (?, ?, ?, ?)"
    rows = [("a", "accepted", 0, "2999-01-01T00:00:00.000Z"), ("b", "forget", 2, "2026-01-01T00:00:00.000Z")]
    await told.memory.write(lambda c: c.executemany(add, rows).fetchall())

    assert await told.memory.read(seals.count_broken_before) == 2


async def test_copies_of_a_home_match_their_seals(told: Ledgers, tmp_path: Path) -> None:
    restored, imported = Home(tmp_path / "restored"), Home(tmp_path / "imported")
    backup.make(told.home, tmp_path / "backup")
    backup.restore(tmp_path / "backup", restored)
    with (tmp_path / "export.jsonl").open("wb") as stream:
        transfer.write(told.home, stream)
    with (tmp_path / "export.jsonl").open("rb") as stream:
        transfer.read(stream, imported)

    for home in (restored, imported):
        connection = apsw.Connection(str(home.ledger("memory")))
        try:
            assert not list(seals.breaks(connection))
            assert seals.head(connection) == await told.memory.read(seals.head)
        finally:
            connection.close()


def _ada(connection: apsw.Connection) -> None:
    connection.execute(
        "INSERT INTO entities (id, type, canonical_name, normalized_name) "
        "VALUES ('ent_ada', 'Person', 'Ada', 'ada')"
    )
