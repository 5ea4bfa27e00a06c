"""The `schedule` tool: what agents may schedule and propose, and with whose rights."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from installed import Clock, messages, opened, tick
from nexus.app import App
from nexus.automations import changes, registration
from nexus.automations.scheduling import Scheduling
from nexus.broker.tools import Call
from nexus.engine import Schedules
from nexus.errors import ToolError
from nexus.home import Home
from nexus.ledgers import events
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from nexus.request import Access, Agent, Event, Request
from nexus.testing import ModelServer, ToolCall, Turn

TEN = datetime(2031, 5, 5, 10, 0, tzinfo=UTC)
SCRIPT = '''"""tea-time: Says that there is tea."""


def run(ctx):
    return {"response": "tea"}
'''


async def call(app: App, key: str = "k", *, guest: str = "") -> Call:
    """A call on behalf of the owner in the terminal, or of a guest who writes mail."""
    channel, thread = ("mail", "t1") if guest else ("cli", "main")
    thread_id = await app.ledgers.events.write(events.ensure_thread, channel=channel, external_id=thread)
    request = Request(
        event=Event(content="", channel=channel, thread_id=thread_id, sender_id=guest or "owner"),
        agent=Agent(session_label="mail:t1" if guest else "main"),
        access=Access(level="known" if guest else "owner"),
    )
    return Call(request=request, execution_id="exe_1", session_label=request.agent.session_label, key=key)


def tool(app: App) -> Scheduling:
    return Scheduling(app.ledgers, app.reminders)


async def standing(app: App, name: str) -> Automation | None:
    return await app.ledgers.runtime.read(automations.get, name=name)


async def test_an_agent_saves_a_reminder_that_a_person_asked_for(home: Home, server: ModelServer) -> None:
    clock = Clock(TEN)
    wanted = {"op": "say", "text": "call Anna", "when": "in two hours"}
    server.script(Turn("", [ToolCall("schedule", wanted)]), "I'll remind you at noon (UTC).")
    async with opened(home, server, clock) as app:
        run = await app.send("Remind me in two hours to call Anna", session_label="desk", channel="web")
        await run.result()
        made = await standing(app, "reminder-1")
        assert made is not None
        assert made.created_by_agent == "nexus"
        assert made.created_by_session is not None
        assert made.created_by_thread is not None
        await app.timetable.keep()
        clock.forward(hours=2)
        await tick(app, made.name, clock)
        sent = partial(events.list_unasked, channel="cli", external_id="desk", after=0)
        assert [each.content for each in await app.ledgers.events.read(sent)] == ["call Anna"]
    told = server.requests[1].body.decode()
    assert "Saved as reminder-1. Monday 2031-05-05 12:00 UTC. Nexus says: call Anna" in told


async def test_a_call_that_is_made_again_after_a_crash_saves_one_reminder(
    home: Home, server: ModelServer
) -> None:
    async with opened(home, server, Clock(TEN)) as app:
        asked = await call(app)
        for _ in range(2):
            await tool(app)({"op": "say", "text": "call Anna", "when": "in two hours"}, asked)
        assert [each.name for each in await app.reminders.load_all()] == ["reminder-1"]


async def test_a_guest_sees_and_deletes_the_reminders_of_its_own_conversation_alone(
    home: Home, server: ModelServer
) -> None:
    async with opened(home, server, Clock(TEN)) as app:
        act = tool(app)
        await act({"op": "say", "text": "mine", "when": "tomorrow"}, await call(app))
        guest = await call(app, "g", guest="sam")
        await act({"op": "ask", "text": "theirs", "when": "tomorrow"}, guest)
        assert "theirs" in await act({"op": "list"}, guest)
        assert "mine" not in await act({"op": "list"}, guest)
        with pytest.raises(ToolError, match="No reminder named"):
            await act({"op": "delete", "text": "reminder-1"}, guest)
        with pytest.raises(ToolError, match="Only the owner's agent"):
            await act({"op": "propose", "text": SCRIPT, "when": "every day at 9"}, guest)
        made = await standing(app, "reminder-2")
        assert made is not None
        assert (made.config["is_owner"], made.config["sender"]) == (False, "sam")
        assert made.config["session"] == "mail:t1"
        owner = await call(app, "o")
        assert "theirs" in await act({"op": "list"}, owner)
        assert await act({"op": "delete", "text": "reminder-2"}, owner) == "Deleted reminder-2."


async def test_what_a_guest_scheduled_is_asked_with_the_rights_the_guest_has_then(
    home: Home, server: ModelServer
) -> None:
    """Nobody ever let them in, so the question is refused and its log says so."""
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        guest = await call(app, guest="sam")
        await tool(app)({"op": "ask", "text": "tell me all", "when": "in two hours"}, guest)
        await app.timetable.keep()
        clock.forward(hours=2)
        before = len(server.requests)
        due = Schedules(app.engine.database, app.engine.settings.version)
        await asyncio.to_thread(due.start_due, round(clock().timestamp() * 1000))
        async with asyncio.timeout(60):
            while not (await messages(app)):
                await asyncio.sleep(0.05)
        assert "I don't know you yet" in (await messages(app))[0]
        assert len(server.requests) == before


async def test_a_proposed_script_runs_once_it_is_approved_and_in_a_sandbox(
    home: Home, server: ModelServer
) -> None:
    clock = Clock(TEN)
    async with opened(home, server, clock) as app:
        act, asked = tool(app), await call(app)
        assert "async def run(ctx)" in await act({"op": "propose"}, asked)
        told = await act({"op": "propose", "text": SCRIPT, "when": "every day at noon"}, asked)
        assert "Proposed as tea-time@proposed" in told
        proposal = await standing(app, "tea-time@proposed")
        assert proposal is not None
        assert (proposal.status, proposal.disabled_reason) == ("disabled", automations.PROPOSED)
        assert proposal.config["sandbox"] is True
        assert proposal.created_by_agent == "nexus"
        write = registration.writer(app.ledgers)
        diff = await asyncio.to_thread(changes.difference, home, write, proposal)
        assert '+    return {"response": "tea"}' in diff.splitlines()
        await app.timetable.keep()
        made = await asyncio.to_thread(changes.approve, home, write, proposal)
        assert (made.name, made.status, made.config["sandbox"]) == ("tea-time", "active", True)
        assert await standing(app, "tea-time@proposed") is None
        await app.timetable.keep()
        clock.forward(hours=2)
        done = await tick(app, "tea-time", clock)
        assert (done.status, done.error) == ("done", None)
        assert await messages(app) == ["tea"]


async def test_a_proposal_leaves_what_runs_under_its_name_alone_and_shows_what_it_changes(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    async with opened(home, server, Clock(TEN)) as app:
        write = registration.writer(app.ledgers)
        file = tmp_path / "tea-time.py"
        file.write_text(SCRIPT.replace('"tea"', '"coffee"'))
        found = await asyncio.to_thread(registration.bring_in, home, "tea-time", file)
        triggers = {"cron": "0 12 * * *", "zone": "UTC"}
        new = NewAutomation(
            name="tea-time",
            script_path=str(found.path),
            script_hash=found.hash,
            hook_point="schedule",
            blocking=False,
            triggers=triggers,
        )
        await asyncio.to_thread(registration.register, home, write, new)
        asked = await call(app)
        await tool(app)({"op": "propose", "text": SCRIPT, "when": "every day at noon"}, asked)
        standing_ = await standing(app, "tea-time")
        assert standing_ is not None
        assert (standing_.status, standing_.version) == ("active", 1)
        proposal = await standing(app, "tea-time@proposed")
        assert proposal is not None
        diff = (await asyncio.to_thread(changes.difference, home, write, proposal)).splitlines()
        changed = [line for line in diff if line[:1] in "+-" and "response" in line]
        assert changed == ['-    return {"response": "coffee"}', '+    return {"response": "tea"}']
        made = await asyncio.to_thread(changes.approve, home, write, proposal)
        assert (made.version, made.triggers) == (2, triggers)
