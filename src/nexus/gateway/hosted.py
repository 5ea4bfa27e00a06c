"""The gateway of a host: one socket for all of its homes, each at a host name of its own.

A request names its home by `Host`, such as `ada.agents.example`. A name, not a path: to a browser each home
is then another origin, which can neither read another's pages nor send its cookies. What opens a home is a
token or a login of that home. Unknown homes and wrong tokens get the same answer, and open nothing.

The bare name is for whoever manages the host: `admin` has its routes, and none that shows what a home holds.
"""

import asyncio
import socket
from collections import OrderedDict
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from nexus import ids
from nexus.config import GatewayConfig
from nexus.engine.shared import HomeAwayError
from nexus.gateway import admin
from nexus.gateway.browsers import Keys
from nexus.gateway.dependencies import SERVED, Served
from nexus.gateway.guard import BodyLimits, Guard, Rules, public_address, spellings
from nexus.gateway.hooks import unsigned
from nexus.gateway.listener import Listener
from nexus.gateway.metrics import Observer
from nexus.gateway.refusals import refusal
from nexus.gateway.server import build
from nexus.home import Home
from nexus.hosting.host import Host
from nexus.hosting.pool import OpenHome, UnknownHomeError
from nexus.hosting.registry import HostedHome, Registry

TOKENS: Final = "/api/host/token"
"""Here the owner of a home gives it a new token; those from before end."""
_SAFE: Final = frozenset({"GET", "HEAD"})
_GROWS: Final = frozenset({"POST", "PUT", "PATCH"})
_MOST_FRONTS: Final = 2_048


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
        self._host = host
        self._socket = listening
        self.port: int = listening.getsockname()[1]
        self.address = Address.of(public_url, self.port)
        host.pool.url_of = self.address.of_home
        self._fronts: OrderedDict[str, _Front] = OrderedDict()
        self._server = build()
        self._admin = admin.Admin(host, self.address.of_home, self.port)
        self._served: dict[str, tuple[Served, Observer]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(Listener(self, self._socket))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        name = self.address.home_in(Headers(scope=scope).get("host", ""))
        if not name:
            await self._admin(scope, receive, send)
            return
        await (await self._front(name)).guard(scope, receive, send)

    async def _front(self, name: str) -> "_Front":
        """What stands before a home, made when it is first asked for; also before one that is not there."""
        found = await asyncio.to_thread(self._host.registry.find, name)
        front = self._fronts.pop(name, None)
        if front is None or not front.is_for(found):
            home = None if found is None else self._host.registry.home(name)
            front = await asyncio.to_thread(_Front, self, name, found, home)
        self._fronts[name] = front
        if len(self._fronts) > _MOST_FRONTS:
            self._fronts.popitem(last=False)
        return front

    @property
    def registry(self) -> Registry:
        return self._host.registry

    async def serve(self, front: "_Front", scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard let in, in its home."""
        found = front.found
        assert found is not None  # noqa: S101 - an invariant, for the reader and the type checker
        if scope["path"] == TOKENS and scope["method"] == "POST":
            token = await asyncio.to_thread(self.registry.new_token, found.id, "full", rotate=True)
            await JSONResponse({"token": token}, 201)(scope, receive, send)
            return
        refused: Response
        try:
            async with self._host.pool.use(found.id, active=scope["method"] not in _SAFE) as opened:
                if opened.is_full and scope["method"] in _GROWS:
                    refused = refusal(
                        507,
                        f"This home has more than its {opened.limits.disk_mib} MiB of disk",
                        "Delete something, or ask whoever runs the host for more.",
                    )
                    await refused(scope, receive, send)
                    return
                served, observer = self._serving(opened, front)
                scope[SERVED] = served
                await observer(scope, receive, send)
                return
        except UnknownHomeError:
            refused = refusal(401, "Invalid API token", "Ask whoever runs the host for a token.")
        except HomeAwayError as away:
            refused = refusal(503, away.message, away.hint)
        await refused(scope, receive, send)

    def _serving(self, opened: OpenHome, front: "_Front") -> tuple[Served, Observer]:
        """The open home as the application serves it, until it is closed."""
        if opened.id not in self._served:
            served = Served(opened.app, front.keys, opened.on_close)
            observer = Observer(self._server, served.metrics, self._server.routes)
            self._served[opened.id] = served, observer
            opened.on_close.callback(self._served.pop, opened.id)
        served, observer = self._served[opened.id]
        served.keys = front.keys
        return served, observer


class _Front:
    """What stands before one home, open or closed: its guard, with the home's own limits."""

    def __init__(self, gateway: HostGateway, name: str, found: HostedHome | None, home: Home | None) -> None:
        """Reads the home's files: call it on a thread."""
        self.found = found
        self._gateway = gateway
        self._under_way = 0
        secret = ids.new("key") * 2 if home is None else home.token()
        self.keys = Keys(secret, port=gateway.port, file=home and home.browsers_file)
        public = public_address(gateway.address.of_home(name))
        assert public is not None  # noqa: S101 - an invariant, for the reader and the type checker
        defaults = GatewayConfig()
        rules = Rules(
            hosts=spellings([public.host, f"{name}.{gateway.address.domain}:{gateway.port}"]),
            public=public,
            rate_per_s=found.limits.rate_per_s if found else defaults.rate_per_s,
            body=BodyLimits(most_bytes=defaults.max_body_bytes, timeout_ms=defaults.body_timeout_ms),
        )
        self.guard = _HomeGuard(self, self.keys, rules, gateway.registry, found.id if found else None)

    def is_for(self, found: HostedHome | None) -> bool:
        """Whether it is still the same home with the same limits."""
        if self.found is None or found is None:
            return self.found is found
        return (self.found.id, self.found.limits) == (found.id, found.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.found is None:
            # Only what a signature is to prove comes here without a token.
            await unsigned()(scope, receive, send)
            return
        if self._under_way >= self.found.limits.requests:
            refused = refusal(429, "Too many requests at the same time", "Wait for some to end.")
            await refused(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._gateway.serve(self, scope, receive, send)
        finally:
            self._under_way -= 1


class _HomeGuard(Guard):
    """Lets in whoever has a token of this home."""

    def __init__(
        self, app: _Front, keys: Keys, rules: Rules, registry: Registry, home_id: str | None
    ) -> None:
        super().__init__(app, keys, rules)
        self._registry = registry
        self._home_id = home_id

    async def unfit(self, request: Request, token: str) -> Response | None:
        grant = await asyncio.to_thread(self._registry.grant, token)
        if grant is None or grant.home_id is None or grant.home_id != self._home_id:
            return self._refused(request.headers, "Invalid API token")
        if grant.scope == "read" and request.method not in _SAFE:
            return refusal(403, "This token can only read", "Use a token that was made without --read-only.")
        return None
