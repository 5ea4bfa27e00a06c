"""Sessions and their transcripts: find, rename, archive and delete them."""

from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.errors import UsageError
from nexus.gateway.dashboard import parts
from nexus.gateway.dashboard.endpoint import back, form, get, post
from nexus.gateway.dashboard.periods import period
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import sessions
from nexus.gateway.views.page import address
from nexus.ledgers.agents import sessions as stored

_MOST_OF_A_TITLE: Final = 120
_KINDS: Final = (
    ("people", "Conversations"),
    ("runs", "Single runs"),
    ("workers", "Workers"),
    ("automations", "Automations"),
    ("all", "All from Nexus"),
    ("imported", "Imported"),
)


async def listed(request: Request, app: App) -> Response:
    """Sessions by when they were last used."""
    query = request.query_params
    found = await sessions.listed(
        app.ledgers,
        kind=_kind(query.get("kind", "people")),
        matching=query.get("q", "").strip() or None,
        period=period(request),
        cursor=query.get("cursor"),
        archived=bool(query.get("archived")),
    )
    if is_part(request) and query.get("cursor"):
        return await page(request, "part_sessions.html", found=found)
    return await page(request, "sessions.html", active="sessions", found=found, kinds=_KINDS)


async def shown(request: Request, app: App) -> Response:
    """One session's transcript, its newest part."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    cursor = request.query_params.get("cursor")
    found = parts.fitting(await sessions.transcript(app.ledgers, session.id, cursor=cursor))
    if is_part(request) and cursor:
        return await page(request, "part_transcript.html", found=found, session=session)
    return await page(
        request,
        "session.html",
        active="sessions",
        found=found,
        session=session,
        title=await sessions.title(app.ledgers, session.label),
    )


async def message(request: Request, app: App) -> Response:
    """One message in its full length, a part at a time."""
    found = await sessions.message(app.ledgers, request.path_params["id"])
    part = parts.part(found.content, parts.asked_for(request))
    if is_part(request):
        return await page(request, "part_whole.html", part=part)
    return await page(request, "message.html", active="sessions", message=found, part=part)


async def change(request: Request, app: App) -> Response:
    """Rename, archive or bring back a session."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    given = await form(request)
    match given.text("to"):
        case "rename":
            title = " ".join(given.text("title").split())[:_MOST_OF_A_TITLE] or None
            await app.ledgers.agents.write(stored.rename, session_id=session.id, title=title)
        case "archive":
            await app.ledgers.agents.write(stored.archive, session_id=session.id, archived=True)
            return back("/sessions")
        case "restore":
            await app.ledgers.agents.write(stored.archive, session_id=session.id, archived=False)
        case to:
            raise UsageError(f"Unknown action for a session: `{to:.40}`")
    return back(address("sessions", session.label))


async def preview(request: Request, app: App) -> Response:
    """What would go with a session."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    plans = await app.forget_session_preview(await sessions.threads(app.ledgers, session))
    counts: dict[str, int] = {}
    for plan in plans:
        for place, count in plan.removed.items():
            counts[place] = counts.get(place, 0) + count
    return await page(
        request,
        "session_delete.html",
        active="sessions",
        session=session,
        title=await sessions.title(app.ledgers, session.label),
        counts=counts,
        files=sum(plan.files for plan in plans),
        plans=plans,
    )


async def delete(request: Request, app: App) -> Response:
    """Forget a session: its conversation, and what was learned from it."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    await app.forget_session(session.label, await sessions.threads(app.ledgers, session))
    return back("/sessions")


def _kind(chosen: str) -> sessions.Kind | None:
    """The kind that was chosen; None, and so all, for one that is not known."""
    return next((kind for kind in get_args(sessions.Kind) if kind == chosen), None)


# A label may hold anything, slashes too: nothing else is asked for below /sessions/.
ROUTES = (
    get("/sessions", listed),
    get("/sessions/{label:path}", shown),
    post("/sessions/{label:path}", change),
    get("/session-deletion/{label:path}", preview),
    post("/session-deletion/{label:path}", delete),
    get("/messages/{id}", message),
)
