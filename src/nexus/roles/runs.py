"""Runs of a role in sessions of their own: asked for once, and told apart by how they failed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from nexus.engine.errors import EndedError
from nexus.ledgers.runtime import executions, requests

if TYPE_CHECKING:
    from nexus.context import AssembledContext
    from nexus.ledgers import Ledgers
    from nexus.request import Request
    from nexus.roles.services import Services
    from nexus.runs import Result

Failure = Literal["refused", "unreachable", "stopped"]
"""`refused`: this request gets no answer. `unreachable`: no model answers now. `stopped`: from outside."""

_UNREACHABLE: Final = frozenset({"ModelError", "ConfigError", "SecretError"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A run that gave no answer."""

    kind: Failure
    reason: str
    error: str = ""
    """What was raised in the run, by name."""


async def answered(
    services: "Services", request: "Request", context: "AssembledContext", execution_id: str
) -> "Result | Failed":
    """The result of a run, begun now unless one of that id is known: it is never paid for twice."""
    await services.ledgers.runtime.write(requests.create, request=request)
    run = await services.broker.start_execution(request, context, execution_id=execution_id)
    try:
        return await run.result()
    except EndedError as ended:
        return await _failed(services.ledgers, execution_id, ended)


async def _failed(ledgers: "Ledgers", execution_id: str, ended: EndedError) -> Failed:
    run = await ledgers.runtime.read(executions.get, execution_id=execution_id)
    if run is None or run.status != "failed":
        return Failed(kind="stopped", reason=ended.message)
    kind = (run.error or "").partition(":")[0]
    return Failed(kind="unreachable" if kind in _UNREACHABLE else "refused", reason=ended.message, error=kind)
