"""`nexus mcp install`, as a person runs it."""

import json
from pathlib import Path

import pytest

from acceptance.program import NEXUS, nexus
from nexus.cli.mcp_clients import CLIENTS, find_home


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def test_claude_code_gets_the_memory_and_loses_it_again(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / ".claude.json"
    nexus(home, "init")
    file.write_text('{"numStartups": 3}')
    first, second = nexus(home, "mcp", "install", "claude-code"), nexus(home, "mcp", "install", "claude-code")
    assert "Connected " in first.stdout
    assert "already" in second.stdout
    written = json.loads(file.read_text())
    entry = {
        "type": "stdio",
        "command": str(NEXUS),
        "args": ["--home", str(home), "mcp", "serve"],
    }
    assert written == {"numStartups": 3, "mcpServers": {"nexus": entry}}
    assert (tmp_path / ".claude.json.nexus-backup-1").read_text() == '{"numStartups": 3}'
    assert "Disconnected" in nexus(home, "mcp", "uninstall", "claude-code").stdout
    assert json.loads(file.read_text()) == {"numStartups": 3, "mcpServers": {}}


def test_print_writes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    nexus(home, "init")
    shown = nexus(home, "mcp", "install", "codex", "--print")
    assert "[mcp_servers.nexus]" in shown.stdout
    assert not (tmp_path / ".codex").exists()


def test_a_home_that_is_not_there_is_not_installed(tmp_path: Path) -> None:
    refused = nexus(tmp_path / "nowhere", "mcp", "install", "cursor")
    assert refused.returncode == 1
    assert f"nexus --home {tmp_path / 'nowhere'} init" in refused.stderr


def test_the_entry_of_another_home_is_replaced_only_if_asked(tmp_path: Path) -> None:
    first, second, file = tmp_path / "first", tmp_path / "second", tmp_path / ".claude.json"
    nexus(first, "init")
    nexus(first, "mcp", "install", "claude-code")
    before = file.read_bytes()
    file_of_codex = tmp_path / ".codex" / "config.toml"
    file_of_codex.parent.mkdir()
    assert nexus(second, "init", "--yes").returncode == 0
    assert not file_of_codex.exists()
    refused = nexus(second, "mcp", "install", "claude-code")
    assert refused.returncode == 1
    assert f"Claude Code uses the memory of {first}" in refused.stderr
    assert str(second) in refused.stderr
    assert file.read_bytes() == before
    listed = nexus(second, "connect").stdout.splitlines()
    assert ["claude-code", "uses", str(first)] in [line.split() for line in listed]
    assert find_home(CLIENTS["claude-code"], file) == str(first)
    assert ["codex", "installed"] in [line.split() for line in listed]
    assert "Connected Claude Code" in nexus(second, "mcp", "install", "claude-code", "--replace").stdout
    assert str(second) in file.read_text()
