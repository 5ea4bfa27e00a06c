"""OpenAI's wire format, under /v1, for programs that speak it: its "models" are this home's agent.

A client of that format sends a conversation whole each time. What it said before is recognized by a hash of
the history, kept in the id of each message, so that only what is new is recorded. If the newest message is
asked again with the same history, it takes the place of what was said there.
"""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar, cast

import anyio
from fastapi import FastAPI
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nexus import ids
from nexus.app import App
from nexus.attachments import File
from nexus.engine.errors import EndedError
from nexus.errors import NexusError
from nexus.gateway.dependencies import served_by
from nexus.gateway.errors import status_of
from nexus.ledgers import events
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.executions import Execution
from nexus.runs import Receipt, Result, Run, Totals

AGENT: Final = "nexus"
"""The model that is the agent as it is configured."""
_CHANNEL: Final = "api"
_KEPT_ALIVE_S: Final = 15.0
_LABEL_CHARACTERS: Final = 180
_REFUSED: Final = {
    "tools": "Tools of the client can't be called: the agent has its own",
    "functions": "Functions of the client can't be called: the agent has its own tools",
    "audio": "Audio isn't supported",
    "background": "Background responses aren't supported: use POST /api/messages",
}
"""What can't be left out without changing what the client gets, and why it isn't done."""


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
        """Its words."""
        if not isinstance(self.content, list):
            return self.content or ""
        return "\n\n".join(part.text for part in self.content if part.text)


def _as_messages(given: Any) -> Any:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


class _Asked(_Lenient):
    """What both forms share."""

    model: str = Field(default=AGENT, max_length=200)
    messages: Annotated[list[_Message], BeforeValidator(_as_messages)] = Field(min_length=1)
    stream: bool | None = False
    user: str | None = Field(default=None, max_length=500)


_AskedT = TypeVar("_AskedT", bound=_Asked)


class _Completion(_Asked):
    n: int | None = 1
    stream_options: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None


class _ResponseAsked(_Asked):
    messages: Annotated[list[_Message], BeforeValidator(_as_messages)] = Field(min_length=1, alias="input")
    instructions: str | None = None
    conversation: str | dict[str, Any] | None = None
    previous_response_id: str | None = None
    text: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a message belongs: its session, and the run whose message it replaces."""

    session_label: str
    is_new: bool = False
    replaces: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Conversation:
    """What a client sent: its newest message, and what was said before."""

    newest: _Message
    earlier: list[_Message]
    instructions: str

    @classmethod
    def parse(cls, messages: list[_Message], instructions: str = "") -> "_Conversation":
        said = [each for each in messages if each.role in ("user", "assistant") and each.type == "message"]
        if not said or said[-1].role != "user" or messages[-1].role not in ("user", "system", "developer"):
            raise _Refusal("The last message must be the user's", param="messages")
        rules = [each.text for each in messages if each.role in ("system", "developer")]
        told = "\n\n".join(filter(None, [instructions, *rules]))
        return cls(newest=said[-1], earlier=said[:-1], instructions=told)

    @property
    def last_answer(self) -> str:
        """What the client was answered last, as it shows it."""
        at = max((at for at, each in enumerate(self.earlier) if each.role == "user"), default=-1)
        return "\n\n".join(each.text for each in self.earlier[at + 1 :]).strip()

    def hash_history(self) -> tuple[str, str]:
        """Hash what was said up to the newest message, and up to the user's one before, if there is one."""
        said = hashlib.sha256()
        hashes = [""]
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
    if name not in _models_of(served_by(request).app):
        return _tell(_unknown_model(name))
    return JSONResponse(_describe_model(name))


async def _complete(request: Request) -> Response:
    """Answer in the form of Chat Completions."""
    app = served_by(request).app
    try:
        asked = await _read(request, _Completion)
        if asked.n not in (None, 1):
            raise _Refusal("Only one answer is given: `n` must be 1", param="n")
        _check_format(asked.response_format, "response_format")
        conversation = _Conversation.parse(asked.messages)
        hashes = conversation.hash_history()
        if asked.user:
            place = await _find_named(app, asked.user)
        else:
            place = await _find_continued(app, conversation, hashes)
        receipt = await _receive(app, asked.model, conversation, place, hashes)
    except (_Refusal, NexusError) as error:
        return _tell(error)
    answer = _CompletionForm(asked.model, receipt)
    if asked.stream:
        usage = bool((asked.stream_options or {}).get("include_usage"))
        return _stream(receipt.run, answer.stream(with_usage=usage))
    return await _wait(request, receipt.run, answer.write)


