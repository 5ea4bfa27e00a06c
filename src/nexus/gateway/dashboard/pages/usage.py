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
    report = await usage.report(app.ledgers, app.config, days=days)
    return await page(
        request,
        "usage.html",
        active="usage",
        report=report,
        days=days,
        ranges=usage.RANGES_DAYS,
        plot=plots.stacked(report),
        models=plots.bars(report.models),
        automations=plots.bars(report.automations),
    )


ROUTES = (get("/usage", shown),)
