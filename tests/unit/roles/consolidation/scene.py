"""A home with facts in it, and a model that consolidates them."""

import json
import re
from dataclasses import replace
from typing import Any, cast

from apps import settings
from nexus.app import App
from nexus.config import Config, MemoryConfig
from nexus.ledgers.runtime import requests
from nexus.memory.writing import Provenance
from nexus.request import Agent, Event, Request
from nexus.testing import ModelRequest, ModelServer, Turn

Rows = list[tuple[Any, ...]]


def steady(server: ModelServer, **memory: Any) -> Config:
    """The settings of a home with a model that consolidates."""
    config = settings(server)
    models = replace(config.models, consolidation=config.models.manager)
    return replace(config, models=models, memory=MemoryConfig(**memory))


async def message(app: App) -> str:
    """A request as a message leaves it; returns its id."""
    request = Request(event=Event(content="", channel="cli"), agent=Agent(session_label="main"))
    await app.ledgers.runtime.write(requests.create, request=request)
    await app.ledgers.runtime.write(requests.end, request_id=request.request_id, status="done")
    return request.request_id


async def learn(
    app: App,
    *facts: str,
    about: str = "Tyler",
    request_id: str | None = None,
    event_id: str | None = None,
) -> list[str]:
    """Write facts about somebody; returns their ids."""
    who = f"ent_{about.lower()}"
    known = await app.ledgers.identity.read(
        lambda c: c.execute("SELECT 1 FROM entities WHERE id = ?", (who,)).get
    )
    if not known:
        await app.memory.run("entity", {"id": who, "name": about, "type": "Person"})
    batch = [{"operation": "fact", "about": who, "fact": fact} for fact in facts]
    source = Provenance(actor="test", kind="owner", request_id=request_id, event_id=event_id)
    written = await app.memory.run("batch", batch, source)
    return [str(result["id"]) for result in written["results"]]


async def consolidated(app: App, *, again: bool = False) -> dict[str, Any]:
    """Run consolidation to its end; returns its report."""
    return cast("dict[str, Any]", await (await app.conclusions.consolidate(again=again)).result())


async def memory_rows(app: App, query: str) -> Rows:
    return await app.ledgers.memory.read(lambda c: cast("Rows", c.execute(query).fetchall()))


async def texts(app: App) -> list[str]:
    """The observations in all versions, the oldest first."""
    return [
        row[0] for row in await memory_rows(app, "SELECT content FROM observations ORDER BY created_at, id")
    ]


def numbered(request: ModelRequest) -> dict[int, str]:
    """The new facts that a request shows."""
    shown = re.search(r"<new_facts>\n(.*?)\n</new_facts>", request.last_user, re.DOTALL)
    assert shown is not None
    return dict(enumerate(re.findall(r"^F\w+\. (.*)$", shown[1], re.MULTILINE), start=1))


def concluded(request: ModelRequest) -> dict[str, str]:
    """The observations that a request shows, by their names."""
    return dict(re.findall(r"^(O\d+)\. (.*)$", request.last_user, re.MULTILINE))


def says(*observations: dict[str, Any], nothing_new: list[int] | None = None) -> Turn:
    """The model's answer."""
    return Turn(json.dumps({"observations": list(observations), "nothing_new": nothing_new or []}))


def one_for_all(request: ModelRequest) -> Turn:
    """One observation about all new facts, which revises the first that there is."""
    facts = numbered(request)
    made: dict[str, Any] = {"text": f"All of it: {'; '.join(facts.values())}", "facts": list(facts)}
    if concluded(request):
        made["revises"] = "O1"
    return says(made)
