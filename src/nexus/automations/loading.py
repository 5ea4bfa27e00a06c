"""Automations from packages and hook folders, brought into the table."""

import filecmp
import hashlib
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, Unpack, cast

import yaml

from nexus.automations import hook_points, registration, registry, workspace
from nexus.automations.context import Context, Handler
from nexus.automations.hook_points import HOOK_POINTS
from nexus.automations.registration import Registered, Write
from nexus.automations.reminders import SCRIPT
from nexus.automations.scripts import script
from nexus.automations.scripts.script import HOOK_FILE, IN_PROCESS, Script
from nexus.errors import AutomationError
from nexus.home import Home
from nexus.ledgers import quarantine
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import DEFAULT_HOOK_POINT, IMPORTED, NOT_YET, Automation, NewAutomation
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
    found, problems = find_hooks(home.state / "hooks")
    loaded.problems += problems
    for hook in found:
        _attempt(loaded, str(hook.folder), sync, home, write, hook)
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


# What other programs call the same moments.
_SAME = {
    "message:received": "after:receiveEvent",
    "message:sent": "after:deliverResponse",
}
_SETTINGS = ("blocking", "timeout_ms", "retries", "priority")
_HANDLERS = ("handler.py", "handler", "handler.sh")
_POINTS = frozenset(point.name for point in HOOK_POINTS)


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One folder."""

    folder: Path
    name: str
    description: str | None
    events: tuple[str, ...]
    handler: Path | None
    requires: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    sandbox: bool | None = None
    """Whether its handler runs in a sandbox, if it says so."""

    @property
    def variables(self) -> list[str]:
        """The variables of the environment that it needs."""
        return _as_texts(self.requires.get("env"))

    def problem(self, event: str) -> str | None:
        """Why it cannot run at an event; None where it can."""
        if event not in {point.name for point in hook_points.HOOK_POINTS}:
            return f"unknown hook point `{event}`"
        if self.handler is None:
            return f"{self.folder.name} has no handler.py and no executable handler"
        for program in _as_texts(self.requires.get("bins")):
            if shutil.which(program) is None:
                return f"missing program `{program}`"
        for variable in self.variables:
            if not os.environ.get(variable):
                return f"missing environment variable {variable}"
        return None


def find_hooks(hooks: Path) -> tuple[list[Hook], list[str]]:
    """The hooks below a folder, and what is wrong with those that cannot be read."""
    hooks_found: list[Hook] = []
    problems: list[str] = []
    for file in sorted(hooks.glob(f"*/{HOOK_FILE}")):
        try:
            hooks_found.append(read(file))
        except (AutomationError, OSError, UnicodeDecodeError) as error:
            problems.append(f"{file}: {error}")
    return hooks_found, problems


def read(file: Path) -> Hook:
    """Read one HOOK.md."""
    matter = _read_front_matter(file)
    metadata = _as_object(matter.get("metadata"))
    inner = next((each for each in map(_as_object, metadata.values()) if "events" in each), metadata)
    events = tuple(_SAME.get(each, each) for each in _as_texts(matter.get("events") or inner.get("events")))
    if not events:
        raise AutomationError("its front matter names no `events`")
    return Hook(
        folder=file.parent,
        name=str(matter.get("name") or file.parent.name),
        description=None if matter.get("description") is None else str(matter["description"]),
        events=events,
        handler=_find_handler(file.parent),
        requires=_as_object(matter.get("requires") or inner.get("requires")),
        sandbox=_read_flag(matter, "sandbox"),
        settings={key: matter[key] for key in _SETTINGS if key in matter},
    )


def _read_flag(matter: dict[str, Any], key: str) -> bool | None:
    value = matter.get(key)
    if value is not None and not isinstance(value, bool):
        raise AutomationError(f"`{key}` in its front matter must be true or false")
    return value


def _read_front_matter(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8")
    parts = text.split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():
        raise AutomationError("it does not begin with front matter between two lines `---`")
    try:
        return _as_object(yaml.safe_load(parts[1]))
    except yaml.YAMLError as error:
        raise AutomationError(f"its front matter is not YAML: {error}") from error


def _find_handler(folder: Path) -> Path | None:
    for name in _HANDLERS:
        path = folder / name
        if path.is_file() and (path.suffix == ".py" or os.access(path, os.X_OK)):
            return path
    executable = [path for path in sorted(folder.glob("handler.*")) if os.access(path, os.X_OK)]
    return executable[0] if executable else None


def _as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _as_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return list(map(str, cast("list[Any]", value))) if isinstance(value, list) else []


def sync(home: Home, write: Write, hook: Hook, *, by_hand: bool = False) -> list[Registered]:
    """Make the rows of a folder what its HOOK.md says; returns those that it names.

    Where code was changed since it was registered, only a registration by hand takes it over; rows that were
    removed by hand come back that way alone.
    """
    found = None if hook.handler is None else script.read(hook.handler)
    standing = {
        row.name: row for row in write(automations.list_current) if _find_folder(home, row) == hook.folder
    }
    if not by_hand and not _is_taken(home, standing, found):
        return []
    if found is not None:
        found = registration.bring_in(home, hook.name, found.path)
    synced = [
        registered
        for name, event in name_rows(hook).items()
        if (registered := _sync_row(home, write, hook, name, event, found, standing, by_hand=by_hand))
    ]
    for name in standing.keys() - name_rows(hook).keys():
        write(automations.remove, name=name)
    return synced


def name_rows(hook: Hook) -> dict[str, str]:
    """The names of a folder's rows, and the event of each."""
    if len(hook.events) == 1:
        return {hook.name: hook.events[0]}
    return {f"{hook.name}@{event}": event for event in hook.events}


