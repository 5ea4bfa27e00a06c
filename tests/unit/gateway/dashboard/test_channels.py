"""Channels in the browser: their state, and what can be done about it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from nexus.app import App
from nexus.config import ChannelConfig, Config
from nexus.home import Home
from nexus.ledgers.runtime import channels as ledger


@pytest.fixture
async def app(home: Home) -> AsyncIterator[App]:
    """A home with a channel, that does no work."""
    desk = ChannelConfig(kind="webhook", secret="env:NOTHING")
    async with App(home, Config(channels={"desk": desk}), serve=False) as app:
        yield app


async def _paused(app: App) -> bool:
    return (await app.ledgers.runtime.read(ledger.state, name="desk")).paused


async def test_a_channel_is_paused_and_resumed(client: httpx.AsyncClient, app: App) -> None:
    await app.ledgers.runtime.write(ledger.note_status, name="desk", status="waiting", reason="it is <away>")
    shown = (await client.get("/channels")).text
    assert "desk" in shown
    assert "it is &lt;away&gt;" in shown
    assert (await client.post("/channels/desk/pause")).status_code == 303
    assert await _paused(app)
    assert "Resume" in (await client.get("/channels")).text
    assert (await client.post("/channels/desk/resume")).status_code == 303
    assert not await _paused(app)
    assert (await client.post("/channels/desk/retry")).status_code == 303
    assert (await client.post("/channels/desk/explode")).status_code == 400
    assert (await client.post("/channels/other/pause")).status_code == 404


async def test_a_message_that_was_set_aside_can_be_removed(client: httpx.AsyncClient, app: App) -> None:
    await app.ledgers.runtime.write(
        ledger.set_aside, channel="desk", external_id="1", sender="<sam>", body={}, reason="it is <broken>"
    )
    [kept] = await app.ledgers.runtime.read(ledger.those_set_aside)
    shown = (await client.get("/channels")).text
    assert "it is &lt;broken&gt;" in shown
    assert "&lt;sam&gt;" in shown
    assert (await client.post(f"/set-aside/{kept.id}/dismiss")).status_code == 303
    assert await app.ledgers.runtime.read(ledger.those_set_aside) == []
    for to in ("dismiss", "retry"):
        assert (await client.post(f"/set-aside/{kept.id}/{to}")).status_code == 404
