"""The model server as a test uses it."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope
from starlette.types import Send as SendMessage
from uvicorn.protocols.http.h11_impl import H11Protocol

from nexus import asgi
from nexus import clock as clocks
from nexus.errors import UsageError
from nexus.testing.model_server import anthropic, control
from nexus.testing.model_server.answering import admit, check_shape, decide, describe, draft, parse_body
from nexus.testing.model_server.anthropic import AnthropicWire
from nexus.testing.model_server.bedrock import BedrockWire
from nexus.testing.model_server.caching import Caching
from nexus.testing.model_server.control import Settings, State
from nexus.testing.model_server.failures import Gate, HttpError
from nexus.testing.model_server.google import GoogleWire
from nexus.testing.model_server.openai import GroqWire, MistralWire, OpenAIWire
from nexus.testing.model_server.plan import Plan, Profile, Send
from nexus.testing.model_server.record import Exchange, Price, Totals, total
from nexus.testing.model_server.reply import CloseConnection, Draft, Reply
from nexus.testing.model_server.request import Json, KeptHeaders, ModelRequest, WireName, canonical
from nexus.testing.model_server.script import Matcher, Rule, Step, load, matcher
from nexus.testing.model_server.wire import RejectedError, Wire

HOST = "127.0.0.1"
POLL_S = 0.005


KEEP_ALIVE_S = 75
BACKLOG = 1024
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


class Listener:
    """Serves one application on one socket."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = asgi.open_socket(host, port, backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self.ready: Future[None] = Future()
        self.ended: Future[None] = Future()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._server: uvicorn.Server | None = None

    def launch(self, app: ASGIApp) -> None:
        """Start the thread; `ready` tells when it serves."""
        self._thread = threading.Thread(target=self._run, args=(app,), name="nexus-model-server", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Ask the thread to end; `ended` tells when it did."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def close_connection(self, scope: Scope) -> None:
        """Close the connection that a request came by, after what was written to it."""
        assert self._server is not None  # noqa: S101 - an invariant, for the reader and the type checker
        for connection in list(self._server.server_state.connections):
            if isinstance(connection, H11Protocol) and connection.client == tuple(scope["client"]):
                connection.transport.close()

    def _run(self, app: ASGIApp) -> None:
        try:
            asyncio.run(self._serve(app))
        except BaseException as error:
            if not self.ready.done():
                self.ready.set_exception(error)
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)
        finally:
            self._socket.close()

    async def _serve(self, app: ASGIApp) -> None:
        self._loop = asyncio.get_running_loop()
        server = self._server = asgi.build_server(app, keep_alive_s=KEEP_ALIVE_S)
        await server.startup(sockets=[self._socket])
        self.ready.set_result(None)
        await self._stop.wait()
        await self._end(server)

    async def _end(self, server: uvicorn.Server) -> None:
        # uvicorn's own shutdown lets open answers finish; a stalled one never would.
        for listening in server.servers:
            listening.close()
        asgi.abort(server)
        await asgi.wait_until_settled(server)
        for listening in server.servers:
            await listening.wait_closed()


