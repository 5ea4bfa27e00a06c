"""Registering what a person or a program asks for: settings that are left out stay as they are.

The command line and the HTTP API both go through here, so both check the same things.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import difflib
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from nexus import config
from nexus.automations import hook_points, loading, registration, registry, workspace
from nexus.automations.hook_points import HOOK_POINTS, SCHEDULE, HookPoint
from nexus.automations.loading import Hook
from nexus.automations.registration import Registered, Write
from nexus.automations.scripts import script
from nexus.automations.scripts.script import SANDBOX
from nexus.automations.workspace import Folder, History
from nexus.errors import AutomationError, UnknownHookPointError, UsageError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation

_PLAIN = (
    *("hook_point", "blocking", "self_improvement", "timeout_ms", "retries", "priority"),
    *("description", "mode"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """The settings to register. None, or an empty tuple: leave as it is."""

    hook_point: str | None = None
    blocking: bool | None = None
    workspace: bool | None = None
    role: str | None = None
    """The text of its ROLE.md; implies a workspace."""
    peers: tuple[str, ...] = ()
    self_improvement: bool | None = None
    timeout_ms: int | None = None
    retries: int | None = None
    priority: int | None = None
    description: str | None = None
    cron: str | None = None
    zone: str | None = None
    mode: str | None = None
    triggers: dict[str, Any] | None = None
    """Conditions and times; an empty one removes them all."""
    config: dict[str, Any] | None = None
    """Settings of its own; those not named are kept."""
    variables: tuple[str, ...] = ()
    sandbox: bool | None = None
    ledgers: bool | None = None


def register(
    home: Home,
    write: Write,
    given: str,
    changes: Changes,
    *,
    name: str | None = None,
    stays_disabled: bool = False,
) -> list[Registered]:
    """Register a file, a folder with a HOOK.md, or, by its name, the home's copy of an automation.

    A script that is registered again is enabled, unless what was disabled is to stay so.
    """
    folder = _find_hook_folder(home, write, given)
    if folder is not None:
        return _register_hook(home, write, folder, changes, name)
    path = Path(given).expanduser()
    standing = _find_row(write, name or (path.stem if path.is_file() else given))
    if not path.is_file():
        # Another name for the code of one that is there: a second registration of it.
        standing = standing or _find_row(write, given)
        if standing is None:
            raise UsageError(
                f"{given} is neither a file nor an automation",
                hint="List automations with `nexus automations list`.",
            )
        path = _locate_script(home, standing)
    name = name or (standing.name if standing else path.stem)
    new = (
        registration.settings_of(standing)
        if standing
        else NewAutomation(name=name, script_path="", script_hash=None)
    )
    new = replace(new, name=name)
    if stays_disabled and standing is not None:
        new = replace(new, disabled_reason=standing.disabled_reason)
    return [_register(home, write, new, changes, path)]


def register_text(
    home: Home, write: Write, name: str, source: str, changes: Changes, *, stays_disabled: bool = False
) -> list[Registered]:
    """Register a Python script by its text."""
    with tempfile.TemporaryDirectory(prefix="nexus-script-") as folder:
        file = Path(folder) / "script.py"
        file.write_text(source, encoding="utf-8")
        return register(home, write, str(file), changes, name=name, stays_disabled=stays_disabled)


def update(home: Home, write: Write, name: str, changes: Changes) -> Registered:
    """Change settings alone: the script must be the registered one, and what is disabled stays so."""
    standing = _find_row(write, name)
    if standing is None:
        raise registration.unknown_automation(name)
    if not (standing.script_path or "").startswith(script.IN_PROCESS):
        script.read_registered(home, standing)
    folder = _find_hook_folder(home, write, name)
    if folder is not None:
        _check_unstated(loading.read(folder / script.HOOK_FILE), changes)
    new = replace(registration.settings_of(standing), disabled_reason=standing.disabled_reason)
    return _register(home, write, new, changes, Path())


def _register(home: Home, write: Write, new: NewAutomation, changes: Changes, path: Path) -> Registered:
    """Register settings with their changes; `path` is the script to bring in, if any.

    Everything is checked before anything is written: a refused registration leaves the script as it was.
    """
    new = _apply_changes(home, new, changes)
    if path != Path() and new.script_path.startswith(script.IN_PROCESS):
        new = replace(new, script_path="")
    is_own = new.script_path.startswith(script.IN_PROCESS)
    registration.check(new, None if is_own else config.load(home.config_file).automations)
    if path != Path():
        brought = registration.bring_in(home, new.name, path)
        new = replace(new, script_path=str(brought.path), script_hash=brought.hash)
    if changes.role is None:
        return registration.register(home, write, new)
    workspace.bootstrap(home.meeseeks / new.name, changes.role)
    registered = registration.register(home, write, new)
    return replace(registered, replaced_role=_replace_role(home, new.name, changes.role))


def _replace_role(home: Home, name: str, text: str) -> bool:
    """Put a ROLE.md into a workspace; the one that it replaces stays in the workspace's history."""
    folder = Folder(home.meeseeks / name)
    if folder.read(workspace.ROLE) == text:
        return False
    History(folder.path).commit(f"{name} before its role was replaced")
    folder.write(workspace.ROLE, text)
    History(folder.path).commit(f"{name} has another role")
    return True


