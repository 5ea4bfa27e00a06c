"""A home that knows a little about Tyler, and a manager that hands a task to a worker."""

from typing import Any, cast

import apsw

from apps import dispatching
from nexus.app import App
from nexus.ledgers import events
from nexus.ledgers.runtime import injections
from nexus.ledgers.runtime.injections import Injection
from nexus.testing import ModelRequest, ModelServer, Step

TASK = "Plan Tyler's birthday dinner"
BIRTHDAY = "Tyler's birthday is March 12"
FOOD = "Tyler likes Italian food"
SHIP = "The ship to Genoa leaves at noon"


async def said(app: App, text: str, *, sender: str = "owner", thread: str = "before") -> str:
    """Somebody said something, some time ago."""

    def work(connection: apsw.Connection) -> str:
        thread_id = events.ensure_thread(connection, channel="cli", external_id=thread)
        new = events.NewEvent(channel="cli", content=text, sender=sender, thread_id=thread_id)
        return events.append(connection, [new])[0]

    return await app.ledgers.events.write(work)


async def know(app: App, name: str, *facts: str, **more: Any) -> list[str]:
    """Somebody's name and what is known about them, each from a message of its own; the facts' ids."""
    await app.open_recall()  # what is found must not depend on how fast this machine loads a model
    await app.memory.run("entity", {"name": name, "type": "Person"})
    made: list[str] = []
    for fact in facts:
        event = await said(app, fact, **more)
        answer = await app.memory.run("fact", {"about": name, "fact": fact, "event": event})
        made.append(cast("str", answer["id"]))
    return made


async def done(app: App, server: ModelServer, *, task: str = TASK, worker: Step = "Done.") -> str:
    """A person asks, the manager hands the task to a worker; the root request's id."""
    server.when(lambda request: is_for(request, task)).script(worker)
    server.script(*dispatching(task, then="All planned"))
    result = await (await app.send("Please see to it.")).result()
    assert result.response.content == "All planned"
    return result.request_id


def is_for(request: ModelRequest, task: str) -> bool:
    """Whether a worker asks, about its task."""
    return request.last_user.endswith(task)


def workers(server: ModelServer, task: str = TASK) -> list[ModelRequest]:
    """What workers asked the model, as it went over the wire."""
    return [request for request in server.requests if is_for(request, task)]


async def offered(app: App, root_request_id: str) -> list[Injection]:
    """What the ledger says was offered."""
    return await app.ledgers.runtime.read(injections.of_root, root_request_id)
