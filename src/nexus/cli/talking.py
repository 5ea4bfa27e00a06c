"""A home to talk with: through the process that serves it, or opened here where nobody does."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from nexus.cli.place import note
from nexus.cli.talk import Talk, There
from nexus.client import Client
from nexus.config import Config
from nexus.home import Home
from nexus.serving import serving


@asynccontextmanager
async def talking(
    home: Home, settings: Config, model: str, *, needs_model: bool = True
) -> AsyncGenerator[Talk]:
    """The home, ready to be talked with; an error that says what to do where no model could answer."""
    service = serving(home)
    if service is not None and service.url:
        async with Client(service.url, home.token(), service=service, notify=note) as client:
            yield There(client)
        return
    # Imported here: a home that is served needs nothing of what serving it takes.
    from nexus.cli.talking_here import here

    async with here(home, settings, model, needs_model=needs_model) as opened:
        yield opened
