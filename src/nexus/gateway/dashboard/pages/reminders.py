"""Reminders and follow-ups: what the agent was asked to raise later, and the promises that it recognized."""

import asyncio
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus import clock
from nexus.app import App
from nexus.automations.reminders import build_draft
from nexus.automations.when import When, check_zone
from nexus.errors import NexusError, UsageError
from nexus.gateway.dashboard.render import get, is_part, page, post, read_form, read_period, redirect
from nexus.gateway.errors import status_of
from nexus.ledgers.memory.follow_ups import FollowUp, Status
from nexus.roles.follow_ups.follow_ups import FollowUps, Hours, format_due

_CHANNEL: Final = "web"
_MAIN: Final = "main"


async def list_reminders(request: Request, app: App) -> Response:
    """Show reminders by when they were made, and a place to make one."""
    days = read_period(request)
    found = [each for each in await app.reminders.load_all() if each.created_at in days]
    return await page(request, "reminders.html", active="automations", reminders=found)


async def answer_command(request: Request, app: App, text: str, words: str, label: str) -> Response:
    """What a reminder would be, to be saved or left; without words, the list."""
    if words:
        return await _show_draft(request, app, words, label, text)
    found = await app.reminders.load_all()
    template = "part_reminders.html" if is_part(request) else "reminders.html"
    return await page(request, template, active="automations", reminders=found, text=text)


async def show_draft(request: Request, app: App) -> Response:
    """Show the draft of a reminder from the list's own form."""
    given = await read_form(request)
    return await _show_draft(request, app, given.text("words"), given.text("session") or _MAIN, "")


async def save(request: Request, app: App) -> Response:
    """Save a draft as it was shown."""
    given = await read_form(request)
    when = When(
        zone=check_zone(given.text("zone") or "UTC"),
        at=_parse_moment(given.text("at")),
        cron=given.text("cron") or None,
    )
    new = build_draft(given.raw("text"), when, asks=given.text("asks") == "yes")
    made = await app.remind(new, session_label=given.text("session") or _MAIN, channel=_CHANNEL)
    if is_part(request):
        return await page(request, "part_reminder_saved.html", reminder=made)
    return redirect("/reminders")


async def change(request: Request, app: App) -> Response:
    """Pause, resume or delete a reminder."""
    to = request.path_params["to"]
    if to not in {"pause", "resume", "delete"}:
        raise UsageError(f"Unknown action for a reminder: `{to}`")
    await app.reminders.change(request.path_params["name"], to)
    return redirect("/reminders")


async def _show_draft(request: Request, app: App, words: str, label: str, text: str) -> Response:
    made, error = None, None
    try:
        made = await app.reminders.draft(words)
    except NexusError as refused:
        error = refused
    return await page(
        request,
        "part_reminder.html" if is_part(request) else "reminder.html",
        200 if error is None or is_part(request) else status_of(error),
        active="automations",
        text=text,
        words=words,
        label=label,
        draft=made,
        triggers=made.when.triggers if made else {},
        described=made.describe(app.reminders.now()) if made else (),
        error=error,
    )


def _parse_moment(text: str) -> datetime | None:
    try:
        return clock.parse(text) if text else None
    except ValueError:
        raise UsageError(f"`{text:.40}` is not an ISO 8601 time") from None


_SHOWN: Final = 200
_CLOSED: Final[dict[str, Status]] = {"done": "done", "wrong": "wrong"}


async def list_follow_ups(request: Request, app: App) -> Response:
    """Show the open follow-ups by due date, or all."""
    shows_all = request.query_params.get("show") == "all"
    found = await _open_follow_ups(app).load(None if shows_all else "open", _SHOWN)
    return await page(
        request,
        "follow_ups.html",
        active="automations",
        follow_ups=await _format_dues(app, found),
        shows_all=shows_all,
        enabled=app.config.followups.enabled,
    )


async def change_follow_up(request: Request, app: App) -> Response:
    """Mark a follow-up as done or wrong, or raise it again later."""
    id_, to = request.path_params["id"], request.path_params["to"]
    if to == "later":
        words = (await read_form(request)).text("when") or "tomorrow"
        found = await _open_follow_ups(app).postpone(id_, words)
    elif to in _CLOSED:
        found = await _open_follow_ups(app).close(id_, _CLOSED[to])
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


def _open_follow_ups(app: App) -> FollowUps:
    return FollowUps(app.ledgers, app.config, app.reminders.now)


ROUTES = (
    get("/reminders", list_reminders),
    post("/reminders", save),
    post("/reminders/draft", show_draft),
    post("/reminders/{name}/{to}", change),
    get("/follow-ups", list_follow_ups),
    post("/follow-ups/{id}/{to}", change_follow_up),
)
