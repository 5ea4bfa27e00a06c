"""Observations and mental models, with what they rest on and whether they are stale."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard.endpoint import Show, get
from nexus.gateway.dashboard.periods import period
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import conclusions
from nexus.gateway.views.conclusions import Kind


def _listed(kind: Kind) -> Show:
    async def listed(request: Request, app: App) -> Response:
        query = request.query_params
        found = await conclusions.listed(
            app.ledgers,
            kind,
            stale=bool(query.get("stale")),
            period=period(request),
            cursor=query.get("cursor"),
        )
        if is_part(request) and query.get("cursor"):
            return await page(request, "part_conclusions.html", found=found, kind=kind)
        return await page(request, "conclusions.html", active="memory", found=found, kind=kind)

    return listed


def _shown(kind: Kind) -> Show:
    async def shown(request: Request, app: App) -> Response:
        view = await conclusions.get(app.ledgers, kind, request.path_params["id"])
        return await page(request, "conclusion.html", active="memory", view=view, kind=kind)

    return shown


ROUTES = (
    get("/memory/observations", _listed("observation")),
    get("/memory/observations/{id}", _shown("observation")),
    get("/memory/models", _listed("mental_model")),
    get("/memory/models/{id}", _shown("mental_model")),
)
