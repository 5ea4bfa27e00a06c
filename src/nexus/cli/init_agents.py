"""Agents on this machine that could be given the memory."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nexus.cli.mcp_clients import CLIENTS, Client

_PROGRAMS: Final = {
    "claude-code": "claude",
    "cursor": "cursor",
    "vscode": "code",
    "codex": "codex",
    "gemini": "gemini",
    "windsurf": "windsurf",
    "opencode": "opencode",
}


def found() -> Iterator[Client]:
    """Those whose program is on the PATH, or that have left settings of their own."""
    for name, client in CLIENTS.items():
        program = _PROGRAMS.get(name)
        if (program and shutil.which(program)) or _has_settings(client):
            yield client


def _has_settings(client: Client) -> bool:
    file = client.file()
    own_folder = file.parent != Path.home() and file.parent.is_dir()
    return file.is_file() or own_folder
