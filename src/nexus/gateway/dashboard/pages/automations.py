"""Automations: what runs where, how it fares, and what can be done about it."""

import asyncio
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.automations import changes, hook_points, registration, registry, reminders, when
from nexus.automations.changes import AutomationRequest
from nexus.errors import NexusError
from nexus.gateway.dashboard import render
from nexus.gateway.dashboard.pages.editor import why_uneditable
from nexus.gateway.dashboard.render import get, is_part, page, post, read_form, read_period, redirect
from nexus.gateway.errors import status_of
from nexus.gateway.views import address, automations
from nexus.gateway.views.automations import AutomationLine, Place
from nexus.ledgers.runtime import automations as rows
from nexus.ledgers.runtime.automations import Automation

_SCRIPT = 8_000
_TROUBLED = "Needs attention"
_WAITING = "Waiting for your approval"
_SCHEDULED = "On a schedule"
_RUNNING = "At hook points"
_OFF = "Off"
_GROUPS = (_TROUBLED, _WAITING, _SCHEDULED, _RUNNING, _OFF)
_RESULTS = (
    ("", "before the agent where one waits, a message on a schedule, NOTES.md elsewhere"),
    ("context", "before the agent that answers; the request must wait for it"),
    ("reply", "a message where the request came from"),
    ("remember", "a memory for each line"),
    ("file", "NOTES.md in its workspace"),
)


async def list_automations(request: Request, app: App) -> Response:
    """List automations by what to do about them: what needs attention, what waits, what runs, what is off."""
    places = [_without_reminders(place) for place in await automations.list_by_hook_point(app.ledgers)]
    return await page(
        request,
        "automations.html",
        active="automations",
        groups=_groups([line for place in places for line in place.automations]),
        places=places,
        registered=sum(len(place.automations) for place in places),
        reminders=len(await app.reminders.load_all()),
        problems=app.automations.problems,
        times=_describe_times,
    )


def _without_reminders(place: Place) -> Place:
    """Reminders have a page of their own."""
    kept = (line for line in place.automations if line.automation.script_path != reminders.SCRIPT)
    return replace(place, automations=tuple(kept))


def _groups(lines: list[AutomationLine]) -> list[tuple[str, list[AutomationLine]]]:
    """Every automation in one group, in the order in which a request meets them; the empty are left out."""
    named: dict[str, list[AutomationLine]] = {name: [] for name in _GROUPS}
    for line in lines:
        named[_group(line)].append(line)
    return [(name, found) for name, found in named.items() if found]


def _group(line: AutomationLine) -> str:
    row = line.automation
    if row.disabled_reason in {rows.IMPORTED, rows.PROPOSED}:
        return _WAITING
    if line.condition.needs_attention:
        return _TROUBLED
    if line.condition.level == "off":
        return _OFF
    return _SCHEDULED if row.hook_point == hook_points.SCHEDULE else _RUNNING


def _describe_times(row: Automation) -> str:
    """Describe when one runs by the clock, in words; empty for the others."""
    return when.describe(row.triggers) if row.triggers.keys() & {"at", "cron"} else ""


async def show_automation(request: Request, app: App) -> Response:
    """Show one automation."""
    name, cursor = request.path_params["name"], request.query_params.get("cursor")
    runs = await automations.load_runs(app.ledgers, name, period=read_period(request), cursor=cursor)
    if is_part(request) and cursor:
        return await page(request, "part_runs.html", runs=runs)
    view = await automations.get(app.ledgers, name)
    script = (
        render.cut_part(view.script, render.read_position(request, "script"), _SCRIPT)
        if view.script
        else None
    )
    if script and is_part(request):
        return await page(request, "part_script.html", part=script)
    proposal = await automations.describe_proposal(app.ledgers, view.automation)
    values: dict[str, Any] = {"view": view, "runs": runs, "script": script, "proposal": proposal}
    values["schedule"] = _describe_times(view.automation)
    values["editable"] = view.automation.status != "superseded" and not await asyncio.to_thread(
        why_uneditable, app.home, view.automation
    )
    return await page(request, "automation.html", active="automations", **values)


async def show_difference(request: Request, app: App) -> Response:
    """Show what changed between two versions."""
    name, params = request.path_params["name"], request.path_params
    text = await automations.compare_versions(app.ledgers, name, params["older"], params["newer"])
    title = f"{name}, version {params['older']} to {params['newer']}"
    return await _show_text(request, title, text, name, is_diff=True)


async def show_file(request: Request, app: App) -> Response:
    """Show a file of the workspace."""
    name, filename = request.path_params["name"], request.path_params["file"]
    text = await automations.read_file(app.ledgers, name, filename)
    return await _show_text(request, filename, text, name)


async def show_change(request: Request, app: App) -> Response:
    """Show one commit of the workspace's history."""
    name, commit = request.path_params["name"], request.path_params["commit"]
    text = await automations.read_change(app.ledgers, name, commit)
    return await _show_text(request, f"Commit {commit}", text, name, is_diff=True, commit=commit)


