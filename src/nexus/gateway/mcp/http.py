"""The MCP server's streamable HTTP transport, as a room of the gateway."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from mcp.server.transport_security import TransportSecuritySettings

from nexus.app import App
from nexus.gateway.mcp.mind import Mind
from nexus.gateway.mcp.server import build

PATH = "/mcp"


async def join(server: FastAPI, app: App, stack: AsyncExitStack) -> None:
    """Put the transport under /mcp. The guard in front has asked who comes, and from where."""
    memory = build(Mind(app, serves=True))
    guarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    inner = memory.streamable_http_app(streamable_http_path=PATH, transport_security=guarded)
    server.router.routes.extend(inner.routes)
    await stack.enter_async_context(_in_its_own_task(memory.session_manager.run()))


@asynccontextmanager
async def _in_its_own_task(running: AbstractAsyncContextManager[None]) -> AsyncGenerator[None]:
    """The SDK's scope must be left by the task that entered it; a stack may be closed by another one."""
    ready, over = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with running:
            ready.set()
            await over.wait()

    task = asyncio.create_task(run())
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        yield
    finally:
        over.set()
        await task
