"""Tables that nothing in the product filled; a home may have rows in them that were written with SQL."""

from pathlib import Path

import apsw
import pytest

from nexus.ledgers import migrate


@pytest.mark.parametrize(
    ("ledger", "before", "rows", "gone", "kept"),
    [
        (
            "events",
            5,
            """
            INSERT INTO events (id, channel, direction, content) VALUES ('evt_1', 'cli', 'inbound', 'Hello');
            INSERT INTO event_state (event_id, flagged) VALUES ('evt_1', 1);
            INSERT INTO event_tags (event_id, tag, source) VALUES ('evt_1', 'greeting', 'user');
            INSERT INTO document_heads (id, kind, name, head_event_id) VALUES ('doc_1', 'doc', 'n', 'evt_1');
            """,
            {"event_state", "event_tags", "document_heads"},
            "SELECT id FROM events",
        ),
        (
            "memory",
            15,
            """
            INSERT INTO analysis_runs (id, type_id, content) VALUES ('obs_1', 'observation', 'Ada likes tea');
            INSERT INTO facets (run_id, name, value) VALUES ('obs_1', 'drink', 'tea');
            """,
            {"facets"},
            "SELECT id FROM observations",
        ),
    ],
)
def test_tables_that_nothing_filled_go_and_what_they_referred_to_stays(
    tmp_path: Path, ledger: str, before: int, rows: str, gone: set[str], kept: str
) -> None:
    path = tmp_path / f"{ledger}.db"
    migrate.build(path, ledger, before)
    connection = apsw.Connection(str(path))
    connection.execute(rows)
    expected = connection.execute(kept).fetchall()
    migrate.upgrade(connection, ledger)
    left = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert not left & gone
    assert connection.execute(kept).fetchall() == expected != []
    connection.close()
