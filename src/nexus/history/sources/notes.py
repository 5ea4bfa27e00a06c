"""Folders of Markdown, such as an Obsidian vault: each section of a note is a document.

A note that changed since the last import is recorded anew beside the old version, since nothing that was
recorded is ever changed.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, ClassVar, Final

import yaml

from nexus.history.files import Files
from nexus.history.items import Item, Mark, Message, SetAside, Thread
from nexus.history.source import Source, as_object, as_text, make_cursor, parse_cursor, parse_moment

_LARGEST_BYTES: Final = 8 * 1024 * 1024
# Sections are joined up to this length: as much as is embedded as one text.
_SECTION_CHARACTERS: Final = 2_000
_FRONT: Final = re.compile(r"\A---\r?\n(.{0,20000}?)\r?\n---\r?\n", re.DOTALL)
_HEADING: Final = re.compile(r"^(?=#{1,6} )", re.MULTILINE)


class Markdown(Source):
    """A folder with `.md` files, a zip archive of one, or a single file."""

    name: ClassVar[str] = "markdown"
    title: ClassVar[str] = "Markdown notes"
    channel: ClassVar[str] = "notes"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(map(_is_note, files.names()))

    def read(self, cursor: str | None) -> Iterator[Item]:
        after, _ = parse_cursor(cursor)
        for name in self.files.names():
            if name <= after or not _is_note(name):
                continue
            try:
                if self.files.size(name) > _LARGEST_BYTES:
                    yield SetAside(reason="the note is larger than 8 MiB", place=name)
                    continue
                with self.files.open(name) as stream:
                    yield from self._note(name, stream.read(_LARGEST_BYTES))
            except (OSError, EOFError) as error:
                yield SetAside(reason=f"the file is damaged: {error}", place=name)
            yield Mark(make_cursor(name, 0))

    def _note(self, name: str, data: bytes) -> Iterator[Item]:
        body = data.decode("utf-8-sig", "replace")
        front, body = _front(body)
        at = self._find_date(name, front)
        title = as_text(front.get("title")) or name.rpartition("/")[2].removesuffix(".md")
        version = hashlib.sha256(data).hexdigest()[:16]
        yield Thread(external_id=name, title=title, kind="document", at=at)
        for number, section in enumerate(_sections(body)):
            yield Message(
                external_id=f"{name}#{number}@{version}",
                thread=name,
                author="owner",
                content=section if number == 0 and section.startswith("#") else f"{title}\n\n{section}",
                at=at,
                kind="document",
                content_type="text/markdown",
                metadata={"path": name},
            )

    def _find_date(self, name: str, front: dict[str, Any]) -> datetime | None:
        for field in ("date", "created", "updated", "modified"):
            given = front.get(field)
            written = given.isoformat() if isinstance(given, date) else given
            found = parse_moment(written, self.options.timezone)
            if found is not None:
                return found
        day = re.search(r"(\d{4}-\d\d-\d\d)", name)
        return (day and parse_moment(day.group(1), self.options.timezone)) or self.files.modified_at(name)


def _is_note(name: str) -> bool:
    hidden = any(part.startswith(".") for part in name.split("/"))
    return name.endswith((".md", ".markdown")) and not hidden


def _front(body: str) -> tuple[dict[str, Any], str]:
    found = _FRONT.match(body)
    if found is None:
        return {}, body
    try:
        return as_object(yaml.safe_load(found.group(1))), body[found.end() :]
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, body


def _sections(body: str) -> Iterator[str]:
    held = ""
    for part in _HEADING.split(body):
        if held and len(held) + len(part) > _SECTION_CHARACTERS:
            yield held.strip()
            held = ""
        held += part
    if held.strip():
        yield held.strip()
