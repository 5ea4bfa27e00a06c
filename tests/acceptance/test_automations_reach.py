"""The specification's dispatch example and ten automations of other kinds, as the docs describe them.

Each visibly changes a prompt, a message, a memory or a file. All of them run in one home.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from apps import dispatching
from automating import ended, let_in, register, said_by
from installed import Clock, messages, opened, tick
from memory_writers import rows
from nexus.app import App
from nexus.errors import AccessError
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Turn

# MEESEEKS_PATTERN, "How Automations Dispatch Subagents", in Python.
DISPATCH = """
async def run(ctx):
    task_content = ctx.request.event.content
    session = f"meeseeks:memory-reader:{ctx.request.agent.session_label or ctx.request.request_id}"
    assembled = await ctx.assemble_context(
        session_label=session, task=f"Search memory for context relevant to: {task_content}"
    )
    assembled.role_context += f"\\n\\n{ctx.workspace.role}\\n{ctx.workspace.skills}"
    execution = await ctx.start_execution(assembled, session_label=session)
    result = await execution.result()
    return {"fire": True, "blocking": True, "enrich": {"memories": result.response.content or None}}
"""
WEATHER = 'def run(ctx):\n    return {"context": "It rains in Hamburg."}\n'
SHORTHAND = """
def run(ctx):
    if ctx.request.event.content.startswith("tl;dr"):
        return {"content": "Sum up our talk in one line."}
"""
QUIET = """
def run(ctx):
    if ctx.now().hour >= 22:
        return {"deny": "quiet hours until eight"}
"""
CLOCK = """
def run(ctx):
    if "what time is it" in ctx.request.event.content.lower():
        return {"handled": True, "response": f"It is {ctx.now():%H:%M} in UTC."}
"""
MANNERS = 'def run(ctx):\n    return {"memories": "Ada likes short answers."}\n'
LEARNS = """
def run(ctx):
    said = ctx.request.event.content
    if said.startswith("Remember: "):
        return {"remember": {"fact": said.removeprefix("Remember: "), "about": "Ada"}}
"""
WATCH = """
def run(ctx):
    return {"reply": {"text": f"answered: {ctx.request.event.content}", "session": "ops"}}
"""
JOURNAL = """
def run(ctx):
    before = ctx.files.read_file("JOURNAL.md", "")
    ctx.files.write_file("JOURNAL.md", f"{before}{ctx.now():%H:%M} {ctx.request.event.content}\\n")
"""
FAREWELL = """
async def run(ctx):
    assembled = await ctx.assemble_context(task="Write the minutes.", fork=True)
    result = await (await ctx.start_execution(assembled)).result()
    ctx.files.write_file("MINUTES.md", result.response.content)
