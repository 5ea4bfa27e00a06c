"""Other agents that can use this memory over MCP, and the entry in their settings files."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from nexus.errors import UsageError

NAME: Final = "nexus"
"""Under which name the server is listed in a client."""
Document = MutableMapping[str, Any]


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


def _untyped_entry(launch: Launch) -> dict[str, Any]:
    return {"command": launch.command, "args": list(launch.args)}


def _typed_entry(launch: Launch) -> dict[str, Any]:
    return {"type": "stdio", **_untyped_entry(launch)}


def _opencode_entry(launch: Launch) -> dict[str, Any]:
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
            entry=_typed_entry,
            after="Restart `claude`; `/mcp` lists it.",
        ),
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            file=_settings("Claude", "claude_desktop_config.json"),
            key="mcpServers",
            entry=_untyped_entry,
            after="Quit and reopen the program.",
        ),
        Client(
            name="cursor",
            title="Cursor",
            file=_home(".cursor", "mcp.json"),
            project_file=".cursor/mcp.json",
            key="mcpServers",
            entry=_untyped_entry,
        ),
        Client(
            name="vscode",
            title="Visual Studio Code",
            file=_settings("Code", "User", "mcp.json"),
            project_file=".vscode/mcp.json",
            key="servers",
            entry=_typed_entry,
            after="Run `MCP: List Servers` and start it there.",
        ),
        Client(
            name="codex",
            title="Codex",
            file=lambda: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml",
            project_file=".codex/config.toml",
            key="mcp_servers",
            entry=_untyped_entry,
            form="toml",
            after="Restart `codex`; `/mcp` lists it.",
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            file=_home(".gemini", "settings.json"),
            project_file=".gemini/settings.json",
            key="mcpServers",
            entry=_untyped_entry,
            after="Restart `gemini`; `/mcp` lists it.",
        ),
        Client(
            name="windsurf",
            title="Windsurf",
            file=_home(".codeium", "windsurf", "mcp_config.json"),
            key="mcpServers",
            entry=_untyped_entry,
        ),
        Client(
            name="opencode",
            title="opencode",
            file=lambda: _config() / "opencode" / "opencode.json",
            project_file="opencode.json",
            key="mcp",
            entry=_opencode_entry,
        ),
    )
}


_PROGRAMS: Final = {
    "claude-code": "claude",
    "cursor": "cursor",
    "vscode": "code",
    "codex": "codex",
    "gemini": "gemini",
    "windsurf": "windsurf",
    "opencode": "opencode",
}


def find_installed() -> Iterator[Client]:
    """Find clients whose program is on the PATH, or that have settings."""
    for name, each in CLIENTS.items():
        program, file = _PROGRAMS.get(name), each.file()
        has_folder = file.parent != Path.home() and file.parent.is_dir()
        if (program and shutil.which(program)) or file.is_file() or has_folder:
            yield each


def get(name: str) -> Client:
    """Return the client of that name; raise an error that lists all if there is none."""
    if name not in CLIENTS:
        raise UsageError(f"Unknown client `{name}`", hint=f"Known: {', '.join(CLIENTS)}.")
    return CLIENTS[name]


def locate_file(found: Client, project: Path | None) -> Path:
    """Return the file to write: the user's own, or a project's."""
    if project is None:
        return found.file()
    if found.project_file is None:
        raise UsageError(f"{found.title} has no project configuration", hint="Leave out `--project`.")
    return project / found.project_file


def add_entry(client: Client, file: Path, launch: Launch) -> str | None:
    """Return the file's text with the entry; None if it is there already."""
    document = _read(client, file)
    servers = _servers(client, file, document)
    entry = client.entry(launch)
    if servers.get(NAME) == entry:
        return None
    servers[NAME] = entry
    return _format_document(client, document)


def find_home(client: Client, file: Path) -> str | None:
    """Return the home that the client's entry names; None without an entry."""
    entry: object = _servers(client, file, _read(client, file)).get(NAME)
    if not isinstance(entry, MutableMapping):
        return None
    found = cast("Document", entry)
    words = [str(word) for key in ("command", "args") for word in _as_list(found.get(key))]
    return words[words.index("--home") + 1] if "--home" in words[:-1] else "its own choice"


def _as_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def remove_entry(client: Client, file: Path) -> str | None:
    """Return the file's text without the entry; None if it isn't there."""
    document = _read(client, file)
    servers = _servers(client, file, document)
    if NAME not in servers:
        return None
    del servers[NAME]
    return _format_document(client, document)


def format_entry(client: Client, launch: Launch) -> str:
    """Return the entry alone, to add to a file by hand."""
    return _format_document(client, {client.key: {NAME: client.entry(launch)}})


def write(file: Path, text: str) -> Path | None:
    """Replace the file, whole or not at all; returns where the old one was kept."""
    try:
        return _replace(file, text)
    except OSError as error:
        raise UsageError(
            f"{file} could not be written and is unchanged: {error.strerror or error}",
            hint="Check the permissions of the folder and free disk space.",
        ) from None


def _replace(file: Path, text: str) -> Path | None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # A file that is a symbolic link (people keep settings under version control) stays one.
    target = file.resolve()
    kept = _back_up(target) if target.exists() else None
    descriptor, building = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        if kept is not None:
            shutil.copymode(target, building)
        Path(building).replace(target)
    except BaseException:
        Path(building).unlink(missing_ok=True)
        raise
    return kept


def _back_up(file: Path) -> Path:
    number = 1
    while (backup := file.with_name(f"{file.name}.nexus-backup-{number}")).exists():
        number += 1
    shutil.copy2(file, backup)
    return backup


def _read(client: Client, file: Path) -> Document:
    try:
        text = _read_text(file)
        return tomlkit.parse(text) if client.form == "toml" else _parse_json(text)
    except OSError as error:
        raise _unreadable(client, file, error.strerror or str(error)) from None
    except UnicodeError:
        raise _unreadable(client, file, "it isn't UTF-8 text") from None
    except RecursionError:
        raise _unreadable(client, file, "it is nested too deeply") from None
    except (ValueError, TOMLKitError) as error:
        raise _unreadable(client, file, str(error)) from None


def _read_text(file: Path) -> str:
    if file.is_symlink() and not file.exists():
        raise ValueError(f"it is a link to {file.readlink()}, which does not exist")
    if not file.exists():
        return ""
    if not file.is_file():
        raise ValueError("it isn't a file")
    return file.read_text(encoding="utf-8")


def _parse_json(text: str) -> Document:
    found: object = json.loads(text, object_pairs_hook=_refuse_duplicates) if text.strip() else {}
    if not isinstance(found, dict):
        raise ValueError("it isn't a JSON object")
    # An escape may stand for half a character, which can't be written to a file.
    json.dumps(found, ensure_ascii=False).encode()
    return cast("Document", found)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; refuse a key that appears twice, of which one value would be lost on writing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key in found if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"{twice!r} appears twice")
    return found


def _servers(client: Client, file: Path, document: Document) -> Document:
    servers: object = document.setdefault(client.key, tomlkit.table() if client.form == "toml" else {})
    if not isinstance(servers, MutableMapping):
        raise _unreadable(client, file, f"`{client.key}` isn't an object")
    return cast("Document", servers)


def _format_document(client: Client, document: Document) -> str:
    if client.form == "toml":
        return tomlkit.dumps(document)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _unreadable(client: Client, file: Path, why: str) -> UsageError:
    return UsageError(
        f"{file} could not be read and is unchanged: {why}",
        hint=f"Add the entry by hand: `nexus mcp install {client.name} --print` shows it.",
    )
