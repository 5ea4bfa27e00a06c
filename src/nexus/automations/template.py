"""What `nexus automations new` writes: a script of a few lines, and a test beside it.

And what becomes of a role: a script that runs an agent with it.
"""

from nexus.automations.hook_points import HookPoint

_SCRIPT = '''"""{name}: what it is for, in a sentence.

Runs {when}
Receives {receives}; may return {returns}.
"""


async def run(ctx):
    ctx.log.info("heard %s", ctx.request.event.content)
    return {{"enrich": {{"{key}": len(ctx.request.event.content)}}}}
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
    result = await run.result()
    return {{"enrich": {{"{key}": result.response.content}}}}
'''
_TEST = '''"""Run it with `nexus automations test {name}.py`, or with pytest."""

from pathlib import Path

from nexus.automations.trial import invoke

SCRIPT = Path(__file__).with_name("{name}.py")


def test_it_measures_what_was_said():
    returned = invoke(SCRIPT, hook_point="{hook_point}", content="Hello")
    assert returned == {{"enrich": {{"{key}": 5}}}}
'''


def script(name: str, point: HookPoint) -> str:
    """A first version of a script."""
    returns = ", ".join(f"`{each}`" for each in point.returns)
    return _SCRIPT.format(
        name=name, when=_when(point), receives=point.receives, returns=returns, key=_key(name)
    )


def agent(name: str, point: HookPoint) -> str:
    """A script that runs an agent in the role of its workspace, and adds what it answers to the request."""
    return _AGENT.format(name=name, when=_when(point), key=_key(name))


def test(name: str, point: HookPoint) -> str:
    """A test of that version."""
    return _TEST.format(name=name, hook_point=point.name, key=_key(name))


def _when(point: HookPoint) -> str:
    return point.when[0].lower() + point.when[1:]


def _key(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")
