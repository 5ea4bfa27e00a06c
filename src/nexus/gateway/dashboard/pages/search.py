"""One search over everything, as a page and for the palette; and the list of commands."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard.endpoint import get
from nexus.gateway.dashboard.periods import period
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views.search import commands, search

_IN_PALETTE = 4
_ON_PAGE = 8


async def found(request: Request, app: App) -> Response:
    """What a text finds."""
    text = request.query_params.get("q", "").strip()[:400]
    limit = _IN_PALETTE if is_part(request) else _ON_PAGE
    groups = await search(app, text, period=period(request), limit=limit)
    template = "part_search.html" if is_part(request) else "search.html"
    return await page(request, template, active="search", groups=groups, asked=text)


async def help_(request: Request, app: App) -> Response:
    """Every command."""
    return await page(request, "help.html", active=None, commands=commands())


ROUTES = (get("/search", found), get("/help", help_))
