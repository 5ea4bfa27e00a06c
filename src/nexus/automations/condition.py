"""Whether an automation would run now, and if not, why: one answer for the whole program."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nexus.automations import hook_points, registration
from nexus.automations.scripts import checked
from nexus.automations.scripts.checked import IN_PROCESS
from nexus.automations.workspace import workspace
from nexus.config import AutomationsConfig
from nexus.errors import AutomationError
from nexus.home import Home
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

    @property
    def needs_attention(self) -> bool:
        return self.level in {"warning", "error"}


def condition(
    home: Home,
    automation: Automation,
    off: Mapping[str, str],
    settings: AutomationsConfig | None = None,
) -> Condition:
    """`active`, or why it would not run. It reads the script: on an event loop it belongs on a thread.

    `off` tells of code that does not run by the settings: why, by its script path.
    """
    name = automation.name
    if automation.status != "active":
        reason = f": {automation.disabled_reason}" if automation.disabled_reason else ""
        return Condition(text=f"{automation.status}{reason}", level="off")
    if hook_points.find(automation.hook_point) is None:
        remedy = f"Register it elsewhere: `nexus automations register {name} --hook-point POINT`."
        return Condition(text="never runs: unknown hook point", level="error", remedy=remedy)
    path = automation.script_path or ""
    if path in off:
        return Condition(text=f"off: {off[path]}", level="off")
    if not path.startswith(IN_PROCESS):
        try:
            checked.read(home, automation)
        except AutomationError as error:
            return Condition(text=f"refused: {error.message}", level="error", remedy=error.hint)
    if automation.circuit_state != "closed":
        since = f"circuit {automation.circuit_state.replace('_', '-')} since {automation.circuit_opened_at}"
        remedy = f"See `nexus automations logs {name}`; `nexus automations enable {name}` closes the circuit."
        last = _short(automation.last_error)
        return Condition(text=since, level="error", remedy=f"{last}{remedy}")
    return _running(home, automation, settings or AutomationsConfig())


def _running(home: Home, automation: Automation, settings: AutomationsConfig) -> Condition:
    """The condition of one that runs: what is wrong with it all the same."""
    name = automation.name
    peers = [workspace.place(home.meeseeks, each) for each in automation.peer_workspaces]
    if missing := [peer.name for peer in peers if not peer.is_dir()]:
        remedy = f"Register it again with other peers: `nexus automations register {name} --peer PEER`."
        text = f"active, but there is no workspace of its peer {', '.join(missing)}"
        return Condition(text=text, level="warning", remedy=remedy)
    if cut := registration.cut_timeout(automation, settings):
        remedy = f"Register it with a shorter time-out: `nexus automations register {name} --timeout MS`."
        return Condition(text=f"active, but cut short: {cut}", level="warning", remedy=remedy)
    if automation.consecutive_errors:
        text = f"active, but its last run failed: {_short(automation.last_error)}".rstrip(": ")
        return Condition(text=text, level="warning", remedy=f"See `nexus automations logs {name}`.")
    return Condition(text="active")


def _short(text: str | None) -> str:
    line = (text or "").strip().partition("\n")[0][:_SHOWN_CHARACTERS]
    return f"{line}. " if line else ""
