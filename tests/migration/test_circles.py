"""Circles of replacements that were recorded before they were refused."""

from pathlib import Path

import apsw

from nexus.ledgers import migrate


def test_circles_and_what_both_holds_are_parted_when_a_home_is_brought_up_to_date(tmp_path: Path) -> None:
    migrate.build(tmp_path / "memory.db", "memory", 14)
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    put = (
        "INSERT INTO fact_successions (old_fact_id, new_fact_id, confidence, basis, derived_at)"
        " VALUES (?, ?, 1, ?, ?)"
    )
    for id_ in "abcdefgh":
        connection.execute("INSERT INTO facts (id, fact) VALUES (?, ?)", (id_, f"Fact {id_}"))
    for row in (
        ("a", "b", "stated", "1"),
        ("b", "a", "judged", "2"),
        ("c", "d", "stated", "1"),
        ("d", "c", "stated", "2"),
        ("g", "h", "judged", "1"),
    ):
        connection.execute(put, row)
    # A pair that a decision about one of them linked again.
    connection.execute(
        "INSERT INTO causal_links (id, cause_fact_id, effect_fact_id, relation)"
        " VALUES ('cau_1', 'f', 'e', 'distinct')"
    )
    connection.execute(put, ("e", "f", "judged", "1"))
    migrate.upgrade(connection, "memory")
    kept = connection.execute("SELECT old_fact_id, new_fact_id FROM fact_successions ORDER BY 1").fetchall()
    assert kept == [("a", "b"), ("d", "c"), ("g", "h")]
    connection.close()
