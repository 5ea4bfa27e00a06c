"""One message in its conversation: where every memory leads back to."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import parts
from nexus.gateway.dashboard.endpoint import get
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import events


async def shown(request: Request, app: App) -> Response:
    """A message with what was said around it."""
    view = await events.get(app.ledgers, request.path_params["id"])
    part = parts.part(view.event.content, parts.asked_for(request))
    if is_part(request):
        return await page(request, "part_whole.html", part=part)
    return await page(request, "event.html", active="memory", view=view, part=part)


ROUTES = (get("/events/{id}", shown),)
