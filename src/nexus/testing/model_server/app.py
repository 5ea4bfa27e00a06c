"""The routes that a model client asks for, in every wire format."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope
from starlette.types import Send as SendMessage

from nexus.testing.model_server import anthropic, control
from nexus.testing.model_server.answering import admit, check_shape, decide, draft, parse_body
from nexus.testing.model_server.anthropic import AnthropicWire
from nexus.testing.model_server.bedrock import BedrockWire
from nexus.testing.model_server.control import State
from nexus.testing.model_server.failures import HttpError
from nexus.testing.model_server.google import GoogleWire
from nexus.testing.model_server.openai import GroqWire, MistralWire, OpenAIWire
from nexus.testing.model_server.plan import Plan, Send
from nexus.testing.model_server.record import Exchange
from nexus.testing.model_server.reply import CloseConnection, Draft, Reply
from nexus.testing.model_server.request import Json, KeptHeaders, ModelRequest, canonical
from nexus.testing.model_server.wire import RejectedError, Wire

Handler: TypeAlias = Callable[[ModelRequest, Wire, State], tuple[Exchange, Draft]]

DEFAULT_MODEL = "nexus-testing"
ANY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def build(state: State, close: CloseConnection) -> Starlette:
    """The application over that state."""
    anthropic, openai, google = AnthropicWire(), OpenAIWire(), GoogleWire()

    def route(path: str, handler: Handler, wire: Wire | None, methods: list[str]) -> Route:
        async def endpoint(request: Request) -> ASGIApp:
            spoken = wire or (anthropic if "anthropic-version" in request.headers else openai)
            try:
                received = await _read_request(request, spoken, state)
            except ClientDisconnect:
                return Response()  # There is nobody left to send it to.
            exchange, answer = handler(received, spoken, state)
            state.records.add(exchange)
            reply = Reply(answer, exchange.answer, state.gates, close)
            return (
                reply if state.slots is None or handler is not decide else _wait_for_slot(reply, state.slots)
            )

        return Route(path, endpoint, methods=methods)

    return Starlette(
        routes=[
            route("/v1/messages", decide, anthropic, ["POST"]),
            route("/v1/messages/count_tokens", informing(_count), anthropic, ["POST"]),
            route("/v1/chat/completions", decide, openai, ["POST"]),
            route("/openai/v1/chat/completions", decide, openai, ["POST"]),  # as on Azure
            # Their streams differ a little.
            route("/mistral/v1/chat/completions", decide, MistralWire(), ["POST"]),
            route("/groq/openai/v1/chat/completions", decide, GroqWire(), ["POST"]),
            route("/v1beta/models/{call:path}", decide, google, ["POST"]),
            route("/v1/models/{call:path}", decide, google, ["POST"]),
            route("/model/{call:path}", decide, BedrockWire(), ["POST"]),
            route("/v1/models", informing(_models), None, ["GET"]),
            route("/v1/models/{model:path}", informing(_model), None, ["GET"]),
            route("/props", informing(_props), openai, ["GET"]),
            *control.routes(state),
            route("/{path:path}", informing(_nothing), None, ANY_METHOD),
        ]
    )


def informing(answer: Callable[[ModelRequest, Wire, State], Json]) -> Handler:
    """A handler for what is not a turn of the model: it uses neither script nor tokens."""

    def handle(request: ModelRequest, wire: Wire, state: State) -> tuple[Exchange, Draft]:
        try:
            admit(request, state)
            body = canonical(answer(request, wire, state))
        except RejectedError as error:
            refusal = HttpError(error.kind, message=error.message)
            return Exchange(request), draft(refusal, request, wire, state)
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        return Exchange(request), Draft(status=200, headers=headers, plan=Plan((Send(body),)))

    return handle


async def _read_request(request: Request, wire: Wire, state: State) -> ModelRequest:
    return ModelRequest(
        number=state.records.next_number(),
        at=state.settings.clock(),
        wire=wire.name,
        path=request.url.path,
        headers=KeptHeaders(request.headers),
        body=await request.body(),
        json={},
    )


def _count(request: ModelRequest, wire: Wire, state: State) -> Json:
    body = parse_body(request.body)
    with check_shape():
        anthropic.check_prompt(body)
        return {"input_tokens": wire.prompt(body).tokens}


def _models(request: ModelRequest, wire: Wire, state: State) -> Json:
    names = list(state.settings.models) or [DEFAULT_MODEL]
    entries = [_entry(name, request, wire) for name in names]
    if wire.name == "anthropic":
        return {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}
    return {"object": "list", "data": entries}


def _model(request: ModelRequest, wire: Wire, state: State) -> Json:
    name = request.path.removeprefix("/v1/models/")
    if state.settings.models and name not in state.settings.models:
        raise RejectedError(f"model: {name}", "not_found")
    return _entry(name, request, wire)


def _entry(name: str, request: ModelRequest, wire: Wire) -> Json:
    if wire.name == "anthropic":
        return {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "nexus"}


def _props(request: ModelRequest, wire: Wire, state: State) -> Json:
    profile = state.settings.profile
    return _nothing(request, wire, state) if profile.is_silent else profile.props()


def _wait_for_slot(reply: ASGIApp, slots: asyncio.Semaphore) -> ASGIApp:
    """A reply that waits until the server has a place for it."""

    async def answer(scope: Scope, receive: Receive, send: SendMessage) -> None:
        async with slots:
            await reply(scope, receive, send)

    return answer


def _nothing(request: ModelRequest, wire: Wire, state: State) -> Json:
    raise RejectedError(f"The model server has no {request.path}.", "not_found")
