"""How automations and their invocations look in a terminal."""

import json

import click

from nexus.automations.condition import Condition
from nexus.automations.scripts.checked import SANDBOX
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation

_SHOWN_CHARACTERS = 160


def print_list(found: list[tuple[Automation, str]]) -> None:
    """One line each."""
    if not found:
        click.echo("No automations. Create one with `nexus automations new NAME`.")
        return
    rows = [("NAME", "HOOK POINT", "MODE", "VERSION", "RUNS", "STATE")]
    rows += [
        (
            each.name,
            each.hook_point,
            "blocking" if each.blocking else "async",
            str(each.version),
            str(each.trigger_count),
            f"{told}, sandboxed" if each.config.get(SANDBOX) else told,
        )
        for each, told in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        click.echo("  ".join([*cells, row[5]]).rstrip())


def print_automation(automation: Automation, told: Condition) -> None:
    """Everything about one."""
    shown = {**automation.to_json(), "status": told.text, "remedy": told.remedy}
    for name, value in shown.items():
        if value not in (None, {}, [], (), ""):
            text = json.dumps(value) if isinstance(value, dict | list | tuple) else str(value)
            click.echo(f"{name:<20} {text}")


def print_invocation(invocation: Invocation) -> None:
    """What came of one, and what it printed."""
    took = "" if invocation.duration_ms is None else f"  {invocation.duration_ms:.0f} ms"
    about = f"{invocation.id}  version {invocation.automation_version}  {invocation.request_id or ''}"
    click.echo(f"{invocation.created_at}  {invocation.status:<8}{took}  {about}")
    if invocation.result is not None:
        click.echo(f"    returned {_short(json.dumps(invocation.result, ensure_ascii=False))}")
    if invocation.error:
        told = "flagged" if invocation.status == "flagged" else "error"
        click.echo(f"    {told}: {_short(invocation.error)}")
    for line in (invocation.output or "").splitlines():
        click.echo(f"    | {line}")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
