"""What is noted about requests names the kind of thing that was asked for, and never which one."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from nexus.app import App
from nexus.config import Config
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.metrics import Observer
from nexus.gateway.server import build
from nexus.home import Home

_SECRETS = ("a", "api", "e/sessions/s", "raspberry/transcript", "memory", "/", "{label}")
_ROUTES = {
    "/api/sessions/{}/transcript": "/api/sessions/{label}/transcript",
    "/api/memory/entities/{}": "/api/memory/entities/{reference}",
    "/chat/{}": "/chat/{label}",
    "/sessions/{}": "/sessions/{label}",
    "/memory/entities/{}": "/memory/entities/{id}",
    "/static/{}": "/static/{path}",
    "/raspberry{}": "-",
}


@pytest.fixture
async def client(home: Home) -> AsyncIterator[httpx.AsyncClient]:
    async with App(home, Config(), serve=False) as app, AsyncExitStack() as stack:
        served = Served(app, Keys("t" * 43), stack)
        server = build(served)
        observer = Observer(server, served.metrics, server.routes)
        transport = httpx.ASGITransport(observer)
        yield await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7807")
        )


async def test_a_route_is_its_pattern_whatever_the_path_holds(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nexus.gateway")
    known = {*_ROUTES.values(), "/api/metrics", "/api/memory/entities", "/memory/entities"}
    for path, pattern in _ROUTES.items():
        for secret in _SECRETS:
            if "reference" in pattern and "/" in secret:
                continue
            caplog.clear()
            await client.get(path.format(quote(secret, safe="")))
            (route,) = _routes(caplog)
            assert route == pattern, (path, secret)
    await client.get("/api/metrics")
    metrics = (await client.get("/api/metrics")).text
    told = {line.split('route="')[1].split('"')[0] for line in metrics.splitlines() if 'route="' in line}
    assert told <= known


def _routes(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [vars(record)["route"] for record in caplog.records if "route" in vars(record)]
