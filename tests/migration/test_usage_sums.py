"""What was spent before there were sums is in them afterwards."""

from pathlib import Path

import apsw

from nexus.ledgers import migrate
from unit.ledgers.runtime.test_usage_sums import BY_DAY, BY_ROOT

_BEFORE = 10
_INSERT = """
INSERT INTO usage (id, request_id, root_request_id, role, automation, provider, model, input_tokens,
                   output_tokens, cost_microusd, created_at)
VALUES (?, 'req_1', ?, ?, ?, 'p', ?, ?, 7, ?, ?)
"""
_ROWS = (
    ("use_1", "req_1", "manager", None, "m", 10, 300, "2026-05-01T23:59:59.999Z"),
    ("use_2", "req_1", "manager", None, "m", 20, None, "2026-05-02T00:00:00.000Z"),
    ("use_3", "req_1", None, "notes", "m", 30, 500, "2026-05-02T08:00:00.000Z"),
    ("use_4", "req_2", None, "notes", "n", 40, 700, "2026-05-02T09:00:00.000Z"),
    ("use_5", "req_2", None, "notes", "n", 50, 900, "2026-05-02T10:00:00.000Z"),
)


def test_what_was_spent_is_added_up_when_a_home_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "runtime.db"
    migrate.build(path, "runtime", _BEFORE)
    connection = apsw.Connection(str(path))
    connection.executemany(_INSERT, _ROWS)
    migrate.upgrade(connection, "runtime")
    days = connection.execute("SELECT * FROM usage_days").fetchall()
    roots = connection.execute("SELECT * FROM usage_roots").fetchall()
    assert days == connection.execute(BY_DAY).fetchall()
    assert roots == connection.execute(BY_ROOT).fetchall()
    assert (len(days), len(roots)) == (4, 2)
    connection.close()
