"""ChatGPT's data export: `conversations.json`, an array of conversations, each a tree of messages.

An edited question or a regenerated answer is a branch of the tree. The path to the current message is the
conversation; every other branch becomes a thread of its own that names the conversation as its parent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final

from nexus.history.items import Attachment, Author, Item, Message, Person, SetAside, Thread
from nexus.history.source import listed, moment, record, text, type_of_name
from nexus.history.sources.conversations import Conversations

_BRIEF_CHARACTERS: Final = 300
_KEPT_CHARACTERS: Final = 20_000
_AUTHORS: Final[dict[str, Author]] = {
    "user": "owner", "assistant": "assistant", "tool": "tool", "system": "system",
}  # fmt: skip
# Of a file: `file-AbC123-photo.png`, `dalle-generations/file-AbC123.webp`, `audio/file_0000ab.wav`.
_FILE_ID: Final = re.compile(r"(?:.*/)?(file[-_][A-Za-z0-9]+)[^/]*")
_ASSISTANT: Final = Person(identifier="chatgpt", name="ChatGPT", is_automated=True)


class ChatGpt(Conversations):
    """The zip archive that ChatGPT mails to its users, or its `conversations.json` alone."""

    name: ClassVar[str] = "chatgpt"
    title: ClassVar[str] = "ChatGPT export"
    channel: ClassVar[str] = "chatgpt"
    sign: ClassVar[bytes] = b'"mapping"'

    def conversation(self, whole: dict[str, Any], place: str) -> Iterator[Item]:
        nodes = record(whole.get("mapping"))
        id_ = text(whole.get("conversation_id")) or text(whole.get("id"))
        if not nodes or id_ is None:
            yield SetAside(reason="it is not a conversation", place=place)
            return
        yield Thread(
            external_id=id_,
            title=text(whole.get("title")),
            at=moment(whole.get("create_time")),
            metadata={"model": model} if (model := text(whole.get("default_model_slug"))) else {},
        )
        yield from _Tree(id_, nodes, text(whole.get("current_node")), self._stored).items()

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
        main = self._path(self._current) if self._current in self._nodes else self._path(self._last())
        yield from self._messages(main, self._id)
        # Leaves in the order of the file, so that the same export always gives the same branches.
        for leaf in self._leaves():
            messages = list(self._messages(self._path(leaf), f"{self._id}/{leaf}"))
            if messages:
                yield Thread(external_id=f"{self._id}/{leaf}", kind="branch", parent=self._id)
                yield from messages

    def _path(self, leaf: str | None) -> list[str]:
        """The nodes above a leaf, up to where it left a path that was read before."""
        path: list[str] = []
        on_path: set[str] = set()
        while leaf is not None and leaf in self._nodes and leaf not in on_path and leaf not in self._seen:
            path.append(leaf)
            on_path.add(leaf)
            leaf = text(record(self._nodes[leaf]).get("parent"))
        return path[::-1]

    def _leaves(self) -> Iterator[str]:
        for id_, node in self._nodes.items():
            if not listed(record(node).get("children")):
                yield id_

    def _last(self) -> str | None:
        return next(reversed(list(self._leaves())), next(iter(self._nodes)))

    def _messages(self, path: list[str], thread: str) -> Iterator[Message]:
        for id_ in path:
            self._seen.add(id_)
            message = record(record(self._nodes[id_]).get("message"))
            yield from _message(message, id_, thread, self._answered(id_), self._stored)

    def _answered(self, id_: str) -> str | None:
        """The message before this one; nodes without any content are passed over."""
        above = text(record(self._nodes[id_]).get("parent"))
        for _ in range(8):
            node = record(self._nodes.get(above or ""))
            message = record(node.get("message"))
            if message and _content(record(message.get("content")))[0]:
                return text(message.get("id")) or above
            above = text(node.get("parent"))
            if above is None:
                return None
        return None


def _message(
    message: dict[str, Any], node: str, thread: str, reply_to: str | None, stored: Mapping[str, str]
) -> Iterator[Message]:
    role = text(record(message.get("author")).get("role"))
    author = _AUTHORS.get(role or "")
    content, files = _content(record(message.get("content")))
    extra = record(message.get("metadata"))
    attachments = _attachments(files, map(record, listed(extra.get("attachments"))), stored)
    if (
        author is None
        or not (content or attachments)
        or record(message.get("content")).get("content_type") in ("thoughts", "reasoning_recap")
    ):
        return
    metadata: dict[str, Any] = {}
    if model := text(extra.get("model_slug")):
        metadata["model"] = model
    if extra.get("is_visually_hidden_from_conversation") and author == "owner":
        author = "system"
    recipient = text(message.get("recipient")) or "all"
    kind = "message"
    if author == "tool" or (author == "assistant" and recipient != "all"):
        tool = text(record(message.get("author")).get("name")) if author == "tool" else recipient
        kind, metadata = "tool_call", {**metadata, "tool": tool, "text": content[:_KEPT_CHARACTERS]}
        content, author = f"{tool}: {content[:_BRIEF_CHARACTERS]}", "tool"
    yield Message(
        external_id=text(message.get("id")) or node,
        thread=thread,
        author=author,
        sender=_ASSISTANT if author == "assistant" else None,
        content=content,
        at=moment(message.get("create_time")),
        kind="system" if author == "system" else kind,
        reply_to=reply_to,
        metadata=metadata,
        attachments=attachments,
    )


def _content(content: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The words of a message, and the pictures and recordings among them."""
    if content.get("content_type") == "user_editable_context":
        kept = (text(content.get("user_profile")), text(content.get("user_instructions")))
        return "\n\n".join(part for part in kept if part), []
    texts: list[str] = []
    files: list[dict[str, Any]] = []
    for part in listed(content.get("parts")) or [content.get("text") or content.get("result")]:
        if isinstance(part, str):
            texts.append(part)
            continue
        inner = record(part)
        if text(inner.get("asset_pointer")):
            files.append(inner)
        elif transcribed := text(inner.get("text")):
            texts.append(transcribed)
        elif inner:
            texts.append(json.dumps(inner, ensure_ascii=False)[:_KEPT_CHARACTERS])
    return "\n".join(texts).strip(), files


def _attachments(
    shown: list[dict[str, Any]], uploaded: Iterator[dict[str, Any]], stored: Mapping[str, str]
) -> tuple[Attachment, ...]:
    """The files of a message. What was uploaded and is shown too is one file."""
    found: dict[str, Attachment] = {}
    for part in shown:
        id_ = (text(part.get("asset_pointer")) or "").rpartition("/")[2]
        member, size = stored.get(id_), part.get("size_bytes")
        is_audio = "audio" in str(part.get("content_type"))
        found[id_] = Attachment(
            name=member.rpartition("/")[2] if member else id_,
            media_type="audio/unknown" if is_audio else "image/unknown",
            size_bytes=size if isinstance(size, int) else None,
            member=member,
        )
    for number, file in enumerate(uploaded):
        id_, name, size = text(file.get("id")), text(file.get("name")), file.get("size")
        found[id_ or f"#{number}"] = Attachment(
            name=name or id_,
            media_type=text(file.get("mime_type")) or type_of_name(name),
            size_bytes=size if isinstance(size, int) else None,
            member=stored.get(id_ or ""),
        )
    return tuple(found.values())
