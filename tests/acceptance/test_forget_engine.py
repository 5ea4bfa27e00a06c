"""Forgetting reaches the engine's database, which knows of runs but never what was said in them."""

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


def test_a_forgotten_run_is_not_known_to_the_engine_which_never_held_a_word_of_it(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids = lived(home, tmp_path_factory.getbasetemp())
    assert _holding(home.root) == ["runtime.db"]
    assert ids["done"] in _known(home)

    done = nexus(home.root, "forget", "thread", "thr_1", "--yes")

    assert done.returncode == 0, done.stderr
    assert _known(home) == {ids["other waiting"]}
    # What the other run said is in its ledger, and stays.
    assert _holding(home.root) == ["runtime.db"]
