"""A new automation from a template: script, workspace and row."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from nexus import config
from nexus.automations import hook_points, registration, workspace
from nexus.automations.hook_points import SCHEDULE, HookPoint
from nexus.automations.registration import Registered, Write
from nexus.automations.scripts import script
from nexus.errors import AutomationError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import NewAutomation

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
