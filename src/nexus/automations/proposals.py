"""Automations that an agent proposes: kept disabled beside what they would replace, until the owner approves.

A proposal is a row of the table named `NAME@proposed`, so what runs under NAME goes on until then. Approved,
it becomes a version of NAME, in a sandbox unless the owner trusts it.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import difflib
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from nexus.automations import hook_points, registration, registry
from nexus.automations.hook_points import HOOK_POINTS, SCHEDULE
from nexus.automations.registration import Write
from nexus.automations.scripts.script import SANDBOX
from nexus.errors import AutomationError, UnknownHookPointError
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation

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
