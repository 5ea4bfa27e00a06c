"""The MCP server for a program that starts it: over standard input, beside whoever serves the home."""

from nexus.app import App
from nexus.config import Config
from nexus.gateway.mcp.mind import Mind
from nexus.gateway.mcp.server import build
from nexus.home import Home


async def serve(home: Home, config: Config) -> None:
    """Answer until the client closes its end. The home's own work is left to a process that serves it."""
    async with App(home, config, serve=False) as app:
        await build(Mind(app, embeds=True)).run_stdio_async()
