"""The memory: who and what is known, what was observed, who may be whom, and remembering more."""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel, Field

from nexus.gateway.api.paging import Cursor, Limit
from nexus.gateway.dependencies import Home
from nexus.gateway.views import entities as entity_views
from nexus.gateway.views import episodes as episode_views
from nexus.gateway.views import events as event_views
from nexus.gateway.views import facts as fact_views
from nexus.gateway.views.entities import Candidate, Entity, EntityLine
from nexus.gateway.views.episodes import Episode, EpisodeView
from nexus.gateway.views.events import EventView
from nexus.gateway.views.facts import Fact
from nexus.gateway.views.page import Page
from nexus.memory.operations import BATCH, OPERATIONS
from nexus.memory.provenance import Provenance

router = APIRouter(prefix="/memory", tags=["memory"])
_ACTOR: Final = Provenance(actor="owner:api", kind="owner")
Matching = Annotated[str | None, Query(max_length=500, description="Only those that these words find.")]
Reference = Annotated[str, Path(max_length=500, description="Its id, or a name that it goes by.")]
OperationName = Annotated[
    str, Path(json_schema_extra={"enum": [*OPERATIONS, BATCH]}, description="What is to be written.")
]


class NewFact(BaseModel):
    """Something to remember."""

    fact: str = Field(min_length=1, pattern=r"\S", description="The statement, in plain words.")
    about: str | None = Field(default=None, description="Whom or what it is about: an id or a name.")
    entities: list[str] = Field(default_factory=list, description="Whom and what else it mentions.")
    confidence: float = Field(default=1.0, ge=0, le=1)
    as_of: str | None = Field(default=None, description="When that was so, as 2026-05-01.")


class Merge(BaseModel):
    """Two entities that are one."""

    source: str = Field(description="The one that the other stands for from now on: an id or a name.")
    target: str = Field(description="The one that stands for both.")
    reason: str | None = Field(default=None, description="Why; it stays in the audit.")


class Unmerge(BaseModel):
    """An entity that stands for itself again."""

    entity: str = Field(description="Its id.")
    reason: str | None = Field(default=None, description="Why; it stays in the audit.")


@router.get("/entities")
async def list_entities(
    home: Home,
    matching: Matching = None,
    type: Annotated[str | None, Query(max_length=100, description="Only those of a type.")] = None,  # noqa: A002 - its name in the API
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[EntityLine]:
    """Entities, those that changed last first."""
    return await entity_views.listed(home.ledgers, matching=matching, type_=type, cursor=cursor, limit=limit)


@router.get("/entities/{reference}")
async def get_entity(home: Home, reference: Reference) -> Entity:
    """One entity: its names, contacts, neighbours, merges and those that it may be one with."""
    return await entity_views.get(home.ledgers, reference)


@router.get("/entities/{reference}/timeline")
async def get_timeline(
    home: Home, reference: Reference, cursor: Cursor = None, limit: Limit = 50
) -> Page[Fact]:
    """What was observed about an entity, the latest truth first, each with its source."""
    entity = await entity_views.get(home.ledgers, reference)
    return await entity_views.timeline(home.ledgers, entity.same, cursor=cursor, limit=limit)


@router.get("/facts")
async def list_facts(
    home: Home, matching: Matching = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[Fact]:
    """Facts, the newest observation first."""
    return await fact_views.listed(home.ledgers, matching=matching, cursor=cursor, limit=limit)


@router.get("/episodes")
async def list_episodes(
    home: Home,
    channel: Annotated[str | None, Query(max_length=200, description="Only those of a channel.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Episode]:
    """Episodes, the latest first."""
    return await episode_views.listed(home.ledgers, channel=channel, cursor=cursor, limit=limit)


@router.get("/episodes/{episode_id}")
async def get_episode(home: Home, episode_id: Annotated[str, Path(max_length=100)]) -> EpisodeView:
    """One episode: what was said, who was in it, and what was learned from it."""
    return await episode_views.get(home.ledgers, episode_id)


@router.get("/events/{event_id}")
async def get_event(home: Home, event_id: Annotated[str, Path(max_length=100)]) -> EventView:
    """One message, with those around it and what was learned from it."""
    return await event_views.get(home.ledgers, event_id)


@router.get("/candidates")
async def list_candidates(
    home: Home,
    status: Annotated[
        Literal["pending", "accepted", "rejected"] | None, Query(description="Null: whatever was decided.")
    ] = "pending",
    limit: Limit = 50,
) -> tuple[Candidate, ...]:
    """Pairs of entities that may be one, the likeliest first, with why."""
    return await entity_views.candidates(home.ledgers, status=status, limit=limit)


@router.post("/candidates/{candidate_id}/reject")
async def reject_candidate(home: Home, candidate_id: Annotated[str, Path(max_length=100)]) -> dict[str, Any]:
    """Say that two entities are not one; the pair is not proposed again."""
    return await home.memory.run("reject", {"candidate": candidate_id}, _ACTOR)


@router.post("/merges", status_code=201)
async def merge_entities(home: Home, merge: Merge) -> dict[str, Any]:
    """Let one entity stand for another. Nothing is moved, so it can be taken back."""
    return await home.memory.run("merge", merge.model_dump(exclude_none=True), _ACTOR)


@router.post("/unmerges", status_code=201)
async def unmerge_entity(home: Home, unmerge: Unmerge) -> dict[str, Any]:
    """Take a merge back exactly."""
    return await home.memory.run("unmerge", unmerge.model_dump(exclude_none=True), _ACTOR)


@router.post("/facts", status_code=201)
async def remember(home: Home, fact: NewFact) -> dict[str, Any]:
    """Remember something. When this answers, it is durable; it can be recalled a moment later."""
    return await home.memory.run("fact", fact.model_dump(exclude_none=True), _ACTOR)


@router.post("/operations/{operation}", status_code=201)
async def write_memory(
    home: Home,
    operation: OperationName,
    arguments: Annotated[
        dict[str, Any] | list[Any], Body(description="As `memory-write.sh` takes them; `batch` takes a list.")
    ],
) -> dict[str, Any]:
    """Any write of the memory, by the name and arguments that `memory-write.sh` has."""
    return await home.memory.run(operation, arguments, _ACTOR)
