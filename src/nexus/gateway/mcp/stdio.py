"""The MCP server for a program that starts it: over standard input, beside whoever serves the home."""

from nexus.app import App
from nexus.broker.agent.roles import models_of
from nexus.config import Config
from nexus.errors import ConfigError
from nexus.gateway.mcp.mind import Mind
from nexus.gateway.mcp.server import build
from nexus.home import Home
from nexus.serving import serving


async def serve(home: Home, config: Config) -> None:
    """Answer until the client closes its end.

    The home's own work is left to a process that serves it. Where there is none and a model is set, this one
    does it meanwhile, as `nexus chat` does: otherwise nobody would ask the model.
    """
    serves = serving(home) is None and _has_model(config)
    async with App(home, config, serve=serves) as app:
        await build(Mind(app, serves=serves)).run_stdio_async()


def _has_model(config: Config) -> bool:
    try:
        return bool(models_of(config.models, "reflection"))
    except ConfigError:
        return False
