"""Forgetting reaches the engine's database: what steps recorded, what errors said, what waits."""

from pathlib import Path

import pytest

from acceptance.engine_home import SECRET, lived
from acceptance.program import nexus
from nexus.engine import Settings, records
from nexus.engine.database import Database
from nexus.home import Home


def _known(home: Home) -> set[str]:
    database = Database(Settings(database=home.engine_file))
    try:
        return {execution.id for execution in records.recent(database)}
    finally:
        database.close()


def _holding(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_no_byte_of_a_forgotten_run_stays_in_the_engine(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids = lived(home, tmp_path_factory.getbasetemp())
    assert "engine.db" in " ".join(_holding(home.root)), "nothing to forget, so nothing is tested"

    done = nexus(home.root, "forget", "thread", "thr_1", "--yes")

    assert done.returncode == 0, done.stderr
    assert "engine.db" not in " ".join(_holding(home.root))
    assert _known(home) == {ids["other waiting"]}
    # What the other run said is in its ledger, and stays.
    assert _holding(home.root) == ["runtime.db"]
