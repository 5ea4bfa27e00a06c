"""The control interface below `/_nexus`, for tests that run in another process than the server."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nexus.clock import Clock, now
from nexus.errors import UsageError
from nexus.testing.model_server.caching import (
    DEFAULT_CACHING,
    Accounting,
    Caching,
    PrefixStore,
    account_automatically,
    account_by_points,
)
from nexus.testing.model_server.failures import Gates
from nexus.testing.model_server.plan import Profile
from nexus.testing.model_server.record import Exchange, Price, Records, as_json, total, totals_json
from nexus.testing.model_server.request import ModelRequest
from nexus.testing.model_server.script import Script, load

TURN_PATHS = (
    "/v1/messages",
    "/chat/completions",
    ":generateContent",
    ":streamGenerateContent",
    "/converse",
    "/converse-stream",
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a model server is made with."""

    keys: Collection[str] = ()
    """The keys that are accepted; empty accepts every request."""
    models: Collection[str] = ()
    """The models that exist; empty accepts every name."""
    caching: Caching = DEFAULT_CACHING
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    clock: Clock = now
    profile: Profile = field(default_factory=Profile)


@dataclass
class State:
    """The server's whole state; script, records and gates may be used from any thread."""

    settings: Settings
    script: Script = field(default_factory=Script)
    records: Records = field(default_factory=Records)
    gates: Gates = field(default_factory=Gates)
    prefixes: PrefixStore = field(default_factory=PrefixStore)
    slots: asyncio.Semaphore | None = None
    """How many answers are given at a time, where the profile says so. The server's own loop uses it."""

    def __post_init__(self) -> None:
        if self.settings.profile.slots is not None:
            self.slots = asyncio.Semaphore(self.settings.profile.slots)

    def account(self, request: ModelRequest) -> Accounting:
        """What of this request's prompt is cached, by the rules of its wire format."""
        rules = account_by_points if request.wire == "anthropic" else account_automatically
        return rules(
            self.prefixes, request.model, request.prompt, self.settings.caching, self.settings.clock()
        )

    def turns(self) -> list[Exchange]:
        """The exchanges that asked for a turn of the model, without token counts and lists of models."""
        return [exchange for exchange in self.records.all() if exchange.request.path.endswith(TURN_PATHS)]

    def reset(self) -> None:
        """Forget script, records, gates and cached prefixes."""
        self.script.clear()
        self.records.clear()
        self.gates.clear()
        self.prefixes.clear()


def routes(state: State) -> list[Route]:
    """The control routes over that state."""

    def route(path: str, method: str, answer: Callable[[State, Request, bytes], Response]) -> Route:
        async def endpoint(request: Request) -> Response:
            return answer(state, request, await request.body())

        return Route(f"/_nexus{path}", endpoint, methods=[method])

    return [
        route("/health", "GET", _health),
        route("/requests", "GET", _requests),
        route("/requests/{number:int}", "GET", _request),
        route("/requests/{number:int}/body", "GET", _request_body),
        route("/totals", "GET", _totals),
        route("/script", "GET", _remaining),
        route("/script", "POST", _add_to_script),
        route("/gates", "GET", _gates),
        route("/gates/{name}/open", "POST", _open_gate),
        route("/reset", "POST", _reset),
    ]


def _health(state: State, request: Request, body: bytes) -> Response:
    return JSONResponse({"ok": True})


def _requests(state: State, request: Request, body: bytes) -> Response:
    """Every request; `?turns=1` leaves out token counts and the like, `?model=` keeps one model."""
    exchanges = state.turns() if request.query_params.get("turns") else state.records.all()
    model = request.query_params.get("model")
    kept = [exchange for exchange in exchanges if model in (None, exchange.request.model)]
    return JSONResponse({"requests": [as_json(exchange) for exchange in kept]})


def _request(state: State, request: Request, body: bytes) -> Response:
    number = request.path_params["number"]
    found = [exchange for exchange in state.records.all() if exchange.request.number == number]
    return JSONResponse(as_json(found[0])) if found else _missing(number)


def _request_body(state: State, request: Request, body: bytes) -> Response:
    """The exact bytes of a request."""
    number = request.path_params["number"]
    found = [exchange for exchange in state.records.all() if exchange.request.number == number]
    if not found:
        return _missing(number)
    return Response(found[0].request.body, media_type="application/octet-stream")


def _totals(state: State, request: Request, body: bytes) -> Response:
    exchanges, prices = state.turns(), state.settings.prices
    models = sorted({exchange.request.model for exchange in exchanges})
    by_model = {
        model: totals_json(total([e for e in exchanges if e.request.model == model], prices))
        for model in models
    }
    return JSONResponse({**totals_json(total(exchanges, prices)), "models": by_model})


def _remaining(state: State, request: Request, body: bytes) -> Response:
    unscripted = [exchange.request.number for exchange in state.turns() if not exchange.scripted]
    steps = [str(step) for step in state.script.remaining()]
    return JSONResponse({"remaining": steps, "unscripted": unscripted})


def _add_to_script(state: State, request: Request, body: bytes) -> Response:
    try:
        document: Any = json.loads(body)
        load(document, state.script)
    except (ValueError, UsageError) as error:
        return JSONResponse({"error": str(error)}, 400)
    return _remaining(state, request, body)


def _gates(state: State, request: Request, body: bytes) -> Response:
    gates = state.gates.all().items()
    return JSONResponse({name: {"open": gate.is_open, "waiting": gate.waiting} for name, gate in gates})


def _open_gate(state: State, request: Request, body: bytes) -> Response:
    state.gates.get(request.path_params["name"]).open()
    return _gates(state, request, body)


def _reset(state: State, request: Request, body: bytes) -> Response:
    state.reset()
    return JSONResponse({"ok": True})


def _missing(number: int) -> Response:
    return JSONResponse({"error": f"there is no request {number}"}, 404)
