"""Six ledgers at one moment: what a snapshot's rows refer to is in the snapshot too."""

from pathlib import Path

import apsw
import pytest

from contents import execute
from nexus.home import Home
from nexus.ledgers.staging import as_it_is, snapshots

# In the order in which the program writes them: what is referred to comes first.
_WRITES = {
    "events": "INSERT INTO events (id, channel, direction, content) VALUES (:id, 'cli', 'inbound', '')",
    "identity": "INSERT INTO entities (id, type, canonical_name, normalized_name, source_event_id)"
    " VALUES (:id, '', '', '', :id)",
    "runtime": "INSERT INTO requests (id, root_request_id, event_id, principal_id)"
    " VALUES (:id, :id, :id, :id)",
    "agents": "INSERT INTO agent_sessions (id, label, role, thread_id) VALUES (:id, :id, '', :id)",
    "memory": "INSERT INTO facts (id, fact, source_event_id, source_entity_id, source_request_id)"
    " VALUES (:id, '', :id, :id, :id)",
    "embeddings": "INSERT INTO embedding_models (id, dimensions) VALUES (:id, 1)",
}
_IDS = {
    "events": "events",
    "identity": "entities",
    "runtime": "requests",
    "agents": "agent_sessions",
    "memory": "facts",
    "embeddings": "embedding_models",
}
# The ledgers that a ledger's rows point into.
_REFERS = {
    "embeddings": ["events", "identity", "memory"],
    "memory": ["events", "identity", "runtime"],
    "agents": ["events", "runtime"],
    "runtime": ["events", "identity"],
    "identity": ["events"],
}


def write_round(home: Home, number: int) -> None:
    for ledger, statement in _WRITES.items():
        execute(home, ledger, statement, {"id": f"id_{number}"})


def ids(connection: apsw.Connection, ledger: str) -> set[str]:
    return {str(name) for (name,) in connection.execute(f"SELECT id FROM {_IDS[ledger]}")}


@pytest.mark.parametrize("ledger", _REFERS)
def test_nothing_refers_to_what_came_after(home: Home, ledger: str) -> None:
    """A whole round of rows, each referring to the ones before, is written between any two snapshots."""
    rounds: list[int] = []

    def open_and_write_before_beginning(path: Path, name: str) -> apsw.Connection:
        connection = as_it_is(path, name)

        def before(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
            if statement == "BEGIN":
                rounds.append(len(rounds))
                write_round(home, len(rounds))
            return True

        connection.exec_trace = before
        return connection

    with snapshots(home, open_and_write_before_beginning) as seen:
        referring = ids(seen[ledger], ledger)
        assert len(rounds) == len(seen)
        assert len(referring) >= 1
        for other in _REFERS[ledger]:
            assert referring <= ids(seen[other], other)


def test_a_snapshot_does_not_change(home: Home) -> None:
    with snapshots(home, as_it_is) as seen:
        write_round(home, 1)
        assert [ids(connection, name) for name, connection in seen.items()] == [set[str]()] * 6


def test_a_snapshot_cannot_be_written(home: Home) -> None:
    with snapshots(home, as_it_is) as seen, pytest.raises(apsw.ReadOnlyError):
        seen["events"].execute("INSERT INTO bus_events (type) VALUES ('x')")
