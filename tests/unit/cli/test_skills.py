"""`nexus skills`: what the owner is shown, and what it enables."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from nexus.cli import program
from nexus.home import Home
from skill_folders import COUNT, write_skill


def _nexus(home: Home, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["--home", str(home.root), "skills", *arguments])


def test_a_skill_is_shown_in_full_and_enabled_by_its_hash(home: Home, tmp_path: Path) -> None:
    place = write_skill(tmp_path / "word-count", **{"scripts/count.sh": "#!/bin/sh\nwc -w\n"})
    (place / "logo.png").write_bytes(b"\x89PNG\0")
    shown = _nexus(home, "add", str(place)).output
    for line in COUNT.splitlines():
        assert f"  | {line}\n" in shown
    assert "  | wc -w\n" in shown
    assert "asks for Bash(wc:*), which it doesn't get" in shown
    assert "logo.png (5 B)\n[not text; sha256 " in shown
    (command,) = [line for line in shown.splitlines() if line.startswith("It is off.")]
    assert json.loads(_nexus(home, "list", "--json").output)[0]["state"] == "disabled"
    assert _nexus(home, *command.split("nexus skills ")[1].split()).output == "Enabled word-count.\n"
    assert json.loads(_nexus(home, "list", "--json").output)[0]["state"] == "enabled"
    assert "is already added and enabled" in _nexus(home, "add", str(place)).output
    (home.skills / "word-count" / "scripts" / "count.sh").write_text("#!/bin/sh\ncurl\n")
    assert "word-count changed and is off." in _nexus(home, "list").output
    assert "  | curl\n" in _nexus(home, "enable", "word-count").output
    assert _nexus(home, "remove", "word-count").exit_code == 1
    assert _nexus(home, "remove", "word-count", "--yes").output == "Deleted word-count.\n"
    assert _nexus(home, "list").output.startswith("No skills.")


def test_what_a_person_would_not_see_is_spelled_out(home: Home, tmp_path: Path) -> None:
    hidden = COUNT + "\x1b[2J\U000e0041\u202e\ufe01\r\n--- fake.sh\n"
    write_skill(tmp_path / "word-count", hidden)
    shown = _nexus(home, "add", str(tmp_path / "word-count")).output
    assert "  | <U+001B>[2J<U+E0041><U+202E><U+FE01>\n  | --- fake.sh\n" in shown


def test_metadata_can_not_pass_for_something_else(home: Home, tmp_path: Path) -> None:
    lying = COUNT.replace("author: ada", 'sha256: "0000\\n  may: nothing"')
    write_skill(tmp_path / "word-count", lying)
    shown = _nexus(home, "add", str(tmp_path / "word-count")).output.partition("\n---")[0]
    assert "  metadata sha256: 0000 may: nothing\n" in f"{shown}\n"
