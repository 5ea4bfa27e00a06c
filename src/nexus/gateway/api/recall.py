"""Recall and reflections: what the memory holds about a question, and what a model answers from it."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from nexus.gateway.dependencies import ServedApp, api_router
from nexus.memory.recall import item
from nexus.memory.recall.item import Budget, Matches, kinds
from nexus.results import Reflection

router = api_router("recall")
reflections_router = api_router("reflections", "/reflections")


@router.get("/recall")
async def recall(
    app: ServedApp,
    text: Annotated[str, Query(min_length=1, max_length=2_000, description="Question or search words.")],
    scope: Annotated[
        str | None,
        Query(
            max_length=200,
            description=(
                "Comma-separated kinds: events, facts, observations, mental_models, episodes, entities."
            ),
        ),
    ] = None,
    entity: Annotated[str | None, Query(max_length=500, description="Filter by entity (id or name).")] = None,
    channel: Annotated[str | None, Query(max_length=200, description="Filter by channel.")] = None,
    after: Annotated[datetime | None, Query(description="Only since this time.")] = None,
    before: Annotated[datetime | None, Query(description="Only before this time.")] = None,
    budget: Annotated[Budget, Query(description="Time and effort.")] = "mid",
    limit: Annotated[int, Query(ge=1, le=200, description="Maximum number of results.")] = 10,
    max_tokens: Annotated[int, Query(ge=1, le=100_000, description="Maximum total tokens.")] = 4_000,
    deadline_ms: Annotated[
        int, Query(ge=1, le=60_000, description="How long it may take.")
    ] = item.PATIENT_MS,
) -> Matches:
    """Search the memory, best matches first, with reasons.

    Each result is `strong` if it probably answers the question, otherwise `weak`. No language model is
    called.
    """
    query = item.Query(
        text=text,
        kinds=kinds(scope),
        entity_id=entity,
        channel=channel,
        time_after=_in_utc(after),
        time_before=_in_utc(before),
        max_results=limit,
        max_tokens=max_tokens,
        budget=budget,
        deadline_ms=deadline_ms,
        rank_threads=True,
    )
    return await (await app.open_recall()).find(query)


def _in_utc(moment: datetime | None) -> datetime | None:
    """A time that says no zone is in UTC, as everywhere in a home."""
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class NewReflection(BaseModel):
    """A question to the memory."""

    question: str = Field(min_length=1, max_length=4_000, pattern=r"\S")
    save_as: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"\S",
        description="Name of the mental model that keeps the answer.",
    )
    model: str = Field(
        default="", max_length=200, description="`provider/model` to use. Empty: the configured one."
    )


class Refresh(BaseModel):
    """A mental model to answer again."""

    mental_model: str = Field(min_length=1, max_length=500, description="Its id or name.")
    model: str = Field(
        default="", max_length=200, description="`provider/model` to use. Empty: the configured one."
    )


@reflections_router.post("", status_code=201)
async def reflect(app: ServedApp, new: NewReflection) -> Reflection:
    """Answer a question from the memory, with sources. Returns when the model has answered."""
    return await app.reflect(new.question, save_as=new.save_as, model=new.model)


@reflections_router.post("/refresh", status_code=201)
async def refresh(app: ServedApp, wanted: Refresh) -> Reflection:
    """Make the next version of a mental model."""
    return await app.refresh(wanted.mental_model, model=wanted.model)
