"""The gateway stops, whoever is still waiting for an answer."""

import asyncio
import logging
import resource

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from gateways import client_of
from nexus.gateway import listener
from nexus.gateway.listener import Listener, bind_socket, local_url
from nexus.gateway.metrics import Metrics, Observer


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
    with bind_socket("127.0.0.1", 0) as listening:
        async with client_of(local_url(listening), "t") as client:
            async with asyncio.timeout(60), Listener(Observer(app, Metrics()), listening):
                asking = asyncio.create_task(client.get("/"))
                await app.began.wait()
            with pytest.raises(httpx.TransportError):
                await asking
    app.ends.set()
    await asyncio.sleep(0.05)
    assert ("did not end" in caplog.text) is stubborn
    assert stubborn or not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def _greet(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def test_silent_connections_make_room_for_one_that_speaks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "_MOST_CONNECTIONS", 5)
    with bind_socket("127.0.0.1", 0) as listening:
        async with asyncio.timeout(60), Listener(_greet, listening):
            host, port = listening.getsockname()[:2]
            silent = [await asyncio.open_connection(host, port) for _ in range(30)]
            async with client_of(local_url(listening), "t") as client:
                assert (await client.get("/")).status_code == 200
            # The first ones were closed, long before their time to speak was over.
            assert await asyncio.gather(*(reader.read() for reader, _ in silent[:20])) == [b""] * 20
            for _, writer in silent:
                writer.close()
    assert caplog.text.count("too many connections") == 1


def test_connections_leave_descriptors_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(kind: int) -> tuple[int, int]:
        return (1024, 1024)

    monkeypatch.setattr(resource, "getrlimit", limits)
    assert listener.most_connections() == 512
