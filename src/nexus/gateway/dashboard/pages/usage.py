"""What was spent, as plots; the budgets, and what they refused."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import plots
from nexus.gateway.dashboard.endpoint import get, number
from nexus.gateway.dashboard.render import page
from nexus.gateway.views import usage


async def shown(request: Request, app: App) -> Response:
    """The last days, by day, model and automation."""
    days = number(request, "days", 30, among=usage.RANGES_DAYS)
    spent = await usage.spent(app.ledgers, days=days)
    return page(
        request,
        "usage.html",
        active="usage",
        spent=spent,
        days=days,
        ranges=usage.RANGES_DAYS,
        plot=plots.stacked(spent),
        models=plots.bars(spent.models),
        automations=plots.bars(spent.automations),
        messages=await usage.messages(app.ledgers, days=days),
        standing=await usage.standing(app.ledgers, app.config.budgets),
        hits=await usage.hits(app.ledgers, days=days),
    )


ROUTES = (get("/usage", shown),)
