"""What an automation sees of a conversation: all of it, the turn that just finished included."""

from pathlib import Path

import pytest

from apps import app_on, dispatching
from automating import ended, register, runs
from nexus.home import Home
from nexus.testing import ModelServer, Turn

READS = """
async def run(ctx):
    assembled = await ctx.assemble_context(task="Sum it up.", fork=True)
    result = await (await ctx.start_execution(assembled)).result()
    return {"log": {"said": result.response.content}}
"""
SEES = """
def run(ctx):
    event = ctx.request.event
    return {"log": {"session": ctx.request.agent.session_label, "thread": event.thread_id}}
"""


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_fork_has_the_turn_that_just_finished(home: Home, tmp_path: Path, blocking: bool) -> None:
    with ModelServer() as server:
        server.when(last_user="Sum it up.").always("Tea was agreed.")
        server.script("Tea at four.", "With milk.")
        async with app_on(home, server) as app:
            point = {"hook_point": "after:runAgent", "blocking": blocking}
            await register(app, "reads", READS, tmp_path, **point)
            for number, text in enumerate(("When is tea?", "How do you take it?"), start=1):
                await (await app.send(text)).result()
                await ended(app, "reads", number)
        forks = [each for each in server.requests if "Sum it up." in each.last_user]
        asked = [each for each in server.requests if "Sum it up." not in each.last_user]
        for count, fork in enumerate(forks, start=1):
            past = [str(message) for message in fork.json["messages"][:-1]]
            assert len(past) == 2 * count, "every turn so far, whole"
            assert "Tea at four." in past[1]
            assert ("With milk." in past[-1]) is (count == 2)
            assert "interrupted" not in str(past)
        for part in ("system", "tools"):
            assert forks[1].json[part] == asked[1].json[part], "the cached prefix is the same"


async def test_new_carries_the_thread_and_the_conversation(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.when(last_user="Sum it up.").always("Tea was agreed.")
        server.always("Tea at four.")
        async with app_on(home, server) as app:
            await register(app, "sees", SEES, tmp_path, hook_point="command:new")
            await register(app, "reads", READS, tmp_path, hook_point="command:new")
            heard = await app.receive("When is tea?", session_label="kitchen")
            await heard.run.result()
            await app.new_session("kitchen")
            [seen], [read] = await runs(app, "sees"), await runs(app, "reads")
            thread = await app.ledgers.events.read(
                lambda c: c.execute("SELECT id FROM threads WHERE external_id = 'kitchen'").get
            )
        assert seen.result == {"log": {"session": "kitchen", "thread": thread}}
        assert read.result == {"log": {"said": "Tea was agreed."}}, read.error
        assert "When is tea?" in str(server.requests[-1].json["messages"][:-1])


async def test_bootstrap_fires_for_a_workers_session_too(home: Home, tmp_path: Path) -> None:
    says = 'def run(ctx):\n    return {"context": f"Welcome to {ctx.request.agent.role}."}\n'
    with ModelServer() as server:
        server.when(last_user="Fetch tea").always("Here is tea.")
        server.script(*dispatching("Fetch tea", then=Turn("Done.")))
        async with app_on(home, server) as app:
            await register(app, "welcome", says, tmp_path, hook_point="agent:bootstrap")
            await (await app.send("Tea, please")).result()
            assert len(await runs(app, "welcome")) == 2
        [worker] = [each for each in server.requests if "Fetch tea" in each.last_user][:1]
        assert '<context source="welcome">\nWelcome to worker.' in worker.last_user
        assert "Welcome to manager." in server.requests[0].last_user
