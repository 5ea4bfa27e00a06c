"""Editing config.toml in place: comments and order stay as they are."""

import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import tomlkit

from nexus.errors import ConfigError

Value = str | int | float | bool | list[str]
_HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting and what it shall be. The section is named as the file names it: `providers.server`."""

    section: str
    key: str
    value: Value

    def __str__(self) -> str:
        return f"[{self.section}] {self.key} = {tomlkit.item(self.value).as_string()}"


def save(file: Path, changes: Iterable[Change]) -> None:
    """Apply changes to the file atomically."""
    write(file, apply_changes(file.read_text(encoding="utf-8"), list(changes)))


def write(file: Path, text: str) -> None:
    """Replace the file's text atomically."""
    # A symbolic link stays one: people keep settings under version control.
    target = file.resolve()
    descriptor, building = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.new_")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(building).replace(target)
    except BaseException:
        Path(building).unlink(missing_ok=True)
        raise


def apply_changes(text: str, changes: list[Change]) -> str:
    """Return the text with the changes, each where a person would look for it."""
    wanted = tomllib.loads(text)
    text += "\n" * (not text.endswith("\n"))
    for change in changes:
        _set(wanted, change)
        text = _apply_change(text, change)
    try:
        is_applied = tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        is_applied = False
    if not is_applied:
        lines = "; ".join(str(change) for change in changes)
        raise ConfigError("config.toml can't be edited automatically", hint=f"Write: {lines}.")
    return text


def _apply_change(text: str, change: Change) -> str:
    """Set a key that is there, uncomment one that is commented out, or add it."""
    document = tomlkit.parse(text)
    if change.key in _find_table(document, change.section):
        _set(document, change)
        return tomlkit.dumps(document)
    named = r"\.".join(rf'"?{re.escape(part)}"?' for part in change.section.split("."))
    header = re.search(rf"^\[{named}\][^\n]*\n", text, re.MULTILINE)
    line = f"{change.key} = {tomlkit.item(change.value).as_string()}\n"
    if header is None:
        return f"{text.rstrip()}\n\n[{change.section}]\n{line}"
    end = re.compile(r"^#? ?\[", re.MULTILINE).search(text, header.end())
    default = re.compile(rf"^# {re.escape(change.key)} = [^\n]*\n", re.MULTILINE).search(
        text, header.end(), end.start() if end else len(text)
    )
    if default:
        return text[: default.start()] + line + text[default.end() :]
    end_of_block = re.compile(r"^\n|\Z", re.MULTILINE).search(text, header.end())
    at = end_of_block.start() if end_of_block else len(text)
    return text[:at] + line + text[at:]


def _find_table(document: MutableMapping[str, Any], section: str) -> MutableMapping[str, Any]:
    for name in section.split("."):
        document = cast("MutableMapping[str, Any]", document.get(name, {}))
    return document


def _set(document: MutableMapping[str, Any], change: Change) -> None:
    for name in change.section.split("."):
        document = cast("MutableMapping[str, Any]", document.setdefault(name, {}))
    document[change.key] = change.value


def line_of(text: str, section: str, key: str) -> int | None:
    """Return the line of a setting, from 1; None if it isn't on a line of its own table."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            inside = header[1].replace('"', "").replace("'", "").strip() == section
        elif inside and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
            return number
    return None
