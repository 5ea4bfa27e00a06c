"""The MCP server's streamable HTTP transport, as a room of the gateway."""

from contextlib import AsyncExitStack

from fastapi import FastAPI
from mcp.server.transport_security import TransportSecuritySettings

from nexus.app import App
from nexus.gateway.mcp.mind import Mind
from nexus.gateway.mcp.server import build

PATH = "/mcp"


async def join(server: FastAPI, app: App, stack: AsyncExitStack) -> None:
    """Put the transport under /mcp. The guard in front has asked who comes, and from where."""
    memory = build(Mind(app, embeds=False))
    guarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    inner = memory.streamable_http_app(streamable_http_path=PATH, transport_security=guarded)
    server.router.routes.extend(inner.routes)
    await stack.enter_async_context(memory.session_manager.run())