def _sync_row(
    home: Home,
    write: Write,
    hook: Hook,
    name: str,
    event: str,
    found: Script | None,
    standing: dict[str, Automation],
    *,
    by_hand: bool,
) -> Registered | None:
    versions: list[Automation] = write(automations.versions, name=name)
    # The same event under another name: HOOK.md had another number of events, or another name.
    like = standing.get(name) or next((row for row in standing.values() if row.hook_point == event), None)
    if like is None and versions and not by_hand:
        return None
    new = _build_row(hook, name, event, found, like or (versions[0] if versions else None))
    reason = _decide_disabled(home, hook, hook.problem(event), like, by_hand=by_hand)
    if like is not None and registration.is_same(like, new):
        return _switch_row(home, write, like, reason)
    return registration.register(home, write, replace(new, disabled_reason=reason))


def _switch_row(home: Home, write: Write, row: Automation, reason: str | None) -> Registered:
    """Let a row run or not, without a new version."""
    if reason != row.disabled_reason:
        if reason is None:
            write(automations.enable, automation_id=row.id)
        else:
            write(automations.disable, automation_id=row.id, reason=reason)
        registry.touch(home)
        row = write(automations.get, name=row.name) or row
    return Registered(automation=row, is_new=False)


def _build_row(
    hook: Hook, name: str, event: str, found: Script | None, like: Automation | None
) -> NewAutomation:
    kept = (
        NewAutomation(name=name, script_path="", script_hash=None)
        if like is None
        else registration.settings_of(like)
    )
    config = {key: value for key, value in kept.config.items() if key != script.VARIABLES}
    return replace(
        kept,
        name=name,
        script_path=str(hook.handler or hook.folder),
        script_hash=found and found.hash,
        hook_point=event if event in _POINTS else DEFAULT_HOOK_POINT,
        description=hook.description or kept.description,
        config={
            **config,
            **({script.VARIABLES: hook.variables} if hook.variables else {}),
            **({} if hook.sandbox is None else {script.SANDBOX: hook.sandbox}),
        },
        **hook.settings,
    )


def _decide_disabled(
    home: Home, hook: Hook, problem: str | None, like: Automation | None, *, by_hand: bool
) -> str | None:
    """Why a row does not run; None where it does. What a person disabled stays so."""
    if like is not None and like.status == "disabled" and not by_hand:
        given = like.disabled_reason or "by hand"
        if not given.startswith(NOT_YET):
            return given
    elif like is None and not by_hand:
        listing = quarantine.imported_hooks(home)
        if listing.is_file() and hook.folder.name in listing.read_text(encoding="utf-8").splitlines():
            return IMPORTED
    return None if problem is None else NOT_YET + problem


def _is_taken(home: Home, standing: dict[str, Automation], found: Script | None) -> bool:
    """Whether a folder is new, or has no other code than what was registered."""
    if found is None or not standing:
        return True
    return all(
        row.script_hash is None or row.script_hash == found.hash or _has_same_code(home, row, found)
        for row in standing.values()
    )


def _has_same_code(home: Home, row: Automation, found: Script) -> bool:
    kept = registration.kept_folder(home, row.script_hash or "")
    if found.folder is None or not kept.is_dir():
        return False
    files = set(_list_files(found.folder))
    return files == set(_list_files(kept)) and all(
        filecmp.cmp(found.folder / name, kept / name, shallow=False) for name in files
    )


def _list_files(folder: Path) -> Iterator[Path]:
    for path in script.list_files(folder):
        name = path.relative_to(folder)
        if name != Path(HOOK_FILE):
            yield name


def _find_folder(home: Home, row: Automation) -> Path | None:
    """The folder of a row that came from a HOOK.md; None for another one."""
    recorded = row.script_path or ""
    if not recorded or recorded.startswith(script.IN_PROCESS):
        return None
    place = script.locate(home, recorded)
    folder = place if place.is_dir() else place.parent
    return folder if (folder / HOOK_FILE).is_file() else None
