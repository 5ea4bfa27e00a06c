"""What Ctrl-V pastes into a chat, and what it says if it can't."""

from pathlib import Path

import pytest

from nexus.cli import message_input


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the only programs there are."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def _install(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def test_without_a_program_it_says_what_to_install(programs: Path, tmp_path: Path) -> None:
    assert "install wl-clipboard" in message_input.read_clipboard(tmp_path)[1]


def test_a_program_that_fails_is_quoted(programs: Path, tmp_path: Path) -> None:
    _install(programs, "xclip", 'echo "Error: Can\'t open display" >&2; exit 1')
    found, problem = message_input.read_clipboard(tmp_path)
    assert found == []
    assert "(Error: Can't open display)" in problem
    _install(programs, "xclip", "exit 0")
    assert "no picture and no file." in message_input.read_clipboard(tmp_path)[1]
