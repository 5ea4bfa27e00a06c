"""What an id of another ledger stands for, asked for many at once."""

import json
from collections.abc import Iterable
from typing import cast

from nexus.ledgers import Ledgers, sql
from nexus.ledgers.text import storable


async def load_entity_names(ledgers: Ledgers, ids: Iterable[str | None]) -> dict[str, str]:
    """For each entity the name of the one that it stands for now."""
    return {id_: name for id_, (_, name) in (await load_roots(ledgers, ids)).items()}


async def load_roots(ledgers: Ledgers, ids: Iterable[str | None]) -> dict[str, tuple[str, str]]:
    """For each entity the id and the name of the one that it stands for now."""
    wanted = sorted({id_ for id_ in ids if id_})
    if not wanted:
        return {}
    query = sql.queries("identity")["names_of"]
    found = await ledgers.identity.read(sql.rows, query, (json.dumps(wanted),))
    return {start: (root_id, name) for start, root_id, name in found}


async def load_beginnings(ledgers: Ledgers, ids: Iterable[str | None], characters: int) -> dict[str, str]:
    """For each event the beginning of what was said."""
    wanted = sorted({id_ for id_ in ids if id_})
    if not wanted:
        return {}
    query, values = sql.queries("events")["beginnings"], {"ids": json.dumps(wanted), "most": characters}
    found = await ledgers.events.read(sql.rows, query, values)
    return {row[0]: row[1] for row in found}


async def load_sender_names(
    ledgers: Ledgers, found: Iterable[tuple[str, str | None]]
) -> dict[tuple[str, str], str]:
    """For each channel and sender the name of whom that is; without those that nothing is known of."""
    wanted = sorted({(channel, sender) for channel, sender in found if sender})
    if not wanted:
        return {}
    keys = json.dumps([(channel, storable(sender)) for channel, sender in wanted])
    rows = await ledgers.identity.read(sql.rows, sql.queries("identity")["senders_named"], (keys,))
    known = await load_entity_names(ledgers, [row[2] for row in rows])
    named: dict[tuple[str, str], str] = {
        (channel, key): known.get(entity_id or "", cast("str", shown))
        for channel, key, entity_id, shown in rows
    }
    return {
        (channel, sender): named[channel, storable(sender)]
        for channel, sender in wanted
        if (channel, storable(sender)) in named
    }


async def load_conversation_names(ledgers: Ledgers, thread_ids: Iterable[str | None]) -> dict[str, str]:
    """For the session of each conversation on a channel its title, or the name of who wrote there last."""
    wanted = sorted({id_ for id_ in thread_ids if id_})
    if not wanted:
        return {}
    rows = await ledgers.events.read(sql.rows, sql.queries("events")["last_senders"], (json.dumps(wanted),))
    known = await load_sender_names(ledgers, [(channel, sender) for channel, _, _, sender in rows])
    named = {
        f"{channel}:{external_id}": (title or known.get((channel, sender or "")), channel)
        for channel, external_id, title, sender in rows
    }
    return {label: f"{name} · {channel}" for label, (name, channel) in named.items() if name}
