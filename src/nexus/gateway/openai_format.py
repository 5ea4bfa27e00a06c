"""OpenAI's wire format, under /v1, for programs that speak it: its "models" are this home's agent.

A client of that format sends a conversation whole each time. What it said before is recognized by a hash of
the history, kept in the id of each message, so that only what is new is recorded. If the newest message is
asked again with the same history, it takes the place of what was said there. The agent is always shown the
history that the client shows: what was replaced, and is continued even so, begins a session of its own.
"""

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, Final, TypeVar, cast
from weakref import WeakValueDictionary

import anyio
from fastapi import FastAPI
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nexus import ids
from nexus.app import App
from nexus.attachments import File
from nexus.engine.errors import EndedError
from nexus.errors import MissingError, NexusError, StoppedError
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import describe_for_openai, status_of
from nexus.ledgers import events
from nexus.ledgers.agents import turns
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.executions import Execution
from nexus.runs import FinishedRun, Receipt, Result, Run, Totals

AGENT: Final = "nexus"
_WORKER: Final = f"{AGENT}:worker"
_CHANNEL: Final = "api"
_KEPT_ALIVE_S: Final = 15.0
_LABEL_CHARACTERS: Final = 180
_MOST_MESSAGES: Final = 10_000
_REFUSED: Final = {
    "tools": "Tools of the client can't be called: the agent has its own. Turn them off in the client",
    "functions": "Functions of the client can't be called: turn them off in the client",
    "web_search_options": "The agent searches the web by itself if your settings let it",
    "audio": "Audio isn't supported",
    "logprobs": "Log probabilities aren't available",
    "top_logprobs": "Log probabilities aren't available",
    "stop": "Stop sequences aren't supported",
    "background": "Background responses aren't supported: use POST /api/messages",
    "prompt": "Stored prompts aren't supported",
}
"""What can't be left out without changing what the client gets, and why it isn't done."""
_HARMLESS: Final[dict[str, tuple[Any, ...]]] = {
    "n": (1,),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
}
"""Which values of other fields ask for nothing that isn't done."""
_HALF_CHARACTER: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half of a surrogate pair, perhaps without the other half. Nothing that it is written to takes that."""
_FINAL_ERROR: Final = {"x-should-retry": "false"}
"""OpenAI's clients send a request again after most errors; what was recorded would be said twice."""


class _Refusal(Exception):  # noqa: N818 - it is an answer
    """Why a request isn't taken, in OpenAI's words."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None):
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code


class _Lenient(BaseModel):
    """Fields that aren't known, such as a temperature, are left out."""

    model_config = ConfigDict(extra="ignore")


class _Part(_Lenient):
    type: str
    text: str = ""
    image_url: Any = None
    file: dict[str, Any] | None = None
    filename: str | None = None
    file_data: str | None = None


class _Message(_Lenient):
    type: str = "message"
    role: str = "user"
    content: str | list[_Part] | None = None

    @property
    def text(self) -> str:
        if not isinstance(self.content, list):
            return self.content or ""
        return "\n\n".join(part.text for part in self.content if part.text)


def _as_messages(given: Any) -> Any:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


class _Asked(_Lenient):
    """What both forms share."""

    model: str = Field(default=AGENT, max_length=200)
    messages: Annotated[list[_Message], BeforeValidator(_as_messages)] = Field(
        min_length=1, max_length=_MOST_MESSAGES
    )
    stream: bool | None = False
    user: str | None = Field(default=None, max_length=500)


_AskedT = TypeVar("_AskedT", bound=_Asked)


class _Completion(_Asked):
    stream_options: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None


