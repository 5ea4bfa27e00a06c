"""The agent of a home as editors talk with it, over the Agent Client Protocol.

A session of the editor is a session of the home, by its label: `nexus chat`, the dashboard and channels can
continue it, and the editor continues theirs.
"""

import asyncio
import base64
import binascii
import json
import os
import re
import signal
import stat
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

import acp
from acp import schema
from acp.interfaces import Client as Editor

from nexus import __version__, commands
from nexus.attachments import File
from nexus.cli.chat import new_label
from nexus.cli.place import note
from nexus.cli.screen import shorten_arguments
from nexus.cli.talk import Talk, open_talk
from nexus.config import Config
from nexus.context.wrapping import wrapped
from nexus.errors import MissingError, NexusError, StoppedError, UsageError
from nexus.home import Home
from nexus.request import check_label
from nexus.results import WaitingCall
from nexus.runs import Delta, FinishedRun, Run
from nexus.text import join_lines

P = ParamSpec("P")
T = TypeVar("T")
Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)
Option = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean

_LINE_BYTES: Final = 64 * 1024 * 1024
_SHOWN_FILE_BYTES: Final = 1024 * 1024
_SHOWN_RESULT_CHARACTERS: Final = 20_000
_NAME_CHARACTERS: Final = 200
_PAGE: Final = 100
_MOST_REPLAYED_PAGES: Final = 20
_LOOK_S: Final = 0.5
_DEFAULT_MODEL: Final = "default"
_EDITOR_TAG: Final = "editor"
_ABOUT_EDITOR: Final = re.compile(rf"\s*<{_EDITOR_TAG}>\n.*\n</{_EDITOR_TAG}>\Z", re.DOTALL)
_KINDS: Final[dict[str, schema.ToolKind]] = {
    "read": "read", "write": "edit", "edit": "edit", "bash": "execute", "recall": "search",
    "web_search": "search", "web_fetch": "fetch",
}  # fmt: skip
_EDITOR_COMMANDS: Final = frozenset({"new", "stop"})
"""Commands for which an editor has a button."""


async def serve(home: Home, settings: Config, model: str) -> None:
    """Answer an editor until it closes its end."""
    streams = await _take_stdio()
    try:
        async with open_talk(home, settings, model) as talk:
            await _answer(EditorAgent(talk, home, settings, model), *streams)
    except NexusError as error:
        await _answer(_Refusal(error), *streams)


async def refuse(error: NexusError) -> None:
    """Tell an editor why it can't talk with the agent."""
    await _answer(_Refusal(error), *await _take_stdio())


async def _take_stdio() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Standard input and output for the protocol alone: whatever else is printed goes to standard error."""
    if not all(map(_is_stream, (0, 1))):
        raise UsageError("Standard input and output are no pipes", hint="Have an editor start `nexus acp`.")
    given, taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(given, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(taken, "wb", buffering=0)
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _is_stream(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def _answer(agent: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    answering = asyncio.ensure_future(acp.run_agent(agent, writer, reader))
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, answering.cancel)
    with suppress(asyncio.CancelledError):
        await answering


def _as_request_error(error: NexusError) -> acp.RequestError:
    code = -32002 if isinstance(error, MissingError) else -32602 if isinstance(error, UsageError) else -32603
    return acp.RequestError(code, f"{error.message}. {error.hint}" if error.hint else error.message)


def _answers(
    work: Callable[Concatenate["EditorAgent", P], Awaitable[T]],
) -> Callable[Concatenate["EditorAgent", P], Coroutine[Any, Any, T]]:
    """Answer a request that failed with what to do about it."""

    @wraps(work)
    async def answer(agent: "EditorAgent", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await work(agent, *args, **kwargs)
        except NexusError as error:
            raise _as_request_error(error) from None

    return answer


def _introduce() -> schema.InitializeResponse:
    return schema.InitializeResponse(
        protocol_version=acp.PROTOCOL_VERSION,
        agent_info=schema.Implementation(name="nexus", title="Nexus", version=__version__),
        agent_capabilities=schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
            session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
        ),
        auth_methods=[],
    )


class _Refusal:
    """What answers where the home can't be talked with."""

    def __init__(self, error: NexusError) -> None:
        self._error = error

    async def initialize(self, **_: Any) -> schema.InitializeResponse:
        return _introduce()

    async def new_session(self, **_: Any) -> None:
        raise _as_request_error(self._error)

    load_session = list_sessions = new_session


