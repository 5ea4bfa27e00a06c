"""A home's gateway on loopback, and a client that has its token."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx

from apps import settings
from new_homes import with_engine
from nexus.app import App
from nexus.channels.http import ssl_context
from nexus.config import EngineConfig
from nexus.gateway.listener import bind_socket
from nexus.gateway.server import Gateway
from nexus.home import Home
from nexus.testing import ModelServer


def app_for_gateway(home: Home, server: ModelServer) -> App:
    """The parts of a home. On a busy machine its process is not taken for dead."""
    return App(with_engine(home), replace(settings(server), engine=EngineConfig(lease_ms=30_000)))


@asynccontextmanager
async def gateway_on(app: App) -> AsyncGenerator[httpx.AsyncClient]:
    """The gateway of an open home, really listening; the client speaks for its owner."""
    with bind_socket("127.0.0.1", 0) as listening:
        async with Gateway(app, listening) as gateway, client_of(gateway.url, app.home.token()) as client:
            yield client


def client_of(url: str, token: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=url, headers=headers, verify=ssl_context(), timeout=60)
