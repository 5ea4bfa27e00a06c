"""The dashboard of a home, without a browser: its pages are asked for in this process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from nexus.app import App
from nexus.config import Config
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.server import build
from nexus.home import Home
from unit.gateway.scene import Scene

URL = "http://127.0.0.1:7807"


@pytest.fixture
async def app(home: Home) -> AsyncIterator[App]:
    """A home that is open and does no work."""
    async with App(home, Config(), serve=False) as app:
        yield app


@pytest.fixture
def keys() -> Keys:
    return Keys("t" * 43)


@pytest.fixture
async def client(app: App, keys: Keys) -> AsyncIterator[httpx.AsyncClient]:
    """Whoever came past the guard."""
    async with AsyncExitStack() as stack:
        server = build(Served(app, keys, stack))
        transport = httpx.ASGITransport(server)
        yield await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=URL))


@pytest.fixture
def scene(app: App) -> Scene:
    """What the home is filled with."""
    return Scene(ledgers=app.ledgers)
