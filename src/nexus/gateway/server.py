"""The gateway's application, and how it is served.

The gateway consists of: `api` under /api, `openai_format` under /v1, webhooks under /hooks, `dashboard`
under / and `mcp` under /mcp. A room has a function `def join(server: FastAPI) -> None`, named in `ROOMS`
below, which adds its routes (`server.router.routes.extend(…)`, `server.mount(…)`). One application serves any
number of homes: an endpoint asks `dependencies.served_by` for the home of its request.

A room need not ask who is there: `Guard` stands in front of everything, so a request that reaches a room came
from the owner, by the token or by a browser's session, with a body that is whole and small enough. Endpoints
get the open home as an argument, `app: nexus.gateway.dependencies.ServedApp`. They raise `NexusError`s, which
become JSON with message and hint (`errors.status_of` gives the status, for a room that makes a page of it).
Headers that the guard sets (`content-security-policy`, `cache-control`) can be set by a room instead.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Final, Self

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus import __version__
from nexus.app import App
from nexus.channels.adapter import MessageError
from nexus.channels.webhook import Webhook
from nexus.config import GatewayConfig
from nexus.errors import AccessError
from nexus.gateway import api, dashboard, errors, mcp, openai_format, push
from nexus.gateway.api.home import login_url
from nexus.gateway.dependencies import Served, served_by, served_of
from nexus.gateway.errors import refusal, refuse_unsigned
from nexus.gateway.guard import HOOKS, BodyLimits, Guard, Keys, Rules, public_address, spellings
from nexus.gateway.listener import Listener, local_url
from nexus.gateway.metrics import Observer
from nexus.gateway.spans import Exporter, collector
from nexus.ledgers.runtime import channels

OPENAPI: Final = "/api/openapi.json"
_START_S: Final = 10.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

_ABOUT: Final = """Everything that a home can do, for programs of its owner.

Every request carries the home's token, `Authorization: Bearer …`, which `nexus login --token` prints; without
it every path answers 401. Errors are problem details (RFC 9457, `application/problem+json`): `type` names the
kind of error and is stable, `detail` says what happened and `hint` what to do next."""


def is_signed_hook(app: App, name: str, headers: Headers, body: bytes) -> bool:
    """Whether a request is signed for the webhook of that name."""
    adapter = app.adapters.by_name.get(name)
    return isinstance(adapter, Webhook) and adapter.is_signed(headers, body)


def _join_hooks(server: FastAPI) -> None:
    """Put `POST /hooks/NAME` there, where services send what happened, for a channel of kind `webhook`.

    The guard lets these requests in by their signature instead of the home's token. One that isn't signed
    with the channel's secret is answered the same whether there is such a channel or not.
    """

    async def receive_hook(request: Request) -> Response:
        app, name = served_by(request).app, request.path_params["name"]
        adapter = app.adapters.by_name.get(name)
        try:
            if not isinstance(adapter, Webhook):
                raise AccessError("Unknown webhook")
            state = await app.ledgers.runtime.read(channels.state, name=name)
            # The request may have opened the home, whose channels start afterwards.
            patience_s = 0 if state.paused else _START_S
            message = await adapter.receive(request.headers, await request.body(), patience_s)
        except AccessError:
            return refuse_unsigned()
        except MessageError as error:
            return refusal(422, error.message, "See [channels.NAME] fields.")
        if message is None:
            return refusal(503, "The channel is paused", "Send it again later.")
        return JSONResponse({"id": message.id}, status_code=202)

    server.add_route(HOOKS + "{name}", receive_hook, methods=["POST"], include_in_schema=False)


Room = Callable[[FastAPI], None]
# Routes are tried in order: what may be sent by the thousand comes first.
ROOMS: tuple[Room, ...] = (_join_hooks, api.join, openai_format.join, dashboard.join, mcp.join)


def build(served: Served | None = None) -> FastAPI:
    """The application of a home, or of the homes that requests name. It trusts whoever reaches it.

    Put a `Guard` in front.
    """
    server = _application()
    server.state.served = served
    errors.install(server)
    server.add_middleware(_Ahead)
    for join in ROOMS:
        join(server)
    return server


def document() -> dict[str, Any]:
    """The OpenAPI document of every home's API."""
    server = _application()
    api.join(server)
    return server.openapi()


class _Server(FastAPI):
    def openapi(self) -> dict[str, Any]:
        return errors.document(super().openapi())


def _application() -> FastAPI:
    return _Server(
        title="Nexus",
        version=__version__,
        description=_ABOUT,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )


class _Ahead:
    """Lets the owner's requests go ahead of messages of channels until their answers begin.

    It stands behind the guard, so that nobody else's requests get here but webhooks.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(HOOKS):
            await self._app(scope, receive, send)
            return
        with served_of(scope).app.broker.pace.ahead() as direct:

            async def sending(message: Message) -> None:
                # What follows may be a stream that lasts for hours.
                direct.stop()
                await send(message)

            await self._app(scope, receive, sending)


class Gateway:
    """A home's gateway, listening while the context lasts."""

    def __init__(self, app: App, listening: socket.socket, restart: Callable[[], None] | None = None) -> None:
        self._app = app
        self._restart = restart
        self._socket = listening
        self._stack = AsyncExitStack()
        self._keys = Keys(app.home.token(), port=listening.getsockname()[1], file=app.home.browsers_file)
        self.url = local_url(listening)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            # Sessions of clients end before what was entered earlier.
            stack = await opening.enter_async_context(AsyncExitStack())
            home, config = self._app.home, self._app.config.gateway
            remote = mcp.RemoteClients(home, public_address(config.public_url)) if config.mcp_oauth else None
            served = Served(self._app, self._keys, stack, restart=self._restart, remote_clients=remote)
            server = build(served)
            if url := config.otlp_url:
                _export(self._app, url, opening)
            if push.is_available():
                await _notify(self._app, opening)
            limits = make_rules(config, self._socket)
            guard = Guard(server, self._keys, limits, self._check_signature, remote, served.sign_ins)
            observed = Observer(guard, served.metrics, server.routes)
            await opening.enter_async_context(Listener(observed, self._socket))
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _check_signature(self, name: str, headers: Headers, body: bytes) -> bool:
        return is_signed_hook(self._app, name, headers, body)

    def login_url(self) -> str:
        """A new link that opens the dashboard once."""
        public = public_address(self._app.config.gateway.public_url)
        return login_url(public.origin if public else self.url, self._keys.new_code())


def _export(app: App, url: str, stack: AsyncExitStack) -> None:
    """Send traces to a collector while the gateway is served."""
    task = asyncio.create_task(Exporter(app.ledgers, collector(url)).run())
    stack.push_async_callback(_cancel, task)


async def _notify(app: App, stack: AsyncExitStack) -> None:
    """Notify the owner's browsers while the gateway is served."""
    client = await stack.enter_async_context(push.client())
    sender = push.Sender(app.home, app.config.gateway.public_url)
    task = asyncio.create_task(push.Notifier(app.ledgers, sender, client).run())
    stack.push_async_callback(_cancel, task)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def make_rules(config: GatewayConfig, listening: socket.socket) -> Rules:
    """Make the rules of what the gateway lets in: its own names and those that the owner set."""
    host, port = listening.getsockname()[:2]
    named = f"[{host}]" if ":" in host else host
    public = public_address(config.public_url)
    own = {f"{name}:{port}" for name in (*_LOOPBACK, named)}
    return Rules(
        hosts=spellings([*own, *config.hosts, *([public.host] if public else [])]),
        public=public,
        rate_per_s=config.rate_per_s,
        body=BodyLimits.of(config),
    )
