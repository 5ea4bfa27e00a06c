"""What was spent, as plots; the budgets, and what they refused."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import plots
from nexus.gateway.dashboard.endpoint import get, read_number
from nexus.gateway.dashboard.render import page
from nexus.gateway.views import usage


async def show_usage(request: Request, app: App) -> Response:
    """Show the last days, by day, model and automation."""
    days = read_number(request, "days", 30, among=usage.RANGES_DAYS)
    report = await usage.load_report(app.ledgers, app.config, days=days)
    return await page(
        request,
        "usage.html",
        active="usage",
        report=report,
        days=days,
        ranges=usage.RANGES_DAYS,
        plot=plots.stack_bars(report),
        models=plots.make_bars(report.models),
        automations=plots.make_bars(report.automations),
    )


ROUTES = (get("/usage", show_usage),)
