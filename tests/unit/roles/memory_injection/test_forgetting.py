"""What was put before a task is forgotten with what it came from, wherever its words were copied to."""

from dataclasses import replace

import apsw

from apps import app_on, settings
from nexus.app import App
from nexus.config import MemoryConfig, ModelsConfig
from nexus.home import LEDGERS, Home
from nexus.ledgers import forgetting
from nexus.testing import ModelServer
from unit.roles.memory_injection.knowing import SHIP, done, know, said, workers

_WORD = "zebrawurst"
_DINNER = f"Tyler's birthday dinner must have {_WORD}"


async def test_the_work_that_was_told_it_goes_and_its_cost_stays(home: Home, server: ModelServer) -> None:
    async with app_on(home, server) as app:
        await know(app, "Tyler", _DINNER, thread="dinner")
        root = await done(app, server)
        assert _WORD in workers(server)[0].last_user
        await _forget(app, "dinner")
        assert await _holding(app, _WORD) == []
        assert await _requests(app) == {root}
        costs = await app.ledgers.runtime.read(lambda c: c.execute("SELECT count(*) FROM usage").get)
    assert costs == len(server.requests)


async def test_of_what_was_shown_and_left_out_only_the_choosing_goes(home: Home, server: ModelServer) -> None:
    server.when(model="small").script("none")
    models = ModelsConfig(manager=("test/large",), fast=("test/small",), writer=("none",))
    memory = MemoryConfig(injection="model")
    async with App(home, replace(settings(server), models=models, memory=memory)) as app:
        await know(app, "Tyler", _DINNER, thread="dinner")
        await done(app, server)
        assert any(_WORD in request.last_user for request in server.requests if request.model == "small")
        before = await _requests(app)
        await _forget(app, "dinner")
        assert await _holding(app, _WORD) == []
        assert await _requests(app) == before


async def test_what_was_told_something_else_stays(home: Home, server: ModelServer) -> None:
    async with app_on(home, server) as app:
        await know(app, "Tyler", _DINNER, thread="dinner")
        await said(app, SHIP, thread="other")
        await done(app, server)
        before = await _requests(app)
        await _forget(app, "other")
        assert await _requests(app) == before
        assert "agents.agent_messages" in await _holding(app, _WORD)


async def _forget(app: App, name: str) -> None:
    def thread(connection: apsw.Connection) -> forgetting.Target:
        found = connection.execute("SELECT id FROM events.threads WHERE external_id = ?", (name,)).get
        return forgetting.thread(connection, str(found))

    await forgetting.forget(app.ledgers, await forgetting.find(app.ledgers, thread), actor="test")


async def _requests(app: App) -> set[str]:
    return await app.ledgers.runtime.read(
        lambda c: {str(row[0]) for row in c.execute("SELECT id FROM requests")}
    )


async def _holding(app: App, word: str) -> list[str]:
    """The tables in which a word stands."""

    def look(connection: apsw.Connection, ledger: str) -> list[str]:
        names = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
        return [
            f"{ledger}.{name}"
            for (name,) in names
            if any(word in str(row) for row in connection.execute(f'SELECT * FROM "{name}"'))
        ]

    found: list[str] = []
    for ledger in LEDGERS:
        found += await app.ledgers[ledger].read(look, ledger)
    return found
