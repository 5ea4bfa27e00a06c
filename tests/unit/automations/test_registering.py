"""What a registration refuses, updates and remembers, on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nexus.automations.workspace import History
from nexus.cli import program
from nexus.home import Home


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "tea.py"
    file.write_text("def run(ctx):\n    return None\n")
    return str(file)


def nexus(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(program, ["automations", *words])
    assert result.exit_code == code, f"{result.output} {result.exception}"
    error: Any = result.exception
    return f"{result.output}{error or ''}{getattr(error, 'hint', '')}"


def test_a_timeout_that_the_hook_point_would_cut_is_refused_with_the_numbers(home: Home, script: str) -> None:
    told = nexus("register", script, "--hook-point", "after:runAgent", "--timeout", "60000", code=1)
    assert "60,000 ms" in told
    assert "10,000 ms of after:runAgent" in told
    assert "`budget_ms`" in told

    nexus("register", script, "--hook-point", "after:runAgent", "--timeout", "60000", "--async")
    home.config_file.write_text("[automations]\nbudget_ms = 60000\n")
    nexus("register", script, "--hook-point", "after:runAgent", "--timeout", "60000", "--blocking")


def test_an_unknown_peer_is_refused(home: Home, script: str, tmp_path: Path) -> None:
    assert "No automation workspace named `coffee`" in nexus(
        "register", script, "--workspace", "--peer", "coffee", code=1
    )
    role = tmp_path / "role.md"
    role.write_text("Make tea.")
    assert "`coffee`" in nexus("create", "cup", "--role", str(role), "--peer", "coffee", code=1)
    assert not (home.meeseeks / "cup").exists()
    nexus("register", script, "--name", "coffee", "--workspace")
    nexus("register", script, "--workspace", "--peer", "coffee")
    assert json.loads(nexus("show", "tea", "--json"))["peer_workspaces"] == [f"{home.meeseeks}/coffee/"]


def test_a_role_replaces_the_one_of_an_existing_workspace_and_the_old_one_is_kept(
    home: Home, script: str, tmp_path: Path
) -> None:
    role = tmp_path / "role.md"
    role.write_text("Make tea.\n")
    nexus("register", script, "--role", str(role))
    role.write_text("Make coffee.\n")
    assert "Replaced ROLE.md" in nexus("register", "tea", "--role", str(role))
    place = home.meeseeks / "tea"
    assert (place / "ROLE.md").read_text() == "Make coffee.\n"
    assert "-Make tea." in History(place).difference(History(place).changes()[0].commit)


def test_an_agent_is_created_with_a_schedule_a_timeout_and_self_improvement(
    home: Home, tmp_path: Path
) -> None:
    role = tmp_path / "role.md"
    role.write_text("Say what is open.")
    words = ("--schedule", "0 9 * * 1", "--zone", "Europe/Berlin", "--timeout", "90000", "--self-improvement")
    nexus("create", "monday", "--role", str(role), *words)
    made = json.loads(nexus("show", "monday", "--json"))
    assert (made["hook_point"], made["timeout_ms"], made["self_improvement"]) == ("schedule", 90_000, True)
    assert made["triggers"] == {"cron": "0 9 * * 1", "zone": "Europe/Berlin"}
    assert '"reply": answer' in (home.scripts / "monday.py").read_text()


def test_a_lesson_is_rolled_back_with_its_diff_and_listed_in_the_history(home: Home, script: str) -> None:
    nexus("register", script, "--name", "greeter", "--workspace")
    place = home.meeseeks / "greeter"
    History(place).commit("Seeded")
    skills = place / "SKILLS.md"
    before = skills.read_text()
    skills.write_text(f"{before}- Shout at everybody.\n")
    commit = History(place).commit("greeter learned something")
    assert commit is not None

    listed = nexus("history", "greeter")
    assert "version 1" in listed
    assert f"workspace {commit}" in listed
    told = nexus("rollback", "greeter", "--workspace")
    assert "-- Shout at everybody." in told
    assert f"Undid {commit} of greeter: greeter learned something" in told
    assert skills.read_text() == before
    assert "for versions" in nexus("rollback", "greeter", "--workspace", "--to", "1", code=1)
    assert "has no change abc" in nexus("rollback", "greeter", "--workspace", "--change", "abc", code=1)
