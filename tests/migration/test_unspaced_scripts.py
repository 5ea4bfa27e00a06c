"""Texts in scripts without spaces that were recorded before their index existed."""

from pathlib import Path

import apsw
import pytest

from nexus.ledgers import migrate


@pytest.mark.parametrize(
    ("ledger", "before", "insert", "index"),
    [
        ("memory", 5, "INSERT INTO facts (id, fact) VALUES (?, ?)", "facts_unspaced_fts"),
        (
            "events",
            2,
            "INSERT INTO events (id, channel, direction, content) VALUES (?, 'test', 'inbound', ?)",
            "events_unspaced_fts",
        ),
    ],
)
def test_older_texts_are_indexed_when_a_home_is_brought_up_to_date(
    tmp_path: Path, ledger: str, before: int, insert: str, index: str
) -> None:
    path = tmp_path / f"{ledger}.db"
    migrate.build(path, ledger, before)
    connection = apsw.Connection(str(path))
    for number, text in enumerate(["她对花生过敏", "Nora lives in Leeds"]):
        connection.execute(insert, (f"id_{number}", text))
    migrate.upgrade(connection, ledger)
    found = connection.execute(f"SELECT rowid FROM {index} WHERE {index} MATCH '花生过'").fetchall()
    assert found == [(1,)]
    connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
    connection.close()
