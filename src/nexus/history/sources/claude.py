"""Claude's data export: `conversations.json`, an array of conversations with their messages in order."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from nexus.history import json_stream
from nexus.history.files import Files
from nexus.history.items import Attachment, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.source import Source, beginning, cursor_place, listed, moment, place_cursor, record, text
from nexus.history.sources import blocks

_FILE: Final = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_LARGEST_BYTES: Final = 64 * 1024 * 1024
_ASSISTANT: Final = Person(identifier="claude", name="Claude", is_automated=True)


class Claude(Source):
    """The zip archive that claude.ai exports, or its `conversations.json` alone."""

    name: ClassVar[str] = "claude"
    title: ClassVar[str] = "Claude export"
    channel: ClassVar[str] = "claude"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(b'"chat_messages"' in beginning(files, name, 65_536) for name in _names(files))

    def read(self, cursor: str | None) -> Iterator[Item]:
        after, done = cursor_place(cursor)
        for name in _names(self.files):
            if name >= after:
                yield from self._file(name, done if name == after else 0)

    def _file(self, name: str, skip: int) -> Iterator[Item]:
        number = 0
        try:
            with self.files.open(name) as stream:
                for raw in json_stream.scan(stream, lambda path: path == ("*",), _LARGEST_BYTES):
                    number += 1
                    if number > skip:
                        whole = _parsed(raw.data)
                        # The bytes aren't needed while the messages are written.
                        del raw
                        yield from _conversation(whole, f"{name}, conversation {number}")
                        yield Mark(place_cursor(name, number))
        except (json_stream.BrokenJsonError, OSError, EOFError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=f"{name}, after {number}")


def _names(files: Files) -> list[str]:
    return [name for name in files.names() if _FILE.fullmatch(name)]


def _parsed(data: bytes | None) -> dict[str, Any] | str:
    """A conversation, or why it can't be read."""
    if data is None:
        return "the conversation is larger than 64 MiB"
    try:
        return record(json_stream.parsed(data))
    except ValueError:
        return "the conversation is not valid JSON"


def _conversation(whole: dict[str, Any] | str, place: str) -> Iterator[Item]:
    if isinstance(whole, str):
        yield SetAside(reason=whole, place=place)
        return
    id_ = text(whole.get("uuid"))
    if id_ is None:
        yield SetAside(reason="it is not a conversation", place=place)
        return
    yield Thread(external_id=id_, title=text(whole.get("name")), at=moment(whole.get("created_at")))
    for message in listed(whole.get("chat_messages")):
        yield from _message(record(message), id_)


def _message(message: dict[str, Any], thread: str) -> Iterator[Message]:
    id_ = text(message.get("uuid"))
    is_owner = message.get("sender") == "human"
    content = blocks.words(message.get("content")) or text(message.get("text")) or ""
    files = tuple(map(_file, (*listed(message.get("attachments")), *listed(message.get("files")))))
    at, above = moment(message.get("created_at")), text(message.get("parent_message_uuid"))
    if id_ is None:
        return
    for number, (brief, kept) in enumerate(blocks.tool_calls(message.get("content"))):
        yield Message(
            external_id=f"{id_}/tool-{number}", thread=thread, author="tool", content=brief, at=at,
            kind="tool_call", reply_to=above, metadata=kept,
        )  # fmt: skip
    if content or files:
        yield Message(
            external_id=id_,
            thread=thread,
            author="owner" if is_owner else "assistant",
            sender=None if is_owner else _ASSISTANT,
            content=content,
            at=at,
            reply_to=above,
            attachments=files,
        )


def _file(value: object) -> Attachment:
    file = record(value)
    size = file.get("file_size")
    return Attachment(
        name=text(file.get("file_name")),
        media_type=text(file.get("file_type")) or "application/octet-stream",
        size_bytes=size if isinstance(size, int) else None,
    )
