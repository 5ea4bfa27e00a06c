"""The memory for agents elsewhere: an MCP server under /mcp of the gateway, and over standard input.

Under /mcp it is made for the first client that comes:
the SDK takes as long to import as the rest of the gateway, and most homes have no such client.
"""

import asyncio
import fcntl
import hmac
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from nexus import extras
from nexus.broker.agent import import_module
from nexus.errors import ConfigError
from nexus.gateway.dependencies import served_by
from nexus.gateway.guard import PublicAddress
from nexus.home import PRIVATE_FILE, Home

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


_MOST: Final = 64


class Grant(BaseModel, frozen=True):
    """One client, and the digests of its tokens."""

    client_id: str
    name: str
    """What it calls itself, on one line."""
    returns_to: str
    """The host that the browser was sent back to."""
    registration: str
    created_at: float
    access: str = ""
    access_ends: float = 0.0
    refresh: str = ""
    refresh_ends: float = 0.0
    used: str = ""
    """The refresh token before. Whoever sends it again may have stolen it."""


_GRANTS: Final = TypeAdapter(dict[str, Grant])


class Grants:
    """The clients of one home. Everything here waits for the disk."""

    def __init__(self, home: Home) -> None:
        self._file: Final = home.run / "mcp-clients.json"
        self._key = hmac.digest(home.token().encode(), b"nexus mcp", "sha256")

    def digest(self, token: str) -> str:
        return hmac.new(self._key, token.encode(errors="surrogateescape"), "sha256").hexdigest()

    def load(self) -> dict[str, Grant]:
        """Read who is let in; nobody if the file is broken, who can sign in again."""
        try:
            return _GRANTS.validate_json(self._file.read_bytes())
        except (OSError, ValidationError):
            return {}

    def is_access_token(self, token: str) -> bool:
        digest = self.digest(token)
        return any(each.access == digest and each.access_ends > time.time() for each in self.load().values())

    @contextmanager
    def change(self) -> Generator[dict[str, Grant]]:
        """Change who is let in; two processes do so one after the other."""
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            before = self.load()
            grants = dict(before)
            yield grants
            if grants != before:
                _write_grants(self._file, dict(list(grants.items())[-_MOST:]))
        finally:
            os.close(folder)


def _write_grants(file: Path, grants: dict[str, Grant]) -> None:
    new = file.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(_GRANTS.dump_json(grants))
    new.replace(file)


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
