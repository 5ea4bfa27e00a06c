"""Requests, and the trace of one as a waterfall."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard import parts, waterfall
from nexus.gateway.dashboard.endpoint import back, get, post
from nexus.gateway.dashboard.periods import period
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.views import injections, requests
from nexus.gateway.views.page import address

STATUSES: Final = ("running", "done", "failed", "denied", "cancelled")


async def listed(request: Request, app: App) -> Response:
    """The newest requests."""
    query = request.query_params
    found = await requests.listed(
        app.ledgers,
        status=query.get("status") or None,
        channel=query.get("channel") or None,
        period=period(request),
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
    part = parts.part(trace.answered or "", parts.asked_for(request, "answer"))
    if is_part(request) and "answer" in request.query_params:
        return await page(request, "part_answered.html", part=part)
    rows, rest = await asyncio.to_thread(waterfall.rows, trace.node, parts.asked_for(request))
    if is_part(request):
        return await page(request, "part_trace.html", rows=rows, rest=rest)
    root = trace.request.root_request_id if trace.request else trace.node.id
    return await page(
        request,
        "request.html",
        active="requests",
        trace=trace,
        part=part,
        rows=rows,
        rest=rest,
        ticks=await asyncio.to_thread(waterfall.ticks, trace.node),
        offered=await injections.of_root(app.ledgers, root),
    )


async def retry(request: Request, app: App) -> Response:
    """Ask a failed request again, at the end of its session's queue."""
    id_ = request.path_params["id"]
    await app.queue.retry(await requests.failed_run(app.ledgers, id_))
    return back(address("requests", id_))


ROUTES = (
    get("/requests", listed),
    get("/requests/{id}", shown),
    post("/requests/{id}/retry", retry),
)
