"""Reservations in the runtime ledger: requests to models that are under way, and what they may cost.

A run has one at most, from before it asks a model until the answer is billed. A process that dies in between
leaves it open. The provider may have answered by then, so it is settled when the run begins again or ends: it
becomes a usage row, marked as estimated.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.runtime import trace, usage
from nexus.ledgers.runtime.trace import Span
from nexus.ledgers.runtime.usage import UsageRow

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """What a run holds back."""

    execution_id: str
    usage_id: str
    """Under which it is billed, by whoever does it first and again when more is known."""
    request_id: str
    root_request_id: str
    invocation_id: str | None = None
    role: str | None = None
    provider: str
    model: str
    automation: str | None = None
    """On whose account, where an automation caused it."""
    input_tokens: int
    output_tokens: int
    cost_microusd: int | None
    """None where the price is not known."""


@dataclass(frozen=True, slots=True)
class Held:
    """A sum of reservations."""

    tokens: int = 0
    cost_microusd: int = 0


@dataclass(frozen=True, slots=True)
class Reserved:
    """What others than one run hold back: for the same message, for the same automation, and in all."""

    for_root: Held
    for_automation: Held
    for_home: Held


def hold(connection: apsw.Connection, reservation: Reservation) -> bool:
    """Reserve, in the place of what the run had reserved before.

    False where it has ended, and nobody would settle it.
    """
    connection.execute(sql.queries("runtime")["reserve"], asdict(reservation))
    return connection.changes() > 0


def release(connection: apsw.Connection, usage_id: str) -> None:
    """Remove a reservation that is billed, or not to be paid for, if it is still there."""
    connection.execute(sql.queries("runtime")["release_reservation"], (usage_id,))


def bill_abandoned(connection: apsw.Connection, execution_id: str) -> None:
    """Bill a request whose process died before it was billed, with as much as was reserved for it."""
    row = connection.execute(sql.queries("runtime")["reservation"], (execution_id,)).fetchone()
    if row is None:
        return
    *values, created_at = cast("tuple[Any, ...]", row)
    open_ = sql.make(Reservation, values)
    span = Span(
        id=open_.usage_id.replace("use_", "spn_"),
        request_id=open_.request_id,
        root_request_id=open_.root_request_id,
        execution_id=execution_id,
        kind="model",
        name=f"{open_.provider}/{open_.model}",
        started_at=created_at,
        outcome="error",
        attributes={"estimated": True, "error": "the process ended before the answer was recorded"},
    )
    trace.record_span(connection, span)
    usage.record(connection, _bill(open_, span.id))
    release(connection, open_.usage_id)


def _bill(open_: Reservation, span_id: str) -> UsageRow:
    return UsageRow(
        id=open_.usage_id,
        request_id=open_.request_id,
        root_request_id=open_.root_request_id,
        execution_id=open_.execution_id,
        invocation_id=open_.invocation_id,
        span_id=span_id,
        role=open_.role,
        provider=open_.provider,
        model=open_.model,
        input_tokens=open_.input_tokens,
        output_tokens=open_.output_tokens,
        cost_microusd=open_.cost_microusd,
        automation=open_.automation,
        estimated=True,
    )


def by_others(
    connection: apsw.Connection, *, execution_id: str, root_request_id: str, automation: str
) -> Reserved:
    """Return what all other runs hold back at this moment."""
    bindings = {
        "execution_id": execution_id,
        "root_request_id": root_request_id,
        "automation": automation,
    }
    row = connection.execute(sql.queries("runtime")["reserved"], bindings).fetchone()
    sums = cast("tuple[int, ...]", row)
    return Reserved(Held(*sums[:2]), Held(*sums[2:4]), Held(*sums[4:]))


def by_guests(connection: apsw.Connection, *, but_of_execution: str) -> dict[str, Held]:
    """Return what all other runs hold back for each person who is not the owner."""
    rows = connection.execute(sql.queries("runtime")["reserved_by_guests"], (but_of_execution,))
    return {guest: Held(tokens, cost) for guest, tokens, cost in cast("Iterable[tuple[str, int, int]]", rows)}
