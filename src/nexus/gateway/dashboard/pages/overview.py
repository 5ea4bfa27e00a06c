"""The home page: what waits for the owner, what happened today, and what is wrong."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import plots
from nexus.gateway.dashboard.endpoint import get
from nexus.gateway.dashboard.render import page
from nexus.gateway.views.overview import overview


async def shown(request: Request, app: App) -> Response:
    """The home today."""
    found = await overview(app)
    return await page(request, "home.html", active="", it=found, spark=plots.spark(found.days))


ROUTES = (get("/", shown),)