@dataclass(eq=False)
class _Prompt:
    """A message of the editor until everything that it led to was shown."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    run: Run | None = None


@dataclass(kw_only=True)
class _Session:
    """A session that an editor has open."""

    label: str
    folder: str
    """The folder that the editor has open."""
    model: str
    is_folder_told: bool = False
    followed: set[str] = field(default_factory=set[str])
    """Runs that were shown, or are being shown."""
    last_run: str = ""
    prompts: set[_Prompt] = field(default_factory=set[_Prompt])


class EditorAgent:
    """Answers the requests of an editor: the methods are those of the protocol."""

    def __init__(self, talk: Talk, home: Home, settings: Config, model: str) -> None:
        self._talk = talk
        self._home = home
        self._settings = settings
        self._model = model
        self._sessions: dict[str, _Session] = {}
        self._editor: Editor | None = None

    def on_connect(self, conn: Editor) -> None:
        self._editor = conn

    @property
    def editor(self) -> Editor:
        """The program at the other end."""
        assert self._editor is not None  # noqa: S101 - it is connected before the first request
        return self._editor

    async def initialize(self, **_: Any) -> schema.InitializeResponse:
        return _introduce()

    @_answers
    async def new_session(
        self, *, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        session = self._open(new_label(), cwd, mcp_servers)
        return schema.NewSessionResponse(session_id=session.label, config_options=self._options(session))

    @_answers
    async def load_session(
        self, *, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        check_label(session_id)
        pages = [await self._talk.transcript(session_id, _PAGE)]
        while pages[-1].next and len(pages) < _MOST_REPLAYED_PAGES:
            pages.append(await self._talk.transcript(session_id, _PAGE, pages[-1].next))
        session = self._open(session_id, cwd, mcp_servers)
        if pages[-1].next:
            await self.show(session, acp.update_agent_message_text("*(Earlier messages are left out.)*"))
        for page in reversed(pages):
            for message in page.items:
                if message.turn_kind == "exchange" and not message.replaced:
                    await self._replay(session, message)
        return schema.LoadSessionResponse(config_options=self._options(session))

    @_answers
    async def list_sessions(
        self, *, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        found, following = await self._talk.sessions(_PAGE, cursor)
        # The conversations of a home belong to no folder: each can be continued in any.
        folder = cwd or str(Path.home())
        listed = [
            schema.SessionInfo(
                session_id=each.label, cwd=folder, title=each.title, updated_at=each.updated_at
            )
            for each in found
        ]
        return schema.ListSessionsResponse(sessions=listed, next_cursor=following)

    @_answers
    async def set_config_option(
        self, *, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self._get(session_id)
        if config_id != "model" or value not in {_DEFAULT_MODEL, *self._settings.models.roles}:
            raise UsageError(f"Unknown option {config_id}={value}")
        session.model = self._model if value == _DEFAULT_MODEL else str(value)
        return schema.SetSessionConfigOptionResponse(config_options=self._options(session))

    @_answers
    async def prompt(self, *, session_id: str, prompt: list[Block], **_: Any) -> schema.PromptResponse:
        session, this = self._get(session_id), _Prompt()
        session.prompts.add(this)
        try:
            return schema.PromptResponse(stop_reason=await self._carry_out(session, this, prompt))
        finally:
            session.prompts.discard(this)

    async def cancel(self, *, session_id: str, **_: Any) -> None:
        session = self._sessions.get(session_id)
        for each in tuple(session.prompts) if session else ():
            each.cancelled.set()
            if each.run is not None:
                await each.run.cancel()

    # Parts

    def _get(self, session_id: str) -> _Session:
        if session_id not in self._sessions:
            raise MissingError(f"Unknown session {session_id}", hint="Create or load it first.")
        return self._sessions[session_id]

    def _open(self, label: str, folder: str, mcp_servers: list[Any] | None) -> _Session:
        if mcp_servers:
            names = ", ".join(str(each.name) for each in mcp_servers)
            note(f"The editor's MCP servers ({names}) aren't used. Add them to {self._home.config_file}.")
        session = self._sessions[label] = _Session(label=label, folder=folder, model=self._model)
        # After the response, without which the editor doesn't know the session.
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self._show_commands(session)))
        return session

    async def _show_commands(self, session: _Session) -> None:
        usable = [each for each in commands.list_for("message") if each.name not in _EDITOR_COMMANDS]
        listed = [
            schema.AvailableCommand(
                name=each.name,
                description=each.about,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=each.arguments))
                if each.arguments
                else None,
            )
            for each in usable
        ]
        with suppress(ConnectionError):
            await self.show(
                session,
                schema.AvailableCommandsUpdate(
                    session_update="available_commands_update", available_commands=listed
                ),
            )

    def _options(self, session: _Session) -> list[Option]:
        names = [_DEFAULT_MODEL, *self._settings.models.roles]
        current = session.model if session.model in names else _DEFAULT_MODEL
        return [
            schema.SessionConfigOptionSelect(
                type="select",
                id="model",
                name="Model",
                category="model",
                current_value=current,
                options=[schema.SessionConfigSelectOption(value=each, name=each) for each in names],
            )
        ]

    async def show(self, session: _Session, update: Any) -> None:
        """Tell the editor what is new in a session."""
        await self.editor.session_update(session_id=session.label, update=update)

    async def _carry_out(self, session: _Session, this: _Prompt, prompt: list[Block]) -> schema.StopReason:
        text, files = _read_prompt(prompt, session.folder)
        if files or commands.parse(text) is None:
            text = self._add_folder(session, text)
        if session.last_run:
            earlier = await self._talk.runs_after(session.label, session.last_run)
        else:
            earlier = await self._talk.active_runs(session.label)
        receipt = await self._talk.receive(
            text, session_label=session.label, model=session.model, files=files
        )
        # What is being answered already comes first: a call of it may wait for an approval.
        for run in (*earlier, receipt.run):
            await self._follow(session, this, run)
        while receipt.execution_id and not this.cancelled.is_set():
            at_work = await self._talk.workers_at_work(receipt.execution_id)
            for run in await self._talk.runs_after(session.label, session.last_run):
                await self._follow(session, this, run)
            if not at_work:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await this.cancelled.wait()
        return "cancelled" if this.cancelled.is_set() else "end_turn"

    def _add_folder(self, session: _Session, text: str) -> str:
        """A message with the folder that the editor has open, of which the agent is told once."""
        if session.is_folder_told:
            return text
        session.is_folder_told = True
        return f"{text}\n\n{wrapped(_EDITOR_TAG, f'Project folder: {session.folder}')}"

    async def _follow(self, session: _Session, this: _Prompt, run: Run) -> None:
        """Show a run until it has ended."""
        if run.id in session.followed:
            return
        session.followed.add(run.id)
        this.run = run
        if this.cancelled.is_set():
            await run.cancel()
        shown = _Shown(self, session, run)
        try:
            async for delta in run.deltas():
                await shown.show(delta)
            result = await run.result()
            if not shown.has_answer and result.response.content:
                await shown.say(result.response.content)
        except StoppedError:
            this.cancelled.set()  # here or elsewhere
        finally:
            if not isinstance(run, FinishedRun):  # its id is a request's
                session.last_run = max(session.last_run, run.id)
            this.run = None
            await shown.close()

    async def _replay(self, session: _Session, message: Any) -> None:
        """Show a message of an earlier conversation, with the calls that it made."""
        if message.role == "user":
            said = _ABOUT_EDITOR.sub("", message.said or message.content)
            if said:
                await self.show(session, acp.update_user_message_text(said))
            return
        if message.content:
            await self.show(session, acp.update_agent_message_text(message.content))
        for call in message.calls:
            started = _start_call(f"{call.turn_id}:{call.id}", call.tool_name, call.arguments, self, session)
            started.status = "failed" if call.error else "completed"
            said = call.error or call.result
            if said:
                started.content = [*(started.content or []), _as_content(said)]
            await self.show(session, started)

    def resolve(self, path: str) -> str:
        """Where a path of a tool leads: relative ones begin where the tools do."""
        if Path(path).is_absolute():
            return os.path.normpath(path)
        # Imported here: where another process serves the home, nothing else needs what it takes.
        from nexus.pipeline import incoming

        grants = incoming.owner(self._settings.tools, self._home).directories
        writable = [each.path for each in grants if each.writable]
        begin = next(iter([*writable, *(each.path for each in grants)]), "/")
        return os.path.normpath(Path(begin, path))

    async def ask(self, session: _Session, delta: Delta, call_id: str) -> None:
        """Ask the person at the editor about a call that waits."""
        waiting = await self._talk.waiting_call(delta.approval_id)
        if waiting is None or waiting.call_hash != delta.call_hash:
            return
        call = schema.ToolCallUpdate(
            tool_call_id=call_id,
            title=_title(delta.tool, json.dumps(dict(waiting.arguments))),
            status="pending",
            content=[*await _diffs(self, session, delta.tool, waiting.arguments), _as_content(delta.text)],
        )
        try:
            answer = await self.editor.request_permission(
                session_id=session.label, tool_call=call, options=_choices(waiting)
            )
        except acp.RequestError as error:
            note(f"The editor can't ask for an approval ({error}). Run `nexus approvals`.")
            return
        if not isinstance(answer.outcome, schema.AllowedOutcome):
            return  # it goes on waiting, and can be decided elsewhere
        decision = answer.outcome.option_id
        if decision not in {"once", "session", "always"}:
            decision = "deny"
        try:
            await self._talk.decide(delta.approval_id, decision, delta.call_hash)  # pyright: ignore[reportArgumentType] - one of its words
        except UsageError as error:  # somebody else was quicker
            note(f"{error.message}. {error.hint}")


class _Shown:
    """One run as it is shown in an editor."""

    def __init__(self, agent: EditorAgent, session: _Session, run: Run) -> None:
        self._agent = agent
        self._session = session
        self._run_id = run.id
        self._message = 0
        self._calls: dict[str, str] = {}
        """The tool of each call that is under way."""
        self._questions: dict[str, tuple[Delta, asyncio.Task[None]]] = {}
        self._waits_for = ""
        self.has_answer = False
        """Whether text of the model's last answer was shown."""

    async def say(self, text: str) -> None:
        """Show a piece of the answer."""
        await self._update(
            schema.AgentMessageChunk(
                session_update="agent_message_chunk",
                content=acp.text_block(text),
                message_id=f"{self._run_id}:{self._message}",
            )
        )

    async def show(self, delta: Delta) -> None:
        """Show what comes next of a run."""
        if delta.kind not in {"waiting", "restart", "status"}:
            self._waits_for = ""
        match delta.kind:
            case "begin":
                self._message += 1
                self.has_answer = False
            case "text":
                self.has_answer = True
                await self.say(delta.text)
            case "thinking":
                await self._update(acp.update_agent_thought_text(delta.text))
            case "restart":
                if self.has_answer:
                    # The protocol can't take back what was shown.
                    why = delta.text or "The answer broke off"
                    await self.say(f"\n\n*({why}. It follows again.)*\n\n")
                self._message += 1
                self.has_answer = False
            case "waiting":
                if delta.text != self._waits_for:
                    self._waits_for = delta.text
                    await self._update(acp.update_agent_thought_text(f"{delta.text}. Waiting…\n"))
            case "tool_call":
                await self._show_call(delta)
            case "approval":
                self._ask(delta)
            case "tool_result":
                await self._show_result(delta)
            case _:
                pass

    async def close(self) -> None:
        """Take back what is being asked, and end the calls that have no result."""
        for call_id in tuple(self._questions):
            self._drop_question(call_id)
        for call_id in self._calls:
            await self._update(acp.update_tool_call(self._name(call_id), status="failed"))

    async def _update(self, update: Any) -> None:
        with suppress(ConnectionError):  # the run goes on without an editor
            await self._agent.show(self._session, update)

    def _name(self, call_id: str) -> str:
        # Some models number the calls of each answer from one.
        return f"{self._run_id}:{call_id}"

    async def _show_call(self, delta: Delta) -> None:
        is_new = delta.call_id not in self._calls
        self._calls[delta.call_id] = delta.tool
        if not is_new:
            return
        call = _start_call(self._name(delta.call_id), delta.tool, delta.text, self._agent, self._session)
        call.content = [
            *await _diffs(self._agent, self._session, delta.tool, _read_arguments(delta.text))
        ] or None
        await self._update(call)

    async def _show_result(self, delta: Delta) -> None:
        self._drop_question(delta.call_id)
        tool = self._calls.pop(delta.call_id, delta.tool)
        keeps_diff = _KINDS.get(tool) == "edit" and not delta.failed
        await self._update(
            acp.update_tool_call(
                self._name(delta.call_id),
                status="failed" if delta.failed else "completed",
                content=[_as_content(delta.text)] if delta.text and not keeps_diff else None,
            )
        )

    def _ask(self, delta: Delta) -> None:
        if self._questions.get(delta.call_id, (None,))[0] == delta:
            return
        self._drop_question(delta.call_id)
        asking = asyncio.ensure_future(self._agent.ask(self._session, delta, self._name(delta.call_id)))
        asking.add_done_callback(_note_failure)
        self._questions[delta.call_id] = delta, asking

    def _drop_question(self, call_id: str) -> None:
        if (found := self._questions.pop(call_id, None)) is not None:
            found[1].cancel()


