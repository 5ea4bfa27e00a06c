"""Whether an automation would run now, and if not, why: one answer for the whole program."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import apsw

from nexus import clock
from nexus.automations import hook_points, registration, workspace
from nexus.automations.scripts import script
from nexus.automations.scripts.script import IN_PROCESS
from nexus.broker import budgets
from nexus.config import AutomationsConfig, BudgetsConfig
from nexus.errors import AutomationError, BudgetError, NexusError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation

Level = Literal["ok", "off", "warning", "error"]
"""`off`: somebody decided that it doesn't run. `error`: it doesn't run, and nobody decided that."""
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """How an automation fares, in words, and what to do about it."""

    text: str
    level: Level = "ok"
    remedy: str = ""
    next_at: str | None = None
    """When it runs next, if it runs by the clock."""
    last_error: str | None = None
    """Why its last run failed, if it did."""

    def to_json(self) -> dict[str, str | None]:
        """For the JSON of an automation, which has a `last_error` of its own."""
        return {"state": self.text, "level": self.level, "remedy": self.remedy, "next_at": self.next_at}

    @property
    def needs_attention(self) -> bool:
        return self.level in {"warning", "error"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What decides about every automation of a home."""

    off: Mapping[str, str] = field(default_factory=dict[str, str])
    """Code that does not run by the settings: why, by its script path."""
    settings: AutomationsConfig = field(default_factory=AutomationsConfig)
    used_up: Mapping[str, BudgetError] = field(default_factory=dict[str, BudgetError])
    """Automations that have used up their budget, by name."""
    now: datetime = field(default_factory=clock.now)


def find_used_up(
    connection: apsw.Connection, limits: BudgetsConfig, now: datetime | None = None
) -> dict[str, BudgetError]:
    """The automations of a home that have used up their budget of the day."""
    if not (limits.automation_usd or limits.automation_tokens):
        return {}
    names = [each.name for each in automations.list_current(connection)]
    found = {name: budgets.of_automation(connection, limits, name, now or clock.now()) for name in names}
    return {
        name: budgets.refusal(each)
        for name, standing in found.items()
        for each in standing
        if each.is_used_up
    }


def assess(home: Home, automation: Automation, around: Surroundings) -> Condition:
    """`active`, or why it would not run. It reads the script: on an event loop it belongs on a thread."""
    error = _first_line(automation.last_error).rstrip(". ") if automation.consecutive_errors else ""
    return replace(_assess(home, automation, around), last_error=error or None)


def _assess(home: Home, automation: Automation, around: Surroundings) -> Condition:
    name = automation.name
    if automation.status != "active":
        reason = f": {automation.disabled_reason}" if automation.disabled_reason else ""
        return Condition(text=f"{automation.status}{reason}", level="off")
    if hook_points.find(automation.hook_point) is None:
        remedy = f"Register it elsewhere: `nexus automations register {name} --hook-point POINT`."
        return Condition(text="never runs: unknown hook point", level="error", remedy=remedy)
    path = automation.script_path or ""
    if path in around.off:
        return Condition(text=f"off: {around.off[path]}", level="off")
    if not path.startswith(IN_PROCESS):
        try:
            script.read_registered(home, automation)
        except AutomationError as error:
            remedy = error.hint or f"Register it again: `nexus automations register FILE --name {name}`."
            return Condition(text=f"refused: {error.message}", level="error", remedy=remedy)
    if automation.circuit_state != "closed":
        errors = f"{automation.consecutive_errors} error{'s' * (automation.consecutive_errors != 1)} in a row"
        state = (
            f"stopped after {errors}" if automation.circuit_state == "open" else "trying again after errors"
        )
        since = f"{state}, since {clock.minute(automation.circuit_opened_at or '')}"
        remedy = f"See `nexus automations logs {name}`; `nexus automations enable {name}` runs it again."
        last = _first_line(automation.last_error)
        return Condition(text=since, level="error", remedy=f"{last}{remedy}")
    return _assess_active(home, automation, around)


def _assess_active(home: Home, automation: Automation, around: Surroundings) -> Condition:
    """The condition of one that runs: when it does, and what is wrong with it all the same."""
    name = automation.name
    due = None
    if automation.hook_point == hook_points.SCHEDULE:
        try:
            due = hook_points.upcoming(automation.triggers, around.now)
        except (NexusError, ValueError, KeyError) as error:
            remedy = f"Register it with another: `nexus automations register {name} --schedule CRON`."
            return Condition(text=f"never runs: invalid schedule: {error}", level="error", remedy=remedy)
    next_at = None if due is None else clock.timestamp(due)
    peers = [workspace.locate(home.meeseeks, each) for each in automation.peer_workspaces]
    if missing := [peer.name for peer in peers if not peer.is_dir()]:
        remedy = f"Register it again with other peers: `nexus automations register {name} --peer PEER`."
        text = f"there is no workspace of its peer {', '.join(missing)}"
    elif cut := registration.cut_timeout(automation, around.settings):
        remedy = f"Register it with a shorter time-out: `nexus automations register {name} --timeout MS`."
        text = f"cut short: {cut}"
    elif name in around.used_up:
        error = around.used_up[name]
        text, remedy = f"{error.message[:1].lower()}{error.message[1:]}", error.hint
    elif automation.consecutive_errors:
        text = f"its last run failed: {_first_line(automation.last_error)}".rstrip(": ")
        remedy = f"See `nexus automations logs {name}`."
    else:
        text = "active" if next_at is None else f"active, next run {next_at}"
        return Condition(text=text, next_at=next_at)
    return Condition(text=f"active, but {text}", level="warning", remedy=remedy, next_at=next_at)


def _first_line(text: str | None) -> str:
    line = (text or "").strip().partition("\n")[0][:_SHOWN_CHARACTERS]
    return f"{line}. " if line else ""
