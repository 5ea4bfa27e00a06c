"""Reminders: made with words, due once whatever happens to clock and process, delivered where asked."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from apps import settings
from installed import Clock, ended, messages, opened, runs, tick
from nexus.app import App
from nexus.automations import reminders
from nexus.automations.reminders import Reminder
from nexus.engine import Schedules, schedules
from nexus.errors import NexusError
from nexus.home import Home
from nexus.ledgers import events
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.testing import ModelServer

TEN = datetime(2031, 5, 5, 10, 0, tzinfo=UTC)
"""A Monday, at ten in UTC."""


async def remind(app: App, words: str, **where: str) -> Reminder:
    made = await app.remind(await app.reminders.draft(words), **where)
    await app.timetable.keep()
    return made


async def start_due(app: App, clock: Clock) -> int:
    """Let the engine start what is due; returns how many reminders that were."""
    before = await upcoming(app)
    due = Schedules(app.engine.database, app.engine.settings.version)
    await asyncio.to_thread(due.start_due, round(clock().timestamp() * 1000))
    after = await upcoming(app)
    return sum(after[name] != next_at for name, next_at in before.items())


async def upcoming(app: App) -> dict[str, str | None]:
    rows = await asyncio.to_thread(schedules.list_schedules, app.engine.database)
    return {row["name"]: row["next_at"] for row in rows if row["name"].startswith("automation:")}


async def standing(app: App, name: str) -> Automation:
    found = await app.ledgers.runtime.read(automations.get, name=name)
    assert found is not None
    return found


async def test_a_reminder_arrives_once_where_it_was_made_and_is_done(home: Home, server: ModelServer) -> None:
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        made = await remind(app, "in two hours call Anna", session_label="trip", channel="web")
        clock.forward(hours=1, minutes=59)
        assert await start_due(app, clock) == 0
        clock.forward(minutes=1)
        await tick(app, made.name, clock)
        assert await messages(app) == ["call Anna"]
        sent = await app.ledgers.events.read(events.list_unasked, channel="web", external_id="trip")
        assert [each.content for each in sent] == ["call Anna"]
        clock.forward(days=1)
        await app.timetable.keep()
        assert await start_due(app, clock) == 0
        done = await standing(app, made.name)
    assert reminders.state_of(done) == "done"
    assert (done.mode, done.created_by_agent) == ("once", None)
    assert done.created_by_thread is not None
    assert not server.requests


async def test_a_reminder_survives_a_restart(home: Home, server: ModelServer) -> None:
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        made = await remind(app, "in two hours call Anna")
    clock.forward(hours=1)
    async with opened(home, server, clock) as app:
        clock.forward(hours=1)
        await tick(app, made.name, clock)
        assert await messages(app) == ["call Anna"]
    async with opened(home, server, clock) as app:
        assert await start_due(app, clock) == 0
        assert len(await runs(app, made.name)) == 1


@pytest.mark.parametrize("words", ["in two hours call Anna", "every day at noon call Anna"])
async def test_after_a_day_of_downtime_it_is_delivered_once_and_says_that_it_is_late(
    home: Home, server: ModelServer, words: str
) -> None:
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        made = await remind(app, words)
    clock.forward(days=1, hours=1)
    async with opened(home, server, clock) as app:
        await tick(app, made.name, clock)
        assert await start_due(app, clock) == 0
        assert await messages(app) == [
            "call Anna\n\n(Due Monday 2031-05-05 12:00 UTC, delivered late because Nexus was not running.)"
        ]


async def test_by_the_settings_what_was_missed_is_skipped_and_its_log_says_so(
    home: Home, server: ModelServer
) -> None:
    clock = Clock(TEN)
    config = settings(server)
    config = replace(config, automations=replace(config.automations, missed="skip"))
    async with App(home, config, now=clock) as app:
        once = await remind(app, "in two hours call Anna")
        daily = await remind(app, "every day at noon stretch")
    clock.forward(days=1, hours=1)
    async with App(home, config, now=clock) as app:
        assert await start_due(app, clock) == 2
        reason = "missed: due at 2031-05-05T12:00:00.000Z, when Nexus was not running"
        for made in (once, daily):
            skipped = await ended(app, made.name, 1)
            assert (skipped.status, skipped.error) == ("skipped", reason)
        assert await messages(app) == []
        async with asyncio.timeout(60):  # its run is recorded first
            while (gone := await standing(app, once.name)).status != "disabled":
                await asyncio.sleep(0.02)
        assert gone.disabled_reason == reason
        clock.forward(hours=1)
        await tick(app, daily.name, clock)
        assert await messages(app) == ["stretch"]


@pytest.mark.parametrize(
    "night",
    [
        pytest.param(datetime(2031, 3, 29, 23, 0, tzinfo=UTC), id="half past two does not exist"),
        pytest.param(datetime(2031, 10, 25, 22, 0, tzinfo=UTC), id="half past two comes twice"),
    ],
)
async def test_a_daily_reminder_comes_once_in_a_night_in_which_clocks_change(
    home: Home, server: ModelServer, night: datetime
) -> None:
    """From midnight in Berlin, a quarter of an hour at a time."""
    clock = Clock(night)
    async with opened(home, server, clock) as app:
        made = await remind(app, "every day at 2:30 Europe/Berlin look")
        begun = 0
        for _ in range(20):
            clock.forward(minutes=15)
            begun += await start_due(app, clock)
        assert begun == 1
        await ended(app, made.name, 1)
        assert await messages(app) == ["look"]


async def test_a_clock_that_is_set_back_does_not_deliver_again(home: Home, server: ModelServer) -> None:
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        made = await remind(app, "in two hours call Anna")
        clock.forward(hours=2)
        await tick(app, made.name, clock)
        clock.forward(hours=-3)
        due = Schedules(app.engine.database, app.engine.settings.version)
        await asyncio.to_thread(due.set_back, round(clock().timestamp() * 1000))
        clock.forward(hours=4)
        assert await start_due(app, clock) == 0
        assert await messages(app) == ["call Anna"]


async def test_a_question_is_answered_by_the_agent_in_the_session_it_was_asked_in(
    home: Home, server: ModelServer
) -> None:
    clock = Clock(TEN)
    server.always("Two letters are open.")
    async with opened(home, server, clock) as app:
        made = await remind(app, "every Monday at 11 tell me what is open", session_label="desk")
        clock.forward(hours=1)
        await tick(app, made.name, clock)
        (run,) = await app.runs_after("desk")
        assert (await run.result()).response.content == "Two letters are open."
        async with asyncio.timeout(60):
            while await messages(app) != ["Two letters are open."]:
                await asyncio.sleep(0.05)
        asked = await app.ledgers.events.read(events.list_said, channel="cli", external_id="desk", limit=5)
    assert asked == ["[Scheduled: every Monday at 11:00 UTC] tell me what is open"]


async def test_reminders_are_paused_resumed_and_deleted(home: Home, server: ModelServer) -> None:
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        made = await remind(app, "every day at noon stretch")
        await app.reminders.change(made.name, "pause")
        await app.timetable.keep()
        clock.forward(days=1)
        assert await start_due(app, clock) == 0
        await app.reminders.change(made.name, "resume")
        await app.timetable.keep()
        clock.forward(hours=2)
        await tick(app, made.name, clock)
        await app.reminders.change(made.name, "delete")
        assert await app.reminders.load_all() == []
        await app.timetable.keep()
        clock.forward(days=1)
        assert await start_due(app, clock) == 0
        assert await messages(app) == ["stretch"]
        again = await remind(app, "every day at noon stretch")
        with pytest.raises(NexusError, match="No reminder named `reminder-1`"):
            await app.reminders.change(made.name, "pause")
    assert (made.name, again.name) == ("reminder-1", "reminder-2")


async def test_what_was_due_once_is_not_resumed_when_its_time_has_passed(
    home: Home, server: ModelServer
) -> None:
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        done = await remind(app, "in two hours call Anna")
        paused = await remind(app, "in three hours call Ben")
        await app.reminders.change(paused.name, "pause")
        await app.timetable.keep()
        clock.forward(hours=2)
        await tick(app, done.name, clock)
        clock.forward(hours=2)
        for name in (done.name, paused.name):
            with pytest.raises(NexusError, match="has passed"):
                await app.reminders.change(name, "resume")
        await app.timetable.keep()
        assert await start_due(app, clock) == 0
        assert await messages(app) == ["call Anna"]
        assert [each.state for each in await app.reminders.load_all()] == ["done", "paused"]


async def test_an_answer_to_a_reminder_is_understood_wherever_the_person_gives_it(
    home: Home, server: ModelServer
) -> None:
    clock = Clock(TEN)
    server.always("Well done.")
    async with opened(home, server, clock) as app:
        made = await remind(app, "in two hours call Anna", session_label="desk", channel="web")
        clock.forward(hours=2)
        await tick(app, made.name, clock)
        await (await app.send("Done!", session_label="desk")).result()
        await (await app.send("Anything else?", session_label="desk")).result()
    first, second = (request.body.decode() for request in server.requests[:2])
    assert "call Anna" in first
    assert "call Anna" in second  # as part of the history, once
    assert second.count("call Anna") == first.count("call Anna")
