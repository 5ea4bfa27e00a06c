"""The automations of the month, registered as a person would, with versions and workspaces."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nexus import ids
from nexus.automations import registration
from nexus.demo.narration import Narrator
from nexus.demo.tracing import Tracing
from nexus.home import Home
from nexus.ledgers.runtime import automations, injections
from nexus.ledgers.runtime.automations import Automation, NewAutomation
from nexus.ledgers.runtime.injections import Injection
from nexus.request import Request

_TAG = '''"""Says what a message is about, for the automations behind this one."""

WORDS = {words}


async def run(ctx):
    for word, tag in WORDS.items():
        if word in ctx.request.event.content:
            return {{"enrich": {{"tag": tag}}}}
    return {{"enrich": {{"tag": "other"}}}}
'''
_REMIND = '''"""Puts preferences that fit the message before it. In this home it knows none by itself."""


async def run(ctx):
    return None
'''
_NOTES = '''"""Keeps a line about each day in the workspace."""


async def run(ctx):
    return None
'''
_PARCELS = '''"""Looks after parcels that are on their way."""


async def run(ctx):
    ctx.log.info("no parcel service is set")
    return None
'''
_QUIET = '''"""Refuses messages at night."""


async def run(ctx):
    return None
'''
_WORDS = (
    '{"list": "shopping", "weather": "weather"}',
    '{"list": "shopping", "weather": "weather", "exercises": "health"}',
    '{"list": "shopping", "weather": "weather", "exercises": "health", "Tidal": "work", "kitchen": "home"}',
)
TAG_VERSIONS = tuple(_TAG.format(words=words) for words in _WORDS)


async def remind(
    narrator: Narrator, tracing: Tracing, automation: Automation, request: Request, keys: Sequence[str]
) -> None:
    """Put memories before the message, and record each with one that was looked at and left out."""
    day = request.created_at[:10]
    text = "\n".join(f"- {narrator.said[key]} ({day}, said by Mira, {narrator.facts[key]})" for key in keys)
    request.enrichment["memories"] = text
    took_ms = narrator.draw.uniform(40, 160)
    invocation_id = await tracing.invoke(automation, took_ms, result={"enrich": {"memories": text}})
    left_out = [key for key in narrator.facts if key not in keys][:1]
    offered = [
        _offer(narrator, request, invocation_id, key, rank, injected=key in keys)
        for rank, key in enumerate((*keys, *left_out), start=1)
    ]
    await narrator.ledgers.runtime.write(injections.add, injections=offered)
    await tracing.span("hook", automation.hook_point, narrator.draw.uniform(1, 5))


async def mark_used(narrator: Narrator, request: Request, keys: Sequence[str]) -> None:
    """Record which of them the answer used: all but the last of several."""
    uses: dict[str, injections.Sign | None] = {
        narrator.facts[key]: "words" if number == 0 or number < len(keys) - 1 else None
        for number, key in enumerate(keys)
    }
    await narrator.ledgers.runtime.write(injections.mark_used, request_id=request.request_id, used=uses)


def _offer(
    narrator: Narrator, request: Request, invocation_id: str, key: str, rank: int, *, injected: bool
) -> Injection:
    likely = narrator.draw.uniform(0.62, 0.97) if injected else narrator.draw.uniform(0.05, 0.3)
    return Injection(
        id=ids.new("inj"),
        invocation_id=invocation_id,
        request_id=request.request_id,
        root_request_id=request.root_request_id,
        execution_id=None,
        rank=rank,
        item_kind="fact",
        item_id=narrator.facts[key],
        text_sha256=hashlib.sha256(narrator.said[key].encode()).hexdigest(),
        score=round(likely * 4 - 1, 4),
        probability=round(likely, 4),
        why="it fits (same words, same meaning)" if injected else "far behind the best (linked to Mira)",
        decided_by="triage",
        injected=injected,
    )


@dataclass(frozen=True, kw_only=True)
class _Program:
    name: str
    source: str
    hook_point: str
    description: str
    blocking: bool = True
    workspace: bool = False
    peers: tuple[str, ...] = ()
    self_improvement: bool = False
    timeout_ms: int | None = None
    disabled_reason: str | None = None


_PROGRAMS = (
    _Program(
        name="tag-errands",
        source=TAG_VERSIONS[0],
        hook_point="runAutomations",
        description="Says what a message is about.",
        timeout_ms=1_000,
    ),
    _Program(
        name="remind",
        source=_REMIND,
        hook_point="after:assembleContext",
        description="Reminds the agent of what fits the message.",
        timeout_ms=2_000,
    ),
    _Program(
        name="evening-notes",
        source=_NOTES,
        hook_point="after:runAgent",
        description="Keeps a line about each day.",
        blocking=False,
        workspace=True,
        peers=("parcel-tracker",),
    ),
    _Program(
        name="parcel-tracker",
        source=_PARCELS,
        hook_point="after:deliverResponse",
        description="Looks after parcels.",
        blocking=False,
        workspace=True,
        timeout_ms=3_000,
    ),
    _Program(
        name="quiet-hours",
        source=_QUIET,
        hook_point="after:resolveAccess",
        description="Refuses messages at night.",
        workspace=True,
        self_improvement=True,
        disabled_reason="Tomas writes at night, too",
    ),
)


async def register(home: Home, narrator: Narrator) -> dict[str, Automation]:
    """Register every automation in its first version."""
    write = registration.writer(narrator.ledgers)
    return {program.name: await asyncio.to_thread(_register, home, write, program) for program in _PROGRAMS}


async def revise(home: Home, narrator: Narrator, version: int) -> Automation:
    """Register a later version of the automation that is worked on most."""
    program = _PROGRAMS[0]
    write = registration.writer(narrator.ledgers)
    changed = replace(program, source=TAG_VERSIONS[version - 1])
    return await asyncio.to_thread(_register, home, write, changed)


def _register(home: Home, write: registration.Write, program: _Program) -> Automation:
    with TemporaryDirectory() as directory:
        file = Path(directory) / f"{program.name}.py"
        file.write_text(program.source, encoding="utf-8")
        script = registration.bring_in(home, program.name, file)
    new = NewAutomation(
        name=program.name,
        script_path=str(script.path),
        script_hash=script.hash,
        hook_point=program.hook_point,
        description=program.description,
        blocking=program.blocking,
        workspace_dir=registration.workspace_dir(home, program.name) if program.workspace else None,
        peer_workspaces=tuple(registration.workspace_dir(home, peer) for peer in program.peers),
        self_improvement=program.self_improvement,
        timeout_ms=program.timeout_ms,
        disabled_reason=program.disabled_reason,
    )
    made = registration.register(home, write, new).automation
    found: Automation | None = write(automations.by_id, automation_id=made.id)
    return found or made