def _note_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        note(f"A question couldn't be asked in the editor: {error}. See `nexus approvals`.")


def _choices(waiting: WaitingCall) -> list[schema.PermissionOption]:
    wider = [
        schema.PermissionOption(
            option_id="session",
            name=f"Allow every call of {waiting.tool} in this session",
            kind="allow_always",
        ),
        schema.PermissionOption(
            option_id="always", name=f"Always allow: {waiting.always}", kind="allow_always"
        ),
    ]
    return [
        schema.PermissionOption(option_id="once", name="Allow once", kind="allow_once"),
        *(wider if waiting.always else []),
        schema.PermissionOption(option_id="deny", name="Deny", kind="reject_once"),
    ]


def _start_call(
    id_: str, tool: str, arguments: str, agent: EditorAgent, session: _Session
) -> schema.ToolCallStart:
    given = _read_arguments(arguments)
    path = given.get("path") if tool in {"read", "write", "edit"} else None
    line = given.get("first_line")
    locations = (
        [schema.ToolCallLocation(path=agent.resolve(path), line=line if isinstance(line, int) else None)]
        if isinstance(path, str)
        else None
    )
    return acp.start_tool_call(
        id_,
        _title(tool, arguments),
        kind=_KINDS.get(tool, "other"),
        status="in_progress",
        locations=locations,
        raw_input=given or None,
    )


