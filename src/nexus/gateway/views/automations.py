"""Automations by hook point, and one of them with its runs, versions and workspace.

What lies in files is read here too: these functions wait for the disk on a thread of their own.
"""

import asyncio
import difflib
from collections.abc import Callable
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

import apsw

from nexus import config
from nexus.automations import changes, hook_points, registration, workspace
from nexus.automations.condition import Condition, Surroundings, assess, find_used_up
from nexus.automations.context import Occasion
from nexus.automations.hook_points import HookPoint
from nexus.automations.queue import InvocationQueue
from nexus.automations.registry import Entry
from nexus.automations.runner import Runner
from nexus.automations.trial import load_occasion
from nexus.automations.workspace import Change, Folder, History
from nexus.errors import AutomationError, MissingError, WorkspaceError
from nexus.home import Home
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import automations as stored
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation
from nexus.memory.views.page import ALWAYS, LAST, Page, Period, make_page
from nexus.roles.bundled import switched_off

_MOST_CHARACTERS = 60_000
_MOST_FILES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class AutomationLine:
    """One automation in a list. `condition` says whether it would run now, and if not, why."""

    automation: Automation
    condition: Condition
    last: Invocation | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A hook point, with what runs there in that order."""

    point: HookPoint | None
    """None: there is no such hook point, and what is registered for it never fires."""
    name: str
    automations: tuple[AutomationLine, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file of a workspace."""

    name: str
    size_bytes: int
    changed_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AutomationView:
    """One automation, whole."""

    automation: Automation
    condition: Condition
    script: str | None
    """The text of its script, where it has one that can be shown."""
    versions: tuple[Automation, ...]
    """The newest first."""
    peers: tuple[str, ...]
    files: tuple[File, ...]
    history: tuple[Change, ...]


async def retry(ledgers: Ledgers, queue: InvocationQueue, name: str, invocation_id: str) -> Invocation:
    """Let a run that failed for good run again."""
    queued = await _change_run(ledgers, name, invocation_id, invocations.retry)
    await queue.hand_over_missing(ledgers)
    return queued


async def rerun(ledgers: Ledgers, runner: Runner, name: str, invocation_id: str) -> Invocation:
    """Run an automation again, in the background, on what an earlier run was given."""
    earlier = await ledgers.runtime.read(invocations.get, invocation_id=invocation_id)
    versions = await ledgers.runtime.read(stored.versions, name=name)
    if earlier is None or earlier.automation_id not in {each.id for each in versions}:
        raise MissingError(f"{name} has no run {invocation_id}", hint=f"See `nexus automations logs {name}`.")
    standing = next((each for each in versions if each.status != "superseded"), None)
    if standing is None or standing.status != "active":
        raise AutomationError(f"`{name}` is disabled", hint=f"Run `nexus automations enable {name}` first.")
    if earlier.input is not None:
        occasion = Occasion.from_json(earlier.input)
    else:
        occasion = await load_occasion(ledgers, earlier.request_id or "", earlier.hook_point)
    if occasion is None:
        raise MissingError(f"The request of {invocation_id} is not recorded any more")
    entry = Entry(standing, runner.registry.handlers.get(standing.script_path or ""))
    return await runner.rerun(entry, earlier.hook_point, occasion)


async def dismiss(ledgers: Ledgers, name: str, invocation_id: str) -> Invocation:
    """Give up on a run that failed for good: its input is deleted."""
    return await _change_run(ledgers, name, invocation_id, invocations.dismiss)


async def _change_run(
    ledgers: Ledgers, name: str, invocation_id: str, change: Callable[[apsw.Connection, str], bool]
) -> Invocation:
    def work(connection: apsw.Connection) -> Invocation | None:
        found = invocations.get(connection, invocation_id)
        of_name = {each.id for each in stored.versions(connection, name)}
        if found is None or found.automation_id not in of_name or not change(connection, found.id):
            return None
        return invocations.get(connection, invocation_id)

    changed = await ledgers.runtime.write(work)
    if changed is None:
        raise MissingError(
            f"{name} has no failed async run {invocation_id}",
            hint="List them with `nexus automations retry`.",
        )
    return changed


