"""Managing a host over HTTP, at its bare name, with an admin token.

It adds, limits, lists and removes homes. It makes no token for a home that exists, because whoever has one
reads what the home holds: the owner of a home makes them, or whoever has the host's disk.
"""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nexus.config import GatewayConfig
from nexus.errors import HomeError, NexusError, UsageError
from nexus.gateway.browsers import Keys
from nexus.gateway.guard import BodyLimits, Guard, Rules, spellings
from nexus.gateway.refusals import refusal
from nexus.home import PRIVATE_FILE
from nexus.hosting import homes
from nexus.hosting.host import Host
from nexus.hosting.registry import HostedHome, Registry

_PAGE: Final = 100
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Admin:
    """The routes at the bare name of a host."""

    def __init__(self, host: Host, url_of: Callable[[str], str], port: int) -> None:
        self._host = host
        self._url_of = url_of
        routes = [
            Route("/api/homes", self._list, methods=["GET"]),
            Route("/api/homes", self._add, methods=["POST"]),
            Route("/api/homes/{name}", self._remove, methods=["DELETE"]),
            Route("/api/homes/{name}/limits", self._limit, methods=["PATCH"]),
        ]
        defaults = GatewayConfig()
        own = url_of("x").partition("//x.")[2]
        rules = Rules(
            hosts=spellings([own, *(f"{name}:{port}" for name in (*_LOOPBACK, own.partition(":")[0]))]),
            rate_per_s=defaults.rate_per_s,
            body=BodyLimits(most_bytes=defaults.max_body_bytes, timeout_ms=defaults.body_timeout_ms),
        )
        app = Starlette(routes=routes, exception_handlers={NexusError: _told})
        self._guard = _AdminGuard(app, rules, host.registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    async def _list(self, request: Request) -> Response:
        after = request.query_params.get("after", "")
        found = await asyncio.to_thread(self._host.registry.listed, after, _PAGE)
        return JSONResponse({"homes": [self._shown(each) for each in found], "open": len(self._host.pool)})

    async def _add(self, request: Request) -> Response:
        asked = await _fields(request)
        made, token = await asyncio.to_thread(self._made, str(asked.get("name", "")), asked.get("settings"))
        return JSONResponse({**self._shown(made), "token": token}, 201)

    def _made(self, name: str, settings: Any) -> tuple[HostedHome, str]:
        """A new home is empty, so its first token opens nobody's words."""
        registry = self._host.registry
        made = homes.add(registry, name)
        if settings is not None:
            file = registry.home(name).config_file
            file.write_text(str(settings), encoding="utf-8")
            file.chmod(PRIVATE_FILE)
        return made, registry.new_token(made.id, "full")

    async def _remove(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._host.registry.named, request.path_params["name"])
        await self._host.pool.evict(found.id)
        await asyncio.to_thread(homes.remove, self._host.registry, found)
        return Response(status_code=204)

    async def _limit(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._host.registry.named, request.path_params["name"])
        asked = await _fields(request)
        if unknown := asked.keys() - asdict(found.limits).keys():
            raise UsageError(f"Unknown limit: {', '.join(sorted(unknown))}", hint="See `nexus host limit`.")
        changed = found.limits.changed(asked)
        await asyncio.to_thread(self._host.registry.set_limits, found.id, changed)
        self._host.engine.scope_limits[found.id] = changed.concurrency
        return JSONResponse(asdict(changed))

    def _shown(self, found: HostedHome) -> dict[str, Any]:
        return {**asdict(found), "is_open": found.id in self._host.pool, "url": self._url_of(found.name)}


class _AdminGuard(Guard):
    """Lets in whoever has an admin token; a browser never has one."""

    def __init__(self, app: Starlette, rules: Rules, registry: Registry) -> None:
        super().__init__(app, Keys(""), rules)
        self._registry = registry

    async def unfit(self, request: Request, token: str) -> Response | None:
        grant = await asyncio.to_thread(self._registry.grant, token)
        if grant is None or grant.scope != "admin":
            return self._refused(request.headers, "Invalid API token")
        return None


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, NexusError)  # noqa: S101 - an invariant, for the reader and the type checker
    status = 422 if isinstance(error, UsageError) else 404 if isinstance(error, HomeError) else 500
    return refusal(status, error.message, error.hint)


async def _fields(request: Request) -> dict[str, Any]:
    try:
        found: Any = await request.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError("The request body is not a JSON object")
    return cast("dict[str, Any]", found)