def _title(tool: str, arguments: str) -> str:
    return f"{tool} {shorten_arguments(arguments)}".rstrip()


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _as_content(text: str) -> schema.ContentToolCallContent:
    """A text as it is: nothing in it is markup."""
    if len(text) > _SHOWN_RESULT_CHARACTERS:
        text = f"{text[:_SHOWN_RESULT_CHARACTERS]}\n[{len(text) - _SHOWN_RESULT_CHARACTERS:,} characters cut]"
    fence = "`" * max(3, 1 + max((len(each) for each in re.findall("`+", text)), default=0))
    return acp.tool_content(acp.text_block(f"{fence}\n{text}\n{fence}"))


async def _diffs(
    agent: EditorAgent, session: _Session, tool: str, arguments: Any
) -> list[schema.FileEditToolCallContent]:
    """What a call changes in a file."""
    path = arguments.get("path")
    before, after = ("old", "new") if tool == "edit" else ("", "content")
    if tool not in {"edit", "write"} or not isinstance(path, str):
        return []
    new, old = arguments.get(after), arguments.get(before)
    if not isinstance(new, str) or not isinstance(old, str | None):
        return []
    place = agent.resolve(path)
    if tool == "write":
        old = await asyncio.to_thread(_read_text, place, session.folder)
    return [acp.tool_diff_content(place, new, None if old == new else old)]


