"""Hooks below state/hooks: a folder with a HOOK.md and a script, read and kept in step with the table."""

import filecmp
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import yaml

from nexus.automations import hook_points, registration, registry
from nexus.automations.hook_points import HOOK_POINTS
from nexus.automations.registration import Registered, Write
from nexus.automations.scripts import checked, script
from nexus.automations.scripts.script import HOOK_FILE, Script
from nexus.errors import AutomationError
from nexus.home import Home
from nexus.ledgers import quarantine
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import DEFAULT_HOOK_POINT, IMPORTED, NOT_YET, Automation, NewAutomation

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
        return _texts(self.requires.get("env"))

    def problem(self, event: str) -> str | None:
        """Why it cannot run at an event; None where it can."""
        if event not in {point.name for point in hook_points.HOOK_POINTS}:
            return f"unknown hook point `{event}`"
        if self.handler is None:
            return f"{self.folder.name} has no handler.py and no executable handler"
        for program in _texts(self.requires.get("bins")):
            if shutil.which(program) is None:
                return f"missing program `{program}`"
        for variable in self.variables:
            if not os.environ.get(variable):
                return f"missing environment variable {variable}"
        return None


def found(hooks: Path) -> tuple[list[Hook], list[str]]:
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
    matter = _front_matter(file)
    metadata = _object(matter.get("metadata"))
    inner = next((each for each in map(_object, metadata.values()) if "events" in each), metadata)
    events = tuple(_SAME.get(each, each) for each in _texts(matter.get("events") or inner.get("events")))
    if not events:
        raise AutomationError("its front matter names no `events`")
    return Hook(
        folder=file.parent,
        name=str(matter.get("name") or file.parent.name),
        description=None if matter.get("description") is None else str(matter["description"]),
        events=events,
        handler=_handler(file.parent),
        requires=_object(matter.get("requires") or inner.get("requires")),
        sandbox=_flag(matter, "sandbox"),
        settings={key: matter[key] for key in _SETTINGS if key in matter},
    )


def _flag(matter: dict[str, Any], key: str) -> bool | None:
    value = matter.get(key)
    if value is not None and not isinstance(value, bool):
        raise AutomationError(f"`{key}` in its front matter must be true or false")
    return value


def _front_matter(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8")
    parts = text.split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():
        raise AutomationError("it does not begin with front matter between two lines `---`")
    try:
        return _object(yaml.safe_load(parts[1]))
    except yaml.YAMLError as error:
        raise AutomationError(f"its front matter is not YAML: {error}") from error


def _handler(folder: Path) -> Path | None:
    for name in _HANDLERS:
        path = folder / name
        if path.is_file() and (path.suffix == ".py" or os.access(path, os.X_OK)):
            return path
    executable = [path for path in sorted(folder.glob("handler.*")) if os.access(path, os.X_OK)]
    return executable[0] if executable else None


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return list(map(str, cast("list[Any]", value))) if isinstance(value, list) else []


def sync(home: Home, write: Write, hook: Hook, *, by_hand: bool = False) -> list[Registered]:
    """Make the rows of a folder what its HOOK.md says; returns those that it names.

    Where code was changed since it was registered, only a registration by hand takes it over; rows that were
    removed by hand come back that way alone.
    """
    found = None if hook.handler is None else script.read(hook.handler)
    standing = {row.name: row for row in write(automations.list_current) if _folder(home, row) == hook.folder}
    if not by_hand and not _is_taken(home, standing, found):
        return []
    if found is not None:
        found = registration.bring_in(home, hook.name, found.path)
    synced = [
        registered
        for name, event in names(hook).items()
        if (registered := _synced(home, write, hook, name, event, found, standing, by_hand=by_hand))
    ]
    for name in standing.keys() - names(hook).keys():
        write(automations.remove, name=name)
    return synced


def names(hook: Hook) -> dict[str, str]:
    """The names of a folder's rows, and the event of each."""
    if len(hook.events) == 1:
        return {hook.name: hook.events[0]}
    return {f"{hook.name}@{event}": event for event in hook.events}


def _synced(
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
    new = _row(hook, name, event, found, like or (versions[0] if versions else None))
    reason = _reason(home, hook, hook.problem(event), like, by_hand=by_hand)
    if like is not None and registration.same(like, new):
        return _switched(home, write, like, reason)
    return registration.register(home, write, replace(new, disabled_reason=reason))


def _switched(home: Home, write: Write, row: Automation, reason: str | None) -> Registered:
    """Let a row run or not, without a new version."""
    if reason != row.disabled_reason:
        if reason is None:
            write(automations.enable, automation_id=row.id)
        else:
            write(automations.disable, automation_id=row.id, reason=reason)
        registry.touch(home)
        row = write(automations.get, name=row.name) or row
    return Registered(automation=row, is_new=False)


def _row(hook: Hook, name: str, event: str, found: Script | None, like: Automation | None) -> NewAutomation:
    kept = (
        NewAutomation(name=name, script_path="", script_hash=None)
        if like is None
        else registration.settings_of(like)
    )
    config = {key: value for key, value in kept.config.items() if key != checked.VARIABLES}
    return replace(
        kept,
        name=name,
        script_path=str(hook.handler or hook.folder),
        script_hash=found and found.hash,
        hook_point=event if event in _POINTS else DEFAULT_HOOK_POINT,
        description=hook.description or kept.description,
        config={
            **config,
            **({checked.VARIABLES: hook.variables} if hook.variables else {}),
            **({} if hook.sandbox is None else {checked.SANDBOX: hook.sandbox}),
        },
        **hook.settings,
    )


def _reason(
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
    kept = registration.kept(home, row.script_hash or "")
    if found.folder is None or not kept.is_dir():
        return False
    files = set(_files(found.folder))
    return files == set(_files(kept)) and all(
        filecmp.cmp(found.folder / name, kept / name, shallow=False) for name in files
    )


def _files(folder: Path) -> Iterator[Path]:
    for path in script.files(folder):
        name = path.relative_to(folder)
        if name != Path(HOOK_FILE):
            yield name


def _folder(home: Home, row: Automation) -> Path | None:
    """The folder of a row that came from a HOOK.md; None for another one."""
    recorded = row.script_path or ""
    if not recorded or recorded.startswith(checked.IN_PROCESS):
        return None
    place = checked.place(home, recorded)
    folder = place if place.is_dir() else place.parent
    return folder if (folder / HOOK_FILE).is_file() else None
