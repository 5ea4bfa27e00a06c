"""The gateway of a host: one socket for all of its homes, each at a host name of its own.

A request names its home by `Host`, such as `ada.agents.example`. A name, not a path: to a browser each home
is then another origin, which can neither read another's pages nor send its cookies. What opens a home is a
token or a login of that home, or the signature of one of its hooks. Unknown homes, wrong tokens and wrong
signatures get the same answer, and open nothing.

The bare name is for whoever manages the host: `admin` has its routes, and none that shows what a home holds.
"""

import asyncio
import os
import socket
import time
from collections import OrderedDict
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nexus import config, ids
from nexus.channels.kinds import Adapters
from nexus.channels.webhook import Webhook
from nexus.config import ChannelConfig, GatewayConfig
from nexus.engine.shared import HomeAwayError
from nexus.errors import NexusError
from nexus.gateway import admin
from nexus.gateway.admin import who
from nexus.gateway.dependencies import SERVED, Served
from nexus.gateway.errors import refusal, try_later
from nexus.gateway.forwarding import FORWARDED_TO, Router, refuse_misdirected
from nexus.gateway.guard import BodyLimits, Guard, Keys, Rules, public_address, spellings
from nexus.gateway.host_telemetry import HostExporter, HostMetrics, HostObserver
from nexus.gateway.internal import PREFIX, Internal
from nexus.gateway.listener import Listener
from nexus.gateway.server import build, is_signed_hook
from nexus.gateway.spans import collector
from nexus.home import Home
from nexus.hosting.audit import by_token
from nexus.hosting.fleet.fleet import HomeFence
from nexus.hosting.fleet.records import HomeElsewhereError
from nexus.hosting.host import Host
from nexus.hosting.pool import OpenHome, UnknownHomeError
from nexus.hosting.registry import HostedHome

TOKENS: Final = "/api/host/token"
"""Here the owner of a home gives it a new token; those from before end."""
_SAFE: Final = frozenset({"GET", "HEAD"})
_GROWS: Final = frozenset({"POST", "PUT", "PATCH"})
_MOST_FRONTS: Final = 2_048
_LONGEST_NAME: Final = 63
# Longer than it takes to find out that a hook isn't signed: the time tells nobody whether a home exists.
_UNSIGNED_S: Final = 0.1
_COPIED_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the homes of a host are reached: each at its name before the host's."""

    scheme: str
    domain: str
    """Without a port."""
    port: str
    """With its colon; nothing where it is the usual one."""

    @classmethod
    def of(cls, public_url: str, listening_port: int) -> Self:
        """Of the URL that a proxy in front has, or on this machine alone."""
        public = public_address(public_url)
        if public is None:
            return cls(scheme="http", domain="localhost", port=f":{listening_port}")
        parts = urlsplit(public.origin)
        return cls(
            scheme=parts.scheme, domain=parts.hostname or "", port=f":{parts.port}" if parts.port else ""
        )

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.domain}{self.port}"

    def of_home(self, name: str) -> str:
        return f"{self.scheme}://{name}.{self.domain}{self.port}"

    def home_in(self, host: str) -> str:
        """The home that a `Host` names; nothing where it names none."""
        name, _, rest = host.lower().partition(".")
        return name if rest.partition(":")[0] == self.domain else ""


