"""Write an automation in the browser: script, settings, a trial without effects, and a new version."""

import asyncio
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.automations import changes, hook_points, registration, trial, when, workspace
from nexus.automations.changes import Changes
from nexus.automations.context import Occasion
from nexus.automations.registry import Entry
from nexus.automations.scripts import script
from nexus.automations.trial import Recorded, Replayed, Trial
from nexus.automations.when import TimeError
from nexus.automations.workspace import Folder
from nexus.errors import AutomationError, NexusError, WorkspaceError
from nexus.gateway.dashboard.render import Form, get, is_part, page, post, read_form, redirect
from nexus.gateway.errors import status_of
from nexus.gateway.views import address, requests
from nexus.home import Home
from nexus.ledgers.runtime import automations as rows
from nexus.ledgers.runtime.automations import Automation

_MOST_CHARACTERS: Final = 60_000
_SHOWN_REQUESTS: Final = 6
_CRON_FIELDS: Final = 5
_FIRST: Final = "runAutomations"
# A trial starts Python first: what the automation has as its own time would often be too short.
_TRIAL_MS: Final = 30_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """What stands in the form."""

    name: str = ""
    source: str = ""
    description: str = ""
    hook_point: str = _FIRST
    blocking: bool = True
    schedule: str = ""
    timeout_ms: str = ""
    retries: str = "0"
    sandbox: bool = False
    role: str | None = None
    """The text of its ROLE.md; None where it has no workspace."""
    version: int = 0


async def show_new(request: Request, app: App) -> Response:
    """Show the form of a new script."""
    text = changes.script_text("my-automation", hook_points.get(_FIRST))
    return await _show_form(request, app, Draft(source=text), None)


async def create(request: Request, app: App) -> Response:
    """Register a new script."""
    given = await read_form(request)
    draft = _read_draft(given, None)
    try:
        if await app.ledgers.runtime.read(rows.get, name=draft.name) is not None:
            raise AutomationError(f"Automation `{draft.name}` already exists", hint="Choose another name.")
        await _save(app, draft, None)
    except NexusError as error:
        return await _show_form(request, app, draft, error)
    return redirect(address("automations", draft.name))


async def show_editor(request: Request, app: App) -> Response:
    """Show the form of a script that is registered."""
    found = await _require_editable(app, request.path_params["name"])
    draft, differs = await asyncio.to_thread(_load_draft, app.home, found)
    return await _show_form(request, app, draft, None, standing=found, differs=differs)


async def save(request: Request, app: App) -> Response:
    """Register another version. One that is disabled stays disabled."""
    found = await _require_editable(app, request.path_params["name"])
    draft = _read_draft(await read_form(request), found)
    try:
        if draft.version != found.version:
            raise AutomationError(
                f"`{found.name}` was changed meanwhile: it is at version {found.version}",
                hint="Copy your text, open the editor again, and repeat your change.",
            )
        await _save(app, draft, found)
    except NexusError as error:
        return await _show_form(request, app, draft, error, standing=found)
    return redirect(address("automations", found.name))


async def try_script(request: Request, app: App) -> Response:
    """Run what stands in the form once, without its effects."""
    given = await read_form(request)
    name = given.text("name") or request.query_params.get("name", "")
    standing = await app.ledgers.runtime.read(rows.get, name=name) if name else None
    began = time.perf_counter()
    try:
        found = await _run_trial(app, _read_draft(given, standing), standing, given)
    except NexusError as error:
        found = Trial(status="failed", error=f"{error.message}\n{error.hint}".strip())
    took_ms = (time.perf_counter() - began) * 1000
    template = "part_trial.html" if is_part(request) else "trial.html"
    return await page(request, template, active="automations", trial=found, took_ms=took_ms)


async def _run_trial(app: App, draft: Draft, standing: Automation | None, given: Form) -> Trial:
    point = hook_points.get(draft.hook_point)
    row = standing or trial.unregistered_record(draft.name or "trial", point)
    occasion = Occasion(request=trial.sample_request(given.raw("content")))
    recorded: list[Any] = []
    if request_id := given.text("request"):
        known = await trial.load_occasion(app.ledgers, request_id, point.name)
        if known is None:
            raise AutomationError(f"Unknown request {request_id}", hint="Choose another one.")
        occasion = known
        recorded = await Recorded.load_runs(app.ledgers, row, request_id)
    services = Replayed(below=Recorded(app.ledgers, app.config.memory), recorded=recorded)
    with tempfile.TemporaryDirectory(prefix="nexus-trial-") as folder:
        code = await asyncio.to_thread(_write_script, Path(folder), draft.source)
        entry = Entry(replace(row, hook_point=point.name), None)
        return await trial.replay(app.home, entry, code, occasion, services, _TRIAL_MS)


def _write_script(folder: Path, source: str) -> script.Script:
    file = folder / "script.py"
    file.write_text(source, encoding="utf-8")
    found = script.read(file)
    registration.check_source(found)
    return found


async def _save(app: App, draft: Draft, standing: Automation | None) -> None:
    if len(draft.source) > _MOST_CHARACTERS:
        raise AutomationError(f"A script here has at most {_MOST_CHARACTERS:,} characters")
    write = registration.writer(app.ledgers)
    zone = await app.reminders.zone()
    wanted = await asyncio.to_thread(_make_changes, app, draft, standing, zone)
    await asyncio.to_thread(
        changes.register_text, app.home, write, draft.name, draft.source, wanted, stays_disabled=True
    )


