"""Sessions of coding agents: folders of JSONL files, one file per session."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from nexus.history import json_stream
from nexus.history.files import Files
from nexus.history.items import Author, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.lines import lines
from nexus.history.source import Source, beginning, careful, cursor_place, moment, place_cursor, record, text
from nexus.history.sources import blocks

# What the programs themselves say in the user's place.
_INJECTED: Final = re.compile(
    r"\s*<(?:environment_context|user_instructions|system-reminder|command-name|local-command|permissions)"
)


class Sessions(Source):
    """What the formats share: every line is an entry, and every file a thread."""

    agent: ClassVar[Person]

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(cls.is_session(beginning(files, name, 8192)) for name in cls.session_files(files)[:20])

    @classmethod
    def session_files(cls, files: Files) -> list[str]:
        return [name for name in files.names() if name.endswith(".jsonl")]

    @classmethod
    def is_session(cls, start: bytes) -> bool:
        """Whether a file begins as this format does."""
        raise NotImplementedError

    def entry(self, entry: dict[str, Any], thread: str, offset: int) -> Iterator[Message]:
        """The messages of one line."""
        raise NotImplementedError

    def read(self, cursor: str | None) -> Iterator[Item]:
        after, done = cursor_place(cursor)
        for name in self.session_files(self.files):
            if name >= after and self.is_session(beginning(self.files, name, 8192)):
                yield from self._file(name, done if name == after else 0)

    def _file(self, name: str, start: int) -> Iterator[Item]:
        thread = re.sub(r"\.jsonl$", "", name)
        yield Thread(external_id=thread, kind="session", title=thread.rpartition("/")[2])
        try:
            with self.files.open(name) as stream:
                for offset, line in lines(stream, start):
                    yield from self._line(line, thread, f"{name}, line that ends at byte {offset}", offset)
                    yield Mark(place_cursor(name, offset))
        except (OSError, EOFError, ValueError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=name)

    def _line(self, line: bytes | None, thread: str, place: str, offset: int) -> Iterator[Item]:
        if line is None:
            yield SetAside(reason="the line is longer than 16 MiB", place=place)
        elif line.strip():
            try:
                entry = record(json_stream.parsed(line))
            except ValueError:
                yield SetAside(reason="the line is not valid JSON", place=place)
            else:
                yield from careful(self.entry(entry, thread, offset), place)

    def spoken(
        self, role: object, content: object, *, id_: str, thread: str, at: object, reply_to: str | None = None
    ) -> Iterator[Message]:
        """A message of blocks: its words, and each tool call as a message of its own."""
        said, when = blocks.words(content), moment(at)
        author: Author | None = {"user": "owner", "assistant": "assistant"}.get(str(role))  # type: ignore[assignment]
        if author is not None and (said or blocks.images(content)):
            is_system = author == "owner" and bool(_INJECTED.match(said))
            yield Message(
                external_id=id_,
                thread=thread,
                author="system" if is_system else author,
                sender=self.agent if author == "assistant" else None,
                content=said,
                at=when,
                kind="system" if is_system else "message",
                reply_to=reply_to,
                attachments=blocks.images(content),
            )
        for number, (brief, kept) in enumerate(blocks.tool_calls(content)):
            yield Message(
                external_id=f"{id_}/tool-{number}", thread=thread, author="tool", content=brief, at=when,
                kind="tool_call", reply_to=reply_to, metadata=kept,
            )  # fmt: skip


class ClaudeCode(Sessions):
    """`~/.claude/projects`: a folder for each project, a file for each session."""

    name: ClassVar[str] = "claude-code"
    title: ClassVar[str] = "Claude Code sessions"
    channel: ClassVar[str] = "claude-code"
    agent: ClassVar[Person] = Person(identifier="claude-code", name="Claude Code", is_automated=True)

    @classmethod
    def is_session(cls, start: bytes) -> bool:
        return b'"sessionId"' in start or b'"leafUuid"' in start

    def entry(self, entry: dict[str, Any], thread: str, offset: int) -> Iterator[Message]:
        message, id_ = record(entry.get("message")), text(entry.get("uuid"))
        if id_ is None or entry.get("isMeta"):
            return
        yield from self.spoken(
            message.get("role"),
            message.get("content"),
            id_=id_,
            thread=thread,
            at=entry.get("timestamp"),
            reply_to=text(entry.get("parentUuid")),
        )


class Codex(Sessions):
    """`~/.codex/sessions`: folders by date, a file `rollout-….jsonl` for each session."""

    name: ClassVar[str] = "codex"
    title: ClassVar[str] = "Codex sessions"
    channel: ClassVar[str] = "codex"
    agent: ClassVar[Person] = Person(identifier="codex", name="Codex", is_automated=True)

    @classmethod
    def session_files(cls, files: Files) -> list[str]:
        return [name for name in files.names() if re.search(r"(?:^|/)rollout-[^/]*\.jsonl$", name)]

    @classmethod
    def is_session(cls, start: bytes) -> bool:
        return start[:1] == b"{"

    def entry(self, entry: dict[str, Any], thread: str, offset: int) -> Iterator[Message]:
        # Older versions wrote the items themselves, newer ones wrap them with a time.
        item = record(entry.get("payload")) if entry.get("type") == "response_item" else entry
        id_, at = f"{thread}/{offset}", entry.get("timestamp")
        if item.get("type") == "message":
            yield from self.spoken(item.get("role"), item.get("content"), id_=id_, thread=thread, at=at)
        elif blocks.tool_call(item) is not None:
            yield from self.spoken(None, [item], id_=id_, thread=thread, at=at)


class OpenClaw(Sessions):
    """`~/.openclaw`: a folder for each agent, with a file for each session."""

    name: ClassVar[str] = "openclaw"
    title: ClassVar[str] = "OpenClaw home"
    channel: ClassVar[str] = "openclaw"
    agent: ClassVar[Person] = Person(identifier="openclaw", name="OpenClaw", is_automated=True)

    @classmethod
    def is_session(cls, start: bytes) -> bool:
        first = start.partition(b"\n")[0]
        return b'"type":"session"' in first.replace(b" ", b"")

    def entry(self, entry: dict[str, Any], thread: str, offset: int) -> Iterator[Message]:
        if entry.get("type") != "message":
            return
        message, id_ = record(entry.get("message")), text(entry.get("id")) or str(offset)
        content, role = message.get("content"), message.get("role")
        if role == "toolResult":
            role, content = None, [{"type": "toolResult", "content": content}]
        above = text(entry.get("parentId"))
        yield from self.spoken(
            role,
            content,
            id_=f"{thread}/{id_}",
            thread=thread,
            at=entry.get("timestamp"),
            reply_to=f"{thread}/{above}" if above else None,
        )