def _find_row(write: Write, name: str) -> Automation | None:
    return write(automations.get, name=name)


def _locate_script(home: Home, standing: Automation) -> Path:
    """The script of an automation, to be registered as it lies there; nothing for code of a package."""
    recorded = standing.script_path or ""
    return Path() if recorded.startswith(script.IN_PROCESS) else script.locate(home, recorded)


def _find_hook_folder(home: Home, write: Write, given: str) -> Path | None:
    """The folder with a HOOK.md that is meant by a path or by the name of one of its rows."""
    path = Path(given).expanduser().absolute()
    row = None if path.exists() else _find_row(write, given)
    if row is not None and not (row.script_path or "").startswith(script.IN_PROCESS):
        path = script.locate(home, row.script_path or "").parent
    elif path.name == script.HOOK_FILE:
        path = path.parent
    return path if (path / script.HOOK_FILE).is_file() else None


def _register_hook(
    home: Home, write: Write, folder: Path, changes: Changes, name: str | None
) -> list[Registered]:
    """Register a folder's rows as its HOOK.md says, then change what it doesn't state."""
    hook = loading.read(folder / script.HOOK_FILE)
    if hook.handler is None:
        raise AutomationError(f"{folder} has no handler.py and no executable handler")
    _check_unstated(hook, changes, name)
    brought = registration.bring_in(home, hook.name, hook.handler)
    assert brought.folder is not None  # noqa: S101 - an invariant, for the reader and the type checker
    hook = loading.read(brought.folder / script.HOOK_FILE)
    made = loading.sync(home, write, hook, by_hand=True)
    return [_change_row(home, write, each, changes) for each in made]


def _check_unstated(hook: Hook, changes: Changes, name: str | None = None) -> None:
    """Refuse what its HOOK.md decides."""
    given = {
        "name": name,
        "hook-point": changes.hook_point,
        "schedule": changes.cron,
        "zone": changes.zone,
        **{key.removesuffix("_ms").replace("_", "-"): getattr(changes, key, None) for key in hook.settings},
        **({} if hook.sandbox is None else {"sandbox": changes.sandbox}),
        **({} if hook.description is None else {"description": changes.description}),
    }
    for flag in (each for each, value in given.items() if value is not None):
        raise UsageError(f"HOOK.md decides about --{flag}", hint=f"Edit {hook.folder / script.HOOK_FILE}.")


def _change_row(home: Home, write: Write, registered: Registered, changes: Changes) -> Registered:
    if changes == Changes():
        return registered
    new = registration.settings_of(registered.automation)
    new = replace(new, disabled_reason=registered.automation.disabled_reason)
    return _register(home, write, new, changes, Path())


