"""config.toml as people keep it: settings are changed in place, and comments stay where they are."""

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
        return f"[{self.section}] {self.key} = {_written(self.value)}"


def save(file: Path, changes: Iterable[Change]) -> None:
    """Change the file, whole or not at all."""
    write(file, changed(file.read_text(encoding="utf-8"), list(changes)))


def write(file: Path, text: str) -> None:
    """Replace the file's text, whole or not at all."""
    # A file that is a link to somewhere (people keep their settings under version control) stays one.
    target = file.resolve()
    descriptor, building = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.new_")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(building).replace(target)
    except BaseException:
        Path(building).unlink(missing_ok=True)
        raise


def changed(text: str, changes: list[Change]) -> str:
    """The text with the changes in it, each where a person would look for it."""
    wanted = tomllib.loads(text)
    text += "\n" * (not text.endswith("\n"))
    for change in changes:
        _set(wanted, change)
        text = _changed(text, change)
    if not _says(text, wanted):
        lines = "; ".join(str(change) for change in changes)
        raise ConfigError("config.toml can't be edited automatically", hint=f"Write: {lines}.")
    return text


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _changed(text: str, change: Change) -> str:
    """A key that is there gets its value, one that is commented out is switched on, any other is added."""
    document = tomlkit.parse(text)
    if change.key in _table(document, change.section):
        _set(document, change)
        return tomlkit.dumps(document)
    named = r"\.".join(rf'"?{re.escape(part)}"?' for part in change.section.split("."))
    header = re.search(rf"^\[{named}\][^\n]*\n", text, re.MULTILINE)
    line = f"{change.key} = {_written(change.value)}\n"
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


def _table(document: MutableMapping[str, Any], section: str) -> MutableMapping[str, Any]:
    for name in section.split("."):
        document = cast("MutableMapping[str, Any]", document.get(name, {}))
    return document


def _set(document: MutableMapping[str, Any], change: Change) -> None:
    for name in change.section.split("."):
        document = cast("MutableMapping[str, Any]", document.setdefault(name, {}))
    document[change.key] = change.value


def _written(value: Value) -> str:
    return tomlkit.item(value).as_string()


def line_of(text: str, section: str, key: str) -> int | None:
    """The line of a setting, counted from 1; None where it is not on a line of its own table."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            inside = header[1].replace('"', "").replace("'", "").strip() == section
        elif inside and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
            return number
    return None
