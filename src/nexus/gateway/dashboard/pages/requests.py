"""Requests, and the trace of one as a waterfall."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import waterfall
from nexus.gateway.dashboard.endpoint import get
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import injections, requests
from nexus.gateway.views.page import position

STATUSES: Final = ("running", "done", "failed", "denied", "cancelled")


async def listed(request: Request, app: App) -> Response:
    """The newest requests."""
    query = request.query_params
    found = await requests.listed(
        app.ledgers,
        status=query.get("status") or None,
        channel=query.get("channel") or None,
        cursor=query.get("cursor"),
    )
    if is_part(request) and query.get("cursor"):
        return await page(request, "part_requests.html", found=found)
    return await page(
        request,
        "requests.html",
        active="requests",
        found=found,
        statuses=STATUSES,
        channels=await requests.channels(app.ledgers),
    )


async def shown(request: Request, app: App) -> Response:
    """One request with all that it led to."""
    trace = await requests.trace(app.ledgers, request.path_params["id"])
    start = request.query_params.get("from") or "0"
    rows, rest = waterfall.rows(trace.node, start=position(start))
    if is_part(request):
        return await page(request, "part_trace.html", rows=rows, rest=rest)
    root = trace.request.root_request_id if trace.request else trace.node.id
    return await page(
        request,
        "request.html",
        active="requests",
        trace=trace,
        rows=rows,
        rest=rest,
        ticks=waterfall.ticks(trace.node),
        offered=await injections.of_root(app.ledgers, root),
    )


ROUTES = (get("/requests", listed), get("/requests/{id}", shown))