def _make_changes(app: App, draft: Draft, standing: Automation | None, zone: str) -> Changes:
    is_timed = draft.hook_point == hook_points.SCHEDULE
    triggers: dict[str, Any] | None = None
    mode: str | None = None
    if is_timed and (standing is None or draft.schedule != _schedule(standing)):
        triggers = _parse_schedule(draft.schedule, app, zone)
        mode = "once" if "at" in triggers else "persistent"
    elif not is_timed and standing is not None and standing.triggers.keys() & {"at", "cron"}:
        triggers = {k: v for k, v in standing.triggers.items() if k not in {"at", "cron", "zone"}}
        mode = "persistent"
    before = None if standing is None or not standing.workspace_dir else _read_role(app.home, standing)
    return Changes(
        hook_point=draft.hook_point,
        blocking=draft.blocking and not is_timed,
        description=draft.description,
        timeout_ms=_parse_number(draft.timeout_ms, "The timeout"),
        retries=_parse_number(draft.retries, "The number of retries") or 0,
        sandbox=draft.sandbox,
        triggers=triggers,
        mode=mode,
        role=draft.role if draft.role is not None and draft.role != before else None,
    )


def _parse_schedule(text: str, app: App, zone: str) -> dict[str, Any]:
    """Parse when it runs: a cron expression, or words such as `every weekday at 7:30`."""
    if not text:
        raise AutomationError(
            "A schedule is missing", hint="Write one such as `every weekday at 7:30` or `30 7 * * 1-5`."
        )
    try:
        return dict(when.read(text, app.reminders.now(), zone).triggers)
    except TimeError:
        if len(text.split()) != _CRON_FIELDS:
            raise
        return {"cron": text, "zone": zone}


def _parse_number(text: str, what: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise AutomationError(f"{what} must be a whole number, not `{text:.20}`")
    return int(text)


async def _require_editable(app: App, name: str) -> Automation:
    found = await app.ledgers.runtime.read(rows.get, name=name)
    if found is None:
        raise registration.unknown_automation(name)
    registration.check_approved(found)
    if reason := await asyncio.to_thread(why_uneditable, app.home, found):
        raise AutomationError(f"`{name}` can't be edited here: {reason}")
    return found


def why_uneditable(home: Home, row: Automation) -> str:
    """Why a script can't be edited in the browser; empty where it can."""
    recorded = row.script_path or ""
    if recorded.startswith(script.IN_PROCESS):
        return "its code comes with Nexus or a package"
    file = script.locate(home, recorded)
    if (file.parent / script.HOOK_FILE).is_file():
        return f"edit the files in {file.parent}"
    if file.suffix != ".py":
        return f"{file.name} is a program"
    return ""


def _load_draft(home: Home, row: Automation) -> tuple[Draft, bool]:
    """Load what is registered, with the script as it lies on disk; whether that is another one."""
    try:
        found = script.read(script.locate(home, row.script_path or ""))
        source, differs = found.source or "", found.hash != row.script_hash
    except NexusError:
        source, differs = registration.kept_source(home, row), False
    return (
        Draft(
            name=row.name,
            source=source,
            description=row.description or "",
            hook_point=row.hook_point,
            blocking=row.blocking,
            schedule=_schedule(row),
            timeout_ms=str(row.timeout_ms or ""),
            retries=str(row.retries),
            sandbox=bool(row.config.get(script.SANDBOX)),
            role=_read_role(home, row) if row.workspace_dir else None,
            version=row.version,
        ),
        differs,
    )


def _read_role(home: Home, row: Automation) -> str:
    try:
        return Folder(workspace.locate(home.meeseeks, row.workspace_dir or "")).read(workspace.ROLE)
    except WorkspaceError:
        return ""


def _schedule(row: Automation) -> str:
    return str(row.triggers.get("cron") or row.triggers.get("at") or "")


def _read_draft(given: Form, standing: Automation | None) -> Draft:
    version = given.text("version")
    return Draft(
        name=standing.name if standing else given.text("name"),
        source=given.raw("source"),
        description=given.text("description"),
        hook_point=given.text("hook_point") or _FIRST,
        blocking=given.text("blocking") == "yes",
        schedule=given.text("schedule"),
        timeout_ms=given.text("timeout_ms"),
        retries=given.text("retries") or "0",
        sandbox=given.text("sandbox") == "yes",
        role=given.raw("role") if standing and standing.workspace_dir else None,
        version=int(version) if version.isdecimal() and len(version) < 10 else 0,
    )


async def _show_form(
    request: Request,
    app: App,
    draft: Draft,
    error: NexusError | None,
    *,
    standing: Automation | None = None,
    differs: bool = False,
) -> Response:
    recent = await requests.load_page(app.ledgers, limit=_SHOWN_REQUESTS)
    return await page(
        request,
        "editor.html",
        status_of(error) if error else 200,
        active="automations",
        draft=draft,
        standing=standing,
        differs=differs,
        error=error,
        points=hook_points.HOOK_POINTS,
        recent=recent.items,
        most=_MOST_CHARACTERS,
    )


ROUTES = (
    get("/automations/new/script", show_new),
    post("/automations/new/script", create),
    post("/automations/trial", try_script),
    get("/automations/{name}/edit", show_editor),
    post("/automations/{name}/edit", save),
)
