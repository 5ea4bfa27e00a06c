"""Sessions and their transcripts."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import parts
from nexus.gateway.dashboard.endpoint import get
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import sessions


async def listed(request: Request, app: App) -> Response:
    """Sessions by when they were last used."""
    query = request.query_params
    found = await sessions.listed(
        app.ledgers,
        role=query.get("role") or None,
        cursor=query.get("cursor"),
        runs=bool(query.get("runs")),
    )
    if is_part(request) and query.get("cursor"):
        return await page(request, "part_sessions.html", found=found)
    roles = await sessions.roles(app.ledgers)
    return await page(request, "sessions.html", active="sessions", found=found, roles=roles)


async def shown(request: Request, app: App) -> Response:
    """One session's transcript, its newest part."""
    session = await sessions.get(app.ledgers, request.path_params["label"])
    cursor = request.query_params.get("cursor")
    found = parts.fitting(await sessions.transcript(app.ledgers, session.id, cursor=cursor))
    if is_part(request) and cursor:
        return await page(request, "part_transcript.html", found=found, session=session)
    return await page(request, "session.html", active="sessions", found=found, session=session)


async def message(request: Request, app: App) -> Response:
    """One message in its full length, a part at a time."""
    found = await sessions.message(app.ledgers, request.path_params["id"])
    part = parts.part(found.content, parts.asked_for(request))
    if is_part(request):
        return await page(request, "part_whole.html", part=part)
    return await page(request, "message.html", active="sessions", message=found, part=part)


ROUTES = (
    get("/sessions", listed),
    get("/sessions/{label:path}", shown),
    get("/messages/{id}", message),
)
