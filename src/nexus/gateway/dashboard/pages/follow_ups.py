"""Follow-ups: the promises that were recognized, and what can be done about each."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.errors import UsageError
from nexus.gateway.dashboard.endpoint import get, post, read_form, redirect
from nexus.gateway.dashboard.render import is_part, page
from nexus.ledgers.memory.follow_ups import FollowUp, Status
from nexus.roles.follow_ups.follow_ups import FollowUps, Hours, format_due

_SHOWN: Final = 200
_CLOSED: Final[dict[str, Status]] = {"done": "done", "wrong": "wrong"}


async def list_follow_ups(request: Request, app: App) -> Response:
    """Show the open follow-ups by due date, or all."""
    shows_all = request.query_params.get("show") == "all"
    found = await _open(app).load(None if shows_all else "open", _SHOWN)
    return await page(
        request,
        "follow_ups.html",
        active="automations",
        follow_ups=await _format_dues(app, found),
        shows_all=shows_all,
        enabled=app.config.followups.enabled,
    )


async def change(request: Request, app: App) -> Response:
    """Mark a follow-up as done or wrong, or raise it again later."""
    id_, to = request.path_params["id"], request.path_params["to"]
    if to == "later":
        words = (await read_form(request)).text("when") or "tomorrow"
        found = await _open(app).postpone(id_, words)
    elif to in _CLOSED:
        found = await _open(app).close(id_, _CLOSED[to])
    else:
        raise UsageError(f"Unknown action for a follow-up: `{to:.40}`")
    if is_part(request):
        ((_, due),) = await _format_dues(app, [found])
        return await page(request, "part_follow_up.html", it=found, due=due)
    return redirect("/follow-ups")


async def _format_dues(app: App, found: list[FollowUp]) -> list[tuple[FollowUp, str]]:
    """Format when each is due, in the owner's time zone."""
    hours = await asyncio.to_thread(Hours.of, app.config)
    return [(each, format_due(each.due_at, hours.zone) if each.due_at else "") for each in found]


def _open(app: App) -> FollowUps:
    return FollowUps(app.ledgers, app.config, app.reminders.now)


ROUTES = (
    get("/follow-ups", list_follow_ups),
    post("/follow-ups/{id}/{to}", change),
)
