"""On a channel the settings say who the owner is, whenever they say it."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from apps import settings
from installed import Clock, tick
from nexus.app import App
from nexus.automations.reminders import Place
from nexus.config import ChannelConfig
from nexus.engine import Schedules
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


async def test_a_reminder_has_the_owners_rights_for_as_long_as_the_settings_name_the_address(
    home: Home,
) -> None:
    clock = Clock(datetime(2031, 5, 5, 10, 0, tzinfo=UTC))
    place = Place(channel="desk", thread="t", session="desk:t", sender="owner", is_owner=True, address="hana")
    with ModelServer() as server:
        server.always("Hello.")

        channel = ChannelConfig(kind="webhook", secret="env:NOTHING", owner=("hana",))
        configured = replace(settings(server), channels={"desk": channel})
        async with App(home, configured, now=clock) as app:
            draft = await app.reminders.read("every day at 12:00 UTC", "What is the door code?", asks=True)
            made = await app.reminders.save(draft, place)
            await app.timetable.keep()
            clock.forward(hours=3)
            assert (await tick(app, made.name, clock)).status == "done"
            async with asyncio.timeout(60):
                while not server.requests:
                    await asyncio.sleep(0.02)
            assert isinstance(app.config.channels, dict)
            app.config.channels["desk"] = replace(app.config.channels["desk"], owner=())
            clock.forward(days=1)
            due = Schedules(app.engine.database, app.engine.settings.version)
            await asyncio.to_thread(due.start_due, round(clock().timestamp() * 1000))
            async with asyncio.timeout(60):
                while not await app.ledgers.runtime.read(
                    lambda c: c.execute("SELECT count(*) FROM requests WHERE status = 'denied'").get
                ):
                    await asyncio.sleep(0.02)
    assert len(server.requests) == 1, "after the address was removed, no model is asked"
