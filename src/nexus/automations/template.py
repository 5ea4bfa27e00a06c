"""What `nexus automations new` writes: a script of a few lines, and a test beside it.

And what becomes of a role: a script that runs an agent with it.
"""

from typing import Literal

from nexus.automations.hook_points import SCHEDULE, HookPoint

Result = Literal["context", "reply", "remember", "file"]
"""Where an agent's answer goes: before another agent, to people, to the memory, or to NOTES.md."""
_ALWAYS: tuple[Result, ...] = ("reply", "remember", "file")
_SCRIPT = '''"""{name}: what it is for, in a sentence.

Runs {when}
Receives {receives}; may return {returns}.
"""


async def run(ctx):
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

from nexus.automations.trial import invoke

SCRIPT = Path(__file__).with_name("{name}.py")


def test_it_measures_what_was_said():
    returned = invoke(SCRIPT, hook_point="{hook_point}", content="Hello")
    assert returned == {{"log": {{"{key}": 5}}}}
'''


def script(name: str, point: HookPoint) -> str:
    """A first version of a script."""
    returns = ", ".join(f"`{each}`" for each in point.allowed)
    return _SCRIPT.format(
        name=name, when=_when(point), receives=point.receives, returns=returns, key=_key(name)
    )


def results(point: HookPoint) -> tuple[Result, ...]:
    """Where the answer of an agent at a hook point can go; the first one is what most people mean."""
    if "context" in point.returns:
        before: tuple[Result, ...] = ("context", "file")
        return ("context", *_ALWAYS) if point.sends else before
    after: tuple[Result, ...] = ("file", "reply", "remember")
    return _ALWAYS if point.name == SCHEDULE else after


def agent(name: str, point: HookPoint, result: Result) -> str:
    """A script that runs an agent in the role of its workspace, and sends its answer somewhere."""
    return _AGENT.format(name=name, when=_when(point), sends=_SENDS[result])


def test(name: str, point: HookPoint) -> str:
    """A test of that version."""
    return _TEST.format(name=name, hook_point=point.name, key=_key(name))


def _when(point: HookPoint) -> str:
    return point.when[0].lower() + point.when[1:]


def _key(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")
