"""The memory for agents elsewhere: an MCP server under /mcp of the gateway, and over standard input.

Under /mcp it is made for the first client that comes:
the SDK takes as long to import as the rest of the gateway, and most homes have no such client.
"""

import asyncio
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from nexus import extras
from nexus.broker.agent import import_module
from nexus.errors import ConfigError
from nexus.gateway.dependencies import served_by
from nexus.gateway.guard import PublicAddress
from nexus.gateway.mcp.grants import Grants
from nexus.home import Home

_PATH: Final = "/mcp"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_SERVER: Final = "nexus.gateway.mcp.server"
_OAUTH: Final = "nexus.gateway.mcp.oauth"
_METADATA: Final = "/.well-known/oauth-protected-resource"
_CONSENT: Final = "/oauth/consent"
_OPEN: Final = frozenset(
    {
        f"{_METADATA}{_PATH}",
        "/.well-known/oauth-authorization-server",
        "/authorize",
        "/register",
        "/revoke",
        "/token",
    }
)


def join(server: FastAPI) -> None:
    """Add the routes."""
    server.router.routes.append(Route(_PATH, _Endpoint()))
    server.router.routes += [Route(path, _OauthEndpoint()) for path in (*sorted(_OPEN), _CONSENT)]


class RemoteClients:
    """MCP clients that come by the public address: each needs a token that the owner let it have."""

    def __init__(self, home: Home, public: PublicAddress | None) -> None:
        if public is None or not (public.is_encrypted or urlsplit(public.origin).hostname in _LOOPBACK):
            raise ConfigError(
                "`[gateway] mcp_oauth` needs a `public_url` that begins with https://",
                hint="Set `public_url` to the address of your TLS proxy.",
            )
        self._home, self._public = home, public
        self.resource: Final = f"{public.origin}{_PATH}"
        self.challenge: Final = f'Bearer realm="nexus", resource_metadata="{public.origin}{_METADATA}{_PATH}"'

    @cached_property
    def grants(self) -> Grants:
        return Grants(self._home)

    def asks_openly(self, request: Request) -> bool:
        """Whether a request needs no token: it asks for one, or for the page where the owner is asked."""
        is_open = request.url.path in _OPEN or (request.url.path == _CONSENT and request.method == "GET")
        return is_open and self._comes_here(request)

    def asks_memory(self, request: Request) -> bool:
        return request.url.path == _PATH and self._comes_here(request)

    async def may_enter(self, token: str) -> bool:
        return await asyncio.to_thread(self.grants.is_access_token, token)

    async def make_endpoint(self) -> ASGIApp:
        """Make what speaks OAuth; the SDK takes long to import."""
        extras.require("mcp", "Serving the memory over MCP")
        module = await import_module(_OAUTH)
        return module.make_endpoint(self.grants, self._public.origin, self.resource)

    def _comes_here(self, request: Request) -> bool:
        return request.headers.get("host", "").lower() == self._public.host


class _Endpoint:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served = served_by(Request(scope))
        async with served.making_mcp:
            if served.mcp is None:
                extras.require("mcp", "Serving the memory over MCP")
                module = await import_module(_SERVER)
                served.mcp = await served.stack.enter_async_context(module.endpoint(served.app, _PATH))
        assert served.mcp is not None  # noqa: S101 - an invariant, for the reader and the type checker
        await served.mcp(scope, receive, send)


class _OauthEndpoint:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served = served_by(Request(scope))
        if served.remote_clients is None:
            raise HTTPException(404)
        async with served.making_mcp:
            if served.oauth is None:
                served.oauth = await served.remote_clients.make_endpoint()
        await served.oauth(scope, receive, send)
