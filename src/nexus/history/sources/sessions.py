"""Sessions of coding agents: folders of JSONL files, one file per session."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from nexus.history import json_stream
from nexus.history.files import Files
from nexus.history.items import (
    AgentSession,
    Author,
    Item,
    Mark,
    Message,
    Person,
    SessionMessage,
    SetAside,
    Thread,
)
from nexus.history.source import (
    Source,
    as_object,
    as_text,
    make_cursor,
    parse_moment,
    read_beginning,
    read_lines,
    remaining_files,
    set_failures_aside,
)
from nexus.history.sources import blocks

# What the programs themselves say in the user's place.
_INJECTED: Final = re.compile(
    r"\s*<(?:environment_context|user_instructions|system-reminder|command-name|local-command|permissions)"
)


@dataclass(slots=True)
class Transcript:
    """One file, with what its lines so far say about those that follow."""

    thread: str
    session: AgentSession
    is_named: bool = False
    """Whether a line has named the session; else it has the name of the file."""
    model: str | None = None


class Sessions(Source):
    """What the formats share: every line is an entry, and every file a thread."""

    agent: ClassVar[Person]

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(
            cls.is_session(read_beginning(files, name, 8192)) for name in cls.session_files(files)[:20]
        )

    @classmethod
    def session_files(cls, files: Files) -> list[str]:
        return [name for name in files.names() if name.endswith(".jsonl")]

    @classmethod
    def is_session(cls, start: bytes) -> bool:
        """Whether a file begins as this format does."""
        raise NotImplementedError

    def follow(self, entry: dict[str, Any], transcript: Transcript) -> None:
        """Note what a line says about its session."""
        raise NotImplementedError

    def entry(
        self, entry: dict[str, Any], transcript: Transcript, offset: int
    ) -> Iterator[Message | SessionMessage]:
        """Return the messages of one line."""
        raise NotImplementedError

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(self.session_files(self.files), cursor):
            if self.is_session(read_beginning(self.files, name, 8192)):
                yield from self._file(name, start)

    def _file(self, name: str, start: int) -> Iterator[Item]:
        thread = re.sub(r"\.jsonl$", "", name)
        title = thread.rpartition("/")[2]
        yield Thread(external_id=thread, kind="session", title=title)
        transcript = Transcript(thread=thread, session=AgentSession(id=title))
        try:
            with self.files.open(name) as stream:
                # Also when it is resumed, it is read from its beginning: there the session says which it is.
                for offset, line in read_lines(stream):
                    yield from self._line(line, transcript, name, offset, is_known=offset <= start)
        except (OSError, EOFError, ValueError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=name)

    def _line(
        self, line: bytes | None, transcript: Transcript, name: str, offset: int, *, is_known: bool
    ) -> Iterator[Item]:
        place, entry, reason = f"{name}, line that ends at byte {offset}", dict[str, Any](), ""
        if line is None:
            reason = "the line is longer than 16 MiB"
        elif line.strip():
            try:
                entry = as_object(json_stream.parse(line))
            except ValueError:
                reason = "the line is not valid JSON"
        self.follow(entry, transcript)
        if is_known:
            return
        if reason:
            yield SetAside(reason=reason, place=place)
        elif entry:
            yield from set_failures_aside(self.entry(entry, transcript, offset), place)
        yield Mark(make_cursor(name, offset))

    def read_blocks(
        self,
        role: object,
        content: object,
        transcript: Transcript,
        *,
        id_: str,
        at: object,
        reply_to: str | None = None,
        in_session: str | None = None,
        model: str | None = None,
    ) -> Iterator[Message | SessionMessage]:
        """Read a message of blocks: its words, each tool call as its own message, then all of it in full.

        `in_session` is what the program calls the message, where `id_` rests on the name of the file.
        """
        said, images, when = blocks.read_words(content), blocks.read_images(content), parse_moment(at)
        author: Author | None = {"user": "owner", "assistant": "assistant"}.get(str(role))  # type: ignore[assignment]
        is_injected = author == "owner" and bool(_INJECTED.match(said))
        messages: list[Message] = []
        if author is not None and (said or images):
            messages.append(
                Message(
                    external_id=id_,
                    thread=transcript.thread,
                    author="system" if is_injected else author,
                    sender=self.agent if author == "assistant" else None,
                    content=said,
                    at=when,
                    kind="system" if is_injected else "message",
                    reply_to=reply_to,
                    attachments=images,
                )
            )
        results = blocks.read_results(content)
        speaker: Literal["system", "user", "assistant", "tool"] = "assistant"
        if messages and author == "owner":
            speaker = "system" if is_injected else "user"
        elif results and not messages:
            speaker = "tool"
        for number, (brief, kept) in enumerate(blocks.brief_calls(content)):
            messages.append(
                Message(
                    external_id=f"{id_}/tool-{number}",
                    thread=transcript.thread,
                    author="tool",
                    content=brief,
                    at=when,
                    kind="tool_call",
                    reply_to=reply_to,
                    metadata=kept,
                )
            )
        if messages:
            yield from messages
            yield SessionMessage(
                external_id=in_session or id_,
                session=transcript.session,
                role=speaker,
                content=said or "\n".join(each.content for each in results),
                message=messages[0].external_id,
                model=(model or transcript.model) if speaker == "assistant" else None,
                calls=blocks.read_calls(content),
                results=results,
            )


class ClaudeCode(Sessions):
    """`~/.claude/projects`: a folder for each project, a file for each session."""

    name: ClassVar[str] = "claude-code"
    title: ClassVar[str] = "Claude Code sessions"
    channel: ClassVar[str] = "claude-code"
    agent: ClassVar[Person] = Person(identifier="claude-code", name="Claude Code", is_automated=True)

    @classmethod
    def is_session(cls, start: bytes) -> bool:
        return b'"sessionId"' in start or b'"leafUuid"' in start

    def follow(self, entry: dict[str, Any], transcript: Transcript) -> None:
        if (id_ := as_text(entry.get("sessionId"))) is None:
            return
        parent, project = None, as_text(entry.get("cwd"))
        if entry.get("isSidechain"):
            # Older versions wrote what subagents said between the lines of the session that started them.
            parent, id_ = id_, f"{id_}/{as_text(entry.get('agentId')) or 'subagents'}"
        transcript.session = AgentSession(id=id_, project=project, parent=parent)

    def entry(
        self, entry: dict[str, Any], transcript: Transcript, offset: int
    ) -> Iterator[Message | SessionMessage]:
        message, id_ = as_object(entry.get("message")), as_text(entry.get("uuid"))
        if id_ is None or entry.get("isMeta"):
            return
        model = as_text(message.get("model"))
        yield from self.read_blocks(
            message.get("role"),
            message.get("content"),
            transcript,
            id_=id_,
            at=entry.get("timestamp"),
            reply_to=as_text(entry.get("parentUuid")),
            model=None if model == "<synthetic>" else model,
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

    def follow(self, entry: dict[str, Any], transcript: Transcript) -> None:
        type_, payload = entry.get("type"), as_object(entry.get("payload"))
        if type_ == "turn_context":
            transcript.model = as_text(payload.get("model")) or transcript.model
        # Older versions wrote it without a type. A session that goes on with another one repeats its lines.
        about = payload if type_ == "session_meta" else entry if type_ is None else {}
        if not transcript.is_named and (id_ := as_text(about.get("id"))):
            transcript.session = AgentSession(id=id_, project=as_text(about.get("cwd")))
            transcript.is_named = True

    def entry(
        self, entry: dict[str, Any], transcript: Transcript, offset: int
    ) -> Iterator[Message | SessionMessage]:
        # Older versions wrote the items themselves, newer ones wrap them with a time.
        item = as_object(entry.get("payload")) if entry.get("type") == "response_item" else entry
        is_message = item.get("type") == "message"
        if is_message or blocks.brief_call(item) is not None:
            yield from self.read_blocks(
                item.get("role") if is_message else None,
                item.get("content") if is_message else [item],
                transcript,
                id_=f"{transcript.thread}/{offset}",
                in_session=f"{transcript.session.id}/{offset}",
                at=entry.get("timestamp"),
            )


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

    def follow(self, entry: dict[str, Any], transcript: Transcript) -> None:
        if entry.get("type") == "session" and (id_ := as_text(entry.get("id"))):
            transcript.session = AgentSession(id=id_, project=as_text(entry.get("cwd")))
        elif entry.get("type") == "model_change":
            transcript.model = as_text(entry.get("modelId")) or transcript.model

    def entry(
        self, entry: dict[str, Any], transcript: Transcript, offset: int
    ) -> Iterator[Message | SessionMessage]:
        if entry.get("type") != "message":
            return
        message, id_ = as_object(entry.get("message")), as_text(entry.get("id")) or str(offset)
        content, role = message.get("content"), message.get("role")
        if role == "toolResult":
            result = {"type": "toolResult", "content": content, "is_error": message.get("isError")}
            role, content = None, [{**result, "call_id": message.get("toolCallId")}]
        above = as_text(entry.get("parentId"))
        yield from self.read_blocks(
            role,
            content,
            transcript,
            id_=f"{transcript.thread}/{id_}",
            in_session=f"{transcript.session.id}/{id_}",
            at=entry.get("timestamp"),
            reply_to=f"{transcript.thread}/{above}" if above else None,
            model=as_text(message.get("model")),
        )