class _ResponseAsked(_Asked):
    messages: Annotated[list[_Message], BeforeValidator(_as_messages)] = Field(
        min_length=1, max_length=_MOST_MESSAGES, alias="input"
    )
    instructions: str | None = None
    conversation: str | dict[str, Any] | None = None
    previous_response_id: str | None = None
    text: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """A message that was said before, and one run that answered it."""

    session_label: str
    newest: str
    """The hash of the history up to it; empty if it was not said by this API."""
    before: str
    """The hash of the history up to the user's message before it."""
    request_id: str
    run: Execution | None
    """None if it was answered without an agent."""
    answer: str | None

    @property
    def run_id(self) -> str:
        return "" if self.run is None else self.run.id

    def was_answered(self, shown: str) -> bool:
        """Whether a client shows how it ended: the answer, perhaps after words that came before a tool.

        Of a run that was stopped a client shows as much as it got.
        """
        if self.run is not None and self.run.status != "done":
            return self.run.status in executions.FINAL
        return self.answer is not None and shown.endswith(self.answer.strip())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a message belongs: its session, and the run whose message it replaces."""

    session_label: str
    is_new: bool = False
    replaces: str | None = None
    fork_of: tuple[str, str] | None = None
    """The session that a new one forks off, and the last run that they share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Conversation:
    """What a client sent: its newest message, and what was said before."""

    newest: _Message
    earlier: list[_Message]
    instructions: str

    @classmethod
    def parse(cls, messages: list[_Message], instructions: str = "") -> "_Conversation":
        spoken = [each for each in messages if each.role not in ("system", "developer")]
        said = [each for each in spoken if each.role in ("user", "assistant") and each.type == "message"]
        if not said or said[-1].role != "user" or spoken[-1] is not said[-1]:
            raise _Refusal("The last message must be the user's", param="messages")
        rules = [each.text for each in messages if each.role in ("system", "developer")]
        told = "\n\n".join(filter(None, [instructions, *rules]))
        return cls(newest=said[-1], earlier=said[:-1], instructions=told)

    @property
    def last_answer(self) -> str:
        """What the client was answered last, as it shows it."""
        at = max((at for at, each in enumerate(self.earlier) if each.role == "user"), default=-1)
        return "\n\n".join(each.text for each in self.earlier[at + 1 :]).strip()

    def hash_history(self, name: str) -> tuple[str, str]:
        """Hash what was said up to the newest message, and up to the user's one before, if there is one.

        What is said in a conversation with a name is found by that name alone.
        """
        said = hashlib.sha256(name.encode("utf-8", "replace"))
        hashes = [said.hexdigest()[:32] if name else ""]
        for each in (*self.earlier, self.newest):
            said.update(json.dumps([each.role, each.text]).encode())
            if each.role == "user":
                hashes.append(said.hexdigest()[:32])
        return hashes[-1], hashes[-2]


def join(server: FastAPI) -> None:
    """Add the routes."""
    server.router.routes.extend(
        [
            Route("/v1/models", _list_models, methods=["GET"]),
            Route("/v1/models/{model:path}", _show_model, methods=["GET"]),
            Route("/v1/chat/completions", _complete, methods=["POST"]),
            Route("/v1/responses", _respond, methods=["POST"]),
            Route("/v1/responses/{response}", _show_response, methods=["GET"]),
        ]
    )


async def _list_models(request: Request) -> Response:
    app = served_by(request).app
    return JSONResponse({"object": "list", "data": [_describe_model(name) for name in _models_of(app)]})


async def _show_model(request: Request) -> Response:
    name = request.path_params["model"]
    is_known = name in _models_of(served_by(request).app)
    return JSONResponse(_describe_model(name)) if is_known else _tell(_unknown_model(name))


async def _complete(request: Request) -> Response:
    """Answer in the form of Chat Completions."""
    try:
        asked = await _read(request, _Completion)
        _check_format(asked.response_format, "response_format")
        conversation = _Conversation.parse(asked.messages)
        receipt = await _Reception(request, conversation, asked.user).receive(asked.model)
    except (_Refusal, NexusError) as error:
        return _tell(error)
    answer = _CompletionForm(asked.model, receipt)
    if asked.stream:
        usage = bool((asked.stream_options or {}).get("include_usage"))
        return _Stream(receipt.run, answer.stream(with_usage=usage), lambda e: _event(_describe_error(e)))
    return await _wait(request, receipt.run, answer.write)