async def undo(request: Request, app: App) -> Response:
    """Take one commit of the workspace's history back."""
    name, commit = request.path_params["name"], request.path_params["commit"]
    await automations.undo_change(app.ledgers, name, commit)
    return redirect(address("automations", name))


async def enable(request: Request, app: App) -> Response:
    """Let it run again."""
    found = await _require(app, request.path_params["name"])
    registration.check_approved(found)
    await app.ledgers.runtime.write(rows.enable, automation_id=found.id)
    return _apply_change(app, found.name)


async def disable(request: Request, app: App) -> Response:
    """Let it run no more."""
    found = await _require(app, request.path_params["name"])
    reason = (await read_form(request)).text("reason") or "in the dashboard"
    await app.ledgers.runtime.write(rows.disable, automation_id=found.id, reason=reason)
    return _apply_change(app, found.name)


async def approve(request: Request, app: App) -> Response:
    """Let what the agent proposed run, in a sandbox."""
    made = await automations.approve(app.ledgers, request.path_params["name"])
    return redirect(address("automations", made.name))


async def discard(request: Request, app: App) -> Response:
    """Take a proposal off the list."""
    await automations.discard(app.ledgers, request.path_params["name"])
    return redirect("/automations")


async def roll_back(request: Request, app: App) -> Response:
    """Go back to an older version, which becomes a new one."""
    name, given = request.path_params["name"], (await read_form(request)).text("version")
    version = int(given) if given.isdecimal() and len(given) < 10 else None
    write = registration.writer(app.ledgers)
    await asyncio.to_thread(registration.roll_back, app.home, write, name, version)
    return _apply_change(app, name)


async def retry(request: Request, app: App) -> Response:
    """Let a run that failed for good run again."""
    name, run = request.path_params["name"], request.path_params["run"]
    await automations.retry(app.ledgers, app.automations.queue, name, run)
    return redirect(address("automations", name))


async def rerun(request: Request, app: App) -> Response:
    """Run it again on what an earlier run was given."""
    name, run = request.path_params["name"], request.path_params["run"]
    await automations.rerun(app.ledgers, app.automations.runner, name, run)
    return redirect(address("automations", name))


async def dismiss(request: Request, app: App) -> Response:
    """Give up on a run that failed for good."""
    name, run = request.path_params["name"], request.path_params["run"]
    await automations.dismiss(app.ledgers, name, run)
    return redirect(address("automations", name))


async def show_form(
    request: Request, app: App, wish: AutomationRequest | None = None, error: NexusError | None = None
) -> Response:
    """Show the form of a new automation, with what was typed if it was refused."""
    found = await app.ledgers.runtime.read(rows.list_current)
    return await page(
        request,
        "automation_new.html",
        status_of(error) if error else 200,
        active="automations",
        points=hook_points.HOOK_POINTS,
        results=_RESULTS,
        others=[each.name for each in found if each.workspace_dir],
        wish=wish,
        error=error,
    )


async def create(request: Request, app: App) -> Response:
    """Make an automation out of a role."""
    given = await read_form(request)
    wish = AutomationRequest(
        name=given.text("name"),
        role=given.raw("role"),
        hook_point=given.text("hook_point"),
        blocking=given.text("blocking") == "yes",
        peers=tuple(given.all("peer")),
        description=given.text("description") or None,
        result=given.text("result"),
    )
    try:
        write = registration.writer(app.ledgers)
        made = await asyncio.to_thread(changes.create, app.home, write, wish)
    except NexusError as error:
        return await show_form(request, app, wish, error)
    return redirect(address("automations", made.automation.name))


async def _require(app: App, name: str) -> Automation:
    found = await app.ledgers.runtime.read(rows.get, name=name)
    if found is None:
        raise registration.unknown_automation(name)
    return found


def _apply_change(app: App, name: str) -> Response:
    registry.touch(app.home)
    return redirect(address("automations", name))


async def _show_text(
    request: Request, title: str, text: str, name: str, *, is_diff: bool = False, commit: str = ""
) -> Response:
    part = render.cut_part(text, render.read_position(request))
    template = "part_text.html" if is_part(request) else "text.html"
    return await page(
        request,
        template,
        active="automations",
        title=title,
        lines=part.text.splitlines(),
        part=part,
        name=name,
        is_diff=is_diff,
        commit=commit,
    )


ROUTES = (
    get("/automations", list_automations),
    get("/automations/new", show_form),
    post("/automations/new", create),
    get("/automations/{name}", show_automation),
    get("/automations/{name}/versions/{older:int}/{newer:int}", show_difference),
    get("/automations/{name}/files/{file:path}", show_file),
    get("/automations/{name}/changes/{commit}", show_change),
    post("/automations/{name}/changes/{commit}/undo", undo),
    post("/automations/{name}/enable", enable),
    post("/automations/{name}/disable", disable),
    post("/automations/{name}/rollback", roll_back),
    post("/automations/{name}/approve", approve),
    post("/automations/{name}/discard", discard),
    post("/automations/{name}/runs/{run}/retry", retry),
    post("/automations/{name}/runs/{run}/rerun", rerun),
    post("/automations/{name}/runs/{run}/dismiss", dismiss),
)
