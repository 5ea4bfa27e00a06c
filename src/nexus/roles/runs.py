"""Runs of the roles that work by the clock: asked for once, told apart by how they failed, limited a day."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from nexus import clock
from nexus.engine.errors import EndedError
from nexus.ledgers.runtime import executions, requests, usage
from nexus.runs import MICRO

if TYPE_CHECKING:
    from nexus.config import MemoryConfig
    from nexus.context import AssembledContext
    from nexus.ledgers import Ledgers
    from nexus.request import Request
    from nexus.roles.services import Services
    from nexus.runs import Result, Totals

Failure = Literal["refused", "unreachable", "stopped"]
"""`refused`: this request gets no answer. `unreachable`: no model answers now. `stopped`: from outside."""

ROLES: Final = ("consolidation", "reflection")
_UNREACHABLE: Final = frozenset({"ModelError", "ConfigError", "SecretError"})


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