async def describe_proposal(ledgers: Ledgers, row: Automation) -> str | None:
    """Describe what an agent's proposal would change; None if it is not one."""
    if not changes.is_proposal(row):
        return None
    write = registration.writer(ledgers)
    return _clip(await asyncio.to_thread(changes.difference, ledgers.home, write, row))


async def approve(ledgers: Ledgers, name: str) -> Automation:
    """Let what an agent proposed run, in a sandbox."""
    found = await _require_proposal(ledgers, name)
    return await asyncio.to_thread(changes.approve, ledgers.home, registration.writer(ledgers), found)


async def discard(ledgers: Ledgers, name: str) -> None:
    """Take a proposal off the list."""
    found = await _require_proposal(ledgers, name)
    await asyncio.to_thread(changes.discard, ledgers.home, registration.writer(ledgers), found)


async def _require_proposal(ledgers: Ledgers, name: str) -> Automation:
    found = await ledgers.runtime.read(stored.get, name=name)
    if found is None or not changes.is_proposal(found):
        raise MissingError(f"No proposal `{name}` waits for approval")
    return found


async def list_by_hook_point(ledgers: Ledgers) -> tuple[Place, ...]:
    """List every hook point in the order in which a request meets them, with what is registered there."""
    found = await ledgers.runtime.read(_load_with_last)
    told = await _load_conditions(ledgers, [each for each, _ in found])
    lines = [
        AutomationLine(automation=each, condition=said, last=last)
        for (each, last), said in zip(found, told, strict=True)
    ]
    known = {point.name: point for point in hook_points.HOOK_POINTS}
    others = sorted({line.automation.hook_point for line in lines} - known.keys())
    return tuple(
        Place(
            point=known.get(name),
            name=name,
            automations=tuple(line for line in lines if line.automation.hook_point == name),
        )
        for name in [*known, *others]
    )


async def get(ledgers: Ledgers, name: str) -> AutomationView:
    """Load one automation; one that was removed is shown in its last version."""
    versions = await ledgers.runtime.read(stored.versions, name=name)
    if not versions:
        raise registration.unknown_automation(name)
    standing = next((each for each in versions if each.status != "superseded"), versions[0])
    (fares,) = await _load_conditions(ledgers, [standing])
    return await asyncio.to_thread(_load_view, ledgers.home, standing, tuple(versions), fares)


async def load_runs(
    ledgers: Ledgers, name: str, *, period: Period = ALWAYS, cursor: str | None = None, limit: int = 20
) -> Page[Invocation]:
    """Load the invocations of a name in all its versions, the newest first."""
    at, id_ = period.begin(cursor)
    values: dict[str, Any] = {"at": at, "id": id_, "since": period.since, "limit": limit + 1}
    found = await ledgers.runtime.read(_load_runs, name=name, values=values)
    return make_page(found, limit, lambda each: (each.created_at, each.id))


async def compare_versions(ledgers: Ledgers, name: str, older: int, newer: int) -> str:
    """Compare two versions: the settings, then the script."""
    versions = {each.version: each for each in await ledgers.runtime.read(stored.versions, name=name)}
    if older not in versions or newer not in versions:
        raise MissingError(f"`{name}` has not got both versions {older} and {newer}")
    return await asyncio.to_thread(_compare, ledgers.home, versions[older], versions[newer])


async def read_file(ledgers: Ledgers, name: str, filename: str) -> str:
    """Read the text of a file of the workspace."""
    folder = await _find_folder(ledgers, name)
    return _clip(await asyncio.to_thread(folder.read, filename))


async def read_change(ledgers: Ledgers, name: str, commit: str) -> str:
    """Read what one commit of the workspace's history changed."""
    folder = await _find_folder(ledgers, name)
    history = History(folder.path)
    known = await asyncio.to_thread(history.changes, _MOST_FILES)
    if commit not in {each.commit for each in known}:
        raise MissingError(f"The workspace of `{name}` has no commit {commit}")
    return _clip(await asyncio.to_thread(history.difference, commit))


