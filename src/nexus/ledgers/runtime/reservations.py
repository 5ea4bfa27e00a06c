"""Reservations in the runtime ledger: what requests to models that are under way may cost.

A run has one at most, from before it asks a model until the answer is billed. It has none when it begins,
also when it does so again after a crash, and none when it ends: so nothing stays reserved by the dead.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

import apsw

from nexus.ledgers import sql

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """What a run holds back."""

    execution_id: str
    root_request_id: str
    automation: str | None
    """On whose account, where an automation caused it."""
    tokens: int
    cost_microusd: int


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


def hold(connection: apsw.Connection, reservation: Reservation) -> None:
    """Reserve, in the place of what the run had reserved before."""
    connection.execute(sql.queries("runtime")["reserve"], asdict(reservation))


def release(connection: apsw.Connection, execution_id: str) -> None:
    """Give back what a run has reserved, if anything."""
    connection.execute(sql.queries("runtime")["release_reservation"], (execution_id,))


def by_others(
    connection: apsw.Connection, *, execution_id: str, root_request_id: str, automation: str
) -> Reserved:
    """What all other runs hold back at this moment."""
    bindings = {
        "execution_id": execution_id,
        "root_request_id": root_request_id,
        "automation": automation,
    }
    row = connection.execute(sql.queries("runtime")["reserved"], bindings).fetchone()
    sums = cast("tuple[int, ...]", row)
    return Reserved(Held(*sums[:2]), Held(*sums[2:4]), Held(*sums[4:]))


def by_guests(connection: apsw.Connection, *, but_of_execution: str) -> dict[str, Held]:
    """What all other runs hold back for each person who is not the owner."""
    rows = connection.execute(sql.queries("runtime")["reserved_by_guests"], (but_of_execution,))
    return {guest: Held(tokens, cost) for guest, tokens, cost in cast("Iterable[tuple[str, int, int]]", rows)}
