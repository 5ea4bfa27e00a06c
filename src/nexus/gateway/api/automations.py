"""Automations: what runs at which hook point, how it fares, and switching it."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from nexus.automations import registration, registry
from nexus.gateway.api.paging import Cursor, Limit
from nexus.gateway.dependencies import Home
from nexus.gateway.views import automations as views
from nexus.gateway.views.automations import AutomationView, Place
from nexus.gateway.views.page import Page
from nexus.ledgers.runtime import automations as rows
from nexus.ledgers.runtime.invocations import Invocation

router = APIRouter(prefix="/automations", tags=["automations"])
Name = Annotated[str, Path(max_length=200, description="The automation's name.")]

InvocationId = Annotated[str, Path(max_length=200, description="The run's id: `inv_…`.")]


class Disabling(BaseModel):
    """Why an automation is to run no more."""

    reason: str = Field(default="by hand", max_length=500)


class RollingBack(BaseModel):
    """Where to go back to."""

    version: int | None = Field(default=None, ge=1, le=2**31, description="Null: the version before.")


@router.get("")
async def list_automations(home: Home) -> tuple[Place, ...]:
    """Every hook point with what runs there, in that order."""
    return await views.by_hook_point(home.ledgers)


@router.get("/{name}")
async def get_automation(home: Home, name: Name) -> AutomationView:
    """One automation: its settings, state, script, versions and workspace."""
    return await views.get(home.ledgers, name)


@router.get("/{name}/runs")
async def list_runs(home: Home, name: Name, cursor: Cursor = None, limit: Limit = 50) -> Page[Invocation]:
    """What an automation did, the latest first."""
    return await views.runs(home.ledgers, name, cursor=cursor, limit=limit)


@router.post("/{name}/enable")
async def enable_automation(home: Home, name: Name) -> AutomationView:
    """Let an automation run again; its circuit is closed."""
    found = await views.get(home.ledgers, name)
    await home.ledgers.runtime.write(partial(rows.enable, automation_id=found.automation.id))
    return await _changed(home, name)


@router.post("/{name}/disable")
async def disable_automation(home: Home, name: Name, disabling: Disabling) -> AutomationView:
    """Let an automation run no more, until it is enabled."""
    found = await views.get(home.ledgers, name)
    disable = partial(rows.disable, automation_id=found.automation.id, reason=disabling.reason)
    await home.ledgers.runtime.write(disable)
    return await _changed(home, name)


@router.post("/{name}/rollback")
async def roll_back_automation(home: Home, name: Name, to: RollingBack) -> AutomationView:
    """Go back to an earlier version, which becomes the newest one."""
    write = registration.writer(home.ledgers)
    await asyncio.to_thread(registration.roll_back, home.home, write, name, to.version)
    return await _changed(home, name)


@router.post("/{name}/runs/{invocation_id}/retry", status_code=202)
async def retry_run(home: Home, name: Name, invocation_id: InvocationId) -> Invocation:
    """Retry an async run that failed at every attempt."""
    return await views.retry(home.ledgers, home.automations.queue, name, invocation_id)


@router.post("/{name}/runs/{invocation_id}/dismiss")
async def dismiss_run(home: Home, name: Name, invocation_id: InvocationId) -> Invocation:
    """Dismiss an async run that failed at every attempt: its input is deleted, and it can't be retried."""
    return await views.dismiss(home.ledgers, name, invocation_id)


async def _changed(home: Any, name: str) -> AutomationView:
    registry.touch(home.home)
    return await views.get(home.ledgers, name)