async def _respond(request: Request) -> Response:
    """Answer in the form of Responses."""
    try:
        asked = await _read(request, _ResponseAsked)
        _check_format((asked.text or {}).get("format"), "text.format")
        conversation = _Conversation.parse(asked.messages, asked.instructions or "")
        named = asked.conversation
        name = str(named.get("id") or "") if isinstance(named, dict) else named
        reception = _Reception(request, conversation, name or asked.user, asked.previous_response_id)
        receipt = await reception.receive(asked.model)
    except (_Refusal, NexusError) as error:
        if isinstance(error, _Refusal) and error.param == "messages":
            error.param = "input"
        return _tell(error)
    answer = _ResponseForm(asked.model, receipt)
    if asked.stream:
        return _Stream(receipt.run, answer.stream(), answer.describe_failure)
    return await _wait(request, receipt.run, answer.write)


async def _show_response(request: Request) -> Response:
    app = served_by(request).app
    try:
        said = await _find_response(app, request.path_params["response"])
    except _Refusal as error:
        return _tell(error)
    run = (
        FinishedRun.of(said.request_id, said.answer or "")
        if said.run is None
        else app.broker.run(said.run.id)
    )
    receipt = Receipt(request_id=said.request_id, run=run, execution_id=said.run_id or None)
    answer = _ResponseForm(AGENT, receipt)
    if said.run is not None and said.run.status not in executions.FINAL and said.run.taken_by is None:
        return JSONResponse(answer.describe("in_progress"))
    try:
        return JSONResponse(answer.write(await run.result()))
    except NexusError as error:
        return JSONResponse(answer.describe_failed(error))


# What is asked.


async def _read(request: Request, form: type[_AskedT]) -> _AskedT:
    raw = await request.body()
    try:
        body = json.loads(raw)
        if _HALF_CHARACTER.search(raw):
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise _Refusal("The body isn't valid JSON") from None
    try:
        asked = TypeAdapter(form).validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _Refusal(f"{place or 'body'}: {first['msg']}", param=place or None) from None
    is_unused = body.get("tool_choice") == "none"
    for name, why in _REFUSED.items():
        if body.get(name) not in (None, False, 0, "", []) and not (is_unused and name == "tools"):
            raise _Refusal(why, param=name, code="unsupported_parameter")
    for name, harmless in _HARMLESS.items():
        if body.get(name) is not None and body[name] not in harmless:
            why = f"`{name}` can only be {' or '.join(map(json.dumps, harmless))}"
            raise _Refusal(why, param=name, code="unsupported_parameter")
    return asked


def _check_format(wanted: Any, param: str) -> None:
    if isinstance(wanted, dict) and cast("dict[str, Any]", wanted).get("type", "text") != "text":
        raise _Refusal("Answers are text only", param=param, code="unsupported_parameter")


def _read_files(message: _Message) -> list[File]:
    """The images and files of a message, which it brings along as `data:` URLs."""
    found: list[File] = []
    for part in message.content if isinstance(message.content, list) else ():
        if part.type in ("text", "input_text", "output_text"):
            continue
        if part.type in ("image_url", "input_image"):
            url = part.image_url
            url = cast("dict[str, Any]", url).get("url") if isinstance(url, dict) else url
            found.append(File(name=f"image-{len(found) + 1}", data=_read_data_url(url)))
        elif part.type in ("file", "input_file"):
            given = part.file or {"filename": part.filename, "file_data": part.file_data}
            name = str(given.get("filename") or f"file-{len(found) + 1}")
            found.append(File(name=name[:200], data=_read_data_url(given.get("file_data"))))
        else:
            raise _Refusal(f"Content of type {part.type!r} isn't supported", param="messages")
    return found


def _read_data_url(url: Any) -> bytes:
    if not isinstance(url, str) or not url.startswith("data:") or ";base64," not in url:
        raise _Refusal("Send images and files as `data:` URLs in Base64: none is fetched", param="messages")
    try:
        return base64.b64decode(url.partition(";base64,")[2], validate=True)
    except ValueError:
        raise _Refusal("A `data:` URL isn't valid Base64", param="messages") from None


# Where it belongs.


_receiving: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()


