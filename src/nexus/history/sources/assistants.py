"""Exports of ChatGPT and Claude: `conversations.json`, an array of conversations, each read as a whole.

Claude's has the messages of a conversation in order. In ChatGPT's, a conversation is a tree: an edited
question or a regenerated answer is a branch. The path to the current message is the conversation; every other
branch becomes a thread of its own that names the conversation as its parent.
"""

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final

from nexus.history import json_stream
from nexus.history.files import Files
from nexus.history.items import Attachment, Author, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.source import (
    Source,
    as_list,
    as_object,
    as_text,
    guess_type,
    make_cursor,
    parse_moment,
    read_beginning,
    remaining_files,
    set_failures_aside,
)
from nexus.history.sources import blocks

_FILE: Final = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
# Larger conversations than this have not been seen; one is held while it is read.
_LARGEST_BYTES: Final = 64 * 1024 * 1024
_LOOKED_AT_BYTES: Final = 65_536


class Conversations(Source):
    """The zip archive of an export, or its `conversations.json` alone."""

    sign: ClassVar[bytes]
    """What is near the beginning of such a file and of no other's."""

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(cls.sign in read_beginning(files, name, _LOOKED_AT_BYTES) for name in _names(files))

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(_names(self.files), cursor):
            yield from self._file(name, start)

    @abstractmethod
    def conversation(self, whole: dict[str, Any], place: str) -> Iterator[Item]:
        """Return the thread and the messages of one conversation."""

    def _file(self, name: str, skip: int) -> Iterator[Item]:
        number = 0
        try:
            with self.files.open(name) as stream:
                for raw in json_stream.scan(stream, lambda path: path == ("*",), _LARGEST_BYTES):
                    number += 1
                    if number <= skip:
                        continue
                    place = f"{name}, conversation {number}"
                    whole = _parse_conversation(raw.data)
                    # The bytes aren't needed while the messages are written.
                    del raw
                    if isinstance(whole, str):
                        yield SetAside(reason=whole, place=place)
                    else:
                        yield from set_failures_aside(self.conversation(whole, place), place)
                    yield Mark(make_cursor(name, number))
        except (json_stream.BrokenJsonError, OSError, EOFError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=f"{name}, after {number}")


def _names(files: Files) -> list[str]:
    return [name for name in files.names() if _FILE.fullmatch(name)]


def _parse_conversation(data: bytes | None) -> dict[str, Any] | str:
    """Return a conversation, or why it can't be read."""
    if data is None:
        return "the conversation is larger than 64 MiB"
    try:
        return as_object(json_stream.parse(data))
    except ValueError:
        return "the conversation is not valid JSON"


_BRIEF_CHARACTERS: Final = 300
_KEPT_CHARACTERS: Final = 20_000
_AUTHORS: Final[dict[str, Author]] = {
    "user": "owner", "assistant": "assistant", "tool": "tool", "system": "system",
}  # fmt: skip
# Of a file: `file-AbC123-photo.png`, `dalle-generations/file-AbC123.webp`, `audio/file_0000ab.wav`.
_FILE_ID: Final = re.compile(r"(?:.*/)?(file[-_][A-Za-z0-9]+)[^/]*")
_CHATGPT: Final = Person(identifier="chatgpt", name="ChatGPT", is_automated=True)


class ChatGpt(Conversations):
    """The zip archive that ChatGPT mails to its users, or its `conversations.json` alone."""

    name: ClassVar[str] = "chatgpt"
    title: ClassVar[str] = "ChatGPT export"
    channel: ClassVar[str] = "chatgpt"
    sign: ClassVar[bytes] = b'"mapping"'

    def conversation(self, whole: dict[str, Any], place: str) -> Iterator[Item]:
        nodes = as_object(whole.get("mapping"))
        id_ = as_text(whole.get("conversation_id")) or as_text(whole.get("id"))
        if not nodes or id_ is None:
            yield SetAside(reason="it is not a conversation", place=place)
            return
        yield Thread(
            external_id=id_,
            title=as_text(whole.get("title")),
            at=parse_moment(whole.get("create_time")),
            metadata={"model": model} if (model := as_text(whole.get("default_model_slug"))) else {},
        )
        yield from _Tree(id_, nodes, as_text(whole.get("current_node")), self._stored).items()

    @cached_property
    def _stored(self) -> dict[str, str]:
        """The uploaded and generated files of the archive, by their id."""
        found = ((_FILE_ID.fullmatch(name), name) for name in sorted(self.members, reverse=True))
        return {match.group(1): name for match, name in found if match}


