"""Automations: what runs at which hook point and how it fares; registering, changing and running it."""

import asyncio
import json
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, field_validator

from nexus.app import App
from nexus.automations import changes, registration, registry
from nexus.automations.changes import Changes
from nexus.automations.scripts.script import HOOK_FILE
from nexus.errors import MissingError, UsageError
from nexus.gateway.dependencies import Cursor, Limit, ServedApp, api_router
from nexus.gateway.views import automations as views
from nexus.gateway.views.automations import AutomationView, Place
from nexus.home import Home
from nexus.ledgers.runtime import automations as rows
from nexus.ledgers.runtime.invocations import Invocation
from nexus.memory.views.page import Page

router = api_router("automations", "/automations")
Name = Annotated[str, Path(max_length=200, description="Automation name.")]

InvocationId = Annotated[str, Path(max_length=200, description="Invocation id, `inv_…`.")]


Word = Annotated[str, Field(max_length=1_000)]


class AutomationSettings(BaseModel):
    """Settings of an automation. What is left out, or null, stays as it is."""

    model_config = ConfigDict(extra="forbid")

    hook_point: str | None = Field(default=None, max_length=80, description="Default: `runAutomations`.")
    blocking: bool | None = Field(default=None, description="Whether the request waits. Default: true.")
    workspace: Literal[True] | None = Field(default=None, description="Create a workspace for it.")
    role: str | None = Field(
        default=None, max_length=100_000, description="Text of the workspace's ROLE.md; implies `workspace`."
    )
    peers: tuple[Word, ...] = Field(
        default=(), max_length=50, description="Automations whose workspaces it may read and write."
    )
    self_improvement: bool | None = Field(
        default=None, description="Reflect after successful runs and save lessons. Needs a workspace."
    )
    timeout_ms: int | None = Field(default=None, ge=1, le=2**31)
    retries: int | None = Field(
        default=None,
        ge=0,
        le=registration.MOST_RETRIES,
        description="Retries of a failed async run. Default: 0.",
    )
    priority: int | None = Field(
        default=None, ge=-(2**31), le=2**31, description="Lower runs first. Default: 100."
    )
    description: str | None = Field(default=None, max_length=2_000)
    cron: str | None = Field(
        default=None, max_length=100, description="Cron schedule; implies the hook point `schedule`."
    )
    zone: str | None = Field(
        default=None, max_length=60, description="Time zone of the schedule. Default: UTC."
    )
    mode: Literal["persistent", "once"] | None = Field(default=None, description="`once`: run only once.")
    triggers: dict[Word, list[Word]] | None = Field(
        default=None, description="Conditions, such as `contains`; all must hold."
    )
    config: dict[str, Any] | None = Field(
        default=None, description="The automation's own settings; those not named are kept."
    )
    variables: tuple[Word, ...] = Field(
        default=(), max_length=50, description="Environment variables it may read."
    )
    sandbox: bool | None = Field(
        default=None, description="Run it in the sandbox: no network, no files except its workspace."
    )
    ledgers: bool | None = Field(
        default=None, description="Let its agents read the ledgers. Needs a workspace."
    )

    @field_validator("config")
    @classmethod
    def _storable(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        """Refuse numbers and characters that JSON can't hold, which couldn't be shown again."""
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return value

    def changes(self) -> Changes:
        return Changes(**{key: getattr(self, key) for key in AutomationSettings.model_fields})


class Registering(AutomationSettings):
    """A script to register, as text or as a file on the server, with its settings."""

    script: str | None = Field(
        default=None, max_length=1_000_000, description="Text of a Python script with a function `run(ctx)`."
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="Instead of `script`: a file or a folder with a HOOK.md below `state/hooks` of the home.",
    )


class Running(BaseModel):
    """Message to run an automation with."""

    content: str = Field(default="", max_length=100_000)


class Disabling(BaseModel):
    """Reason for disabling an automation."""

    reason: str = Field(default="by hand", max_length=500)


class RollingBack(BaseModel):
    """Version to restore."""

    version: int | None = Field(default=None, ge=1, le=2**31, description="Null: the previous version.")


@router.get("")
async def list_automations(app: ServedApp) -> tuple[Place, ...]:
    """List hook points and their automations in execution order."""
    return await views.list_by_hook_point(app.ledgers)


@router.get("/{name}")
async def get_automation(app: ServedApp, name: Name) -> AutomationView:
    """Show an automation: settings, state, script, versions and workspace."""
    return await views.get(app.ledgers, name)


@router.put("/{name}")
async def register_automation(app: ServedApp, name: Name, new: Registering) -> AutomationView:
    """Register a script, or a new version of one.

    It runs with your rights, unless you set `sandbox`. An unchanged script with unchanged settings keeps its
    version.
    """
    write = registration.writer(app.ledgers)
    await asyncio.to_thread(_register, app.home, write, name, new)
    return await _reload(app, name)


@router.patch("/{name}")
async def update_automation(app: ServedApp, name: Name, settings: AutomationSettings) -> AutomationView:
    """Change settings of an automation; its script stays, and a disabled one stays disabled."""
    write = registration.writer(app.ledgers)
    await asyncio.to_thread(changes.update, app.home, write, name, settings.changes())
    return await _reload(app, name)


@router.delete("/{name}")
async def remove_automation(app: ServedApp, name: Name) -> AutomationView:
    """Remove an automation. Its history, script and workspace are kept; a rollback brings it back."""
    if await app.ledgers.runtime.read(rows.get, name=name) is None:
        raise registration.unknown_automation(name)
    await app.ledgers.runtime.write(rows.remove, name=name)
    return await _reload(app, name)


@router.post("/{name}/run")
async def run_automation(app: ServedApp, name: Name, running: Running) -> Invocation:
    """Run an automation now, for real, with a message of the owner's. Waits until it has ended."""
    return await app.run_automation(name, running.content)


@router.get("/{name}/runs")
async def list_runs(app: ServedApp, name: Name, cursor: Cursor = None, limit: Limit = 50) -> Page[Invocation]:
    """List the runs of an automation, newest first."""
    return await views.load_runs(app.ledgers, name, cursor=cursor, limit=limit)


@router.post("/{name}/enable")
async def enable_automation(app: ServedApp, name: Name) -> AutomationView:
    """Enable an automation and close its circuit breaker."""
    found = await views.get(app.ledgers, name)
    registration.check_approved(found.automation)
    await app.ledgers.runtime.write(rows.enable, automation_id=found.automation.id)
    return await _reload(app, name)


@router.post("/{name}/disable")
async def disable_automation(app: ServedApp, name: Name, disabling: Disabling) -> AutomationView:
    """Disable an automation."""
    found = await views.get(app.ledgers, name)
    await app.ledgers.runtime.write(rows.disable, automation_id=found.automation.id, reason=disabling.reason)
    return await _reload(app, name)


@router.post("/{name}/rollback")
async def roll_back_automation(app: ServedApp, name: Name, to: RollingBack) -> AutomationView:
    """Restore an older version as the newest one."""
    write = registration.writer(app.ledgers)
    await asyncio.to_thread(registration.roll_back, app.home, write, name, to.version)
    return await _reload(app, name)


@router.post("/{name}/runs/{invocation_id}/retry", status_code=202)
async def retry_run(app: ServedApp, name: Name, invocation_id: InvocationId) -> Invocation:
    """Retry an async run that failed every attempt."""
    return await views.retry(app.ledgers, app.automations.queue, name, invocation_id)


@router.post("/{name}/runs/{invocation_id}/rerun", status_code=202)
async def rerun_run(app: ServedApp, name: Name, invocation_id: InvocationId) -> Invocation:
    """Run an automation again on what an earlier run was given. Returns the new run, which is queued."""
    return await views.rerun(app.ledgers, app.automations.runner, name, invocation_id)


@router.post("/{name}/runs/{invocation_id}/dismiss")
async def dismiss_run(app: ServedApp, name: Name, invocation_id: InvocationId) -> Invocation:
    """Dismiss an async run that failed at every attempt: its input is deleted, and it can't be retried."""
    return await views.dismiss(app.ledgers, name, invocation_id)


def _register(home: Home, write: registration.Write, name: str, new: Registering) -> None:
    if (new.script is None) == (new.path is None):
        raise UsageError(
            "Registering needs either `script` or `path`",
            hint="Change settings alone with PATCH /api/automations/{name}.",
        )
    if new.script is not None:
        changes.register_text(home, write, name, new.script, new.changes())
        return
    path = _find_script(home, new.path or "")
    is_folder = path.is_dir() or path.name == HOOK_FILE
    made = changes.register(home, write, str(path), new.changes(), name=None if is_folder else name)
    if name not in (names := [each.automation.name for each in made]):
        raise UsageError(f"Registered {', '.join(names)}, as its HOOK.md says, and not {name}")


def _find_script(home: Home, given: str) -> FilePath:
    """A script below the home's hooks: what is registered is copied and can be read over the API."""
    hooks = (home.state / "hooks").resolve()
    try:
        path = (hooks / given).resolve()
        known = path.exists()
    except (OSError, ValueError) as error:
        raise UsageError(f"`path` is not a file's name: {error}") from None
    if not path.is_relative_to(hooks) or any(part.startswith(".") for part in path.relative_to(hooks).parts):
        raise UsageError(f"{given} is outside {hooks}", hint="Put it there, or send its text as `script`.")
    if not known or path == hooks:
        raise MissingError(f"No script at {path}", hint="Put it there, or send its text as `script`.")
    return path


async def _reload(app: App, name: str) -> AutomationView:
    registry.touch(app.home)
    return await views.get(app.ledgers, name)
