"""Memory injection with the real program: what a worker's request holds on the wire.

A conversation teaches something, the program is started again, and a
worker that plans a dinner knows it.
"""

import asyncio
import re

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


def run(home: Home, server: ModelServer | None, *arguments: str, **more: str) -> str:
    done = finish(home, environment(server, **more), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def taught(home: Home, server: ModelServer) -> dict[str, str]:
    """A conversation in which things were said, and what was written of it; the facts by their messages."""
    server.script(*["Noted."] * len(TAUGHT))
    done = finish(home, environment(server), "chat", stdin="".join(f"{said}\n" for said in TAUGHT))
    assert done.returncode == 0, done.stderr
    server.reset()
    found = rows(home, "events", "SELECT content, id FROM events WHERE direction = 'inbound'")
    events = {str(content): str(id_) for content, id_ in found}
    return asyncio.run(written(home, {fact: events[said] for said, fact in TAUGHT.items()}))


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


def test_a_dinner_is_planned_with_what_was_said_in_another_conversation(
    home: Home, server: ModelServer
) -> None:
    facts = taught(home, server)
    asked = planned(home, server)

    assert _told(asked).keys() == facts.keys()
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


def test_what_is_asked_again_gets_the_same_evidence_and_no_echo(home: Home, server: ModelServer) -> None:
    """Everything is asked twice in one session, then in a new one."""
    facts = taught(home, server)
    questions = ["When is Tyler's birthday?", "What kind of food does Tyler like?", "Plan dinner with Tyler"]
    for session in ("one", "one", "two"):
        for question in questions:
            server.script("It is as you told me: Tyler, March 12, Italian food.")
            run(home, server, "run", "--session", session, question)
    first, second, third = (server.requests[at : at + 3] for at in (0, 3, 6))
    for asked in (first, second, third):
        for request, question in zip(asked, questions, strict=True):
            assert request.last_user.endswith(question)
            # Whatever is told is what was taught, never a question, a request or an answer.
            assert _told(request).keys() <= facts.keys()
    in_context = [{fact for fact in facts if fact in str(each.json["messages"])} for each in server.requests]
    assert in_context[0] >= {"Tyler's birthday is March 12"}
    assert in_context[1] >= {"Tyler likes Italian food"}
    assert all(here == set(facts) for here in (in_context[2], *in_context[3:6], in_context[8]))
    assert [_told(request) for request in third[:1]] == [_told(request) for request in first[:1]]
    assert all(_told(request) == {} for request in second)
