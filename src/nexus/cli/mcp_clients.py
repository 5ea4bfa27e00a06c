"""The programs that can be given this memory, and where each keeps its list of MCP servers."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from nexus.errors import UsageError

NAME: Final = "nexus"
"""Under which name the server is listed in a client."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a client starts the server."""

    command: str
    args: tuple[str, ...]


Entry = Callable[[Launch], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Client:
    """One program: the file that it reads, the key of its list, and how an entry is written."""

    name: str
    title: str
    file: Callable[[], Path]
    key: str
    entry: Entry
    form: Literal["json", "toml"] = "json"
    project_file: str | None = None
    """In a project's folder, where it reads one there too."""
    after: str = "Restart it."
    """What the person does next."""


def _plain(launch: Launch) -> dict[str, Any]:
    return {"command": launch.command, "args": list(launch.args)}


def _typed(launch: Launch) -> dict[str, Any]:
    return {"type": "stdio", **_plain(launch)}


def _opencode(launch: Launch) -> dict[str, Any]:
    return {"type": "local", "command": [launch.command, *launch.args], "enabled": True}


def _home(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


def _settings(*parts: str) -> Callable[[], Path]:
    """Below the folder where programs with a window keep their settings on this system."""

    def place() -> Path:
        if sys.platform == "darwin":
            return Path.home().joinpath("Library", "Application Support", *parts)
        return _config().joinpath(*parts)

    return place


def _config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


CLIENTS: Final[dict[str, Client]] = {
    client.name: client
    for client in (
        Client(
            name="claude-code",
            title="Claude Code",
            file=_home(".claude.json"),
            project_file=".mcp.json",
            key="mcpServers",
            entry=_typed,
            after="Restart `claude`; `/mcp` lists it.",
        ),
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            file=_settings("Claude", "claude_desktop_config.json"),
            key="mcpServers",
            entry=_plain,
            after="Quit and reopen the program.",
        ),
        Client(
            name="cursor",
            title="Cursor",
            file=_home(".cursor", "mcp.json"),
            project_file=".cursor/mcp.json",
            key="mcpServers",
            entry=_plain,
        ),
        Client(
            name="vscode",
            title="Visual Studio Code",
            file=_settings("Code", "User", "mcp.json"),
            project_file=".vscode/mcp.json",
            key="servers",
            entry=_typed,
            after="Run `MCP: List Servers` and start it there.",
        ),
        Client(
            name="codex",
            title="Codex",
            file=lambda: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml",
            project_file=".codex/config.toml",
            key="mcp_servers",
            entry=_plain,
            form="toml",
            after="Restart `codex`; `/mcp` lists it.",
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            file=_home(".gemini", "settings.json"),
            project_file=".gemini/settings.json",
            key="mcpServers",
            entry=_plain,
            after="Restart `gemini`; `/mcp` lists it.",
        ),
        Client(
            name="windsurf",
            title="Windsurf",
            file=_home(".codeium", "windsurf", "mcp_config.json"),
            key="mcpServers",
            entry=_plain,
        ),
        Client(
            name="opencode",
            title="opencode",
            file=lambda: _config() / "opencode" / "opencode.json",
            project_file="opencode.json",
            key="mcp",
            entry=_opencode,
        ),
    )
}


def client(name: str) -> Client:
    """The program of that name."""
    if name not in CLIENTS:
        raise UsageError(f"Unknown client `{name}`", hint=f"Known: {', '.join(CLIENTS)}.")
    return CLIENTS[name]


def place(found: Client, project: Path | None) -> Path:
    """The file to write: the person's own, or a project's."""
    if project is None:
        return found.file()
    if found.project_file is None:
        raise UsageError(f"{found.title} has no project configuration", hint="Leave out `--project`.")
    return project / found.project_file