class _Tree:
    """The messages of one conversation, in order: the current path first, then each branch."""

    def __init__(
        self, id_: str, nodes: dict[str, Any], current: str | None, stored: Mapping[str, str]
    ) -> None:
        self._id = id_
        self._stored = stored
        self._nodes = nodes
        self._current = current
        self._seen: set[str] = set()

    def items(self) -> Iterator[Item]:
        current = self._current
        if current not in self._nodes:
            current = next(reversed(list(self._leaves())), next(iter(self._nodes)))
        yield from self._messages(self._path(current), self._id)
        # Leaves in the order of the file, so that the same export always gives the same branches.
        for leaf in self._leaves():
            messages = list(self._messages(self._path(leaf), f"{self._id}/{leaf}"))
            if messages:
                yield Thread(external_id=f"{self._id}/{leaf}", kind="branch", parent=self._id)
                yield from messages

    def _path(self, leaf: str | None) -> list[str]:
        """Return the nodes above a leaf, up to where it left a path that was read before."""
        path: list[str] = []
        on_path: set[str] = set()
        while leaf is not None and leaf in self._nodes and leaf not in on_path and leaf not in self._seen:
            path.append(leaf)
            on_path.add(leaf)
            leaf = as_text(as_object(self._nodes[leaf]).get("parent"))
        return path[::-1]

    def _leaves(self) -> Iterator[str]:
        for id_, node in self._nodes.items():
            if not as_list(as_object(node).get("children")):
                yield id_

    def _messages(self, path: list[str], thread: str) -> Iterator[Message]:
        for id_ in path:
            self._seen.add(id_)
            message = as_object(as_object(self._nodes[id_]).get("message"))
            yield from _chatgpt_message(message, id_, thread, self._find_answered(id_), self._stored)

    def _find_answered(self, id_: str) -> str | None:
        """Return the message before this one; nodes without any content are passed over."""
        above = as_text(as_object(self._nodes[id_]).get("parent"))
        for _ in range(8):
            node = as_object(self._nodes.get(above or ""))
            message = as_object(node.get("message"))
            if message and _content(as_object(message.get("content")))[0]:
                return as_text(message.get("id")) or above
            above = as_text(node.get("parent"))
            if above is None:
                return None
        return None


def _chatgpt_message(
    message: dict[str, Any], node: str, thread: str, reply_to: str | None, stored: Mapping[str, str]
) -> Iterator[Message]:
    role = as_text(as_object(message.get("author")).get("role"))
    author = _AUTHORS.get(role or "")
    content, files = _content(as_object(message.get("content")))
    extra = as_object(message.get("metadata"))
    attachments = _attachments(files, map(as_object, as_list(extra.get("attachments"))), stored)
    if (
        author is None
        or not (content or attachments)
        or as_object(message.get("content")).get("content_type") in ("thoughts", "reasoning_recap")
    ):
        return
    metadata: dict[str, Any] = {}
    if model := as_text(extra.get("model_slug")):
        metadata["model"] = model
    if extra.get("is_visually_hidden_from_conversation") and author == "owner":
        author = "system"
    recipient = as_text(message.get("recipient")) or "all"
    kind = "message"
    if author == "tool" or (author == "assistant" and recipient != "all"):
        tool = as_text(as_object(message.get("author")).get("name")) if author == "tool" else recipient
        kind, metadata = "tool_call", {**metadata, "tool": tool, "text": content[:_KEPT_CHARACTERS]}
        content, author = f"{tool}: {content[:_BRIEF_CHARACTERS]}", "tool"
    yield Message(
        external_id=as_text(message.get("id")) or node,
        thread=thread,
        author=author,
        sender=_CHATGPT if author == "assistant" else None,
        content=content,
        at=parse_moment(message.get("create_time")),
        kind="system" if author == "system" else kind,
        reply_to=reply_to,
        metadata=metadata,
        attachments=attachments,
    )


