"""The engine's database is part of the home: backed up, restored, examined, and its runs steered."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from acceptance.engine_home import lived
from acceptance.program import nexus
from nexus.cli import program
from nexus.home import Home


@pytest.fixture(autouse=True)
def ids(home: Home, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The home has lived."""
    return lived(home, tmp_path_factory.getbasetemp())


def _rows(file: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


_WORK = "SELECT workflow_uuid, status FROM workflow_status ORDER BY 1"
_STEPS = "SELECT workflow_uuid, function_id, output FROM operation_outputs ORDER BY 1, 2"


def test_a_backup_brings_the_work_back(home: Home, tmp_path: Path) -> None:
    before = [_rows(home.engine_file, query) for query in (_WORK, _STEPS)]
    folder = tmp_path / "backup"

    assert nexus(home.root, "backup", str(folder)).returncode == 0
    assert nexus(home.root, "backup", "--verify", str(folder)).returncode == 0
    restored = Home(tmp_path / "restored")
    assert nexus(restored.root, "restore", str(folder)).returncode == 0

    assert [_rows(restored.engine_file, query) for query in (_WORK, _STEPS)] == before
    assert restored.engine_file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_copy_of_the_engine_is_found_and_not_restored(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    assert nexus(home.root, "backup", str(folder)).returncode == 0
    copy = folder / "data/engine.db"
    copy.write_bytes(copy.read_bytes()[:-1] + b"x")

    assert "data/engine.db" in nexus(home.root, "backup", "--verify", str(folder)).stdout
    assert nexus(tmp_path / "restored", "restore", str(folder)).returncode == 1


def _findings(home: Home, *options: str) -> dict[str, str]:
    """What the doctor says about the engine, by message."""
    words = ["--home", str(home.root), "doctor", "--json", *options]
    told = json.loads(CliRunner().invoke(program, words).stdout)
    return {found["message"]: found["level"] for found in told["findings"] if found["check"] == "engine"}


def test_the_doctor_tells_size_and_what_is_open(home: Home) -> None:
    (message,) = _findings(home)
    assert message.startswith("engine: intact, ")
    assert message.endswith("2 executions not ended")


def _orphan(home: Home) -> None:
    connection = sqlite3.connect(home.data / "runtime.db")
    connection.execute("DELETE FROM executions WHERE status = 'queued' AND session_label = 'req_1'")
    connection.commit()
    connection.close()


def _never_handed_over(home: Home) -> None:
    _engine(home, "DELETE FROM workflow_status WHERE queue_partition_key = 'req_1' AND status = 'ENQUEUED'")


def _interrupted(home: Home) -> None:
    _engine(
        home,
        "UPDATE workflow_status SET status = 'PENDING', executor_id = 'gone' "
        "WHERE queue_partition_key = 'req_1' AND status = 'ENQUEUED'",
    )


def _engine(home: Home, statement: str) -> None:
    connection = sqlite3.connect(home.engine_file)
    connection.execute(statement)
    connection.commit()
    connection.close()


def _damaged(home: Home) -> None:
    content = bytearray(home.engine_file.read_bytes())
    content[4096:12288] = b"\xff" * 8192
    home.engine_file.write_bytes(content)


def _no_database(home: Home) -> None:
    home.engine_file.write_text("This is not a database. " * 100)


@pytest.mark.parametrize(
    ("harm", "words", "level"),
    [
        (_orphan, "missing from the runtime ledger", "warning"),
        (_never_handed_over, "not handed to the engine", "warning"),
        (_interrupted, "lost their process", "warning"),
        (_damaged, "engine", "error"),
        (_no_database, "not a database", "error"),
    ],
)
def test_the_doctor_finds_what_is_wrong(
    home: Home, harm: Callable[[Home], None], words: str, level: str
) -> None:
    harm(home)
    found = [told for message, told in _findings(home).items() if words in message]
    assert level in found


def test_the_doctor_removes_runs_that_belong_to_nothing(home: Home) -> None:
    _orphan(home)
    _findings(home, "--fix")
    (message,) = _findings(home)
    assert message.endswith("1 execution not ended")


def test_a_damaged_engine_is_told_in_two_lines(home: Home) -> None:
    _no_database(home)
    done = nexus(home.root, "engine", "status")
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert "nexus restore" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_is_retried_and_cancelled_in_the_ledger_too(home: Home, ids: dict[str, str]) -> None:
    retried = json.loads(nexus(home.root, "engine", "retry", ids["failed"], "--json").stdout)
    nexus(home.root, "engine", "cancel", ids["waiting"])

    runs = dict(_rows(home.data / "runtime.db", "SELECT id, status FROM executions"))
    assert runs[retried["execution"]] == "queued"
    assert runs[ids["waiting"]] == "cancelled"
    work = dict(_rows(home.engine_file, _WORK))
    assert (work[retried["execution"]], work[ids["waiting"]]) == ("ENQUEUED", "CANCELLED")
