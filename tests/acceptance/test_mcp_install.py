"""`nexus mcp install`, as a person runs it."""

import json
from pathlib import Path

import pytest

from acceptance.program import NEXUS, nexus


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