async def _respond(request: Request) -> Response:
    """Answer in the form of Responses."""
    app = served_by(request).app
    try:
        asked = await _read(request, _ResponseAsked)
        _check_format((asked.text or {}).get("format"), "text.format")
        conversation = _Conversation.parse(asked.messages, asked.instructions or "")
        hashes = conversation.hash_history()
        if asked.previous_response_id:
            run = await _find_response(app, asked.previous_response_id)
            place = _Place(session_label=run.session_label)
        elif name := _name_of(asked.conversation) or asked.user:
            place = await _find_named(app, name)
        else:
            place = await _find_continued(app, conversation, hashes)
        receipt = await _receive(app, asked.model, conversation, place, hashes)
    except (_Refusal, NexusError) as error:
        return _tell(error)
    answer = _ResponseForm(asked.model, receipt)
    if asked.stream:
        return _stream(receipt.run, answer.stream())
    return await _wait(request, receipt.run, answer.write)


async def _show_response(request: Request) -> Response:
    app = served_by(request).app
    try:
        run = await _find_response(app, request.path_params["response"])
        shown = app.broker.run(run.id)
        answer = _ResponseForm(AGENT, Receipt(request_id=run.request_id, run=shown, execution_id=run.id))
        if run.status in executions.FINAL or run.taken_by is not None:
            return JSONResponse(answer.write(await shown.result()))
        return JSONResponse(answer.describe("in_progress"))
    except (_Refusal, NexusError) as error:
        return _tell(error)


# What is asked.


async def _read(request: Request, form: type[_AskedT]) -> _AskedT:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise _Refusal("The body isn't valid JSON") from None
    try:
        asked = TypeAdapter(form).validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _Refusal(f"{place or 'body'}: {first['msg']}", param=place or None) from None
    for name, why in _REFUSED.items():
        if body.get(name):
            raise _Refusal(why, param=name, code="unsupported_parameter")
    return asked


def _check_format(wanted: Any, param: str) -> None:
    if isinstance(wanted, dict) and cast("dict[str, Any]", wanted).get("type", "text") != "text":
        raise _Refusal("Answers are text only", param=param, code="unsupported_parameter")


def _name_of(conversation: str | dict[str, Any] | None) -> str:
    return str(conversation.get("id") or "") if isinstance(conversation, dict) else conversation or ""


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


async def _find_named(app: App, name: str) -> _Place:
    """The session that a client names. One name is one conversation, whatever history it sends."""
    label = f"openai:{name}"
    if len(label) > _LABEL_CHARACTERS:
        label = f"openai:{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:32]}"
    newest = await app.ledgers.runtime.read(executions.newest_in, session_label=label)
    return _Place(session_label=label, is_new=newest is None)


async def _find_continued(app: App, conversation: _Conversation, hashes: tuple[str, str]) -> _Place:
    """The session in which the history was said; a new one where it wasn't."""
    before = hashes[1]
    for event_id in (
        await app.ledgers.events.read(events.list_delivered, channel=_CHANNEL, beginning=f"openai:{before}:")
        if before
        else ()
    ):
        run = await _find_run(app, event_id)
        if run is None or not _was_answered(run, conversation.last_answer):
            continue
        later = await app.ledgers.runtime.read(
            executions.list_begun_in, session_label=run.session_label, after=run.id
        )
        for execution_id in later:
            if await _continues(app, execution_id, before):
                return _Place(session_label=run.session_label, replaces=execution_id)
        return _Place(session_label=run.session_label)
    return _Place(session_label=f"openai:{ids.new('chat').partition('_')[2]}", is_new=True)


async def _find_run(app: App, event_id: str) -> Execution | None:
    request = await app.ledgers.runtime.read(requests.for_event, event_id=event_id)
    if request is None:
        return None
    found = await app.ledgers.runtime.read(
        executions.of_request, request_id=request.id, session_label=request.session_label or ""
    )
    return found[-1] if found else None


async def _continues(app: App, execution_id: str, before: str) -> bool:
    """Whether a run's message was said by this API right after that history."""
    run = await app.ledgers.runtime.read(executions.get, execution_id=execution_id)
    request = None if run is None else await app.ledgers.runtime.read(requests.get, request_id=run.request_id)
    if request is None or request.event_id is None:
        return False
    event = await app.ledgers.events.read(events.get, event_id=request.event_id)
    key = "" if event is None else event.external_id or ""
    return key.startswith("openai:") and key.split(":")[2:3] == [before]


def _was_answered(run: Execution, shown: str) -> bool:
    """Whether a client shows how a run ended: its answer, perhaps after words that came before a tool.

    Of a run that was stopped a client shows as much as it got.
    """
    if run.status != "done":
        return run.status in executions.FINAL
    with suppress(KeyError, TypeError):
        return shown.endswith(str(run.result["response"]["content"]).strip())
    return False


async def _find_response(app: App, response_id: str) -> Execution:
    try:
        return await app.broker.run(response_id.removeprefix("resp_")).state()
    except NexusError:
        raise _Refusal(f"No response {response_id!r}", status=404, param="previous_response_id") from None


