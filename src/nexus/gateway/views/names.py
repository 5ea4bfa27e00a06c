"""What an id of another ledger stands for, asked for many at once."""

import json
from collections.abc import Iterable

from nexus.ledgers import Ledgers, sql


async def entities(ledgers: Ledgers, ids: Iterable[str | None]) -> dict[str, str]:
    """For each entity the name of the one that it stands for now."""
    return {id_: name for id_, (_, name) in (await roots(ledgers, ids)).items()}


async def roots(ledgers: Ledgers, ids: Iterable[str | None]) -> dict[str, tuple[str, str]]:
    """For each entity the id and the name of the one that it stands for now."""
    wanted = sorted({id_ for id_ in ids if id_})
    if not wanted:
        return {}
    query = sql.queries("identity")["names_of"]
    found = await ledgers.identity.read(sql.rows, query, (json.dumps(wanted),))
    return {start: (root_id, name) for start, root_id, name in found}


async def messages(ledgers: Ledgers, ids: Iterable[str | None], characters: int) -> dict[str, str]:
    """For each event the beginning of what was said."""
    wanted = sorted({id_ for id_ in ids if id_})
    if not wanted:
        return {}
    query, values = sql.queries("events")["beginnings"], {"ids": json.dumps(wanted), "most": characters}
    found = await ledgers.events.read(sql.rows, query, values)
    return {row[0]: row[1] for row in found}
