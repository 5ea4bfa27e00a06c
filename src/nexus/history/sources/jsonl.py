"""Any JSONL file: one message per line, with a mapping that says which field is what.

Fields with the usual names need no mapping. A value may lie deeper: `author.name`.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from nexus.history import json_stream
from nexus.history.files import Files
from nexus.history.items import Author, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.source import (
    Source,
    as_object,
    as_text,
    make_cursor,
    parse_moment,
    read_beginning,
    read_lines,
    remaining_files,
)

# What is looked for where the mapping doesn't say.
_USUAL: Final = {
    "id": ("id", "uuid", "message_id"),
    "thread": ("thread", "thread_id", "conversation_id", "session_id", "chat_id", "channel"),
    "title": ("title", "thread_title", "subject"),
    "text": ("text", "content", "body", "message"),
    "time": ("time", "timestamp", "created_at", "date", "ts"),
    "sender": ("sender", "from", "user", "author", "name"),
    "role": ("role", "author_role", "direction"),
    "reply_to": ("reply_to", "parent_id", "in_reply_to"),
}
_ROLES: Final[dict[str, Author]] = {
    "user": "owner", "human": "owner", "owner": "owner", "me": "owner",
    "assistant": "assistant", "ai": "assistant", "agent": "assistant",
    "bot": "assistant", "model": "assistant",
    "system": "system", "developer": "system", "tool": "tool", "function": "tool",
}  # fmt: skip


class Jsonl(Source):
    """A file, or several in a folder or archive, that end in `.jsonl` or `.ndjson`."""

    name: ClassVar[str] = "jsonl"
    title: ClassVar[str] = "JSONL"
    channel: ClassVar[str] = "import"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(read_beginning(files, name, 64).lstrip()[:1] == b"{" for name in _names(files))

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(_names(self.files), cursor):
            yield from self._file(name, start)

    def _file(self, name: str, start: int) -> Iterator[Item]:
        announced: set[str] = set()
        try:
            with self.files.open(name) as stream:
                for offset, line in read_lines(stream, start):
                    yield from self._line(name, offset, line, announced)
                    yield Mark(make_cursor(name, offset))
        except (OSError, EOFError, ValueError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=name)

    def _line(self, name: str, offset: int, line: bytes | None, announced: set[str]) -> Iterator[Item]:
        place = f"{name}, line that ends at byte {offset}"
        if line is None:
            yield SetAside(reason="the line is longer than 16 MiB", place=place)
            return
        if not line.strip():
            return
        try:
            found = as_object(json_stream.parse(line))
        except ValueError:
            yield SetAside(reason="the line is not valid JSON", place=place)
            return
        content = as_text(self._field(found, "text"))
        if content is None:
            yield SetAside(reason="the line has no text", place=place)
            return
        thread = as_text(self._field(found, "thread")) or name
        if thread not in announced:
            if len(announced) > 10_000:
                announced.clear()
            announced.add(thread)
            yield Thread(external_id=thread, title=as_text(self._field(found, "title")))
        yield self._message(found, content, thread, line)

    def _message(self, found: dict[str, Any], content: str, thread: str, line: bytes) -> Message:
        sender = as_text(self._field(found, "sender"))
        role = as_text(self._field(found, "role")) or ""
        author = _ROLES.get(role.casefold())
        if author is None:
            author = "owner" if sender is None or self.options.is_owner(sender) else "person"
        person = None
        if author in ("person", "assistant"):
            given = sender or role or "somebody"
            kind = "email" if "@" in given and "." in given.partition("@")[2] else "handle"
            person = Person(
                identifier=given if kind == "email" else f"{self.channel}/{given}",
                kind=kind,
                name=None if kind == "email" else given,
                is_automated=author == "assistant",
            )
        return Message(
            external_id=as_text(self._field(found, "id")) or hashlib.sha256(line.strip()).hexdigest()[:32],
            thread=thread,
            author=author,
            sender=person,
            content=content,
            at=parse_moment(self._field(found, "time"), self.options.timezone),
            kind="system" if author == "system" else "tool_call" if author == "tool" else "message",
            reply_to=as_text(self._field(found, "reply_to")),
        )

    def _field(self, found: dict[str, Any], what: str) -> object:
        path = self.options.mapping.get(what)
        for candidate in (str(path),) if path else _USUAL[what]:
            value: object = found
            for key in candidate.split("."):
                value = as_object(value).get(key)
            if value is not None and value != "":
                return value
        return None


def _names(files: Files) -> list[str]:
    return [name for name in files.names() if name.endswith((".jsonl", ".ndjson"))]
