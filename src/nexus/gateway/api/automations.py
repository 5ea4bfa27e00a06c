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
Name = Annotated[str, Path(max_length=200, description="Automation name.")]

InvocationId = Annotated[str, Path(max_length=200, description="Invocation id, `inv_…`.")]


class Disabling(BaseModel):
    """Reason for disabling an automation."""

    reason: str = Field(default="by hand", max_length=500)


class RollingBack(BaseModel):
    """Version to restore."""

    version: int | None = Field(default=None, ge=1, le=2**31, description="Null: the previous version.")


@router.get("")
async def list_automations(home: Home) -> tuple[Place, ...]:
    """List hook points and their automations in execution order."""
    return await views.by_hook_point(home.ledgers)


@router.get("/{name}")
async def get_automation(home: Home, name: Name) -> AutomationView:
    """Show an automation: settings, state, script, versions and workspace."""
    return await views.get(home.ledgers, name)


@router.get("/{name}/runs")
async def list_runs(home: Home, name: Name, cursor: Cursor = None, limit: Limit = 50) -> Page[Invocation]:
    """List the runs of an automation, newest first."""
    return await views.runs(home.ledgers, name, cursor=cursor, limit=limit)


@router.post("/{name}/enable")
async def enable_automation(home: Home, name: Name) -> AutomationView:
    """Enable an automation and close its circuit breaker."""
    found = await views.get(home.ledgers, name)
    await home.ledgers.runtime.write(partial(rows.enable, automation_id=found.automation.id))
    return await _changed(home, name)


@router.post("/{name}/disable")
async def disable_automation(home: Home, name: Name, disabling: Disabling) -> AutomationView:
    """Disable an automation."""
    found = await views.get(home.ledgers, name)
    disable = partial(rows.disable, automation_id=found.automation.id, reason=disabling.reason)
    await home.ledgers.runtime.write(disable)
    return await _changed(home, name)


@router.post("/{name}/rollback")
async def roll_back_automation(home: Home, name: Name, to: RollingBack) -> AutomationView:
    """Restore an older version as the newest one."""
    write = registration.writer(home.ledgers)
    await asyncio.to_thread(registration.roll_back, home.home, write, name, to.version)
    return await _changed(home, name)


@router.post("/{name}/runs/{invocation_id}/retry", status_code=202)
async def retry_run(home: Home, name: Name, invocation_id: InvocationId) -> Invocation:
    """Retry an async run that failed every attempt."""
    return await views.retry(home.ledgers, home.automations.queue, name, invocation_id)


@router.post("/{name}/runs/{invocation_id}/dismiss")
async def dismiss_run(home: Home, name: Name, invocation_id: InvocationId) -> Invocation:
    """Dismiss an async run that failed at every attempt: its input is deleted, and it can't be retried."""
    return await views.dismiss(home.ledgers, name, invocation_id)


async def _changed(home: Any, name: str) -> AutomationView:
    registry.touch(home.home)
    return await views.get(home.ledgers, name)
