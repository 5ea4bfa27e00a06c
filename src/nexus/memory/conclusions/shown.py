"""What a run was shown of the memory, so that forgetting it takes the run's own words of it, too."""

from collections.abc import Iterable
from typing import Literal

from nexus.ledgers import Ledgers, sql
from nexus.memory.conclusions.statements import SQL

Kind = Literal["fact", "observation", "mental_model"]


async def note(ledgers: Ledgers, execution_id: str, things: Iterable[tuple[Kind, str]]) -> None:
    """Note it, before the run is told."""
    rows = [(execution_id, kind, id_) for kind, id_ in things]
    if rows:
        await ledgers.memory.write(sql.run_each, SQL["note_shown"], rows)