"""
MORNING = 'def run(ctx):\n    return {"reply": f"Good morning, it is {ctx.now():%A}."}\n'
WELCOME = 'def run(ctx):\n    return {"context": "This is a new session."}\n'

ALL: dict[str, tuple[str, dict[str, Any]]] = {
    "memory-reader-2": (
        DISPATCH,
        {"hook_point": "worker:pre_execution", "role": "You search the memory.", "self_improvement": True},
    ),
    "weather": (WEATHER, {"hook_point": "runAutomations"}),
    "shorthand": (SHORTHAND, {"hook_point": "after:receiveEvent"}),
    "quiet": (QUIET, {"hook_point": "after:resolveAccess", "triggers": {"levels": ["known"]}}),
    "clock": (CLOCK, {"hook_point": "runAutomations", "priority": 10}),
    "manners": (MANNERS, {"hook_point": "after:assembleContext"}),
    "learns": (LEARNS, {"hook_point": "after:runAgent", "blocking": False, "retries": 2}),
    "watch": (WATCH, {"hook_point": "after:deliverResponse", "blocking": False}),
    "journal": (JOURNAL, {"hook_point": "finalize", "workspace": True}),
    "farewell": (FAREWELL, {"hook_point": "command:new", "workspace": True}),
    "morning": (
        MORNING,
        {
            "hook_point": "schedule",
            "blocking": False,
            "triggers": {"cron": "0 8 * * *", "zone": "Europe/Berlin"},
        },
    ),
    "welcome": (WELCOME, {"hook_point": "agent:bootstrap"}),
}


@dataclass(kw_only=True)
class Scene:
    app: App
    server: ModelServer
    clock: Clock

    @property
    def home(self) -> Home:
        return self.app.home

    def prompts(self, text: str) -> list[ModelRequest]:
        return [each for each in self.server.requests if text in each.last_user]

    async def say(self, text: str) -> str:
        return (await (await self.app.send(text)).result()).response.content


@pytest.fixture
async def scene(home: Home, tmp_path: Path) -> AsyncIterator[Scene]:
    with ModelServer() as server:
        server.when(last_user="Search memory for").always("Tyler eats no nuts.")
        server.when(last_user="Write the minutes.").always("Tea was discussed.")
        server.when(last_user="Book a table").always("Booked.")
        clock = Clock(datetime(2031, 5, 2, 5, 0, tzinfo=UTC))
        async with opened(home, server, clock) as app:
            for name, (source, given) in ALL.items():
                await register(app, name, source, tmp_path, **given)
            await app.timetable.keep()
            yield Scene(app=app, server=server, clock=clock)


async def test_each_automation_changes_something_that_people_or_agents_see(scene: Scene) -> None:
    server, app = scene.server, scene.app

    # A prompt: where it rains, how to answer, that the session is new.
    server.script("Take an umbrella.")
    assert await scene.say("Shall I walk?") == "Take an umbrella."
    [first] = scene.prompts("Shall I walk?")
    assert '<context source="weather">\nIt rains in Hamburg.' in first.last_user
    assert '<context source="welcome">\nThis is a new session.' in first.last_user
    assert "<memory_context>\nAda likes short answers." in first.last_user

    # A prompt: the message as it was meant, in a session that is not new any more.
    server.script("Rain, so an umbrella.")
    await scene.say("tl;dr")
    [meant] = scene.prompts("Sum up our talk in one line.")
    assert "new session" not in meant.last_user

    # A message, without a model.
    asked = len(server.requests)
    assert await scene.say("What time is it?") == "It is 05:00 in UTC."
    assert len(server.requests) == asked

    # The worker's prompt: what the reader found, which had its role and its own session.
    server.script(*dispatching("Book a table for Tyler", then=Turn("Booked.")))
    await scene.say("Take Tyler out")
    reader = scene.prompts("Search memory for context relevant to: Book a table for Tyler")[0]
    assert "You search the memory." in reader.last_user
    worker = scene.prompts("<memory_context>\nTyler eats no nuts.")[0]
    assert worker.last_user.endswith("Book a table for Tyler")

    # A memory, with where it came from.
    server.script("I will.")
    heard = await app.receive("Remember: Ada moved to Hamburg")
    await heard.run.result()
    async with asyncio.timeout(60):
        while not (kept := await rows(app, "memory", "SELECT fact, source_request_id FROM facts")):
            await asyncio.sleep(0.02)
    assert kept == [("Ada moved to Hamburg", heard.request_id)]

    # A message in another session, and a file with what was said when.
    await ended(app, "watch", 4)
    said = await messages(app)
    assert "answered: Shall I walk?" in said
    journal = (scene.home.meeseeks / "journal" / "JOURNAL.md").read_text()
    assert journal.startswith("05:00 Shall I walk?\n05:00 tl;dr\n")

    # A file with the minutes of a whole conversation.
    await app.new_session("main")
    assert (scene.home.meeseeks / "farewell" / "MINUTES.md").read_text() == "Tea was discussed."
    [minutes] = scene.prompts("Write the minutes.")
    assert "Take an umbrella." in str(minutes.json["messages"])

    # A message by the clock.
    scene.clock.at = datetime(2031, 5, 2, 6, 0, tzinfo=UTC)
    await tick(app, "morning", scene.clock)
    assert (await messages(app))[-1] == "Good morning, it is Friday."

    # No message for a guest at night.
    with pytest.raises(AccessError):
        await app.accept(said_by("sam", "Hello"))
    await let_in(app, "sam")
    scene.clock.at = datetime(2031, 5, 2, 23, 0, tzinfo=UTC)
    with pytest.raises(AccessError, match="quiet hours"):
        await app.accept(said_by("sam", "Hello"))
