"""HOOK.md is the single source of its rows, whether it is registered, discovered or edited."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nexus.cli import program
from nexus.home import Home

HANDLER = "def run(ctx):\n    return None\n"


def folder(parent: Path, name: str, matter: str) -> Path:
    place = parent / name
    place.mkdir(parents=True)
    (place / "HOOK.md").write_text(f"---\nname: notes\n{matter}\n---\n# Notes\n")
    (place / "handler.py").write_text(HANDLER)
    return place


def nexus(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(program, ["automations", *words])
    assert result.exit_code == code, f"{result.output} {result.exception}"
    return f"{result.output}{result.exception or ''}"


def rows() -> dict[str, tuple[str, str, bool]]:
    """The rows of scripts: where each runs, whether, and how."""
    found: list[dict[str, Any]] = json.loads(nexus("list", "--json"))
    return {
        row["name"]: (row["hook_point"], row["state"], row["blocking"])
        for row in found
        if not row["script_path"].startswith("python:")
    }


@pytest.mark.parametrize("way", ["registered", "discovered"])
def test_a_folder_gives_the_same_row_however_it_comes_in(home: Home, tmp_path: Path, way: str) -> None:
    matter = "events: [command:new]\nblocking: false"
    if way == "registered":
        assert nexus("register", str(folder(tmp_path, "mine", matter))) == (
            "Registered notes, version 1, at command:new.\n"
        )
    else:
        folder(home.state / "hooks", "notes", matter)
    assert rows() == {"notes": ("command:new", "active", False)}
    assert rows() == {"notes": ("command:new", "active", False)}, "the next opening finds the same"


@pytest.mark.parametrize("way", ["registered", "discovered"])
def test_an_edit_of_its_events_moves_its_rows(home: Home, tmp_path: Path, way: str) -> None:
    place = home.state / "hooks" / "notes"
    if way == "registered":
        nexus("register", str(folder(tmp_path, "mine", "events: [command:new]")))
    else:
        folder(place.parent, "notes", "events: [command:new]")
    assert rows() == {"notes": ("command:new", "active", True)}

    file = place / "HOOK.md"
    file.write_text("---\nname: notes\nevents: [finalize]\n---\n")
    assert rows() == {"notes": ("finalize", "active", True)}

    file.write_text("---\nname: notes\nevents: [finalize, after:runAgent]\n---\n")
    assert rows() == {
        "notes@finalize": ("finalize", "active", True),
        "notes@after:runAgent": ("after:runAgent", "active", True),
    }
    nexus("disable", "notes@finalize")
    file.write_text("---\nname: notes\nevents: [finalize]\n---\n")
    assert rows() == {"notes": ("finalize", "disabled: by hand", True)}


def test_edited_code_waits_for_a_registration_and_takes_its_events_along(home: Home) -> None:
    place = folder(home.state / "hooks", "notes", "events: [command:new]")
    assert rows()["notes"][1] == "active"
    (place / "handler.py").write_text("def run(ctx):\n    return {}\n")
    (place / "HOOK.md").write_text("---\nname: notes\nevents: [finalize]\n---\n")
    assert rows()["notes"][0] == "command:new"
    assert rows()["notes"][1].startswith("refused")

    nexus("register", "notes")
    assert rows() == {"notes": ("finalize", "active", True)}


def test_what_hook_md_decides_cannot_be_said_on_the_command_line(home: Home, tmp_path: Path) -> None:
    place = folder(tmp_path, "mine", "events: [command:new]\ntimeout_ms: 50")
    for words in (("--hook-point", "finalize"), ("--name", "other"), ("--timeout", "9")):
        assert "HOOK.md decides" in nexus("register", str(place), *words, code=1)
    nexus("register", str(place), "--workspace", "--priority", "5")
    assert (home.meeseeks / "notes" / "ROLE.md").is_file()
    assert rows() == {"notes": ("command:new", "active", True)}


def test_a_removed_row_stays_removed_until_it_is_registered(home: Home) -> None:
    place = folder(home.state / "hooks", "notes", "events: [command:new]")
    rows()
    nexus("remove", "notes")
    assert rows() == {}
    nexus("register", str(place))
    assert rows() == {"notes": ("command:new", "active", True)}