class _Reception:
    """Takes in what a client sent, where it belongs: what is named, or else where its history was said."""

    def __init__(
        self, request: Request, conversation: _Conversation, name: str | None, response_id: str | None = None
    ) -> None:
        self._app = served_by(request).app
        self._conversation = conversation
        self._name, self._response_id = name, response_id
        # As OpenAI's own clients say it, which send a request again by themselves.
        self._is_retry = request.headers.get("x-stainless-retry-count", "0") != "0"
        self._newest, self._before = conversation.hash_history(response_id or name or "")

    async def receive(self, model: str) -> Receipt:
        """Take it in. A client that sends it again by itself gets the run of its first try."""
        if model not in _models_of(self._app):
            raise _unknown_model(model)
        files, text = _read_files(self._conversation.newest), self._conversation.newest.text
        if not text.strip() and not files:
            raise _Refusal("The last message is empty", param="messages")
        # What follows the same history is taken in one by one, so that the second finds the first.
        async with _receiving.setdefault((id(self._app), self._before or self._newest), asyncio.Lock()):
            first = await self._find_first_try() if self._is_retry else None
            if first is not None and first.status not in executions.FINAL:
                run = self._app.broker.run(first.id)
                return Receipt(request_id=first.request_id, run=run, execution_id=run.id)
            place = await (self._find_place() if first is None else self._take_place_of(first))
            return await self._take_in(model, place, text, files)

    async def _take_in(self, model: str, place: _Place, text: str, files: list[File]) -> Receipt:
        conversation = self._conversation
        if place.is_new and conversation.instructions:
            files.append(
                File(name="instructions.md", data=conversation.instructions.encode("utf-8", "replace"))
            )
        if place.is_new and conversation.earlier:
            earlier = "\n\n".join(f"{each.role}: {each.text}" for each in conversation.earlier)
            files.append(File(name="earlier-messages.md", data=earlier.encode("utf-8", "replace")))
        is_agent = model in (AGENT, _WORKER)
        return await self._app.receive(
            text,
            session_label=place.session_label,
            channel=_CHANNEL,
            role="worker" if model == _WORKER else "manager",
            model="" if is_agent else model,
            has_tools=is_agent,
            external_id=f"openai:{self._newest}:{self._before}:{ids.new('key')}",
            files=files,
            replaces=place.replaces,
            fork_of=place.fork_of,
        )

    async def _find_first_try(self) -> Execution | None:
        """The run of what a client says again by itself, unless it has an answer or something followed."""
        read = self._app.ledgers.runtime.read
        async for said in _list_said(self._app, f"{self._newest}:{self._before}:"):
            newest = await read(executions.newest_in, session_label=said.session_label)
            is_last = said.run is not None and said.run.id == newest and said.run.status != "done"
            return said.run if is_last else None
        return None

    async def _take_place_of(self, first: Execution) -> _Place:
        runs = await self._list_runs(first.session_label)
        return _Place(session_label=first.session_label, replaces=first.id, is_new=runs[:1] == [first.id])

    async def _list_runs(self, label: str, after: str = "") -> list[str]:
        return await self._app.ledgers.runtime.read(
            executions.list_begun_in, session_label=label, after=after, with_cancelled=True
        )

    async def _find_place(self) -> _Place:
        if self._response_id is not None:
            return (await self._find_continuation(await _find_response(self._app, self._response_id)))[1]
        if self._name:
            # One name is one conversation, whatever history it sends.
            label = f"openai:{self._name}"
            if len(label) > _LABEL_CHARACTERS or not label.isprintable():
                label = f"openai:{hashlib.sha256(self._name.encode('utf-8', 'replace')).hexdigest()[:32]}"
            newest = await self._app.ledgers.runtime.read(executions.newest_in, session_label=label)
            return _Place(session_label=label, is_new=newest is None)
        found = [
            await self._find_continuation(said)
            async for said in _list_said(self._app, f"{self._before}:")
            if self._before and said.was_answered(self._conversation.last_answer)
        ]
        new = _Place(session_label=_make_label(), is_new=True)
        return min(found, key=itemgetter(0))[1] if found else new

    async def _find_continuation(self, said: _Said) -> tuple[int, _Place]:
        """Where it belongs if it follows that message, and how well that fits: 0 is the best.

        Other conversations may have begun with the same words and have the same answer.
        """
        read, run = self._app.ledgers.agents.read, said.run
        if run is not None and await read(turns.stands, execution_id=run.id) is False:
            # Other words took its place, and their session goes on.
            return 3, _Place(session_label=_make_label(), fork_of=(said.session_label, run.id))
        later = await self._list_runs(said.session_label, said.run_id)
        runs = [await self._app.broker.run(id_).state() for id_ in later]
        following = [await _load_said(self._app, each.request_id, each) for each in runs]
        following = [each for each in following if each.before == self._before and each.newest]
        # The others took the place of the first whose turn began.
        begun = [each for each in following if await read(turns.stands, execution_id=each.run_id) is not None]
        replaced = next(iter((*begun, *following)), None)
        if replaced is None:
            return 1, _Place(session_label=said.session_label)
        is_same = any(each.newest == self._newest for each in following)
        return 0 if is_same else 2, _Place(session_label=said.session_label, replaces=replaced.run_id)


