"""What an answer would have been without a memory: asked once more, beside the conversation."""

import pytest

from apps import app_on
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers import sql
from nexus.ledgers.runtime import usage
from nexus.roles import memory_injection
from nexus.roles.memory_injection import injection
from nexus.roles.memory_injection.experiment import LABEL
from nexus.testing import ModelServer, Turn
from unit.roles.memory_injection.knowing import BIRTHDAY, FOOD, know


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is injected must not depend on how busy this machine is."""
    monkeypatch.setattr(memory_injection, "TIMEOUT_MS", 60_000)
    for function in (injection.recall_candidates, injection.find_candidates):
        defaults: dict[str, object] = function.__kwdefaults__ or {}
        monkeypatch.setattr(function, "__kwdefaults__", {**defaults, "deadline_ms": 60_000})


_ASKED = "When is Tyler's birthday, and what food does he like?"


async def test_a_message_is_asked_once_more_without_a_memory(home: Home, server: ModelServer) -> None:
    server.script(Turn("Hello."), Turn("March 12, and Italian."), Turn("March 12."))
    async with app_on(home, server) as app:
        _, food = await know(app, "Tyler", BIRTHDAY, FOOD)
        await (await app.send("Good morning")).result()
        answered = await (await app.send(_ASKED)).result()
        events, facts = "SELECT count(*) FROM events", "SELECT count(*) FROM facts"
        before = (
            await app.ledgers.events.read(sql.value, events),
            await app.ledgers.memory.read(sql.value, facts),
        )

        run = await app.experiment(answered.execution_id, without=[food])
        result = await run.result()
        assert result.response.content == "March 12."
        assert result.session_label.startswith(LABEL)
        first, asked, again = server.requests
        assert FOOD in asked.last_user
        assert FOOD not in str(again.json)
        assert BIRTHDAY in again.last_user
        assert _ASKED in again.last_user
        assert "Good morning" in str(again.json["messages"])
        assert not again.json.get("tools")
        assert first.json.get("tools")

        assert before == (
            await app.ledgers.events.read(sql.value, events),
            await app.ledgers.memory.read(sql.value, facts),
        )
        total = await app.ledgers.runtime.read(usage.of_root, root_request_id=answered.request_id)
        assert total.calls == 2
        spent = await app.ledgers.runtime.read(
            sql.rows, "SELECT automation FROM usage WHERE request_id = ?", (answered.request_id,)
        )
        assert {row[0] for row in spent} == {None, "experiment"}
        server.script(Turn("Fine."))
        await (await app.send("And now?")).result()
        assert "March 12." not in str(server.requests[-1].json["messages"]).replace("March 12, and", "")

        # Nor is an experiment an answer to experiment with.
        with pytest.raises(UsageError):
            await app.experiment(run.id)


async def test_other_memories_take_the_place_of_those_it_had(home: Home, server: ModelServer) -> None:
    server.script(Turn("March 12."), Turn("May 1."))
    async with app_on(home, server) as app:
        await know(app, "Tyler", BIRTHDAY, FOOD)
        answered = await (await app.send(_ASKED)).result()
        run = await app.experiment(
            answered.execution_id, memories="- Tyler was born on May 1", profile="Calm."
        )
        assert (await run.result()).response.content == "May 1."
        asked = str(server.requests[-1].json)
        assert "born on May 1" in asked
        assert "Calm." in asked
        assert BIRTHDAY not in asked
