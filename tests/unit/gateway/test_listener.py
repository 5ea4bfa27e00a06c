"""The gateway stops, whoever is still waiting for an answer."""

import asyncio
import logging
import time

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from gateways import client_of
from nexus.gateway import listener
from nexus.gateway.listener import Listener, address, bound
from nexus.gateway.metrics import Metrics
from nexus.gateway.observer import Observer


class Waiting:
    """Never answers; a stubborn one does not end when it is cancelled either."""

    def __init__(self, *, stubborn: bool) -> None:
        self.began, self.ends = asyncio.Event(), asyncio.Event()
        self._stubborn = stubborn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.set()
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            if not self._stubborn:
                raise
            # Once only: a second cancellation, such as that of a test that failed, ends it.
            await self.ends.wait()


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_client_that_waits_does_not_keep_the_gateway_from_stopping(
    stubborn: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "_GRACE_S", 0.1)
    monkeypatch.setattr(listener, "_CUT_S", 0.5)
    caplog.set_level(logging.INFO)
    app = Waiting(stubborn=stubborn)
    with bound("127.0.0.1", 0) as listening:
        async with client_of(address(listening), "t") as client:
            async with asyncio.timeout(20), Listener(Observer(app, Metrics()), listening):
                asking = asyncio.create_task(client.get("/"))
                await app.began.wait()
                began = time.monotonic()
            assert time.monotonic() - began < 10
            with pytest.raises(httpx.TransportError):
                await asking
    app.ends.set()
    await asyncio.sleep(0.05)
    assert ("did not end" in caplog.text) is stubborn
    assert stubborn or not [each for each in caplog.records if each.levelno >= logging.WARNING]
