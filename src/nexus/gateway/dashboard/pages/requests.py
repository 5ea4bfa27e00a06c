"""Requests, and the trace of one as a waterfall."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from nexus import clock
from nexus.app import App
from nexus.gateway.dashboard import render
from nexus.gateway.dashboard.render import get, is_part, page, post, read_period, redirect
from nexus.gateway.views import address, requests
from nexus.ledgers.runtime.trace import Node
from nexus.runs import Totals

WIDTH: Final = 1000
_ROWS_AT_ONCE: Final = 100
_NARROWEST: Final = 3.0
_DEEPEST: Final = 12
_TICKS: Final = 4
# What stands in its own columns, or says nothing to a person.
_SHOWN_ELSEWHERE: Final = frozenset({"kind", "session", "event", "task"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One thing that was done."""

    node: Node
    kind: str
    """request, execution, automation, stage, hook, model, tool, …"""
    title: str
    about: str
    depth: int
    left: float
    width: float
    total: Totals
    sums_up: bool
    """Whether its figures are those of more than itself."""
    detail: dict[str, Any]


def lay_out(root: Node, start: int = 0) -> tuple[list[Row], int | None]:
    """Some rows of a trace from the top, and where the next ones begin."""
    flat = list(_flatten(root, 0))
    begin, span = _find_window(root, [node for node, _ in flat])
    chosen = flat[start : start + _ROWS_AT_ONCE]
    made = [_make_row(node, depth, begin, span) for node, depth in chosen]
    following = start + _ROWS_AT_ONCE
    return made, following if following < len(flat) else None


def place_ticks(root: Node) -> list[tuple[float, str]]:
    """Place marks on the time axis, with what they say."""
    _, span = _find_window(root, [node for node, _ in _flatten(root, 0)])
    return [(WIDTH * part / _TICKS, clock.took(span * part / _TICKS)) for part in range(_TICKS)]


def _flatten(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    """The steps from the top. What the memory offered took no time, and is told apart from them."""
    yield node, depth
    for child in node.children:
        if child.kind != "memory":
            yield from _flatten(child, depth + 1)


def _find_window(root: Node, nodes: list[Node]) -> tuple[str, float]:
    """Find when it began and how many milliseconds it took, with what went on behind its answer."""
    begin = root.started_at
    ends = [_offset_ms(node, begin) + (node.duration_ms or 0.0) for node in nodes]
    return begin, max([*ends, 1.0])


def _make_row(node: Node, depth: int, begin: str, span: float) -> Row:
    title, about = _label(node)
    left = min(max(_offset_ms(node, begin) / span, 0.0), 1.0) * WIDTH
    width = max((node.duration_ms or 0.0) / span * WIDTH, _NARROWEST)
    return Row(
        node=node,
        kind=node.detail.get("kind", node.kind),
        title=title,
        about=about,
        depth=min(depth, _DEEPEST),
        left=round(min(left, WIDTH - _NARROWEST), 1),
        width=round(min(width, max(_NARROWEST, WIDTH - left)), 1),
        total=node.total,
        sums_up=any(child.kind != "memory" for child in node.children),
        detail={k: v for k, v in node.detail.items() if k not in _SHOWN_ELSEWHERE and v not in (None, "")},
    )


def _label(node: Node) -> tuple[str, str]:
    detail = node.detail
    if node.kind == "request":
        return node.name or "request", detail.get("task") or detail.get("session") or ""
    if node.kind == "execution":
        return "run", node.name
    if node.kind == "automation":
        return node.name, f"at {detail['hook_point']}"
    return node.name, ""


def _offset_ms(node: Node, begin: str) -> float:
    if not (node.started_at and begin):
        return 0.0
    return (clock.parse(node.started_at) - clock.parse(begin)).total_seconds() * 1000


STATUSES: Final = ("running", "done", "failed", "denied", "cancelled")


async def list_requests(request: Request, app: App) -> Response:
    """List the newest requests."""
    query = request.query_params
    found = await requests.load_page(
        app.ledgers,
        status=query.get("status") or None,
        channel=query.get("channel") or None,
        period=read_period(request),
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
        channels=await requests.list_channels(app.ledgers),
    )


async def show_request(request: Request, app: App) -> Response:
    """Show one request with all that it led to."""
    trace = await requests.load_trace(app.ledgers, request.path_params["id"])
    part = render.cut_part(trace.answered or "", render.read_position(request, "answer"))
    if is_part(request) and "answer" in request.query_params:
        return await page(request, "part_answered.html", part=part)
    rows, rest = await asyncio.to_thread(lay_out, trace.node, render.read_position(request))
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
        ticks=await asyncio.to_thread(place_ticks, trace.node),
        offered=await requests.load_offers(app.ledgers, root),
    )


async def retry(request: Request, app: App) -> Response:
    """Ask a failed request again, at the end of its session's queue."""
    id_ = request.path_params["id"]
    await app.queue.retry(await requests.find_failed_run(app.ledgers, id_))
    return redirect(address("requests", id_))


ROUTES = (
    get("/requests", list_requests),
    get("/requests/{id}", show_request),
    post("/requests/{id}/retry", retry),
)
