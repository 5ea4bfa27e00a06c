"""The one way past the append-only triggers, and that it closes behind itself."""

import apsw
import pytest

from nexus.ledgers import Ledgers, guards

_EVENT = "INSERT INTO events (id, channel, direction, content) VALUES ('evt_1', 'cli', 'inbound', 'hello')"


def _triggers(connection: apsw.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name")
    return [(str(name), str(sql)) for name, sql in rows]


async def test_rows_can_go_inside_and_not_after(opened: Ledgers) -> None:
    def remove(connection: apsw.Connection) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        connection.execute(_EVENT)
        before = _triggers(connection)
        with guards.suspend(connection):
            connection.execute("DELETE FROM events")
        return before, _triggers(connection)

    before, after = await opened.events.write(remove)
    assert before == after
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        await opened.events.write(
            lambda connection: (connection.execute(_EVENT), connection.execute("DELETE FROM events"))
        )


async def test_the_index_follows_what_is_removed_inside(opened: Ledgers) -> None:
    def remove(connection: apsw.Connection) -> object:
        connection.execute(_EVENT)
        with guards.suspend(connection):
            connection.execute("DELETE FROM events")
        return connection.execute("SELECT count(*) FROM events_fts WHERE events_fts MATCH 'hello'").get

    assert await opened.events.write(remove) == 0


async def test_every_trigger_can_be_suspended_for_a_load(opened: Ledgers) -> None:
    def load(connection: apsw.Connection) -> object:
        with guards.suspend(connection, guards.EVERY):
            connection.execute(_EVENT)
            assert _triggers(connection) == []
        return connection.execute("SELECT count(*) FROM events_fts WHERE events_fts MATCH 'hello'").get

    assert await opened.events.write(load) == 0


async def test_a_failure_inside_brings_the_guards_back(opened: Ledgers) -> None:
    def fail(connection: apsw.Connection) -> list[tuple[str, str]]:
        before = _triggers(connection)
        with pytest.raises(ZeroDivisionError), guards.suspend(connection):
            raise ZeroDivisionError
        assert _triggers(connection) == before
        return before

    assert len(await opened.memory.write(fail)) > 0


async def test_outside_a_transaction_it_is_refused(opened: Ledgers) -> None:
    def outside(connection: apsw.Connection) -> None:
        with guards.suspend(connection):
            pass

    with pytest.raises(RuntimeError, match="transaction"):
        await opened.events.maintain(outside)
