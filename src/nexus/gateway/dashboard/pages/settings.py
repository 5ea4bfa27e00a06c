"""The settings in force, for reading."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard.endpoint import get, keys_of
from nexus.gateway.dashboard.render import page
from nexus.gateway.views import settings


async def shown(request: Request, app: App) -> Response:
    """Every setting. Secrets are not told."""
    return await page(
        request,
        "settings.html",
        active="settings",
        sections=settings.sections(app.config),
        home=str(app.home.root),
        file=str(app.home.config_file),
        problems=app.automations.problems,
        browsers=len(keys_of(request).browsers),
    )


ROUTES = (get("/settings", shown),)
