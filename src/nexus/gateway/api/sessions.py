"""Sessions: what is being answered in one, what was said into it, and leaving it."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel

from nexus.gateway.api.messages import Channel
from nexus.gateway.dependencies import Cursor, Limit, ServedApp, api_router
from nexus.gateway.views import sessions as views
from nexus.gateway.views.answers import LastMessage, load_last_message
from nexus.gateway.views.sessions import Kind, Message, SessionLine
from nexus.ledgers import events
from nexus.ledgers.runtime import executions, usage
from nexus.memory.views.page import Page
from nexus.runs import Totals

router = api_router("sessions", "/sessions")
Label = Annotated[str, Path(min_length=1, max_length=200, pattern=r"\S", description="Session label.")]


class Runs(BaseModel):
    """Runs of a session, in order."""

    ids: list[str]


class Texts(BaseModel):
    """Texts, newest first."""

    texts: list[str]


class Sent(BaseModel):
    """Messages sent by automations."""

    messages: list[events.Unasked]


class Leaving(BaseModel):
    """The session to start next."""

    channel: Channel = "api"


class Left(BaseModel):
    """A session that was left. It can be continued."""

    session: str


@router.get("")
async def list_sessions(
    app: ServedApp,
    role: Annotated[str | None, Query(max_length=100, description="Filter by role.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    kind: Annotated[Kind | None, Query(description="Filter by whose session it is.")] = None,
) -> Page[SessionLine]:
    """List sessions by last use."""
    return await views.load_page(app.ledgers, role=role, cursor=cursor, limit=limit, kind=kind)


@router.get("/{label:path}/transcript")
async def get_transcript(
    app: ServedApp, label: Label, cursor: Cursor = None, limit: Limit = 50
) -> Page[Message]:
    """Show the latest messages of a session in order; the next page is older."""
    session = await views.get(app.ledgers, label)
    return await views.load_transcript(app.ledgers, session.id, cursor=cursor, limit=limit)


@router.get("/{label:path}/executions")
async def list_executions(
    app: ServedApp,
    label: Label,
    after: Annotated[str, Query(description="Only runs after this one.")] = "",
    unfinished: Annotated[bool, Query(description="Only unfinished ones.")] = False,
    newest: Annotated[bool, Query(description="Only the one started last.")] = False,
) -> Runs:
    """List the runs of a session, without canceled ones."""
    if newest:
        last = await app.ledgers.runtime.read(executions.newest_in, session_label=label)
        return Runs(ids=[last] if last else [])
    found = await (app.active_runs(label) if unfinished else app.runs_after(label, after))
    return Runs(ids=[run.id for run in found])


@router.get("/{label:path}/last-message")
async def get_last_message(app: ServedApp, label: Label) -> LastMessage | None:
    """Show what a person last said in a session, on any channel, and the run that answers it."""
    return await load_last_message(app.ledgers, label)


@router.get("/{label:path}/said")
async def list_said(
    app: ServedApp,
    label: Label,
    channel: Channel = "api",
    limit: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of texts.")] = 100,
) -> Texts:
    """List messages sent to a session on a channel."""
    return Texts(
        texts=await app.ledgers.events.read(events.list_said, channel=channel, external_id=label, limit=limit)
    )


@router.get("/{label:path}/unasked")
async def list_unasked(
    app: ServedApp,
    label: Label,
    channel: Channel = "api",
    after: Annotated[int | None, Query(ge=0, le=2**63 - 1, description="Only after this `seq`.")] = None,
) -> Sent:
    """List messages that automations sent to a session, by default since your last message."""
    return Sent(
        messages=await app.ledgers.events.read(
            events.list_unasked, channel=channel, external_id=label, after=after
        )
    )


@router.get("/{label:path}/usage")
async def get_session_usage(app: ServedApp, label: Label) -> Totals:
    """Show the total cost of a session."""
    return await app.ledgers.runtime.read(usage.of_session, session_label=label)


@router.post("/{label:path}/leave")
async def leave_session(app: ServedApp, label: Label, leaving: Leaving) -> Left:
    """Leave a session for a new one. Fires `command:new`."""
    await app.new_session(label, channel=leaving.channel)
    return Left(session=label)
