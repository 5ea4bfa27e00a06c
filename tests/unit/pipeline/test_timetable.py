"""Automations that run by the clock: due once, delivered once, kept as they are registered."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from installed import Clock, ended, messages, opened, tick
from nexus.app import App
from nexus.automations import registration
from nexus.engine import schedules
from nexus.errors import NexusError
from nexus.home import Home
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.testing import ModelServer

NEW = NewAutomation(
    name="tea",
    script_path="",
    script_hash=None,
    hook_point="schedule",
    blocking=False,
    triggers={"cron": "0 8 * * *", "zone": "Europe/Berlin"},
)
EIGHT = datetime(2031, 5, 2, 6, 0, tzinfo=UTC)
SAYS = """
def run(ctx):
    return {"response": f"{ctx.hook_point} {ctx.now():%H:%M} {ctx.request.event.content}"}
"""


@pytest.fixture
def server() -> ModelServer:
    made = ModelServer()
    made.start()
    made.stop()  # its address is all that is needed: no model is asked
    return made


async def register(app: App, source: str, folder: Path, **changes: Any) -> None:
    file = folder / "tea.py"
    file.write_text(source)
    found = await asyncio.to_thread(registration.bring_in, app.home, "tea", file)
    new = replace(NEW, script_path=str(found.path), script_hash=found.hash, **changes)
    await asyncio.to_thread(registration.register, app.home, registration.writer(app.ledgers), new)


async def on_the_engine(app: App) -> dict[str, tuple[str, str]]:
    rows = await asyncio.to_thread(schedules.list_schedules, app.engine.database)
    return {
        row["name"]: (row["cron"], row["next_at"]) for row in rows if row["name"].startswith("automation:")
    }


async def until(app: App, holds: Callable[[dict[str, tuple[str, str]]], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds(await on_the_engine(app)):
            await asyncio.sleep(0.05)


async def test_what_is_due_runs_once_and_its_message_is_the_owners(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    clock = Clock(EIGHT.replace(hour=5))
    async with opened(home, server, clock) as app:
        await register(app, SAYS, tmp_path)
        await app.timetable.keep()
        assert await on_the_engine(app) == {"automation:tea": ("0 8 * * *", "2031-05-02T06:00:00.000Z")}
        clock.at = EIGHT
        done = await tick(app, "tea", clock)
        due = schedules.Schedules(app.engine.database, app.engine.settings.version)
        assert await asyncio.to_thread(due.start_due, round(clock().timestamp() * 1000)) == 0
        assert await messages(app) == ["schedule 06:00 2031-05-02T06:00:00.000Z"]
        stored = await app.ledgers.runtime.read(requests.get, request_id=done.request_id or "")
    assert stored is not None
    assert (stored.status, stored.access.level, stored.session_label) == ("done", "owner", "schedule:tea")


async def test_a_running_process_follows_what_others_register_and_remove(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    async with opened(home, server, Clock(EIGHT)) as app:
        await register(app, SAYS, tmp_path)
        await until(app, lambda found: found["automation:tea"][0] == "0 8 * * *" if found else False)
        await register(app, SAYS, tmp_path, triggers={"cron": "0 9 * * *"})
        await until(app, lambda found: found["automation:tea"][0] == "0 9 * * *")
        await register(app, SAYS, tmp_path, hook_point="runAutomations", triggers={})
        await until(app, lambda found: not found)


async def test_one_that_fails_sends_nothing_and_its_request_says_why(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    clock = Clock(EIGHT.replace(hour=5))
    async with opened(home, server, clock) as app:
        await register(app, "def run(ctx):\n    raise ValueError('no tea')\n", tmp_path)
        await app.timetable.keep()
        clock.forward(days=1)
        failed = await tick(app, "tea", clock)
        assert (failed.status, failed.error) == ("failed", "ValueError: no tea")
        stored = await app.ledgers.runtime.read(requests.get, request_id=failed.request_id or "")
        assert await messages(app) == []
    assert stored is not None
    assert (stored.status, stored.error) == ("failed", "ValueError: no tea")


async def test_a_row_that_nobody_can_read_does_not_keep_the_home_from_being_served(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    clock = Clock(EIGHT)
    async with opened(home, server, clock) as app:
        await register(app, SAYS, tmp_path)
        spoil = """UPDATE automations SET triggers_json = '{"cron": "soon"}' WHERE name = 'tea'"""
        await app.ledgers.runtime.write(lambda c: c.execute(spoil).fetchall())
    async with opened(home, server, clock) as app:
        assert await on_the_engine(app) == {}


async def test_what_was_missed_while_nobody_served_is_made_up_for_once(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    clock = Clock(EIGHT)
    async with opened(home, server, clock) as app:
        await register(app, SAYS, tmp_path)
        await app.timetable.keep()
    clock.forward(days=3, hours=5)
    async with opened(home, server, clock) as app:
        await tick(app, "tea", clock)
        assert (await ended(app, "tea", 1)).status == "done"
        assert await messages(app) == ["schedule 11:00 2031-05-05T06:00:00.000Z"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"triggers": {}}, "A schedule is missing"),
        ({"triggers": {"zone": "UTC"}}, "A schedule is missing"),
        (
            {"triggers": {**NEW.triggers, "levels": ["owner"]}},
            "A scheduled automation can't have triggers (levels)",
        ),
        ({"blocking": True}, "A scheduled automation can't be blocking"),
        ({"hook_point": "finalize"}, "finalize has no schedule"),
        ({"triggers": {"cron": "at eight"}}, "`at eight` is not a cron expression"),
        ({"triggers": {"cron": "0 8 * * *", "zone": "Berlin"}}, "`Berlin` is not a time zone"),
    ],
)
def test_a_schedule_that_could_never_come_due_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(NexusError) as refused:
        registration.check(replace(NEW, **changes))
    assert refused.value.message == told
