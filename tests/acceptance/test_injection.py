"""Memory injection with the real program: what a worker's request holds on the wire.

A conversation teaches something, the program is started again, and a
worker that plans a dinner knows it.
"""

import re
from collections.abc import Iterator

import pytest

from acceptance.agents import environment, finish, rows
from apps import dispatching
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.testing import ModelRequest, ModelServer

TASK = "Plan Tyler's birthday dinner"
TAUGHT = {
    "Tyler's birthday is on March 12, don't let me forget it.": "Tyler's birthday is March 12",
    "By the way, Tyler loves Italian food.": "Tyler likes Italian food",
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as made:
        yield made


def run(home: Home, server: ModelServer | None, *arguments: str, **more: str) -> str:
    done = finish(home, environment(server, **more), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def taught(home: Home, server: ModelServer) -> dict[str, str]:
    """A conversation in which things were said, and what was written of it; the facts by their messages."""
    server.script(*["Noted."] * len(TAUGHT))
    done = finish(home, environment(server), "chat", stdin="".join(f"{said}\n" for said in TAUGHT))
    assert done.returncode == 0, done.stderr
    server.reset()
    found = rows(home, "events", "SELECT content, id FROM events WHERE direction = 'inbound'")
    events = {str(content): str(id_) for content, id_ in found}
    return await written(home, {fact: events[said] for said, fact in TAUGHT.items()})


async def written(home: Home, facts: dict[str, str | None]) -> dict[str, str]:
    """Facts about Tyler, each from a message, written as the memory's writer does; their ids by the facts."""
    async with Ledgers(home, LedgersConfig()) as ledgers:
        memory = Memory(ledgers)
        await memory.run("entity", {"name": "Tyler", "type": "Person"})
        return {
            fact: (await memory.run("fact", {"about": "Tyler", "fact": fact, "event": event}))["id"]
            for fact, event in facts.items()
        }


def planned(home: Home, server: ModelServer, **more: str) -> ModelRequest:
    """The manager hands the task out; returns what the worker asked the model."""
    server.when(_is_worker).script("On March 12 we eat Italian food at Osteria Mozza.")
    server.when(lambda request: "large" in request.model).script(*dispatching(TASK, then="All planned."))
    assert run(home, server, "run", "--session", "main", "A dinner, please.", **more) == "All planned.\n"
    (asked,) = [request for request in server.requests if _is_worker(request)]
    return asked


def _is_worker(request: ModelRequest) -> bool:
    return request.last_user.endswith(TASK) and "large" in request.model


def _told(request: ModelRequest) -> dict[str, str]:
    """The memories before the task, by their ids."""
    block = re.search(r"<memory_context>\n(.*?)\n</memory_context>\n\n", request.last_user, re.DOTALL)
    return {} if block is None else dict(re.findall(r"^- (.*?) \(.*, (\w+)\)$", block[1], re.MULTILINE))


async def test_a_dinner_is_planned_with_what_was_said_in_another_conversation(
    home: Home, server: ModelServer
) -> None:
    facts = await taught(home, server)
    asked = planned(home, server)

    assert _told(asked) == facts
    assert "Tyler" not in asked.system
    offered = rows(
        home,
        "runtime",
        "SELECT item_id, decided_by, injected, used, root_request_id FROM injections ORDER BY rank",
    )
    injected = {str(row[0]): row for row in offered if row[2]}
    assert injected.keys() == set(facts.values())
    assert all((row[1], row[3]) == ("triage", 1) for row in injected.values())
    for said, fact in TAUGHT.items():
        (source,) = rows(home, "memory", f"SELECT source_event_id FROM facts WHERE id = '{facts[fact]}'")
        assert rows(home, "events", f"SELECT content FROM events WHERE id = '{source[0]}'") == [(said,)]
    shown = run(home, None, "trace", str(offered[0][4]))
    assert "the triage chose 2 of" in shown
    assert all(fact in shown for fact in facts.values())


async def test_the_manager_is_told_too_where_somebody_registers_that(home: Home, server: ModelServer) -> None:
    await written(home, {"Tyler's birthday is March 12": None})
    run(
        home,
        None,
        *("automations", "register", "memory-injection", "--name", "manager-memory"),
        *("--hook-point", "after:assembleContext", "--config", '{"scope": "facts"}'),
    )
    server.script("On March 12.")
    run(home, server, "run", "--session", "other", "When is Tyler's birthday?")
    (asked,) = server.requests
    assert "- Tyler's birthday is March 12 (" in asked.last_user
    assert asked.last_user.endswith("When is Tyler's birthday?")
