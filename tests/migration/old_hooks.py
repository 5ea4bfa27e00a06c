"""A runtime database as it was before automations: the `hooks` table alone."""

from pathlib import Path

import apsw

OLD_COLUMNS = """id, name, description, mode, status, script_path, script_hash, triggers_json, config_json,
created_by_agent, created_by_session, created_by_thread, version, previous_version_id, created_at, updated_at,
disabled_at, disabled_reason, last_triggered, trigger_count, last_error, consecutive_errors, circuit_state,
circuit_opened_at"""
OLD_ROWS: list[tuple[str | int | None, ...]] = [
    ("h1", "greeter", "says hello", "persistent", "active", "/s/greeter.ts", "abc", "{}", '{"a":1}',
     "agent", "session", "thread", 2, "h0", "2026-01-02T03:04:05.006Z", "2026-01-03T00:00:00.000Z",
     None, None, "2026-02-01T00:00:00.000Z", 7, None, 0, "closed", None),
    ("h0", "greeter", None, "persistent", "disabled", "/s/greeter.ts", "abb", None, None,
     None, None, None, 1, None, "2026-01-01T00:00:00.000Z", "2026-01-02T03:04:05.006Z",
     "2026-01-02T03:04:05.006Z", "replaced", None, 3, "boom", 2, "open", "2026-01-02T00:00:00.000Z"),
    ("h2", "emoji 🦊 and 'quotes'", "", "oneshot", "weird-status", None, None, None, None,
     None, None, None, 1, "gone", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z",
     None, None, None, 0, None, 0, "half_open", None),
]  # fmt: skip


def old_database(path: Path, rows: list[tuple[str | int | None, ...]] = OLD_ROWS) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(f"CREATE TABLE hooks ({OLD_COLUMNS.replace('id,', 'id TEXT PRIMARY KEY,', 1)})")
    with connection:
        connection.executemany(f"INSERT INTO hooks VALUES ({', '.join('?' * 24)})", rows)
    # The old program kept a version of its own there; it must not be mistaken for ours.
    connection.execute("PRAGMA user_version = 17")
    connection.close()
