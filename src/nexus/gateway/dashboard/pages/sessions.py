"""Sessions and their transcripts: find, rename, archive and delete them."""

from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.errors import UsageError
from nexus.gateway.dashboard import render
from nexus.gateway.dashboard.render import get, is_part, page, post, read_form, read_period, redirect
from nexus.gateway.views import address, sessions
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


async def list_sessions(request: Request, app: App) -> Response:
    """List sessions by when they were last used."""
    query = request.query_params
    found = await sessions.load_page(
        app.ledgers,
        kind=_read_kind(query.get("kind", "people")),
        matching=query.get("q", "").strip() or None,
        period=read_period(request),
        cursor=query.get("cursor"),
        archived=bool(query.get("archived")),
    )
    if is_part(request) and query.get("cursor"):
        return await page(request, "part_sessions.html", found=found)
    return await page(request, "sessions.html", active="sessions", found=found, kinds=_KINDS)


async def show_session(request: Request, app: App) -> Response:
    """Show one session's transcript, its newest part."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    cursor = request.query_params.get("cursor")
    found = render.fit_messages(await sessions.load_transcript(app.ledgers, session.id, cursor=cursor))
    if is_part(request) and cursor:
        return await page(request, "part_transcript.html", found=found, session=session)
    return await page(
        request,
        "session.html",
        active="sessions",
        found=found,
        session=session,
        title=await sessions.load_title(app.ledgers, session.label),
    )


async def show_message(request: Request, app: App) -> Response:
    """Show one message in its full length, a part at a time."""
    found = await sessions.get_message(app.ledgers, request.path_params["id"])
    part = render.cut_part(found.content, render.read_position(request))
    if is_part(request):
        return await page(request, "part_whole.html", part=part)
    return await page(request, "message.html", active="sessions", message=found, part=part)


async def change(request: Request, app: App) -> Response:
    """Rename, archive or bring back a session."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    given = await read_form(request)
    match given.text("to"):
        case "rename":
            title = " ".join(given.text("title").split())[:_MOST_OF_A_TITLE] or None
            await app.ledgers.agents.write(stored.rename, session_id=session.id, title=title)
        case "archive":
            await app.ledgers.agents.write(stored.archive, session_id=session.id, archived=True)
            return redirect("/sessions")
        case "restore":
            await app.ledgers.agents.write(stored.archive, session_id=session.id, archived=False)
        case to:
            raise UsageError(f"Unknown action for a session: `{to:.40}`")
    return redirect(address("sessions", session.label))


async def preview_deletion(request: Request, app: App) -> Response:
    """Show what would go with a session."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    plans = await app.forget_session_preview(await sessions.load_threads(app.ledgers, session))
    counts: dict[str, int] = {}
    for plan in plans:
        for place, count in plan.removed.items():
            counts[place] = counts.get(place, 0) + count
    return await page(
        request,
        "session_delete.html",
        active="sessions",
        session=session,
        title=await sessions.load_title(app.ledgers, session.label),
        counts=counts,
        files=sum(plan.files for plan in plans),
        plans=plans,
    )


async def delete(request: Request, app: App) -> Response:
    """Forget a session: its conversation, and what was learned from it."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    await app.forget_session(session.label, await sessions.load_threads(app.ledgers, session))
    return redirect("/sessions")


def _read_kind(chosen: str) -> sessions.Kind | None:
    """Read the kind that was chosen; None, and so all, for one that is not known."""
    return next((kind for kind in get_args(sessions.Kind) if kind == chosen), None)


# A label may hold anything, slashes too: nothing else is asked for below /sessions/.
ROUTES = (
    get("/sessions", list_sessions),
    get("/sessions/{label:path}", show_session),
    post("/sessions/{label:path}", change),
    get("/session-deletion/{label:path}", preview_deletion),
    post("/session-deletion/{label:path}", delete),
    get("/messages/{id}", show_message),
)