def _apply_changes(home: Home, new: NewAutomation, changes: Changes) -> NewAutomation:
    """Only what was said: the rest stays as it is."""
    values = {key: getattr(changes, key) for key in _PLAIN if getattr(changes, key) is not None}
    if changes.workspace or changes.role is not None:
        values["workspace_dir"] = registration.workspace_dir(home, new.name)
    if changes.peers:
        values["peer_workspaces"] = registration.peer_dirs(home, changes.peers)
    if changes.triggers is not None:
        values["triggers"] = changes.triggers
    said = {
        key: value for key, value in (("cron", changes.cron), ("zone", changes.zone)) if value is not None
    }
    if said:
        triggers = changes.triggers or new.triggers
        values |= {"hook_point": hook_points.SCHEDULE, "blocking": False, "triggers": {**triggers, **said}}
    own = {
        script.VARIABLES: list(changes.variables) or None,
        script.SANDBOX: changes.sandbox,
        script.LEDGERS: changes.ledgers,
    }
    stated = {key: value for key, value in own.items() if value is not None}
    return replace(new, **values, config={**new.config, **(changes.config or {}), **stated})


Result = Literal["context", "reply", "remember", "file"]
"""Where an agent's answer goes: before another agent, to people, to the memory, or to NOTES.md."""
_ALWAYS: tuple[Result, ...] = ("reply", "remember", "file")
_SCRIPT = '''"""{name}: what it is for, in a sentence.

Runs {when}
Receives {receives}; may return {returns}.
"""


from nexus import Context


async def run(ctx: Context):
    ctx.log.info("heard %s", ctx.request.event.content)
    return {{"log": {{"{key}": len(ctx.request.event.content)}}}}
'''
_AGENT = '''"""{name}: an agent in the role that its workspace describes.

Runs {when}
"""

from nexus.context.wrapping import wrapped


async def run(ctx):
    label = f"meeseeks:{{ctx.automation.name}}:{{ctx.request.request_id}}"
    said = [wrapped("message", ctx.request.event.content)]
    if ctx.result is not None:
        said.append(wrapped("answer", ctx.result.response.content))
    task = "Do what your role asks, about what stands between the tags.\\n\\n" + "\\n".join(said)
    assembled = await ctx.assemble_context(session_label=label, task=task)
    assembled.role_context = "\\n\\n".join((ctx.workspace.role, ctx.workspace.skills))
    run = await ctx.start_execution(assembled)
    answer = (await run.result()).response.content.strip()
    if answer.casefold().strip(".`") in {{"", "nothing", "none"}}:
        return None
    {sends}
'''
_SENDS: dict[Result, str] = {
    "context": 'return {"context": answer}',
    "reply": 'return {"reply": answer}',
    "remember": 'return {"remember": [line.lstrip("-* ") for line in answer.splitlines() if line.strip()]}',
    "file": """before = ctx.workspace.read_file("NOTES.md", "")
    note = f"## {ctx.now():%Y-%m-%d %H:%M}\\n\\n{answer}\\n"
    ctx.workspace.write_file("NOTES.md", f"{before}\\n{note}" if before else note)
    return {"log": {"noted": answer}}""",
}
_TEST = '''"""Run it with `nexus automations test {name}.py`, or with pytest."""

from pathlib import Path

from nexus.testing import Kit

SCRIPT = Path(__file__).with_name("{name}.py")


def test_it_measures_what_was_said(kit: Kit):
    returned = kit.run(SCRIPT, "Hello", hook_point="{hook_point}")
    assert returned == {{"log": {{"{key}": 5}}}}
'''


def script_text(name: str, point: HookPoint) -> str:
    """A first version of a script."""
    returns = ", ".join(f"`{each}`" for each in point.allowed)
    return _SCRIPT.format(
        name=name, when=_describe_moment(point), receives=point.receives, returns=returns, key=_log_key(name)
    )


