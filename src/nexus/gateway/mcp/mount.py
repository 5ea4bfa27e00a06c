"""The MCP server under /mcp of the gateway, made for the first client that comes.

The SDK takes as long to import as the rest of the gateway, and most homes have no such client.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from nexus.app import App
from nexus.broker.agent import library

PATH: Final = "/mcp"
_SERVER: Final = "nexus.gateway.mcp.server"


async def join(server: FastAPI, app: App, stack: AsyncExitStack) -> None:
    """Add the route."""
    running = await stack.enter_async_context(AsyncExitStack())
    server.router.routes.append(Route(PATH, _Endpoint(app, running)))


class _Endpoint:
    def __init__(self, app: App, stack: AsyncExitStack) -> None:
        self._app = app
        self._stack = stack
        self._made: ASGIApp | None = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._making:
            if self._made is None:
                module = await library.imported(_SERVER)
                self._made = await self._stack.enter_async_context(module.endpoint(self._app, PATH))
        assert self._made is not None  # noqa: S101 - an invariant, for the reader and the type checker
        await self._made(scope, receive, send)
