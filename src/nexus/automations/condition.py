"""Whether an automation would run now, in words."""

from collections.abc import Mapping

from nexus.automations import hook_points
from nexus.automations.scripts import checked
from nexus.automations.scripts.checked import IN_PROCESS
from nexus.errors import AutomationError
from nexus.home import Home
from nexus.ledgers.runtime.automations import Automation


def condition(home: Home, automation: Automation, off: Mapping[str, str]) -> str:
    """`active`, or why it would not run. It reads the script: on an event loop it belongs on a thread.

    `off` tells of code that does not run by the settings: why, by its script path.
    """
    if automation.status != "active":
        reason = f": {automation.disabled_reason}" if automation.disabled_reason else ""
        return f"{automation.status}{reason}"
    if automation.hook_point not in {point.name for point in hook_points.HOOK_POINTS}:
        return "never fires: there is no such hook point"
    path = automation.script_path or ""
    if path in off:
        return f"off: {off[path]}"
    if not path.startswith(IN_PROCESS):
        try:
            checked.read(home, automation)
        except AutomationError as error:
            return f"refused: {error.message}"
    if automation.circuit_state != "closed":
        return f"circuit {automation.circuit_state.replace('_', '-')} since {automation.circuit_opened_at}"
    return "active"