def possible_results(point: HookPoint) -> tuple[Result, ...]:
    """Where the answer of an agent at a hook point can go; the first one is what most people mean."""
    if "context" in point.returns:
        before: tuple[Result, ...] = ("context", "file")
        return ("context", *_ALWAYS) if point.sends else before
    after: tuple[Result, ...] = ("file", "reply", "remember")
    return _ALWAYS if point.name == SCHEDULE else after


def agent_text(name: str, point: HookPoint, result: Result) -> str:
    """A script that runs an agent in the role of its workspace, and sends its answer somewhere."""
    return _AGENT.format(name=name, when=_describe_moment(point), sends=_SENDS[result])


def test_text(name: str, point: HookPoint) -> str:
    """A test of that version."""
    return _TEST.format(name=name, hook_point=point.name, key=_log_key(name))


def _describe_moment(point: HookPoint) -> str:
    return point.when[0].lower() + point.when[1:]


def _log_key(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


@dataclass(frozen=True, kw_only=True, slots=True)
class AutomationRequest:
    """What somebody wants: an agent with a role, that runs at a hook point."""

    name: str
    role: str
    """The text of its ROLE.md."""
    hook_point: str
    blocking: bool
    peers: tuple[str, ...] = ()
    description: str | None = None
    result: str = ""
    """Where its answer goes: one of `template.results`. Empty: what most people mean there."""
    timeout_ms: int | None = None
    self_improvement: bool = False
    ledgers: bool = False
    """Whether it reads the ledgers."""
    cron: str | None = None
    """When it runs by the clock, at the hook point `schedule`."""
    zone: str | None = None


def create(home: Home, write: Write, wish: AutomationRequest) -> Registered:
    """Write its script from the template, make its workspace and register it."""
    point = hook_points.get(wish.hook_point)
    if not wish.role.strip():
        raise AutomationError("The role is empty", hint="Describe its task in ROLE.md.")
    result = _choose_result(wish, point)
    new = _build_settings(home, wish)
    registration.check(new, config.load(home.config_file).automations)
    if write(automations.get, wish.name) is not None:
        raise AutomationError(
            f"Automation `{wish.name}` already exists",
            hint=f"Choose another name, or edit the ROLE.md of its workspace at {new.workspace_dir}.",
        )
    folder = Path(tempfile.mkdtemp())
    try:
        file = folder / f"{wish.name}.py"
        file.write_text(agent_text(wish.name, point, result), encoding="utf-8")
        brought = registration.bring_in(home, wish.name, file)
    finally:
        shutil.rmtree(folder)
    workspace.bootstrap(home.meeseeks / wish.name, wish.role.rstrip() + "\n")
    new = replace(new, script_path=str(brought.path), script_hash=brought.hash)
    return registration.register(home, write, new)


def _choose_result(wish: AutomationRequest, point: HookPoint) -> Result:
    possible = possible_results(point)
    usual: Result = possible[0] if wish.blocking or possible[0] != "context" else "file"
    named: list[Result] = [each for each in possible if each == wish.result]
    chosen = usual if not wish.result else named[0] if named else None
    if chosen is None:
        raise AutomationError(
            f"An agent's answer at {point.name} can't go to `{wish.result}`",
            hint=f"Choose one of {', '.join(possible)}.",
        )
    if chosen == "context" and not wish.blocking:
        raise AutomationError(
            "An agent's answer reaches another agent only if that one waits for it",
            hint="Make it blocking, or choose another result.",
        )
    return chosen


def _build_settings(home: Home, wish: AutomationRequest) -> NewAutomation:
    return NewAutomation(
        name=wish.name,
        script_path="",
        script_hash=None,
        hook_point=wish.hook_point,
        triggers={key: value for key, value in (("cron", wish.cron), ("zone", wish.zone)) if value},
        config={script.LEDGERS: True} if wish.ledgers else {},
        timeout_ms=wish.timeout_ms,
        self_improvement=wish.self_improvement,
        description=wish.description or None,
        workspace_dir=registration.workspace_dir(home, wish.name),
        peer_workspaces=registration.peer_dirs(home, wish.peers),
        blocking=wish.blocking,
    )


_SUFFIX: Final = "@proposed"
_HEADER: Final = re.compile(r'\s*(?:"""|\'\'\'|#)\s*(?P<name>[a-z0-9][a-z0-9-]{1,50}):\s*(?P<told>[^"\'\n]+)')
HOW_TO: Final = (
    "Write `text` as a Python script whose first line is a docstring with its name and purpose, and `when` "
    "as a time or a hook point:\n"
    '"""tag-mail: Tags messages about mail."""\n\n\nasync def run(ctx):\n'
    '    if "mail" in ctx.request.event.content:\n        return {"enrich": {"tag": "mail"}}\n'
    "It runs in a sandbox, once the owner has approved it. Hook points: "
    + ", ".join(point.name for point in HOOK_POINTS)
    + ". At a time, return {'response': TEXT} to send a message."
)


def is_proposal(row: Automation) -> bool:
    return row.disabled_reason == automations.PROPOSED and row.name.endswith(_SUFFIX)


def target(row: Automation) -> str:
    """The name that a proposal is for."""
    return row.name.removesuffix(_SUFFIX)


def propose(home: Home, write: Write, source: str, new: NewAutomation) -> Automation:
    """Keep a script for the owner to approve. `new` says where and when it would run, and who proposes it."""
    header = _HEADER.match(source)
    if header is None:
        raise AutomationError("The script doesn't begin with its name and purpose", hint=HOW_TO)
    name = header["name"] + _SUFFIX
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(source.rstrip() + "\n", encoding="utf-8")
        brought = registration.bring_in(home, name, file)
    proposed = replace(
        new,
        name=name,
        description=header["told"].strip(),
        script_path=str(brought.path),
        script_hash=brought.hash,
        config={**new.config, SANDBOX: True},
        disabled_reason=automations.PROPOSED,
    )
    return registration.register(home, write, proposed).automation


def hook_settings(hook_point: str) -> dict[str, Any] | None:
    """The settings of a script for a hook point; None if there is no such hook point."""
    try:
        point = hook_points.get(hook_point)
    except UnknownHookPointError:
        return None
    return None if point.name == SCHEDULE else {"hook_point": point.name, "blocking": True}


def difference(home: Home, write: Write, proposal: Automation) -> str:
    """What a proposal would change: its settings and its script against what stands under its name."""
    standing: Automation | None = write(automations.get, name=target(proposal))
    before = _lines(home, standing) if standing else []
    made = difflib.unified_diff(
        before, _lines(home, proposal), target(proposal), f"{target(proposal)} (proposed)", lineterm=""
    )
    return "\n".join(made)


def approve(home: Home, write: Write, proposal: Automation, *, trust: bool = False) -> Automation:
    """Make a proposal the version of its name that runs; in a sandbox, unless it is trusted."""
    name = target(proposal)
    source = registration.kept_source(home, proposal)
    standing: Automation | None = write(automations.get, name=name)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(source, encoding="utf-8")
        brought = registration.bring_in(home, name, file)
    settings = registration.settings_of(proposal)
    kept = {} if standing is None else {k: v for k, v in standing.config.items() if k != SANDBOX}
    approved = replace(
        settings,
        name=name,
        script_path=str(brought.path),
        script_hash=brought.hash,
        config={**kept, **settings.config, SANDBOX: not trust},
        workspace_dir=standing and standing.workspace_dir,
        peer_workspaces=standing.peer_workspaces if standing else (),
    )
    made = registration.register(home, write, approved).automation
    discard(home, write, proposal)
    return made


def discard(home: Home, write: Write, proposal: Automation) -> None:
    """Take a proposal off the list."""
    write(automations.remove, name=proposal.name)
    registry.touch(home)


def _lines(home: Home, row: Automation) -> list[str]:
    settings = [
        f"# {key}: {getattr(row, key)}" for key in ("hook_point", "triggers", "blocking", "timeout_ms")
    ]
    return [*settings, "", *registration.kept_source(home, row).splitlines()]
