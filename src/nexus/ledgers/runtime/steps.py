"""Recorded steps in the runtime ledger: what the parts of a run gave, for as long as it may be resumed."""

from dataclasses import dataclass
from typing import cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.text import storable


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A part of a run that is done."""

    execution_id: str
    name: str
    number: int
    """Of those of its name: 0, 1, 2, … in the order in which they are begun."""
    failed: bool
    outcome: str
    """What it gave, or how it failed, as the broker writes it."""


def record(connection: apsw.Connection, step: Step) -> Step:
    """Record a step of a run that has not ended; returns the one that stands, which is the first."""
    queries = sql.queries("runtime")
    connection.execute(
        queries["record_step"],
        (step.execution_id, step.name, step.number, int(step.failed), storable(step.outcome)),
    )
    if connection.changes():
        return step
    recorded = of(connection, step.execution_id)
    return next((each for each in recorded if (each.name, each.number) == (step.name, step.number)), step)


def of(connection: apsw.Connection, execution_id: str) -> list[Step]:
    """Return every recorded step of a run, in order."""
    rows = connection.execute(sql.queries("runtime")["steps"], (execution_id,))
    return [
        Step(execution_id=execution_id, name=name, number=number, failed=bool(failed), outcome=outcome)
        for name, number, failed, outcome in cast("list[tuple[str, int, int, str]]", rows)
    ]


def drop(connection: apsw.Connection, execution_id: str) -> None:
    """Remove the steps of a run that has ended: nothing repeats it any more."""
    connection.execute(sql.queries("runtime")["drop_steps"], (execution_id,))