class HostGateway:
    """The gateway of a host, listening while the context lasts."""

    def __init__(self, host: Host, listening: socket.socket, public_url: str = "") -> None:
        self.host = host
        self._socket = listening
        self.port: int = listening.getsockname()[1]
        self.address = Address.of(public_url, self.port)
        host.pool.url_of = self.address.of_home
        self._fronts: OrderedDict[str, _Front] = OrderedDict()
        self._server = build()
        self.metrics = HostMetrics(host)
        self._exporter = HostExporter(collector(url)) if (url := host.settings.otlp_url) else None
        host.pool.on_open = self._note_opening
        self._admin = admin.Admin(host, self.address.of_home, self.port, self.metrics)
        self._observer = HostObserver(
            self._dispatch, self.metrics.http, [*self._server.routes, *self._admin.routes]
        )
        self._served: dict[str, Served] = {}
        self._internal = None if host.fleet is None else Internal(host.fleet, host.pool)
        self._streams = Streams()
        host.pool.on_move = self._streams.end
        self._router = None if host.fleet is None else Router(host.fleet, host.pool, _body_limits())
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._router is not None:
            self._stack.push_async_callback(self._router.close)
        await self._stack.enter_async_context(self.metrics)
        if self._exporter is not None:
            await self._stack.enter_async_context(self._exporter)
        await self._stack.enter_async_context(Listener(self._observer, self._socket))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._internal is not None and scope["path"].startswith(PREFIX):
            await self._internal(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = self.address.home_in(headers.get("host", ""))
        try:
            if not self._is_meant(headers):
                refused = refuse_misdirected("This is another host", "Look up again which host has the home.")
                await refused(scope, receive, send)
            elif name:
                await self._route(name, scope, receive, send)
            else:
                await self._admin(scope, receive, send)
        except HomeAwayError as away:
            await try_later(away.message, away.hint)(scope, receive, send)

    def _is_meant(self, headers: Headers) -> bool:
        """Whether a request that another host passed on is for this one, not for one that was here before."""
        to, fleet = headers.get(FORWARDED_TO), self.host.fleet
        return to is None or (fleet is not None and to == fleet.registry.host_key(fleet.name))

    async def _route(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a home here, or have the host answer it that owns the home."""
        found = await asyncio.to_thread(self.host.registry.find, name)
        guard = (await self._front(name, found)).guard
        if self._router is None or found is None:
            await guard(scope, receive, send)
        else:
            await self._router(found.id, scope, receive, send, guard)

    async def _front(self, name: str, found: HostedHome | None) -> "_Front":
        """What stands before a home, made when it is first asked for; also before one that is not there."""
        front = self._fronts.pop(name, None)
        if front is None or not front.is_for(found):
            home = None if found is None else self.host.registry.home(name)
            front = await asyncio.to_thread(_Front, self, name, found, home)
        self._fronts[name] = front
        if len(self._fronts) > _MOST_FRONTS:
            self._fronts.popitem(last=False)
        return front

    def _note_opening(self, home: OpenHome, took_s: float, error: Exception | None) -> None:
        self.metrics.count_opening(home, took_s, error)
        if self._exporter is not None and error is None:
            self._exporter.add_home(home)

    @property
    def is_in_fleet(self) -> bool:
        return self._router is not None

    async def serve(self, front: "_Front", scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard let in, in its home."""
        found = front.found
        assert found is not None  # noqa: S101 - an invariant, for the reader and the type checker
        if scope["path"] == TOKENS and scope["method"] == "POST":
            token = await asyncio.to_thread(self._rotate_token, found, who(Request(scope)))
            await JSONResponse({"token": token}, 201)(scope, receive, send)
            return
        refused: Response
        try:
            async with self.host.pool.use(found.id, active=scope["method"] not in _SAFE) as opened:
                if opened.is_full and scope["method"] in _GROWS:
                    refused = refusal(
                        507,
                        f"This home has more than its {opened.limits.disk_mib} MiB of disk",
                        "Delete something, or ask whoever runs the host for more.",
                    )
                    await refused(scope, receive, send)
                    return
                scope[SERVED] = self._find_served(opened, front)
                if opened.fence is not None and scope["method"] not in _SAFE:
                    send = _Fenced(opened.fence, scope, receive, send)
                if opened.fence is None:
                    await self._server(scope, receive, send)
                else:
                    await self._streams.serve(opened.id, self._server, scope, receive, send)
                return
        except UnknownHomeError:
            refused = refusal(401, "Invalid API token", "Ask whoever runs the host for a token.")
        except HomeElsewhereError:
            raise
        except HomeAwayError as away:
            refused = try_later(away.message, away.hint)
        await refused(scope, receive, send)

    def _rotate_token(self, found: HostedHome, by: str) -> str:
        with self.host.audit.act("token.rotate", who=by, home=found.name, scope="full"):
            return self.host.registry.new_token(found.id, "full", rotate=True)

    def _find_served(self, opened: OpenHome, front: "_Front") -> Served:
        """The open home as the application serves it, until it is closed."""
        if opened.id not in self._served:
            self._served[opened.id] = Served(opened.app, front.keys, opened.on_close)
            opened.on_close.callback(self._served.pop, opened.id)
        served = self._served[opened.id]
        served.keys = front.keys
        return served


class _Stream:
    """An answer under way."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_open = False
        """Whether it is a stream of events that has begun and not ended."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
            self.is_open = any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in headers
            )
        elif not message.get("more_body", False):
            self.is_open = False
        await self._send(message)

    async def end(self) -> None:
        if self.is_open:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


class Streams:
    """Serves requests of homes, and can end those that would never end by themselves.

    Streams of events end when their home moves to another host, and their clients resume them there: a home
    moves once nobody uses it, and somebody always looks at a dashboard.
    """

    def __init__(self) -> None:
        self._open: dict[str, dict[asyncio.Task[None], _Stream]] = {}

    async def serve(self, home_id: str, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        stream = _Stream(send)
        serving = asyncio.ensure_future(app(scope, receive, stream.send))
        streams = self._open.setdefault(home_id, {})
        streams[serving] = stream
        try:
            await asyncio.wait({serving})
            if serving.cancelled():
                await stream.end()
            else:
                serving.result()
        finally:
            serving.cancel()
            with suppress(BaseException):
                await serving
            del streams[serving]
            if not streams:
                self._open.pop(home_id, None)

    def end(self, home_id: str) -> None:
        """End the streams of a home; whatever else is asked of it is answered."""
        for serving, stream in self._open.get(home_id, {}).items():
            if stream.is_open:
                serving.cancel()


class _Fenced:
    """Answers a request that wrote only while the host owned the home; otherwise with 503."""

    def __init__(self, fence: HomeFence, scope: Scope, receive: Receive, send: Send) -> None:
        self._fence = fence
        self._scope = scope
        self._receive = receive
        self._send = send
        self._is_refused = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self._fence.holds:
            self._is_refused = True
            refused = refusal(503, "The home is moving to another host", "Try again in a moment.")
            await refused(self._scope, self._receive, self._send)
        if not self._is_refused:
            await self._send(message)


def _body_limits() -> BodyLimits:
    defaults = GatewayConfig()
    return BodyLimits(most_bytes=defaults.max_body_bytes, timeout_ms=defaults.body_timeout_ms)


class _Front:
    """What stands before one home, open or closed: its guard, with the home's own limits."""

    def __init__(self, gateway: HostGateway, name: str, found: HostedHome | None, home: Home | None) -> None:
        """Reads the home's files: call it on a thread."""
        self.found = found
        self._gateway = gateway
        self._home = home
        self._under_way = 0
        self._channels: dict[str, ChannelConfig] = {}
        self._channels_file: os.stat_result | None = None
        self._copied_at: float | None = None
        """When the settings were read from the home's copy; None if its folder is here."""
        self._reading = asyncio.Lock()
        secret = ids.new("key") * 2 if found is None else gateway.host.registry.key(found.id)
        # In a fleet a browser's cookie is good on each host, whatever its port.
        port = 0 if gateway.is_in_fleet else gateway.port
        self.keys = Keys(secret, port=port, file=home and home.browsers_file)
        public = public_address(gateway.address.of_home(name))
        assert public is not None  # noqa: S101 - an invariant, for the reader and the type checker
        rules = Rules(
            hosts=spellings([public.host, f"{name}.{gateway.address.domain}:{gateway.port}"]),
            public=public,
            any_port=gateway.is_in_fleet,
            rate_per_s=found.limits.rate_per_s if found else GatewayConfig().rate_per_s,
            body=_body_limits(),
        )
        self.guard = _HomeGuard(self, self.keys, rules, gateway, name)

    def is_for(self, found: HostedHome | None) -> bool:
        """Whether it is still the same home with the same limits."""
        if self.found is None or found is None:
            return self.found is found
        return (self.found.id, self.found.limits) == (found.id, found.limits)

    async def check_signature(self, name: str, headers: Headers, body: bytes) -> bool:
        """Whether a hook is signed, found without opening the home."""
        began = time.monotonic()
        opened = self.found and self._gateway.host.pool.find_open(self.found.id)
        if opened:
            is_signed = is_signed_hook(opened.app, name, headers, body)
        else:
            await self._read_copied_settings()
            is_signed = await asyncio.to_thread(self._is_signed, name, headers, body)
        if not is_signed:
            await asyncio.sleep(began + _UNSIGNED_S - time.monotonic())
        return is_signed

    async def _read_copied_settings(self) -> None:
        """Read the settings of a home of which only the copy is left, now and then."""
        async with self._reading:
            if self._home is None or await asyncio.to_thread(self._home.root.is_dir):
                self._copied_at = None
            elif self._copied_at is None or time.monotonic() - self._copied_at > _COPIED_S:
                self._channels, self._channels_file = {}, None
                with suppress(NexusError, UnicodeDecodeError):
                    text = await self._gateway.host.pool.read_settings(self.found.id) if self.found else ""
                    self._channels = config.parse(text, self._home.config_file).channels
                self._copied_at = time.monotonic()

    def _is_signed(self, name: str, headers: Headers, body: bytes) -> bool:
        """Check by the settings of a closed home. Waits for the disk."""
        if self._home is None:
            return False
        adapters = Adapters(home=self._home)
        try:
            if self._copied_at is None:
                file = self._home.config_file.stat()
                if self._channels_file is None or _identity(file) != _identity(self._channels_file):
                    self._channels = config.load(self._home.config_file).channels
                    self._channels_file = file
            settings = self._channels.get(name)
            if settings is None or settings.kind != "webhook":
                return False
            adapters.add(name, settings)
        except (NexusError, OSError):  # a home with settings like that can't be opened either
            return False
        hook = adapters.by_name[name]
        return isinstance(hook, Webhook) and hook.is_signed(headers, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.found is not None  # noqa: S101 - the guard lets nobody into a home that isn't there
        if self._under_way >= self.found.limits.requests:
            refused = refusal(429, "Too many requests at the same time", "Wait for some to end.")
            await refused(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._gateway.serve(self, scope, receive, send)
        finally:
            self._under_way -= 1


def _identity(file: os.stat_result) -> tuple[int, int, int]:
    return file.st_ino, file.st_mtime_ns, file.st_size


class _HomeGuard(Guard):
    """Lets in whoever has a token of this home, or signs for one of its hooks."""

    def __init__(self, app: _Front, keys: Keys, rules: Rules, gateway: HostGateway, name: str) -> None:
        super().__init__(app, keys, rules, app.check_signature)
        self._registry = gateway.host.registry
        self._audit = gateway.host.audit
        self._home_id = app.found.id if app.found else None
        self._name = name[:_LONGEST_NAME]

    async def _login(self, request: Request) -> Response | None:
        answer = await super()._login(request)
        if answer is not None:
            entered = answer.status_code == HTTPStatus.OK
            record = self._audit.record if entered else self._audit.record_refusal
            await asyncio.to_thread(record, "login", who="login link", home=self._name)
        return answer

    async def check_token(self, request: Request, token: str) -> Response | None:
        grant = await asyncio.to_thread(self._registry.grant, token)
        if grant is None or grant.home_id is None or grant.home_id != self._home_id:
            await asyncio.to_thread(
                self._audit.record_refusal, "token.use", who=by_token(token), home=self._name
            )
            return self._refuse(request.headers, "Invalid API token")
        if grant.scope == "read" and request.method not in _SAFE:
            return refusal(403, "This token can only read", "Use a token that was made without --read-only.")
        return None