async def _receive(
    app: App, model: str, conversation: _Conversation, place: _Place, hashes: tuple[str, str]
) -> Receipt:
    if model not in _models_of(app):
        raise _unknown_model(model)
    files = _read_files(conversation.newest)
    text = conversation.newest.text
    if not text.strip() and not files:
        raise _Refusal("The last message is empty", param="messages")
    if place.is_new and conversation.instructions:
        files.append(File(name="instructions.md", data=conversation.instructions.encode("utf-8", "replace")))
    if place.is_new and conversation.earlier:
        earlier = "\n\n".join(f"{each.role}: {each.text}" for each in conversation.earlier)
        files.append(File(name="earlier-messages.md", data=earlier.encode("utf-8", "replace")))
    return await app.receive(
        text,
        session_label=place.session_label,
        channel=_CHANNEL,
        model="" if model == AGENT else model,
        external_id=f"openai:{hashes[0]}:{hashes[1]}:{ids.new('key')}",
        files=files,
        replaces=place.replaces,
    )


def _models_of(app: App) -> list[str]:
    configured = app.config.models
    return list(dict.fromkeys([AGENT, *configured.manager, *configured.worker, *configured.fast]))


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
    written = Written()
    async for delta in run.deltas():
        if delta.kind == "begin":
            written.begin()
        elif delta.kind == "restart":
            written.restart()
        elif delta.kind == "text" and (piece := written.add(delta.text)):
            yield piece
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
        return {**said, "choices": [choice], "usage": _count(result.usage)}

    async def stream(self, *, with_usage: bool) -> AsyncIterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})
        async for piece in _pieces(self._run):
            if isinstance(piece, str):
                yield self._chunk({"content": piece})
                continue
            yield self._chunk({}, finish_reason="stop")
            if with_usage:
                yield self._write_chunk(choices=[], usage=_count(piece.usage))
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

    def describe(self, status: Literal["in_progress", "completed"], **more: Any) -> dict[str, Any]:
        fixed: dict[str, Any] = {
            "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
            "parallel_tool_calls": False, "tool_choice": "none", "tools": [], "store": True,
        }  # fmt: skip
        said = {"id": self._id, "object": "response", "status": status, **self._said}
        return {**said, "output": [], "usage": None, **fixed, **more}

    def write(self, result: Result) -> dict[str, Any]:
        item = self._write_item("completed", [self._write_part(result.response.content)])
        return self.describe("completed", output=[item], usage=_count_response(result.usage))

    async def stream(self) -> AsyncIterator[str]:
        number = 0

        def event(kind: str, **more: Any) -> str:
            nonlocal number
            number += 1
            return _event({"type": kind, "sequence_number": number - 1, **more}, kind)

        at = {"item_id": self._item, "output_index": 0, "content_index": 0}
        yield event("response.created", response=self.describe("in_progress"))
        yield event("response.in_progress", response=self.describe("in_progress"))
        begun = self._write_item("in_progress", [])
        yield event("response.output_item.added", output_index=0, item=begun)
        yield event("response.content_part.added", **at, part=self._write_part(""))
        text = ""
        async for piece in _pieces(self._run):
            if isinstance(piece, str):
                text += piece
                yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
                continue
            whole = self._write_item("completed", [self._write_part(text)])
            yield event("response.output_text.done", **at, text=text, logprobs=[])
            yield event("response.content_part.done", **at, part=self._write_part(text))
            yield event("response.output_item.done", output_index=0, item=whole)
            usage = _count_response(piece.usage)
            yield event(
                "response.completed", response=self.describe("completed", output=[whole], usage=usage)
            )

    def _write_item(self, status: str, content: Sequence[Any]) -> dict[str, Any]:
        said = {"id": self._item, "type": "message", "role": "assistant", "status": status}
        return {**said, "content": list(content)}

    def _write_part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _count(usage: Totals) -> dict[str, Any]:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.tokens,
    }


def _count_response(usage: Totals) -> dict[str, Any]:
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.tokens,
    }


# How it is sent.


def _stream(run: Run, lines: AsyncIterator[str]) -> Response:
    return StreamingResponse(_keep_alive(run, lines), media_type="text/event-stream")


async def _keep_alive(run: Run, lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Send what comes, and a comment where nothing comes for long. A client that leaves stops the run."""
    waiting: asyncio.Task[str] | None = None
    is_over = False
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
        is_over = True
    except NexusError as error:
        is_over = True
        yield _event(_describe_error(error))
    finally:
        if not is_over:
            if waiting is not None:
                waiting.cancel()
            await _stop(run)


async def _wait(request: Request, run: Run, write: Any) -> Response:
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
        return _tell(error)
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


def _tell(error: _Refusal | NexusError) -> Response:
    status = error.status if isinstance(error, _Refusal) else status_of(error)
    return JSONResponse(_describe_error(error), status_code=status)


def _describe_error(error: _Refusal | NexusError) -> dict[str, Any]:
    if isinstance(error, _Refusal):
        said = {"message": error.message, "param": error.param, "code": error.code}
        return {"error": {**said, "type": "invalid_request_error"}}
    status = status_of(error)
    kind = "server_error" if status >= 500 or isinstance(error, EndedError) else "invalid_request_error"
    told = " ".join(filter(None, [f"{error.message}.".replace("..", "."), error.hint]))
    return {"error": {"message": told, "type": kind, "param": None, "code": None}}
