"""Where a registered script lies, and that it is what was registered."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from nexus.automations.scripts import script
from nexus.automations.scripts.script import Script
from nexus.errors import AutomationError, ScriptChangedError, ScriptError
from nexus.home import Home
from nexus.ledgers.runtime.automations import Automation, NewAutomation

VARIABLES = "environment"
"""The setting of an automation that names variables of the environment for its script."""
SANDBOX = "sandbox"
"""The setting of an automation that says whether its script runs in a sandbox."""
LEDGERS = "ledgers"
"""The setting of an automation that lets its agents read the ledgers."""
IN_PROCESS = "python:"
"""How a script path begins that names code of an installed package."""


def locate(home: Home, recorded: str) -> Path:
    """Where a script lies that the ledger records under a path; a home that was moved takes its own along."""
    path = Path(recorded).expanduser()
    hooks = home.state / "hooks"
    if not path.is_absolute():
        return hooks / path
    parts = path.parts
    for index in range(len(parts) - 1, 0, -1):
        if parts[index - 1 : index + 1] == ("state", "hooks"):
            return hooks.joinpath(*parts[index + 1 :])
    return path


def read_variables(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The variables of the environment that a registration names in its settings."""
    named = config.get(VARIABLES, [])
    if not isinstance(named, list | tuple) or not all(isinstance(each, str) for each in cast("Any", named)):
        raise AutomationError(
            f"`{VARIABLES}` must be a list of names of variables", hint="Use `--env NAME`, once for each."
        )
    return tuple(cast("Sequence[str]", named))


def is_sandboxed(automation: Automation | NewAutomation) -> bool:
    """Whether a registration wants its script in a sandbox."""
    return _read_flag(automation, SANDBOX)


def reads_ledgers(automation: Automation | NewAutomation) -> bool:
    """Whether a registration lets the automation's agents read the ledgers."""
    return _read_flag(automation, LEDGERS)


def _read_flag(automation: Automation | NewAutomation, setting: str) -> bool:
    wanted = automation.config.get(setting, False)
    if not isinstance(wanted, bool):
        hint = f"Use `--{setting}` or `--no-{setting}`."
        raise AutomationError(f"`{setting}` must be true or false", hint=hint)
    return wanted


def read_registered(home: Home, automation: Automation) -> Script:
    """The script of an automation, which is refused where it was changed since it was registered."""
    if not automation.script_path:
        raise ScriptError(f"`{automation.name}` has no script")
    if automation.script_path.startswith(IN_PROCESS):
        raise ScriptError(f"The package of `{automation.name}` is not installed")
    found = script.read(locate(home, automation.script_path))
    if found.hash != automation.script_hash:
        raise ScriptChangedError(
            f"The script of `{automation.name}` changed since it was registered",
            hint=f"Review {found.path}, then run `nexus automations register {automation.name}`.",
        )
    return found
