"""The memory for agents elsewhere: an MCP server under /mcp of the gateway, and over standard input.

Under /mcp it is made for the first client that comes:
the SDK takes as long to import as the rest of the gateway, and most homes have no such client.
"""

from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nexus import extras
from nexus.broker.agent import library
from nexus.gateway.dependencies import served_by

_PATH: Final = "/mcp"
_SERVER: Final = "nexus.gateway.mcp.server"


def join(server: FastAPI) -> None:
    """Add the route."""
    server.router.routes.append(Route(_PATH, _Endpoint()))


class _Endpoint:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served = served_by(Request(scope))
        async with served.making_mcp:
            if served.mcp is None:
                extras.require("mcp", "Serving the memory over MCP")
                module = await library.import_module(_SERVER)
                served.mcp = await served.stack.enter_async_context(module.endpoint(served.app, _PATH))
        assert served.mcp is not None  # noqa: S101 - an invariant, for the reader and the type checker
        await served.mcp(scope, receive, send)
