"""Recorded steps in the runtime ledger: what the parts of a run gave, for as long as it may be repeated."""

from dataclasses import dataclass
from typing import cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.text import storable


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A part of a run that is done."""

    execution_id: str
    number: int
    name: str
    failed: bool
    outcome: str
    """What it gave, or how it failed, as the broker writes it."""


def record(connection: apsw.Connection, step: Step) -> Step:
    """Record a step of a run that has not ended; returns the one that stands, which is the first."""
    queries = sql.queries("runtime")
    connection.execute(
        queries["record_step"],
        (step.execution_id, step.number, step.name, int(step.failed), storable(step.outcome)),
    )
    if connection.changes():
        return step
    recorded = of(connection, step.execution_id)
    return next((found for found in recorded if found.number == step.number), step)


def of(connection: apsw.Connection, execution_id: str) -> list[Step]:
    """Every recorded step of a run, in order."""
    rows = connection.execute(sql.queries("runtime")["steps"], (execution_id,))
    return [
        Step(execution_id=execution_id, number=number, name=name, failed=bool(failed), outcome=outcome)
        for number, name, failed, outcome in cast("list[tuple[int, str, int, str]]", rows)
    ]


def drop(connection: apsw.Connection, execution_id: str) -> None:
    """Remove the steps of a run that has ended: nothing repeats it any more."""
    connection.execute(sql.queries("runtime")["drop_steps"], (execution_id,))
