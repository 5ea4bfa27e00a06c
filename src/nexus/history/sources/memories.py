"""What other memories hold: lists from mem0 and Hindsight, messages from Zep, Letta's agent files.

A memory of another system is a statement without the message that it came from: it is recorded as a
document, to be found and read, never as a fact.
"""

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
    remaining_files,
    set_failures_aside,
)
from nexus.history.sources import blocks

_LARGEST_BYTES: Final = 16 * 1024 * 1024
_LISTS: Final = frozenset({"results", "items", "memories", "messages"})
_ROLES: Final[dict[str, Author]] = {
    "user": "owner", "human": "owner", "assistant": "assistant", "ai": "assistant", "system": "system",
    "tool": "tool", "function": "tool",
}  # fmt: skip


class _ListSource(Source):
    """Objects in one large JSON array, at the top or under a usual name."""

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(cls.is_list(read_beginning(files, name, 16_384)) for name in _names(files))

    @classmethod
    def is_list(cls, start: bytes) -> bool:
        raise NotImplementedError

    def items(self, found: dict[str, Any], name: str) -> Iterator[Item]:
        raise NotImplementedError

    def is_wanted(self, path: json_stream.Path) -> bool:
        return path == ("*",) or (len(path) == 2 and path[0] in _LISTS and path[1] == "*")

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(_names(self.files), cursor):
            if self.is_list(read_beginning(self.files, name, 16_384)):
                yield from self._file(name, start)

    def _file(self, name: str, skip: int) -> Iterator[Item]:
        number = 0
        try:
            with self.files.open(name) as stream:
                for raw in json_stream.scan(stream, self.is_wanted, _LARGEST_BYTES):
                    number += 1
                    if number <= skip:
                        continue
                    try:
                        found = as_object(json_stream.parse(raw.data or b""))
                    except ValueError:
                        yield SetAside(reason="the entry is not valid JSON", place=f"{name}, {number}")
                    else:
                        yield from set_failures_aside(self.items(found, name), f"{name}, {number}")
                    yield Mark(make_cursor(name, number))
        except (json_stream.BrokenJsonError, OSError, EOFError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=f"{name}, after {number}")


class Mem0(_ListSource):
    """What mem0's `get_all` returns: `results`, each with `id` and `memory`."""

    name: ClassVar[str] = "mem0"
    title: ClassVar[str] = "mem0 memories"
    channel: ClassVar[str] = "mem0"

    @classmethod
    def is_list(cls, start: bytes) -> bool:
        return b'"memory"' in start and b'"id"' in start

    def items(self, found: dict[str, Any], name: str) -> Iterator[Item]:
        yield from _read_memory(found, "memory", as_text(found.get("user_id")) or name)


class Hindsight(_ListSource):
    """What Hindsight's API lists of a bank: `items`, each with `id` and `text`."""

    name: ClassVar[str] = "hindsight"
    title: ClassVar[str] = "Hindsight memories"
    channel: ClassVar[str] = "hindsight"

    @classmethod
    def is_list(cls, start: bytes) -> bool:
        return b'"items"' in start and b'"text"' in start and b'"fact_type"' in start

    def items(self, found: dict[str, Any], name: str) -> Iterator[Item]:
        yield from _read_memory(found, "text", as_text(found.get("bank_id")) or name)


class Zep(_ListSource):
    """What Zep returns of a session or thread: `messages`, each with a `role_type` or `role`."""

    name: ClassVar[str] = "zep"
    title: ClassVar[str] = "Zep messages"
    channel: ClassVar[str] = "zep"

    @classmethod
    def is_list(cls, start: bytes) -> bool:
        return (
            b'"messages"' in start and b'"uuid"' in start and (b'"role_type"' in start or b'"role"' in start)
        )

    def items(self, found: dict[str, Any], name: str) -> Iterator[Item]:
        yield from _read_message(found, name, "role_type" if found.get("role_type") else "role")


class Letta(_ListSource):
    """Letta's agent file (`.af`): the agents with their messages, and their memory blocks."""

    name: ClassVar[str] = "letta"
    title: ClassVar[str] = "Letta agent file"
    channel: ClassVar[str] = "letta"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(name.endswith(".af") for name in files.names())

    @classmethod
    def is_list(cls, start: bytes) -> bool:
        return start.lstrip()[:1] == b"{"

    def is_wanted(self, path: json_stream.Path) -> bool:
        return path in (
            ("agents", "*", "messages", "*"), ("messages", "*"), ("blocks", "*"), ("core_memory", "*"),
        )  # fmt: skip

    def items(self, found: dict[str, Any], name: str) -> Iterator[Item]:
        if found.get("value") is not None:
            kept = f"{as_text(found.get('label')) or 'memory'}: {as_text(found.get('value')) or ''}"
            yield from _read_memory(
                {**found, "text": kept, "id": found.get("id") or found.get("label")}, "text", name
            )
        else:
            yield from _read_message(found, name, "role")


def _names(files: Files) -> list[str]:
    return [name for name in files.names() if name.endswith((".json", ".af"))]


def _read_memory(found: dict[str, Any], field: str, thread: str) -> Iterator[Item]:
    id_, said = as_text(found.get("id")), as_text(found.get(field))
    if id_ is None or said is None:
        yield SetAside(reason="the entry has no id or no text", place=thread)
        return
    at = (
        parse_moment(found.get("created_at"))
        or parse_moment(found.get("mentioned_at"))
        or parse_moment(found.get("date"))
    )
    yield Thread(external_id=thread, title=f"Memories of {thread}", kind="document", at=at)
    yield Message(external_id=id_, thread=thread, author="system", content=said, at=at, kind="memory")


def _read_message(found: dict[str, Any], thread: str, role: str) -> Iterator[Item]:
    author = _ROLES.get(str(found.get(role)).casefold())
    said = blocks.read_words(found.get("content"))
    id_ = as_text(found.get("uuid")) or as_text(found.get("id"))
    if author is None or id_ is None:
        yield SetAside(reason="the message has no id or an unknown role", place=thread)
        return
    if not said:
        return  # a call of a tool, or an image
    yield Thread(external_id=thread, title=thread)
    yield Message(
        external_id=id_,
        thread=thread,
        author=author,
        sender=Person(identifier="assistant", name="Assistant", is_automated=True)
        if author == "assistant"
        else None,
        content=said,
        at=parse_moment(found.get("created_at")),
        kind="system" if author == "system" else "tool_call" if author == "tool" else "message",
    )
