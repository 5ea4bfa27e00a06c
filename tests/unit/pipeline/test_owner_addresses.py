"""On a channel the settings say who the owner is, whenever they say it."""

from dataclasses import replace

import pytest

from apps import settings
from nexus.app import App
from nexus.config import ChannelConfig
from nexus.errors import AccessError
from nexus.home import Home
from nexus.pipeline import Incoming
from nexus.testing import ModelServer


def _app(home: Home, server: ModelServer) -> App:
    channel = ChannelConfig(kind="webhook", secret="env:NOTHING")
    return App(home, replace(settings(server), channels={"desk": channel}))


def _written(text: str, *, is_owner: bool) -> Incoming:
    return Incoming(channel="desk", sender="hana", thread="t", content=text, is_owner=is_owner)


async def test_an_address_that_becomes_the_owners_is_the_owner_and_one_that_no_longer_is_has_no_rights(
    home: Home,
) -> None:
    with ModelServer() as server:
        server.always("Hello.")
        async with _app(home, server) as app:
            run = await app.send("Hello")
            await run.result()
            owner = await app.ledgers.identity.read(
                lambda c: c.execute("SELECT entity_id FROM persons WHERE is_owner = 1").get
            )
            with pytest.raises(AccessError):
                await app.accept(_written("Who am I?", is_owner=False))
            receipt = await app.accept(_written("It is me.", is_owner=True))
            await receipt.run.result()
            request = await app.ledgers.runtime.read(
                lambda c: (
                    c.execute("SELECT principal_id FROM requests WHERE id = ?", (receipt.request_id,)).get
                )
            )
            assert request == owner
            with pytest.raises(AccessError):
                await app.accept(_written("And now?", is_owner=False))