def _content(content: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the words of a message, and the pictures and recordings among them."""
    if content.get("content_type") == "user_editable_context":
        kept = (as_text(content.get("user_profile")), as_text(content.get("user_instructions")))
        return "\n\n".join(part for part in kept if part), []
    texts: list[str] = []
    files: list[dict[str, Any]] = []
    for part in as_list(content.get("parts")) or [content.get("text") or content.get("result")]:
        if isinstance(part, str):
            texts.append(part)
            continue
        inner = as_object(part)
        if as_text(inner.get("asset_pointer")):
            files.append(inner)
        elif transcribed := as_text(inner.get("text")):
            texts.append(transcribed)
        elif inner:
            texts.append(json.dumps(inner, ensure_ascii=False)[:_KEPT_CHARACTERS])
    return "\n".join(texts).strip(), files


def _attachments(
    shown: list[dict[str, Any]], uploaded: Iterator[dict[str, Any]], stored: Mapping[str, str]
) -> tuple[Attachment, ...]:
    """Return the files of a message. What was uploaded and is shown too is one file."""
    found: dict[str, Attachment] = {}
    for part in shown:
        id_ = (as_text(part.get("asset_pointer")) or "").rpartition("/")[2]
        member, size = stored.get(id_), part.get("size_bytes")
        is_audio = "audio" in str(part.get("content_type"))
        found[id_] = Attachment(
            name=member.rpartition("/")[2] if member else id_,
            media_type="audio/unknown" if is_audio else "image/unknown",
            size_bytes=size if isinstance(size, int) else None,
            member=member,
        )
    for number, file in enumerate(uploaded):
        id_, name, size = as_text(file.get("id")), as_text(file.get("name")), file.get("size")
        found[id_ or f"#{number}"] = Attachment(
            name=name or id_,
            media_type=as_text(file.get("mime_type")) or guess_type(name),
            size_bytes=size if isinstance(size, int) else None,
            member=stored.get(id_ or ""),
        )
    return tuple(found.values())


_CLAUDE: Final = Person(identifier="claude", name="Claude", is_automated=True)


class Claude(Conversations):
    """The zip archive that claude.ai exports, or its `conversations.json` alone."""

    name: ClassVar[str] = "claude"
    title: ClassVar[str] = "Claude export"
    channel: ClassVar[str] = "claude"
    sign: ClassVar[bytes] = b'"chat_messages"'

    def conversation(self, whole: dict[str, Any], place: str) -> Iterator[Item]:
        id_ = as_text(whole.get("uuid"))
        if id_ is None:
            yield SetAside(reason="it is not a conversation", place=place)
            return
        yield Thread(
            external_id=id_, title=as_text(whole.get("name")), at=parse_moment(whole.get("created_at"))
        )
        for message in as_list(whole.get("chat_messages")):
            yield from _claude_message(as_object(message), id_)


def _claude_message(message: dict[str, Any], thread: str) -> Iterator[Message]:
    id_ = as_text(message.get("uuid"))
    is_owner = message.get("sender") == "human"
    content = blocks.read_words(message.get("content")) or as_text(message.get("text")) or ""
    files = tuple(map(_claude_file, (*as_list(message.get("attachments")), *as_list(message.get("files")))))
    at, above = parse_moment(message.get("created_at")), as_text(message.get("parent_message_uuid"))
    if id_ is None:
        return
    for number, (brief, kept) in enumerate(blocks.brief_calls(message.get("content"))):
        yield Message(
            external_id=f"{id_}/tool-{number}", thread=thread, author="tool", content=brief, at=at,
            kind="tool_call", reply_to=above, metadata=kept,
        )  # fmt: skip
    if content or files:
        yield Message(
            external_id=id_,
            thread=thread,
            author="owner" if is_owner else "assistant",
            sender=None if is_owner else _CLAUDE,
            content=content,
            at=at,
            reply_to=above,
            attachments=files,
        )


def _claude_file(value: object) -> Attachment:
    # The export holds the text of a document, and of anything else no more than its name.
    file = as_object(value)
    size, extracted = file.get("file_size"), as_text(file.get("extracted_content"))
    return Attachment(
        name=as_text(file.get("file_name")),
        media_type="text/plain" if extracted else _claude_type(file),
        size_bytes=size if isinstance(size, int) else None,
        data=extracted.encode("utf-8", "replace") if extracted else None,
    )


def _claude_type(file: dict[str, Any]) -> str:
    given = as_text(file.get("file_type"))
    return given if given and "/" in given else guess_type(as_text(file.get("file_name")))
