"""What `nexus automations new` writes: a script of a few lines, and a test beside it."""

from nexus.automations.hook_points import HookPoint

_SCRIPT = '''"""{name}: what it is for, in a sentence.

Runs {when}
Receives {receives}; may return {returns}.
"""


async def run(ctx):
    ctx.log.info("heard %s", ctx.request.event.content)
    return {{"enrich": {{"{key}": len(ctx.request.event.content)}}}}
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
    when = point.when[0].lower() + point.when[1:]
    return _SCRIPT.format(name=name, when=when, receives=point.receives, returns=returns, key=_key(name))


def test(name: str, point: HookPoint) -> str:
    """A test of that version."""
    return _TEST.format(name=name, hook_point=point.name, key=_key(name))


def _key(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")
