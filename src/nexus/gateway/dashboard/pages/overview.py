"""The home page: what waits for the owner, what happened today, and what is wrong."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import plots
from nexus.gateway.dashboard.endpoint import back, get
from nexus.gateway.dashboard.render import page
from nexus.gateway.dependencies import served_by
from nexus.gateway.views.overview import overview


async def shown(request: Request, app: App) -> Response:
    """The home today; a new one is set up first."""
    found = await overview(app)
    is_new = not app.config.models.manager and not found.recent
    if is_new and served_by(request).restart is not None and "later" not in request.query_params:
        return back("/setup")
    return await page(request, "home.html", active="", it=found, spark=plots.spark(found.days))


ROUTES = (get("/", shown),)