def _read_text(path: str, folder: str) -> str | None:
    """A text file below the folder that the editor has open; no other is looked at."""
    found = Path(path).resolve()
    if not found.is_relative_to(Path(folder).resolve()) or not found.is_file():
        return None
    try:
        with found.open("rb") as file:
            data = file.read(_SHOWN_FILE_BYTES + 1)
        return data.decode() if len(data) <= _SHOWN_FILE_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


def _read_prompt(prompt: list[Block], folder: str) -> tuple[str, list[File]]:
    """What a person said in an editor, and the files that came with it."""
    words: list[str] = []
    files: list[File] = []
    for block in prompt:
        match block:
            case schema.TextContentBlock():
                words.append(block.text)
            case schema.ImageContentBlock():
                name = _name_of(block.uri, folder) if block.uri else f"image {len(files) + 1}"
                files.append(File(name=name, data=_decode(block.data, name)))
            case schema.ResourceContentBlock():
                words.append(f"[{block.name}]({_name_of(block.uri, folder)})")
            case schema.EmbeddedResourceContentBlock():
                name = _name_of(block.resource.uri, folder)
                is_text = isinstance(block.resource, schema.TextResourceContents)
                data = block.resource.text.encode() if is_text else _decode(block.resource.blob, name)
                files.append(File(name=name, data=data))
                words.append(f"`{name}`")
            case _:
                raise UsageError("Audio isn't supported", hint="Write it as text.")
    text = "".join(words)
    if not text.strip() and not files:
        raise UsageError("The message is empty")
    return text if text.strip() else ", ".join(each.name for each in files), files


def _name_of(uri: str, folder: str) -> str:
    """A file's path in the project, or what else it is known by. `#L3:9` says which lines."""
    parts = urlsplit(uri)
    name = uri
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        with suppress(ValueError):
            path = path.relative_to(folder)
        name = f"{path}#{parts.fragment}" if parts.fragment else str(path)
    name = join_lines(name)
    return name if len(name) <= _NAME_CHARACTERS else f"…{name[1 - _NAME_CHARACTERS :]}"


def _decode(data: str, name: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"{name} isn't valid Base64") from None