async def _list_said(app: App, beginning: str) -> AsyncGenerator[_Said]:
    """What was said by this API after a history, the newest first."""
    found = await app.ledgers.events.read(
        events.list_delivered, channel=_CHANNEL, beginning=f"openai:{beginning}"
    )
    for event_id in found:
        request = await app.ledgers.runtime.read(requests.for_event, event_id=event_id)
        if request is not None:
            runs = await app.ledgers.runtime.read(
                executions.of_request, request_id=request.id, session_label=request.session_label or ""
            )
            for run in reversed(runs or [None]):
                yield await _load_said(app, request.id, run)


async def _find_response(app: App, response_id: str) -> _Said:
    id_ = response_id.removeprefix("resp_")
    try:
        run = None if id_.startswith("req_") else await app.broker.run(id_).state()
        return await _load_said(app, run.request_id if run is not None else id_, run)
    except NexusError:
        raise _Refusal(f"No response {response_id!r}", status=404, param="previous_response_id") from None


async def _load_said(app: App, request_id: str, run: Execution | None) -> _Said:
    request = await app.ledgers.runtime.read(requests.get, request_id=request_id)
    if request is None:
        raise MissingError(f"No request {request_id}")
    event = request.event_id and await app.ledgers.events.read(events.get, event_id=request.event_id)
    key = ((event and event.external_id) or "").split(":")
    if run is None:
        answered = await app.ledgers.events.read(
            events.find_by_external_id,
            channel=request.channel or "",
            external_id=ids.derived("evt", request.id, "answer"),
        )
        answer = answered and answered.content
    else:
        answer = Result.from_json(run.result).response.content if run.status == "done" else None
    return _Said(
        session_label=run.session_label if run is not None else request.session_label or "",
        newest=key[1] if key[0] == "openai" else "",
        before=key[2] if key[0] == "openai" else "",
        request_id=request.id,
        run=run,
        answer=answer,
    )


def _make_label() -> str:
    return f"openai:{ids.new('chat').partition('_')[2]}"


def _models_of(app: App) -> list[str]:
    """The agent, the agent with the models of workers, and each model of the settings, without tools."""
    configured = app.config.models
    return list(dict.fromkeys([AGENT, _WORKER, *configured.manager, *configured.worker, *configured.fast]))


def _describe_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "nexus"}


def _unknown_model(name: str) -> _Refusal:
    return _Refusal(
        f"No model {name!r}: see GET /v1/models", status=404, param="model", code="model_not_found"
    )


# What is answered.


@dataclass(slots=True)
class Written:
    """What a stream has shown of an answer. Nothing that was sent can be withdrawn."""

    shown: str = ""
    """Of the present answer of the model."""
    _answer: str = ""
    _before: bool = False

    def begin(self) -> None:
        self._before = self._before or bool(self.shown)
        self.shown = self._answer = ""

    def restart(self) -> None:
        self._answer = ""

    def add(self, text: str) -> str:
        """Take a piece; what there is to send of it."""
        self._answer += text
        if self.shown.startswith(self._answer):
            return ""
        is_first = not self.shown
        if self._answer.startswith(self.shown):
            new = self._answer[len(self.shown) :]
        else:
            new, is_first, self._before = self._answer, True, True
        self.shown = self._answer
        return f"\n\n{new}" if is_first and self._before else new

    def end(self, content: str) -> str:
        """What is missing of the answer as it was recorded."""
        if self.shown.strip() == content.strip():
            return ""
        self.restart()
        return self.add(content)


