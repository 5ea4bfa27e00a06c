"""Automations that come with installed packages, Nexus itself among them. Their code runs in this process.

A package offers them as entry points of the group `nexus.automations`; each leads to a `Plugin` or to
several. Installing a package is what expresses trust: a row of the ledger alone never names code to load.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any, cast

from nexus.automations.context import Handler
from nexus.automations.scripts.checked import IN_PROCESS
from nexus.errors import AutomationError
from nexus.ledgers.runtime.automations import Automation, NewAutomation

GROUP = "nexus.automations"
_SEEDED = "seed:"


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One automation of a package, as it is seeded."""

    name: str
    hook_point: str
    run: Handler
    description: str
    blocking: bool = True
    timeout_ms: int | None = None
    priority: int = 100
    retries: int = 0
    """How often a failed async invocation is tried again."""
    triggers: dict[str, Any] = field(default_factory=dict[str, Any])
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    workspace: bool = False
    peers: tuple[str, ...] = ()
    self_improvement: bool = False
    enabled: bool = True
    """False: it is seeded switched off, for people to switch on."""
    off: str | None = None
    """Why it does not run in this process, such as a setting that it needs. It stays registered."""
    role: str | None = None
    """The ROLE.md of its workspace; one that a person edited stays, with the new one beside it."""

    @property
    def script_path(self) -> str:
        return f"{IN_PROCESS}{self.name}"

    def registration(self, workspace_dir: str, peer_dirs: tuple[str, ...]) -> NewAutomation:
        """The row that it is seeded as. Its hash, that of its settings, tells whether they were changed."""
        new = NewAutomation(
            name=self.name,
            script_path=self.script_path,
            script_hash=None,
            hook_point=self.hook_point,
            description=self.description,
            triggers=self.triggers,
            config=self.config,
            workspace_dir=workspace_dir if self.workspace else None,
            peer_workspaces=peer_dirs if self.workspace else (),
            self_improvement=self.self_improvement,
            timeout_ms=self.timeout_ms,
            blocking=self.blocking,
            priority=self.priority,
            retries=self.retries,
        )
        return replace(new, script_hash=seed_hash(new))


def seed_hash(settings: NewAutomation | Automation) -> str:
    """The hash of a seed's settings."""
    names = set(NewAutomation.__slots__) - {"script_hash", "disabled_reason"}
    told: dict[str, Any] = {name: getattr(settings, name) for name in names}
    for name in ("workspace_dir", "peer_workspaces"):  # a home that was moved has not been changed
        told[name] = bool(told[name]) if name == "workspace_dir" else len(told[name])
    return _SEEDED + hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def is_as_seeded(automation: Automation) -> bool:
    """Whether nobody has changed the settings that a row was seeded with."""
    return automation.script_hash == seed_hash(automation)


def installed() -> tuple[list[Plugin], list[str]]:
    """The plugins of installed packages, and what is wrong with those that cannot be loaded."""
    found: list[Plugin] = []
    problems: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            found += _plugins(entry.load(), entry.name)
        except Exception as error:  # one broken package must not keep the rest from running
            problems.append(f"plugin {entry.name} ({entry.value}): {type(error).__name__}: {error}")
    return found, problems


def _plugins(offered: object, name: str) -> list[Plugin]:
    made = list(cast("Iterable[object]", offered)) if isinstance(offered, Iterable) else [offered]
    plugins = [each for each in made if isinstance(each, Plugin)]
    if len(plugins) != len(made):
        raise AutomationError(f"`{name}` leads to something else than plugins: {offered!r:.80}")
    return plugins
