"""Sessions: what is being answered in one, what was said into it, and leaving it."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from nexus.gateway.api.messages import Channel
from nexus.gateway.api.paging import Cursor, Limit
from nexus.gateway.dependencies import Home
from nexus.gateway.views import sessions as views
from nexus.gateway.views.page import Page
from nexus.gateway.views.sessions import Message, SessionLine
from nexus.ledgers import events
from nexus.ledgers.runtime import usage
from nexus.runs import Totals

router = APIRouter(prefix="/sessions", tags=["sessions"])
Label = Annotated[str, Path(min_length=1, max_length=200, pattern=r"\S", description="The session's label.")]


class Runs(BaseModel):
    """Runs of a session, in the order in which they were asked for."""

    ids: list[str]


class Texts(BaseModel):
    """What was said, the newest first."""

    texts: list[str]


class Sent(BaseModel):
    """Messages that answer nothing, such as those of automations that run by the clock."""

    messages: list[events.Unasked]


class Leaving(BaseModel):
    """Where somebody starts afresh."""

    channel: Channel = "api"


class Left(BaseModel):
    """A session that was left. It can be gone on with."""

    session: str


@router.get("")
async def list_sessions(
    home: Home,
    role: Annotated[str | None, Query(max_length=100, description="Only those of a role.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[SessionLine]:
    """Sessions, the one that was last used first."""
    return await views.listed(home.ledgers, role=role, cursor=cursor, limit=limit)


@router.get("/{label:path}/transcript")
async def get_transcript(home: Home, label: Label, cursor: Cursor = None, limit: Limit = 50) -> Page[Message]:
    """The newest messages of a session, in the order in which they were said; the next page is older."""
    session = await views.get(home.ledgers, label)
    return await views.transcript(home.ledgers, session.id, cursor=cursor, limit=limit)


@router.get("/{label:path}/executions")
async def list_executions(
    home: Home,
    label: Label,
    after: Annotated[str, Query(description="Only those that were asked for after this one.")] = "",
    unfinished: Annotated[bool, Query(description="Only those that have not ended.")] = False,
) -> Runs:
    """The runs of a session, whoever asked for them; those that were cancelled are left out."""
    found = await (home.active_runs(label) if unfinished else home.runs_after(label, after))
    return Runs(ids=[run.id for run in found])


@router.get("/{label:path}/said")
async def list_said(
    home: Home,
    label: Label,
    channel: Channel = "api",
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most texts.")] = 100,
) -> Texts:
    """What was said into a session on a channel."""
    said = partial(events.said, channel=channel, external_id=label, limit=limit)
    return Texts(texts=await home.ledgers.events.read(said))


@router.get("/{label:path}/unasked")
async def list_unasked(
    home: Home,
    label: Label,
    channel: Channel = "api",
    after: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="Only those after the one with this `seq`.")
    ] = None,
) -> Sent:
    """What automations sent into a session, in order; without `after`, since anything was last said."""
    sent = partial(events.unasked, channel=channel, external_id=label, after=after)
    return Sent(messages=await home.ledgers.events.read(sent))


@router.get("/{label:path}/usage")
async def get_session_usage(home: Home, label: Label) -> Totals:
    """What the messages of a session cost so far, with everything that they led to."""
    return await home.ledgers.runtime.read(partial(usage.of_session, session_label=label))


@router.post("/{label:path}/leave")
async def leave_session(home: Home, label: Label, leaving: Leaving) -> Left:
    """Start afresh elsewhere: automations of `command:new` may do something about what was said."""
    await home.new_session(label, channel=leaving.channel)
    return Left(session=label)
