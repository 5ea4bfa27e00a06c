"""The memory: who and what is known, what was observed, who may be whom, and remembering more."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import Body, Path, Query
from pydantic import BaseModel, Field

from nexus import clock
from nexus.errors import UsageError
from nexus.gateway.api.messages import Channel
from nexus.gateway.dependencies import Cursor, Limit, ServedApp, api_router
from nexus.ledgers.memory import How
from nexus.ledgers.memory.reviews import Decision, State
from nexus.memory.operations import BATCH, OPERATIONS
from nexus.memory.views import entities as entity_views
from nexus.memory.views import episodes as episode_views
from nexus.memory.views import events as event_views
from nexus.memory.views import facts as fact_views
from nexus.memory.views.entities import Candidate, Entity, EntityLine
from nexus.memory.views.episodes import Episode, EpisodeView
from nexus.memory.views.events import EventView
from nexus.memory.views.facts import Fact, FactView
from nexus.memory.views.page import Page
from nexus.memory.writing import Provenance
from nexus.results import Erasure

router = api_router("memory", "/memory")
_ACTOR: Final = Provenance(actor="owner:api", kind="owner", channel="api")
Matching = Annotated[str | None, Query(max_length=500, description="Search words.")]
FactId = Annotated[str, Path(max_length=100)]
ForgetId = Annotated[str, Path(max_length=60, description="Id of the deletion, `fgt_…`.")]
Reference = Annotated[str, Path(max_length=500, description="Id or name.")]
OperationName = Annotated[
    str, Path(json_schema_extra={"enum": [*OPERATIONS, BATCH]}, description="Operation.")
]


_HOW = (
    "`corrected`: the old fact was never true; `changed`: it was, until now; `cancelled`: it was called off."
)


class NewFact(BaseModel):
    """A fact to remember."""

    fact: str = Field(min_length=1, pattern=r"\S", description="The statement, as a sentence.")
    about: str | None = Field(default=None, description="Subject: id or name.")
    entities: list[str] = Field(default_factory=list, description="Other entities it mentions.")
    confidence: float = Field(default=1.0, ge=0, le=1)
    as_of: str | None = Field(default=None, description="When it was true, such as 2026-05-01.")
    replaces: list[str] = Field(default_factory=list, description="Ids of facts that it makes untrue.")
    how: How | None = Field(default=None, description=_HOW)


class Correction(BaseModel):
    """What is true instead."""

    fact: str = Field(min_length=1, pattern=r"\S", description="The statement, as a sentence.")
    how: How | None = Field(default=None, description=_HOW)
    by: str = Field(default="", max_length=200, description="Person who typed it. Empty: a program.")
    channel: Channel = Field(default="api", description="Where it was typed.")


class Distinction(BaseModel):
    """Another fact that is true as well."""

    other: str | None = Field(default=None, description="Its id. Null: the fact that replaced this one.")


class Review(BaseModel):
    """A decision about a fact."""

    decision: Decision = Field(description="`reopen` undoes `accept` and `reject`; `unpin` undoes `pin`.")
    reason: str | None = Field(default=None, max_length=500, description="Reason, kept in the audit log.")


class Forget(BaseModel):
    """What to forget: a fact or an entity."""

    fact: str = Field(default="", description="Id of a fact.")
    entity: str = Field(default="", description="Id or name of an entity.")
    mentions: bool = Field(default=True, description="Also texts of others that name the entity.")


class ForgetPreview(BaseModel):
    """How much goes: rows by `ledger.table`, emptied columns, and attached files."""

    removed: dict[str, int] = Field(default_factory=dict)
    emptied: dict[str, int] = Field(default_factory=dict)
    kept: dict[str, int] = Field(default_factory=dict)
    files: int = 0


class ForgetCheck(BaseModel):
    """What one place still has of what a receipt names."""

    kind: Literal["home", "backup", "copy", "file"]
    created_at: str | None = Field(description="When the backup was made.")
    clean: bool
    problem: str | None = Field(description="Why it could not be searched.")
    rows: dict[str, int] = Field(description="Rows by `ledger.table`.")
    ids: dict[str, int] = Field(description="Ids in bytes that no row accounts for, by file.")


class Merge(BaseModel):
    """Two entities to merge."""

    source: str = Field(description="Entity to merge: id or name.")
    target: str = Field(description="Entity that represents both.")
    reason: str | None = Field(default=None, description="Reason, kept in the audit log.")


class Unmerge(BaseModel):
    """A merge to undo."""

    entity: str = Field(description="Its id.")
    reason: str | None = Field(default=None, description="Reason, kept in the audit log.")


@router.get("/entities")
async def list_entities(
    app: ServedApp,
    matching: Matching = None,
    type: Annotated[str | None, Query(max_length=100, description="Filter by type.")] = None,  # noqa: A002 - its name in the API
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[EntityLine]:
    """List entities by last change."""
    return await entity_views.load_page(
        app.ledgers, matching=matching, type_=type, cursor=cursor, limit=limit
    )


@router.get("/entities/{reference}")
async def get_entity(app: ServedApp, reference: Reference) -> Entity:
    """Show an entity: names, contacts, connections, merges and merge candidates."""
    return await entity_views.get(app.ledgers, reference)


@router.get("/entities/{reference}/timeline")
async def get_timeline(
    app: ServedApp, reference: Reference, cursor: Cursor = None, limit: Limit = 50
) -> Page[Fact]:
    """List observations about an entity, latest first, with sources."""
    entity = await entity_views.get(app.ledgers, reference)
    return await entity_views.load_timeline(app.ledgers, entity.same, cursor=cursor, limit=limit)


@router.get("/facts")
async def list_facts(
    app: ServedApp, matching: Matching = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[Fact]:
    """List facts, newest first."""
    return await fact_views.load_page(app.ledgers, matching=matching, cursor=cursor, limit=limit)


@router.get("/episodes")
async def list_episodes(
    app: ServedApp,
    channel: Annotated[str | None, Query(max_length=200, description="Filter by channel.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Episode]:
    """List episodes, latest first."""
    return await episode_views.load_page(app.ledgers, channel=channel, cursor=cursor, limit=limit)


@router.get("/episodes/{episode_id}")
async def get_episode(app: ServedApp, episode_id: Annotated[str, Path(max_length=100)]) -> EpisodeView:
    """Show an episode: messages, participants and facts."""
    return await episode_views.get(app.ledgers, episode_id)


@router.get("/events/{event_id}")
async def get_event(app: ServedApp, event_id: Annotated[str, Path(max_length=100)]) -> EventView:
    """Show a message with its context and the facts learned from it."""
    return await event_views.get(app.ledgers, event_id)


@router.get("/candidates")
async def list_candidates(
    app: ServedApp,
    status: Annotated[
        Literal["pending", "accepted", "rejected"] | None, Query(description="Null: any.")
    ] = "pending",
    limit: Limit = 50,
) -> tuple[Candidate, ...]:
    """List merge candidates with reasons, likeliest first."""
    return await entity_views.load_candidates(app.ledgers, status=status, limit=limit)


@router.post("/candidates/{candidate_id}/reject")
async def reject_candidate(
    app: ServedApp, candidate_id: Annotated[str, Path(max_length=100)]
) -> dict[str, Any]:
    """Record that two entities are different."""
    return await app.memory.run("reject", {"candidate": candidate_id}, _ACTOR)


@router.post("/merges", status_code=201)
async def merge_entities(app: ServedApp, merge: Merge) -> dict[str, Any]:
    """Merge two entities. No data moves, so it can be undone."""
    return await app.memory.run("merge", merge.model_dump(exclude_none=True), _ACTOR)


@router.post("/unmerges", status_code=201)
async def unmerge_entity(app: ServedApp, unmerge: Unmerge) -> dict[str, Any]:
    """Undo a merge."""
    return await app.memory.run("unmerge", unmerge.model_dump(exclude_none=True), _ACTOR)


@router.post("/facts", status_code=201)
async def remember(app: ServedApp, fact: NewFact) -> dict[str, Any]:
    """Store a fact. It is durable when this returns and searchable shortly after."""
    return await app.memory.run("fact", fact.model_dump(exclude_none=True), _ACTOR)


@router.get("/facts/{fact_id}")
async def get_fact(app: ServedApp, fact_id: FactId) -> FactView:
    """Show a fact: source, decisions, what it replaced and what replaced it."""
    return await fact_views.get(app.ledgers, fact_id)


@router.post("/facts/{fact_id}/correct", status_code=201)
async def correct_fact(app: ServedApp, fact_id: FactId, correction: Correction) -> dict[str, Any]:
    """Replace a fact by what is true now. Both stay in the log."""
    actor = _ACTOR
    if correction.by:
        actor = Provenance(actor=f"person:{correction.by}", kind="owner", channel=correction.channel)
    return await app.memory.correct(fact_id, correction.fact, actor, how=correction.how)


@router.post("/facts/{fact_id}/keep-both", status_code=201)
async def keep_both_facts(app: ServedApp, fact_id: FactId, distinction: Distinction) -> dict[str, Any]:
    """Record that a fact and the one that replaced it, or another one, are both true."""
    return await app.memory.keep_both(fact_id, distinction.other, _ACTOR)


@router.post("/facts/{fact_id}/reviews", status_code=201)
async def review_fact(app: ServedApp, fact_id: FactId, review: Review) -> State:
    """Accept, reject or pin a fact, or take that back. A rejected fact is kept and no longer used."""
    return await app.memory.decide(fact_id, review.decision, _ACTOR, reason=review.reason)


@router.get("/review")
async def list_facts_to_review(
    app: ServedApp,
    days: Annotated[int, Query(ge=1, le=3_650, description="How far to look back.")] = 7,
    status: Annotated[Literal["pending", "accepted", "rejected"], Query()] = "pending",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[Fact]:
    """List what was learned lately: what waits for a review, or what was decided."""
    since = clock.timestamp(clock.now() - timedelta(days=days))
    return await fact_views.load_to_review(
        app.ledgers, since=since, status=status, cursor=cursor, limit=limit
    )


@router.get("/forget")
async def preview_forget(
    app: ServedApp,
    fact: Annotated[str, Query(max_length=100, description="Id of a fact.")] = "",
    entity: Annotated[str, Query(max_length=500, description="Id or name of an entity.")] = "",
    mentions: Annotated[bool, Query(description="Also texts of others that name the entity.")] = True,
) -> ForgetPreview:
    """Show what forgetting a fact or an entity would delete. Nothing is deleted."""
    _require_one(fact, entity)
    plan = await app.forget_preview(fact=fact, entity=entity, mentions=mentions)
    return ForgetPreview(removed=plan.removed, emptied=plan.emptied, kept=plan.kept, files=plan.files)


@router.post("/forget")
async def forget(app: ServedApp, wanted: Forget) -> Erasure:
    """Permanently delete a fact or an entity, and what was learned from it. This can't be undone."""
    _require_one(wanted.fact, wanted.entity)
    if wanted.fact:
        return await app.forget_fact(wanted.fact)
    return await app.forget(wanted.entity, mentions=wanted.mentions)


@router.get("/forget/{forget_id}")
async def get_receipt(app: ServedApp, forget_id: ForgetId) -> dict[str, Any]:
    """Return the signed receipt of a deletion: counts and digests, no content."""
    return (await asyncio.to_thread(app.find_receipt, forget_id)).to_json()


@router.get("/forget/{forget_id}/check")
async def check_receipt(app: ServedApp, forget_id: ForgetId) -> list[ForgetCheck]:
    """Look in the home and its backups for what a receipt names."""
    checks = await asyncio.to_thread(app.verify_receipt, forget_id)
    return [ForgetCheck.model_validate(each.to_json()) for each in checks.places]


def _require_one(fact: str, entity: str) -> None:
    if bool(fact) == bool(entity):
        raise UsageError("Name a fact or an entity", hint="Pass `fact` or `entity`, and not both.")


@router.post("/operations/{operation}", status_code=201)
async def write_memory(
    app: ServedApp,
    operation: OperationName,
    arguments: Annotated[
        dict[str, Any] | list[Any],
        Body(description="Arguments as for `memory-write.sh`; `batch` takes a list."),
    ],
) -> dict[str, Any]:
    """Run any memory write operation of `memory-write.sh`."""
    return await app.memory.run(operation, arguments, _ACTOR)
