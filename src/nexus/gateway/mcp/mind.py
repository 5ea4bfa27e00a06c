"""A home's memory as programs elsewhere use it: what each tool does, without the protocol."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import apsw

from nexus.app import App
from nexus.broker.agent.roles import models_of
from nexus.errors import GatewayError
from nexus.gateway.mcp.answers import (
    Episode,
    Episodes,
    Memory,
    Observation,
    Recalled,
    Reflection,
    Remembered,
    Replacement,
    Source,
    Tie,
    Timeline,
)
from nexus.ledgers import events
from nexus.ledgers.events import NewEvent, Participant
from nexus.ledgers.runtime import requests
from nexus.memory import views
from nexus.memory.recall import item
from nexus.memory.recall.item import Match, Query
from nexus.memory.references import find_meant
from nexus.memory.writing import Provenance
from nexus.request import Access, Event, Request
from nexus.roles.reflection import Asking
from nexus.serving import serving

CHANNEL = "mcp"
# Enough to embed what was remembered a moment ago; a large backlog is not waited for.
_CATCH_UP_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Something that a program wants to be remembered."""

    fact: str
    about: str | None = None
    about_type: str = "Unknown"
    relation: str | None = None
    target: str | None = None
    target_type: str = "Unknown"
    as_of: str | None = None
    confidence: float = 1.0
    replaces: str | None = None
    how: str | None = None


class Mind:
    """The memory of an open home.

    Where this process does not serve the home, another one may, or none: then what was written is embedded
    here, and a question that needs a model cannot be answered.
    """

    def __init__(self, app: App, *, serves: bool) -> None:
        self.app = app
        self._serves = serves

    async def recall(self, query: Query) -> Recalled:
        """What is remembered about a question, within its deadline."""
        if not self._serves and query.deadline_ms:
            catch_up_ms = round(query.deadline_ms * _CATCH_UP_SHARE)
            await self.app.embedding.catch_up(catch_up_ms / 1000)
            query = replace(query, deadline_ms=query.deadline_ms - catch_up_ms)
        found = await (await self.app.open_recall()).find(query)
        return Recalled(
            memories=[_memory(result) for result in found.results],
            meant={said: list(names) for said, names in found.meant.items()},
            left_out=list(found.late_arms),
        )

    async def remember(self, statement: Statement, client: str) -> Remembered:
        """Record who said it, then what was said, with whom and what it is about."""
        new = await self._unknown(statement)
        named = [{"operation": "entity", "name": name, "type": type_} for name, type_ in new.items()]
        operations = [*named, _fact(statement)]
        provenance = Provenance(actor=f"{CHANNEL}:{client}", kind="client")
        # First: what may not be remembered is not recorded as said either.
        await self.app.memory.check("batch", operations, provenance)
        event_id = await self._said(statement.fact, client)
        answer = await self.app.memory.run("batch", operations, replace(provenance, event_id=event_id))
        *made, fact = answer["results"]
        return Remembered(
            fact_id=fact["id"],
            event_id=event_id,
            about=fact.get("source_entity_id"),
            new_entities=list(new),
            may_be=[f"{each['name']} ({each['entity_id']})" for one in made for each in one["candidates"]],
        )

    async def reflect(self, question: str, save_as: str | None, client: str) -> Reflection:
        """Let a model answer from the memory, on the account of a request of the client's."""
        models_of(self.app.config.models, "reflection")
        if not self._serves and serving(self.app.home) is None:
            raise GatewayError(
                "Nexus is not running, so no model is available", hint="Run `nexus up` and try again."
            )
        request = await self._asked(question, client)
        status: Literal["done", "failed"] = "failed"
        try:
            found = await self.app.reflect(question, save_as=save_as, asking=Asking(request=request))
            status = "done"
        finally:
            await self.app.ledgers.runtime.write(requests.end, request_id=request.request_id, status=status)
        return Reflection(
            answer=found.answer,
            sources=[Source(**asdict(source)) for source in found.sources],
            mental_model_id=found.mental_model_id,
            request_id=request.request_id,
        )

    async def timeline(self, entity: str, limit: int) -> Timeline:
        """An entity with what was observed about it."""
        shown = await views.show(self.app.ledgers, entity, limit=1)
        observed = await views.timeline(self.app.ledgers, entity, limit=limit)
        return Timeline(
            entity_id=shown["id"],
            name=shown["name"],
            type=shown["type"],
            summary=shown["summary"],
            also_called=[each["alias"] for each in shown["aliases"] if each["alias"] != shown["name"]],
            observations=[_observation(fact) for fact in observed],
        )

    async def episodes(self, entity: str | None, limit: int) -> Episodes:
        """The latest episodes, all or those that mention somebody or something."""
        found = await views.episodes(self.app.ledgers, entity=entity, limit=limit)
        return Episodes(episodes=[_episode(each) for each in found])

    async def entities(self, limit: int) -> Sequence[dict[str, Any]]:
        """The entities that changed last."""
        return await views.entities(self.app.ledgers, limit=limit)

    async def _unknown(self, statement: Statement) -> dict[str, str]:
        """The names that nobody goes by yet, with their types."""
        named = {statement.about: statement.about_type, statement.target: statement.target_type}
        given = {name.strip(): type_ for name, type_ in named.items() if name and name.strip()}

        def missing(connection: apsw.Connection) -> dict[str, str]:
            region = self.app.config.memory.phone_region
            return {
                name: type_ for name, type_ in given.items() if find_meant(connection, name, region) is None
            }

        return await self.app.ledgers.identity.read(missing)

    async def _asked(self, question: str, client: str) -> Request:
        """A request for what a client asks, with what reading the memory needs and no more."""
        event_id = await self._said(question, client)
        event = Event(content=question, id=event_id, channel=CHANNEL, sender_id=client)
        request = Request(event=event, access=Access(level="owner", memory="all"))
        await self.app.ledgers.runtime.write(requests.create, request=request)
        return request

    async def _said(self, text: str, client: str) -> str:
        def record(connection: apsw.Connection) -> str:
            thread_id = events.ensure_thread(connection, channel=CHANNEL, external_id=client, kind="session")
            new = NewEvent(
                channel=CHANNEL,
                content=text,
                thread_id=thread_id,
                sender=client,
                participants=(Participant(role="sender", identifier=client),),
            )
            return events.append(connection, [new])[0]

        return await self.app.ledgers.events.write(record)