async def _pieces(run: Run) -> AsyncGenerator[str | Result]:
    """The pieces of an answer, and at last its result."""
    written, asked = Written(), set[str]()
    async for delta in run.deltas():
        if delta.kind == "begin":
            written.begin()
        elif delta.kind == "restart":
            written.restart()
        elif delta.kind == "text" and (piece := written.add(delta.text)):
            yield piece
        elif delta.kind == "approval" and delta.approval_id not in asked:
            asked.add(delta.approval_id)
            yield f"\n\n*({delta.tool} waits for your approval, in the dashboard or `nexus approvals`.)*\n\n"
    result = await run.result()
    if piece := written.end(result.response.content):
        yield piece
    yield result


class _CompletionForm:
    """An answer as Chat Completions has it."""

    def __init__(self, model: str, receipt: Receipt) -> None:
        self._id = f"chatcmpl-{receipt.execution_id or receipt.request_id}"
        self._run = receipt.run
        self._said = {"model": model, "created": int(time.time())}

    def write(self, result: Result) -> dict[str, Any]:
        message = {"role": "assistant", "content": result.response.content, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        said = {"id": self._id, "object": "chat.completion", **self._said}
        return {**said, "choices": [choice], "usage": _count(result.usage, "prompt", "completion")}

    async def stream(self, *, with_usage: bool) -> AsyncIterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})
        async for piece in _pieces(self._run):
            if isinstance(piece, str):
                yield self._chunk({"content": piece})
                continue
            yield self._chunk({}, finish_reason="stop")
            if with_usage:
                yield self._write_chunk(choices=[], usage=_count(piece.usage, "prompt", "completion"))
        yield "data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> str:
        return self._write_chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])

    def _write_chunk(self, **more: Any) -> str:
        return _event({"id": self._id, "object": "chat.completion.chunk", **self._said, **more})


class _ResponseForm:
    """An answer as Responses has it."""

    def __init__(self, model: str, receipt: Receipt) -> None:
        self._id = f"resp_{receipt.execution_id or receipt.request_id}"
        self._item = f"msg_{receipt.request_id}"
        self._run = receipt.run
        self._said = {"model": model, "created_at": int(time.time())}
        self._number = -1

    def describe(self, status: str, **more: Any) -> dict[str, Any]:
        fixed: dict[str, Any] = {
            "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
            "parallel_tool_calls": False, "tool_choice": "none", "tools": [],
        }  # fmt: skip
        said = {"id": self._id, "object": "response", "status": status, **self._said}
        return {**said, "output": [], "usage": None, **fixed, **more}

    def describe_failed(self, error: NexusError) -> dict[str, Any]:
        """The response of a run that ended without an answer."""
        if isinstance(error, StoppedError):
            return self.describe("cancelled")
        message = _describe_error(error)["error"]["message"]
        return self.describe("failed", error={"code": "server_error", "message": message})

    def describe_failure(self, error: NexusError) -> str:
        return self._write_event("response.failed", response=self.describe_failed(error))

    def write(self, result: Result) -> dict[str, Any]:
        item = self._write_item("completed", [self._write_part(result.response.content)])
        return self.describe("completed", output=[item], usage=_count(result.usage, "input", "output"))

    async def stream(self) -> AsyncIterator[str]:
        at = {"item_id": self._item, "output_index": 0, "content_index": 0}
        yield self._write_event("response.created", response=self.describe("in_progress"))
        yield self._write_event("response.in_progress", response=self.describe("in_progress"))
        begun = self._write_item("in_progress", [])
        yield self._write_event("response.output_item.added", output_index=0, item=begun)
        yield self._write_event("response.content_part.added", **at, part=self._write_part(""))
        text = ""
        async for piece in _pieces(self._run):
            if isinstance(piece, str):
                text += piece
                yield self._write_event("response.output_text.delta", **at, delta=piece, logprobs=[])
                continue
            whole = self._write_item("completed", [self._write_part(text)])
            yield self._write_event("response.output_text.done", **at, text=text, logprobs=[])
            yield self._write_event("response.content_part.done", **at, part=self._write_part(text))
            yield self._write_event("response.output_item.done", output_index=0, item=whole)
            usage = _count(piece.usage, "input", "output")
            yield self._write_event(
                "response.completed", response=self.describe("completed", output=[whole], usage=usage)
            )

    def _write_event(self, kind: str, **more: Any) -> str:
        self._number += 1
        return _event({"type": kind, "sequence_number": self._number, **more}, kind)

    def _write_item(self, status: str, content: Sequence[Any]) -> dict[str, Any]:
        said = {"id": self._item, "type": "message", "role": "assistant", "status": status}
        return {**said, "content": list(content)}

    def _write_part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _count(usage: Totals, read: str, written: str) -> dict[str, Any]:
    """Count tokens. The two forms have names of their own for those that are read and written."""
    cached, fresh = usage.cache_read_tokens, usage.cache_write_tokens
    return {
        f"{read}_tokens": usage.input_tokens + cached + fresh,
        f"{read}_tokens_details": {"cached_tokens": cached, "cache_write_tokens": fresh},
        f"{written}_tokens": usage.output_tokens,
        f"{written}_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.tokens,
    }


