"""How an automation fares: one answer, given by `list`, `doctor` and `status` alike."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from nexus.cli import program
from nexus.home import Home


def nexus(*words: str) -> str:
    return CliRunner().invoke(program, list(words)).output


@pytest.fixture
def tea(home: Home, tmp_path: Path) -> Home:
    file = tmp_path / "tea.py"
    file.write_text("def run(ctx):\n    return None\n")
    nexus("automations", "register", str(file), "--workspace")
    return home


def change(home: Home, column: str, value: str) -> None:
    query = f"UPDATE automations SET {column} = {value} WHERE name = 'tea'"
    subprocess.run(["sqlite3", str(home.ledger("runtime")), query], check=True)


def remove_script(home: Home) -> None:
    (home.scripts / "tea.py").unlink()


TROUBLES: dict[str, tuple[Callable[[Home], None], str]] = {
    "an open circuit": (lambda home: change(home, "circuit_state", "'open'"), "circuit open since"),
    "a missing script": (remove_script, "refused: "),
    "an unknown peer": (
        lambda home: change(home, "peer_workspaces", """'["/x/coffee/"]'"""),
        "no workspace of its peer coffee",
    ),
    "a timeout that is cut": (lambda home: change(home, "timeout_ms", "90000"), "exceeds the 30,000 ms"),
    "a last error": (
        lambda home: change(home, "last_error = 'no milk', consecutive_errors", "1"),
        "its last run failed: no milk",
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_every_command_tells_of_trouble(tea: Home, trouble: str) -> None:
    bring_about, told = TROUBLES[trouble]
    assert "tea:" not in nexus("doctor")
    bring_about(tea)

    [state] = [
        each["state"] for each in json.loads(nexus("automations", "list", "--json")) if each["name"] == "tea"
    ]
    assert told in state
    report = nexus("doctor")
    assert told in report
    assert "No problems found" not in report
    assert told in nexus("status")
