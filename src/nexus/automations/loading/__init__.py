"""Automations from packages and hook folders, brought into the table."""

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any, ParamSpec, TypedDict, Unpack, cast

from nexus.automations import hook_points, registration, workspace
from nexus.automations.context import Context, Handler
from nexus.automations.loading import hooks
from nexus.automations.registration import Write
from nexus.automations.reminders import SCRIPT
from nexus.automations.scripts import script
from nexus.automations.scripts.script import IN_PROCESS
from nexus.errors import AutomationError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from nexus.skills import folder

GROUP = "nexus.automations"
_SEEDED = "seed:"
P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One automation of a package, as it is seeded. `automation` makes one of a function."""

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

    def __call__(self, context: Context) -> Any:
        """Call its code as if it had not been decorated."""
        return self.run(context)

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


class Options(TypedDict, total=False):
    """What a decorated automation may say of itself; see `Plugin`."""

    name: str
    description: str
    blocking: bool
    timeout_ms: int
    priority: int
    retries: int
    triggers: dict[str, Any]
    config: dict[str, Any]
    workspace: bool
    peers: tuple[str, ...]
    self_improvement: bool
    enabled: bool
    role: str


def automation(hook_point: str, /, **options: Unpack[Options]) -> Callable[[Handler], Plugin]:
    """Make an automation of a function: `@automation("before:deliverResponse")`.

    It is named after the function (`say_hello` becomes `say-hello`) and described by its docstring. Options:
    `name`, `description`, `blocking` (true), `timeout_ms`, `priority` (100, lower runs first), `retries`,
    `triggers`, `config`, `workspace`, `peers`, `self_improvement`, `role` and `enabled`; false: a person
    switches it on. What an entry point in the group `nexus.automations` leads to runs in the runtime's own
    process.
    """
    hook_points.get(hook_point)

    def build(run: Handler) -> Plugin:
        given: dict[str, Any] = {
            "name": getattr(run, "__name__", type(run).__name__).strip("_").replace("_", "-"),
            "description": (inspect.getdoc(run) or "").partition("\n")[0],
            **options,
        }
        return Plugin(hook_point=hook_point, run=run, **given)

    return build


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


def load_installed() -> tuple[list[Plugin], list[str]]:
    """The plugins of installed packages, and what is wrong with those that cannot be loaded."""
    found: list[Plugin] = []
    problems: list[str] = []
    for entry in entry_points(group=GROUP):
        try:
            found += _check_plugins(entry.load(), entry.name)
        except Exception as error:  # one broken package must not keep the rest from running
            problems.append(f"plugin {entry.name} ({entry.value}): {type(error).__name__}: {error}")
    return found, problems


def _check_plugins(offered: object, name: str) -> list[Plugin]:
    made = list(cast("Iterable[object]", offered)) if isinstance(offered, Iterable) else [offered]
    plugins = [each for each in made if isinstance(each, Plugin)]
    if len(plugins) != len(made):
        raise AutomationError(
            f"`{name}` leads to something else than automations: {offered!r:.80}",
            hint="Decorate the function with `@automation(HOOK_POINT)`.",
        )
    return plugins


@dataclass(kw_only=True)
class Loaded:
    """What was loaded: the code that may run in this process, and what could not be loaded."""

    handlers: dict[str, Handler] = field(default_factory=dict[str, Handler])
    off: dict[str, str] = field(default_factory=dict[str, str])
    """Code that does not run in this process, by its script path, and why."""
    problems: list[str] = field(default_factory=list[str])


def load(home: Home, write: Write, bundled: Iterable[Plugin] = ()) -> Loaded:
    """Bring the table up to date with what lies in the home and what is installed."""
    loaded = Loaded()
    plugins, problems = load_installed()
    loaded.problems += problems
    for each in (*bundled, *plugins):
        loaded.handlers[each.script_path] = each.run
        if each.off is not None:
            loaded.off[each.script_path] = each.off
        _attempt(loaded, f"plugin {each.name}", _seed, home, write, each)
    found, problems = hooks.find_hooks(home.state / "hooks")
    loaded.problems += problems
    for hook in found:
        _attempt(loaded, str(hook.folder), hooks.sync, home, write, hook)
    for row in write(automations.list_current):
        _attempt(loaded, row.name, _adopt, home, write, row)
        if _is_uninstalled(row, loaded):
            loaded.problems.append(
                f"{row.name}: its package is not installed. Install it again, or run "
                f"`nexus automations remove {row.name}`"
            )
    return loaded


def _is_uninstalled(row: Automation, loaded: Loaded) -> bool:
    """Whether a row that should run has its code in a package that is gone."""
    path = row.script_path or ""
    is_plugin = path.startswith(IN_PROCESS) and path != SCRIPT
    return row.status == "active" and is_plugin and path not in loaded.handlers


def _attempt(
    loaded: Loaded, what: str, step: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs
) -> None:
    try:
        step(*args, **kwargs)
    except AutomationError as error:
        loaded.problems.append(f"{what}: {error.message}")


def _seed(home: Home, write: Write, each: Plugin) -> None:
    """Once; later only where nobody has changed, disabled or removed it."""
    versions: list[Automation] = write(automations.versions, name=each.name)
    standing = next((row for row in versions if row.status != "superseded"), None)
    peers = tuple(registration.workspace_dir(home, name) for name in each.peers)
    new = each.registration(registration.workspace_dir(home, each.name), peers)
    if each.workspace and each.role is not None:
        # Before the registration, which lays a ROLE.md that says less where there is none.
        folder.install_files(home.meeseeks / each.name, {workspace.ROLE: each.role})
    if not versions:
        off = None if each.enabled else automations.OPTIONAL
        registration.register(home, write, replace(new, disabled_reason=off))
    elif standing is not None and is_as_seeded(standing) and standing.script_hash != new.script_hash:
        registration.register(home, write, replace(new, disabled_reason=standing.disabled_reason))


def _adopt(home: Home, write: Write, row: Automation) -> None:
    """A row from before hashes were kept: its script is taken as it lies there."""
    path = row.script_path or ""
    if row.status == "active" and row.script_hash is None and path and not path.startswith(IN_PROCESS):
        found = script.read(script.locate(home, path))
        write(automations.adopt, automation_id=row.id, script_hash=found.hash)
