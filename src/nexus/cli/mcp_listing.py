"""Writing ourselves into a client's list of servers, and out of it: everything else in the file stays."""

import json
import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import ParseError

from nexus.cli.mcp_clients import NAME, Client, Launch
from nexus.errors import UsageError

Document = MutableMapping[str, Any]


def listed(client: Client, file: Path, launch: Launch) -> str | None:
    """The file's text with the entry in it; None where it is there already."""
    document = _read(client, file)
    servers = _servers(client, file, document)
    entry = client.entry(launch)
    if servers.get(NAME) == entry:
        return None
    servers[NAME] = entry
    return _text(client, document)


def unlisted(client: Client, file: Path) -> str | None:
    """The file's text without the entry; None where it is not there."""
    document = _read(client, file)
    servers = _servers(client, file, document)
    if NAME not in servers:
        return None
    del servers[NAME]
    return _text(client, document)


def alone(client: Client, launch: Launch) -> str:
    """The entry by itself, to be put into a file by hand."""
    return _text(client, {client.key: {NAME: client.entry(launch)}})


def write(file: Path, text: str) -> Path | None:
    """Replace the file, whole or not at all; returns where the old one was kept."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # A list that is a link to somewhere (people keep their settings under version control) stays one.
    target = file.resolve()
    kept = _keep(target) if target.exists() else None
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


def _keep(file: Path) -> Path:
    number = 1
    while (backup := file.with_name(f"{file.name}.nexus-backup-{number}")).exists():
        number += 1
    shutil.copy2(file, backup)
    return backup


def _read(client: Client, file: Path) -> Document:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    try:
        if client.form == "toml":
            return tomlkit.parse(text)
        found: object = json.loads(text) if text.strip() else {}
    except (ValueError, ParseError) as error:
        raise _unreadable(client, file, str(error)) from None
    if not isinstance(found, dict):
        raise _unreadable(client, file, "it holds no object")
    return cast("Document", found)


def _servers(client: Client, file: Path, document: Document) -> Document:
    servers: object = document.setdefault(client.key, tomlkit.table() if client.form == "toml" else {})
    if not isinstance(servers, MutableMapping):
        raise _unreadable(client, file, f"`{client.key}` is no object")
    return cast("Document", servers)


def _text(client: Client, document: Document) -> str:
    if client.form == "toml":
        return tomlkit.dumps(document)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _unreadable(client: Client, file: Path, why: str) -> UsageError:
    return UsageError(
        f"{file} cannot be read, so it was left as it is: {why}",
        hint=f"Put the entry there by hand: `nexus mcp install {client.name} --print` shows it.",
    )
