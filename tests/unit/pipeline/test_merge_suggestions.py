"""Two senders with one name on different channels may be one person: that is asked, and never assumed."""

from dataclasses import replace

import pytest

from apps import settings
from nexus.app import App
from nexus.config import ChannelConfig
from nexus.errors import AccessError
from nexus.home import Home
from nexus.ledgers.identity import senders
from nexus.memory.views import entities
from nexus.memory.writing import Provenance
from nexus.pipeline import Incoming
from nexus.testing import ModelServer

OWNER = Provenance(actor="person:test", kind="owner")


def _app(home: Home, server: ModelServer) -> App:
    channel = ChannelConfig(kind="webhook", secret="env:NOTHING")
    return App(home, replace(settings(server), channels={"desk": channel, "mail": channel}))


async def _write(app: App, channel: str, sender: str, name: str | None) -> str:
    """A stranger writes; their entity."""
    said = Incoming(channel=channel, sender=sender, thread=sender, content="Hello", display_name=name)
    with pytest.raises(AccessError):
        await app.accept(said)
    found = await app.ledgers.identity.read(senders.find, channel=channel, identifier=sender)
    assert found is not None
    return found.entity_id


async def test_one_name_on_two_channels_becomes_a_suggestion(home: Home) -> None:
    with ModelServer() as server:
        async with _app(home, server) as app:
            one = await _write(app, "desk", "hana7", "Hana Ito")
            other = await _write(app, "mail", "hana@ito.example", "hana  ito")
            assert one != other, "nobody is merged by a name"
            (pair,) = await entities.load_candidates(app.ledgers)
            assert set(pair.entities) == {one, other}
            (reason,) = pair.reasons
            assert (reason.signal, reason.detail) == ("same name", "hana  ito, on mail and desk")
            await app.memory.run("merge", {"source": other, "target": one}, OWNER)
            found = await app.ledgers.identity.read(
                senders.find, channel="mail", identifier="hana@ito.example"
            )
            assert found is not None
            assert found.entity_id == one, "from now on both addresses are one person"


async def test_a_rejected_pair_and_a_second_address_on_one_channel_are_not_suggested(home: Home) -> None:
    with ModelServer() as server:
        async with _app(home, server) as app:
            await _write(app, "desk", "hana7", "Hana Ito")
            await _write(app, "desk", "impostor", "Hana Ito")
            await _write(app, "mail", "nobody@ito.example", None)
            assert await entities.load_candidates(app.ledgers) == ()
            await _write(app, "mail", "hana@ito.example", "Hana Ito")
            pairs = await entities.load_candidates(app.ledgers)
            for pair in pairs:
                await app.memory.run("reject", {"candidate": pair.id}, OWNER)
            await _write(app, "mail", "hana@ito.example", "Hana Ito")
            assert (len(pairs), await entities.load_candidates(app.ledgers)) == (2, ())


async def test_a_sender_with_the_name_of_somebody_who_is_talked_about_is_suggested(home: Home) -> None:
    with ModelServer() as server:
        async with _app(home, server) as app:
            await app.memory.run("entity", {"id": "hana", "name": "Hana Ito", "type": "Person"}, OWNER)
            other = await _write(app, "mail", "hana@ito.example", "Hana Ito")
            (pair,) = await entities.load_candidates(app.ledgers)
            assert set(pair.entities) == {"hana", other}