# How it is sent.


class _Stream(StreamingResponse):
    """Lines as they come. A client that leaves stops the run; a gateway that closes doesn't."""

    def __init__(
        self, run: Run, lines: AsyncIterator[str], describe_failure: Callable[[NexusError], str]
    ) -> None:
        super().__init__(self._send_lines(lines), media_type="text/event-stream")
        self._run = run
        self._describe_failure = describe_failure
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # It returns early if the client has left, perhaps before the first line.
        await super().__call__(scope, receive, send)
        if not self._is_over:
            await _stop(self._run)

    async def _send_lines(self, lines: AsyncIterator[str]) -> AsyncIterator[str]:
        """Send what comes, and a comment where nothing comes for long."""
        waiting: asyncio.Task[str] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(lines))
                if not (await asyncio.wait({waiting}, timeout=_KEPT_ALIVE_S))[0]:
                    yield ": waiting\n\n"
                    continue
                line = waiting.result()
                waiting = None
                yield line
        except StopAsyncIteration:
            self._is_over = True
        except NexusError as error:
            self._is_over = True
            yield self._describe_failure(error)
        finally:
            if waiting is not None:
                waiting.cancel()


async def _wait(request: Request, run: Run, write: Callable[[Result], dict[str, Any]]) -> Response:
    """Answer when the run has ended. A client that leaves stops it."""
    result = asyncio.ensure_future(run.result())
    gone = asyncio.ensure_future(_wait_until_gone(request))
    try:
        await asyncio.wait({result, gone}, return_when=asyncio.FIRST_COMPLETED)
        if result.done():
            return JSONResponse(write(result.result()))
        await _stop(run)
        return Response(status_code=499)
    except NexusError as error:
        return _tell(error, _FINAL_ERROR)
    finally:
        result.cancel()
        gone.cancel()


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stop(run: Run) -> None:
    with anyio.CancelScope(shield=True), suppress(NexusError):
        await run.cancel()


def _event(value: dict[str, Any], kind: str = "") -> str:
    named = f"event: {kind}\n" if kind else ""
    return f"{named}data: {json.dumps(value, separators=(',', ':'))}\n\n"


def _tell(error: _Refusal | NexusError, headers: Mapping[str, str] | None = None) -> Response:
    status = error.status if isinstance(error, _Refusal) else status_of(error)
    return JSONResponse(_describe_error(error), status, headers)


def _describe_error(error: _Refusal | NexusError) -> dict[str, Any]:
    if isinstance(error, _Refusal):
        return describe_for_openai(error.status, error.message, param=error.param, code=error.code)
    status = 500 if isinstance(error, EndedError) else status_of(error)
    return describe_for_openai(status, error.message, error.hint)
