"""Claude's data export: `conversations.json`, an array of conversations with their messages in order."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from nexus.history.items import Attachment, Item, Message, Person, SetAside, Thread
from nexus.history.source import listed, moment, record, text, type_of_name
from nexus.history.sources import blocks
from nexus.history.sources.conversations import Conversations

_ASSISTANT: Final = Person(identifier="claude", name="Claude", is_automated=True)


class Claude(Conversations):
    """The zip archive that claude.ai exports, or its `conversations.json` alone."""

    name: ClassVar[str] = "claude"
    title: ClassVar[str] = "Claude export"
    channel: ClassVar[str] = "claude"
    sign: ClassVar[bytes] = b'"chat_messages"'

    def conversation(self, whole: dict[str, Any], place: str) -> Iterator[Item]:
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
    # The export holds the text of a document, and of anything else no more than its name.
    file = record(value)
    size, extracted = file.get("file_size"), text(file.get("extracted_content"))
    return Attachment(
        name=text(file.get("file_name")),
        media_type="text/plain" if extracted else _type(file),
        size_bytes=size if isinstance(size, int) else None,
        data=extracted.encode("utf-8", "replace") if extracted else None,
    )


def _type(file: dict[str, Any]) -> str:
    given = text(file.get("file_type"))
    return given if given and "/" in given else type_of_name(text(file.get("file_name")))