class ModelServer:
    """A model on loopback HTTP that says what the test scripted, in the Anthropic and the OpenAI format.

    It runs in a thread of its own, as `with ModelServer() as server:` or `async with …`. Stopped and
    started again, it has the same port.
    """

    def __init__(
        self,
        *,
        keys: Collection[str] = (),
        models: Collection[str] = (),
        caching: Caching | None = None,
        prices: Mapping[str, Price] | None = None,
        clock: clocks.Clock = clocks.now,
        profile: Profile | None = None,
        port: int = 0,
    ) -> None:
        """`keys` and `models` restrict what is accepted; empty, they accept everything.

        The profile says what kind of model it is: what it refuses, and how its calls arrive.
        """
        self._state = State(
            Settings(
                keys=keys,
                models=models,
                caching=caching or Caching(),
                prices=prices or {},
                clock=clock,
                profile=profile or Profile(),
            )
        )
        self._app = build(self._state, self._close_connection)
        self._port = port
        self._listener: Listener | None = None

    # Running

    def start(self) -> None:
        """Serve; returns when requests are answered."""
        self._launch().ready.result()

    def stop(self) -> None:
        """End every connection and the thread."""
        listener = self._release()
        if listener is not None:
            listener.ended.result()
            listener.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.wrap_future(self._launch().ready)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        listener = self._release()
        if listener is not None:
            await asyncio.wrap_future(listener.ended)
            listener.join()

    # Addresses

    @property
    def url(self) -> str:
        """The server's root, which is the base URL of an Anthropic client."""
        if self._port == 0:
            raise UsageError(
                "the model server has no address yet", hint="Start it first: with ModelServer() …"
            )
        return f"http://{HOST}:{self._port}"

    @property
    def openai_url(self) -> str:
        """The base URL of an OpenAI client."""
        return f"{self.url}/v1"

    def environment(self, key: str = "test-key") -> dict[str, str]:
        """The variables that point the official clients of a child process at this server."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": key,
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": key,
        }

    # Script

    def script(self, *steps: Step) -> Self:
        """Add steps for requests that no rule answers; each request takes the next one."""
        self._state.script.common().script(*steps)
        return self

    def always(self, step: Step) -> Self:
        """Answer so whenever nothing else is scripted, for example `always(echo)`."""
        self._state.script.common().always(step)
        return self

    def when(
        self,
        match: Matcher | None = None,
        *,
        model: str | None = None,
        last_user: str | None = None,
        system: str | None = None,
        tool: str | None = None,
        wire: WireName | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Rule:
        """A rule for the requests that match on every given point; earlier rules are asked first.

        `last_user` and `system` match a part of the text, the others match exactly.
        """
        points = matcher(
            model=model, last_user=last_user, system=system, tool=tool, wire=wire, headers=headers
        )
        return self._state.script.rule(lambda request: points(request) and (match is None or match(request)))

    def load_script(self, document: object) -> Self:
        """Add a script in its JSON form."""
        load(document, self._state.script)
        return self

    def gate(self, name: str) -> Gate:
        """The gate at which `Hold` faults of that name wait."""
        return self._state.gates.get(name)

    # Records

    @property
    def exchanges(self) -> list[Exchange]:
        """Every turn that was asked for, with its answer, in order of arrival."""
        return self._state.turns()

    @property
    def requests(self) -> list[ModelRequest]:
        """Every turn that was asked for."""
        return [exchange.request for exchange in self.exchanges]

    @property
    def records(self) -> list[Exchange]:
        """Everything that was asked for, also token counts, lists of models and unknown paths."""
        return self._state.records.all()

    def totals(self, where: Callable[[Exchange], bool] | None = None) -> Totals:
        """The bill: tokens, and money by the prices that the server was given."""
        return total(self.exchanges, self._state.settings.prices, where)

    def assert_exhausted(self) -> None:
        """Fail when a step was never asked for, or a request had no step."""
        remaining = self._state.script.remaining()
        unscripted = [describe(e.request) for e in self.exchanges if not e.scripted]
        if remaining or unscripted:
            left = [f"never asked for: {step!r}" for step in remaining]
            missed = [f"not scripted: {request}" for request in unscripted]
            raise AssertionError("the script does not fit what was asked\n" + "\n".join([*left, *missed]))

    def wait_until(self, condition: Callable[[], object], timeout_ms: int = 10_000) -> None:
        """Wait in this thread until the condition holds, for example on `server.exchanges`."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not condition():
            _check_deadline(deadline, timeout_ms)
            time.sleep(POLL_S)

    async def until(self, condition: Callable[[], object], timeout_ms: int = 60_000) -> None:
        """`wait_until` for a test whose own loop must go on."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not condition():
            _check_deadline(deadline, timeout_ms)
            await asyncio.sleep(POLL_S)

    def reset(self) -> None:
        """Forget script, records, gates and cached prefixes."""
        self._state.reset()

    def _launch(self) -> Listener:
        if self._listener is not None:
            raise UsageError("the model server runs already", hint="Stop it before starting it again.")
        listener = self._listener = Listener(HOST, self._port)
        self._port = listener.port
        listener.launch(self._app)
        return listener

    def _release(self) -> Listener | None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.request_stop()
        return listener

    def _close_connection(self, scope: Scope) -> None:
        if self._listener is not None:
            self._listener.close_connection(scope)


def _check_deadline(deadline: float, timeout_ms: int) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"the condition did not hold within {timeout_ms} ms")
