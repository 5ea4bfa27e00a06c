"""Reminders: a list with what can be done about each, and the draft of one that was asked for in words."""

from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus import clock
from nexus.app import App
from nexus.automations.reminders import of
from nexus.automations.when import When, check_zone
from nexus.errors import NexusError, UsageError
from nexus.gateway.dashboard.endpoint import get, post, read_form, redirect
from nexus.gateway.dashboard.periods import read_period
from nexus.gateway.dashboard.render import is_part, page
from nexus.gateway.errors import status_of

_CHANNEL: Final = "web"
_MAIN: Final = "main"


async def list_reminders(request: Request, app: App) -> Response:
    """Show reminders by when they were made, and a place to make one."""
    days = read_period(request)
    found = [each for each in await app.reminders.listed() if each.created_at in days]
    return await page(request, "reminders.html", active="automations", reminders=found)


async def answer_command(request: Request, app: App, text: str, words: str, label: str) -> Response:
    """What a reminder would be, to be saved or left; without words, the list."""
    if words:
        return await _show_draft(request, app, words, label, text)
    found = await app.reminders.listed()
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
    new = of(given.raw("text"), when, asks=given.text("asks") == "yes")
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
        described=made.described(app.reminders.now()) if made else (),
        error=error,
    )


def _parse_moment(text: str) -> datetime | None:
    try:
        return clock.parse(text) if text else None
    except ValueError:
        raise UsageError(f"`{text:.40}` is not an ISO 8601 time") from None


ROUTES = (
    get("/reminders", list_reminders),
    post("/reminders", save),
    post("/reminders/draft", show_draft),
    post("/reminders/{name}/{to}", change),
)
