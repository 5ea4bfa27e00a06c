"""The rows of a folder with a HOOK.md. The file is their single source, however it came to be read.

What HOOK.md states holds for every row of the folder: one for each of its events. What it doesn't state, such
as a workspace, stays as it was registered. This waits for the disk.
"""

import filecmp
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nexus.automations import registration, registry
from nexus.automations.hook_points import HOOK_POINTS
from nexus.automations.loading.hook_md import Hook
from nexus.automations.registration import Registered, Write
from nexus.automations.scripts import checked, script
from nexus.automations.scripts.script import HOOK_FILE, Script
from nexus.home import Home
from nexus.ledgers import quarantine
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import (
    DEFAULT_HOOK_POINT,
    IMPORTED,
    NOT_YET,
    Automation,
    NewAutomation,
)

_POINTS = frozenset(point.name for point in HOOK_POINTS)


def sync(home: Home, write: Write, hook: Hook, *, by_hand: bool = False) -> list[Registered]:
    """Make the rows of a folder what its HOOK.md says; returns those that it names.

    Where code was changed since it was registered, only a registration by hand takes it over; rows that were
    removed by hand come back that way alone.
    """
    found = None if hook.handler is None else script.read(hook.handler)
    standing = {row.name: row for row in write(automations.listed) if _folder(home, row) == hook.folder}
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
