"""A database from before automations, with its `hooks` table, becomes a runtime ledger; no row is lost."""

from pathlib import Path

from migration.old_hooks import OLD_COLUMNS, OLD_ROWS, old_database
from nexus.config import LedgersConfig
from nexus.ledgers.connection import connect


def automations(path: Path) -> list[tuple[object, ...]]:
    connection = connect(path, "runtime", LedgersConfig(), writes=True)
    found = connection.execute(
        f"SELECT {OLD_COLUMNS} FROM automations ORDER BY name, version DESC"
    ).fetchall()
    connection.close()
    return [tuple(row) for row in found]


def test_every_hook_is_kept_with_every_value(tmp_path: Path) -> None:
    old_database(tmp_path / "runtime.db")

    found = {row[0]: row for row in automations(tmp_path / "runtime.db")}

    assert found["h1"] == OLD_ROWS[0]
    assert found["h0"] == OLD_ROWS[1]
    dangling = (*OLD_ROWS[2][:13], None, *OLD_ROWS[2][14:])
    assert found["h2"] == dangling


def test_a_migrated_hook_has_no_hook_point_and_blocks(tmp_path: Path) -> None:
    old_database(tmp_path / "runtime.db")
    connection = connect(tmp_path / "runtime.db", "runtime", LedgersConfig(), writes=False)

    new_columns = "hook_point, workspace_dir, peer_workspaces, self_improvement, timeout_ms, blocking"
    assert set(connection.execute(f"SELECT {new_columns} FROM automations").fetchall()) == {
        (None, None, None, 0, None, 1)
    }
    connection.close()


def test_times_that_were_numbers_become_text(tmp_path: Path) -> None:
    row = list(OLD_ROWS[0])
    row[3], row[4], row[14], row[15], row[18] = None, None, 1767323045006, 1767323045, None
    old_database(tmp_path / "runtime.db", [tuple(row)])

    (found,) = automations(tmp_path / "runtime.db")

    assert (found[3], found[4]) == ("persistent", "active")
    assert found[14:16] == ("2026-01-02T03:04:05.006Z", "2026-01-02T03:04:05.000Z")