def _fact(statement: Statement) -> dict[str, Any]:
    given = {
        "operation": "fact",
        "fact": statement.fact,
        "about": statement.about,
        "type": statement.relation,
        "target": statement.target,
        "as_of": statement.as_of,
        "confidence": statement.confidence,
        "replaces": [statement.replaces] if statement.replaces else None,
        "how": statement.how,
    }
    return {name: value for name, value in given.items() if value is not None}


def _memory(result: Match) -> Memory:
    item = result.item
    return Memory(
        kind=item.kind,
        id=item.id,
        text=item.text,
        at=item.at,
        said_by=item.speaker,
        source_event_id=item.source_event_id,
        confidence=item.confidence,
        note=item.note or None,
        stale_since=item.stale_since,
        caused_by=[Tie(**asdict(link)) for link in item.caused_by],
        leads_to=[Tie(**asdict(link)) for link in item.leads_to],
        replaced_by=_replacement(item.replaced_by),
        strength=result.strength,
        relevance=round(result.probability, 3),
    )


def _replacement(by: item.Replacement | None) -> Replacement | None:
    return None if by is None else Replacement(id=by.id, text=by.text, at=by.at, how=by.how)


def _observation(fact: dict[str, Any]) -> Observation:
    said: dict[str, Any] = fact["said"] or {}
    by: dict[str, Any] | None = fact["replaced_by"]
    return Observation(
        id=fact["id"],
        at=fact["at"],
        fact=fact["fact"],
        relation=fact["relation_type"],
        about=fact["source_name"],
        target=fact["target_name"],
        confidence=fact["confidence"],
        how_known=fact["source_type"],
        said_by=said.get("sender"),
        source_event_id=fact["source_event_id"],
        replaced_by=Replacement(id=by["id"], text=by["fact"], at=by["at"], how=by["how"]) if by else None,
    )


def _episode(episode: dict[str, Any]) -> Episode:
    return Episode(
        id=episode["id"],
        title=episode["title"],
        summary=episode["summary"],
        channel=episode["channel"],
        start=episode["start_time"],
        end=episode["end_time"],
        messages=episode["event_count"],
    )
