"""`nexus connect`: one list of what can be connected, and what is."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from contents import writing
from nexus.cli import program
from nexus.home import Home
from nexus.ledgers.runtime import channels
from skill_folders import add_skill, manifest, write_skill

_SETTINGS = """
[channels.family]
kind = "telegram"
secret = "env:TELEGRAM_TOKEN"
owner = ["1"]

[mcp.notes]
url = "https://notes.example/mcp"
"""


def test_what_is_connected_is_marked_and_the_rest_says_how(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("PATH", "/nowhere")
    home.config_file.write_text(_SETTINGS)
    connection = writing(home, "runtime")
    channels.note_status(connection, "family", "connected")
    connection.close()
    for name, root in (("cursor", home.root), ("windsurf", tmp_path / "other")):
        CliRunner().invoke(program, ["--home", str(home.root), "mcp", "install", name])
        file = (
            tmp_path / {"cursor": ".cursor/mcp.json", "windsurf": ".codeium/windsurf/mcp_config.json"}[name]
        )
        file.write_text(file.read_text().replace(str(home.root), str(root)))
    add_skill(home, write_skill(tmp_path / "brew", manifest("brew")), enabled=False)

    told = CliRunner().invoke(program, ["--home", str(home.root), "connect"]).output
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert "* cursor uses this memory" in lines
    assert f"windsurf uses {tmp_path / 'other'}" in lines
    assert "* family telegram, connected" in lines
    assert "* notes https://notes.example/mcp" in lines
    assert "brew disabled" in lines
    assert "nexus mcp install NAME" in lines

    listed = json.loads(CliRunner().invoke(program, ["--home", str(home.root), "connect", "--json"]).output)
    connected = {item["name"] for group in listed for item in group["items"] if item["is_connected"]}
    assert connected == {"cursor", "family", "notes"}
    assert all(len(group["lines"]) == 2 for group in listed)
    (editors,) = [group for group in listed if "ACP" in group["title"]]
    entry = json.loads(editors["lines"][1])["agent_servers"]["Nexus"]
    assert entry["args"] == ["--home", str(home.root), "acp"]
