"""How roles run: once for each occasion, limited a day, in a sandbox of their own.

For the owner a role works in its workspace, whose `skills/memory` keeps what it learned. That may quote the
owner's conversations, so on behalf of others it gets the skill alone, in a folder that lasts for one run.

Several runs of a role may be under way at once, each with its own provenance, so each has its own socket.
Its path follows from the invocation: a run that goes on after a crash finds it where it was.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from nexus import clock
from nexus.engine.errors import EndedError
from nexus.ledgers.runtime import executions, requests, usage
from nexus.request import Access, Grant
from nexus.runs import MICRO
from nexus.skills.memory_socket import SOCKET

if TYPE_CHECKING:
    from nexus.config import MemoryConfig
    from nexus.context import AssembledContext
    from nexus.ledgers import Ledgers
    from nexus.memory.gate import Rules
    from nexus.memory.writing import Provenance
    from nexus.request import Request, Visibility
    from nexus.roles.services import Services
    from nexus.runs import Result, Totals


Failure = Literal["refused", "unreachable", "stopped"]
"""`refused`: this request gets no answer. `unreachable`: no model answers now. `stopped`: from outside."""

ROLES: Final = ("consolidation", "reflection")
_UNREACHABLE: Final = frozenset({"ModelError", "ConfigError", "SecretError"})
TOOLS = frozenset({"bash", "read"})
"""What a role in code mode may call. It is shown the same tools as everybody: the prefix stays cached."""


@asynccontextmanager
async def open_sandbox(
    services: "Services",
    name: str,
    provenance: "Provenance",
    *,
    visible: "Visibility",
    rules: "Rules | None" = None,
    writes: bool = True,
    in_workspace: bool = False,
) -> AsyncGenerator[Path]:
    """Open the folder of a socket that writes with this provenance while the context lasts.

    It holds `skills/memory` too, unless the role works in its workspace.
    """
    place = (services.home.run / name).resolve()
    await asyncio.to_thread(_prepare_place, services, place, with_skill=not in_workspace)
    try:
        async with services.memory_socket(name, provenance, writes=writes, rules=rules, visible=visible):
            yield place
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def make_access(
    services: "Services", place: Path, workspaces: Iterable[Path], *, ledgers: bool, notes: Path | None = None
) -> Access:
    """Grant a run's tools its workspaces and its socket, read-only, and perhaps the ledgers.

    They write to `notes` alone.
    """
    data = [services.home.data] if ledgers else []
    granted = [Grant(path=str(each.resolve())) for each in (*workspaces, place, *data)]
    if notes is not None:
        # Not resolved: the sandbox refuses a link that was put in its place.
        granted.append(Grant(path=str(notes.parent.resolve() / notes.name), writable=True))
    return Access(
        level="known",
        tools=TOOLS,
        directories=tuple(granted),
        memory="all" if ledgers else "own",
        memory_socket=str(place / SOCKET),
    )


def _prepare_place(services: "Services", place: Path, *, with_skill: bool) -> None:
    from nexus.skills import memory

    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if with_skill:
        memory.install(services.home, place, place)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedRun:
    """A run that gave no answer."""

    kind: Failure
    reason: str
    error: str = ""
    """What was raised in the run, by name."""


async def run_once(
    services: "Services", request: "Request", context: "AssembledContext", execution_id: str
) -> "Result | FailedRun":
    """Run once: begin now unless a run of that id is known, as it is never paid for twice."""
    await services.ledgers.runtime.write(requests.create, request=request)
    run = await services.broker.start_execution(request, context, execution_id=execution_id)
    try:
        return await run.result()
    except EndedError as ended:
        return await _classify_failure(services.ledgers, execution_id, ended)


async def _classify_failure(ledgers: "Ledgers", execution_id: str, ended: EndedError) -> FailedRun:
    run = await ledgers.runtime.read(executions.get, execution_id=execution_id)
    if run is None or run.status != "failed":
        return FailedRun(kind="stopped", reason=ended.message)
    kind = (run.error or "").partition(":")[0]
    return FailedRun(
        kind="unreachable" if kind in _UNREACHABLE else "refused", reason=ended.message, error=kind
    )


async def sum_spent_today(ledgers: "Ledgers", now: clock.Clock = clock.now) -> "Totals":
    """Sum what consolidation and reflection used since midnight (UTC)."""
    return await ledgers.runtime.read(usage.of_roles, roles=ROLES, day=clock.day(now()))


async def find_limit(ledgers: "Ledgers", limits: "MemoryConfig", now: clock.Clock = clock.now) -> str:
    """Find which limit of the day is reached, in words; empty if none is."""
    spent = await sum_spent_today(ledgers, now)
    tokens, usd = limits.conclusions_tokens_a_day, limits.conclusions_usd_a_day
    if tokens and spent.tokens >= tokens:
        return f"today's {tokens:,} tokens are used (conclusions_tokens_a_day in [memory])"
    if usd and spent.cost_microusd >= usd * MICRO:
        return f"today's ${usd:.2f} are used (conclusions_usd_a_day in [memory])"
    return ""