async def undo_change(ledgers: Ledgers, name: str, commit: str) -> None:
    """Take one commit of the workspace's history back by another one."""
    folder = await _find_folder(ledgers, name)
    await asyncio.to_thread(History(folder.path).undo, commit)


async def _find_folder(ledgers: Ledgers, name: str) -> Folder:
    versions = await ledgers.runtime.read(stored.versions, name=name)
    if not versions:
        raise registration.unknown_automation(name)
    recorded = versions[0].workspace_dir
    if recorded is None:
        raise MissingError(f"`{name}` has no workspace")
    return Folder(workspace.locate(ledgers.home.meeseeks, recorded))


def _load_with_last(connection: apsw.Connection) -> list[tuple[Automation, Invocation | None]]:
    return [(each, _find_last(connection, each.id)) for each in stored.list_current(connection)]


def _find_last(connection: apsw.Connection, automation_id: str) -> Invocation | None:
    values = {"at": LAST, "id": LAST, "since": "", "limit": 1}
    found = _load_runs_of_version(connection, automation_id, values)
    return found[0] if found else None


def _load_runs(connection: apsw.Connection, name: str, values: dict[str, Any]) -> list[Invocation]:
    """Load the newest runs of each version and merge them: one ordered read of an index for each."""
    found = [_load_runs_of_version(connection, each.id, values) for each in stored.versions(connection, name)]
    latest = merge(*found, key=lambda run: (run.created_at, run.id), reverse=True)
    return list(islice(latest, values["limit"]))


def _load_runs_of_version(
    connection: apsw.Connection, automation_id: str, values: dict[str, Any]
) -> list[Invocation]:
    query = sql.queries("runtime")["invocations_before"]
    rows = sql.rows(connection, query, {"automation_id": automation_id, **values})
    return [invocations.parse_row(row) for row in rows]


def _load_view(
    home: Home, standing: Automation, versions: tuple[Automation, ...], fares: Condition
) -> AutomationView:
    files: tuple[File, ...] = ()
    history: tuple[Change, ...] = ()
    if standing.workspace_dir is not None:
        place = workspace.locate(home.meeseeks, standing.workspace_dir)
        files, history = _list_files(Folder(place)), tuple(History(place).changes())
    return AutomationView(
        automation=standing,
        condition=fares,
        script=_read_source(home, standing),
        versions=versions,
        peers=tuple(workspace.locate(home.meeseeks, each).name for each in standing.peer_workspaces),
        files=files,
        history=history,
    )


async def _load_conditions(ledgers: Ledgers, found: list[Automation]) -> list[Condition]:
    settings = await asyncio.to_thread(config.load, ledgers.home.config_file)
    spent = await ledgers.runtime.read(find_used_up, limits=settings.budgets)
    around = Surroundings(off=switched_off(settings), settings=settings.automations, used_up=spent)
    return await asyncio.to_thread(lambda: [assess(ledgers.home, each, around) for each in found])


def _list_files(folder: Folder) -> tuple[File, ...]:
    try:
        found = sorted(folder.files().items())[:_MOST_FILES]
    except WorkspaceError:
        return ()
    return tuple(File(name=name, size_bytes=size, changed_ns=changed) for name, (size, changed) in found)


def _compare(home: Home, older: Automation, newer: Automation) -> str:
    lines = difflib.unified_diff(
        _describe_version(home, older),
        _describe_version(home, newer),
        f"version {older.version}",
        f"version {newer.version}",
        lineterm="",
    )
    return _clip("\n".join(lines))


def _describe_version(home: Home, version: Automation) -> list[str]:
    """Describe a version's settings and script, as lines to compare."""
    settings = registration.settings_of(version)
    # Where it lies says nothing that its text does not.
    unlike = ("name", "script_path", "script_hash")
    told = [f"{key}: {getattr(settings, key)}" for key in settings.__slots__ if key not in unlike]
    return [*told, "", *(_read_source(home, version) or "").splitlines()]


def _read_source(home: Home, version: Automation) -> str | None:
    try:
        return _clip(registration.kept_source(home, version))
    except (AutomationError, OSError, UnicodeDecodeError):
        return None


def _clip(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}\n…"
