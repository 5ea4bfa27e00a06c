"""Which entity a name means, and what ids of another ledger stand for, asked for many at once."""

import json
from collections.abc import Iterable
from typing import Final, cast

import apsw

from nexus.errors import MissingError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.text import storable
from nexus.memory import merging
from nexus.memory.normalisation import normalize
from nexus.memory.references import find_meant
from nexus.memory.views.page import LAST

_NEAR: Final = 5


async def find_family(ledgers: Ledgers, reference: str) -> list[str]:
    """Find the entity that an id, a name or an alias means, with all that is the same: the root first."""

    def work(connection: apsw.Connection) -> list[str]:
        found = find_meant(connection, reference)
        if found is None:
            raise _unknown_entity(connection, reference)
        return merging.family(connection, found)

    return await ledgers.identity.read(work)


def like(text: str) -> str:
    """A pattern that a normalised name matches where it holds the text."""
    escaped = normalize(text).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _unknown_entity(connection: apsw.Connection, reference: str) -> MissingError:
    word = max(normalize(reference).split() or [""], key=len)
    bindings = {"type": None, "like": like(word[:3]), "since": "", "at": LAST, "id": "", "limit": _NEAR}
    query = sql.queries("identity")["matching_entities_before"]
    near = sql.rows(connection, query, bindings) if word else []
    listed = ", ".join(f"{row[2]} ({row[0]})" for row in near)
    return MissingError(
        f"No entity is called {reference!r}",
        hint=f"Similar: {listed}." if listed else "List them with `nexus memory people`.",
    )


async def load_entity_names(ledgers: Ledgers, ids: Iterable[str | None]) -> dict[str, str]:
    """Load, for each entity, the name of the one that it stands for now."""
    return {id_: name for id_, (_, name) in (await load_roots(ledgers, ids)).items()}


async def load_roots(ledgers: Ledgers, ids: Iterable[str | None]) -> dict[str, tuple[str, str]]:
    """Load, for each entity, the id and the name of the one that it stands for now."""
    wanted = sorted({id_ for id_ in ids if id_})
    if not wanted:
        return {}
    query = sql.queries("identity")["names_of"]
    found = await ledgers.identity.read(sql.rows, query, (json.dumps(wanted),))
    return {start: (root_id, name) for start, root_id, name in found}


async def load_beginnings(ledgers: Ledgers, ids: Iterable[str | None], characters: int) -> dict[str, str]:
    """Load, for each event, the beginning of what was said."""
    wanted = sorted({id_ for id_ in ids if id_})
    if not wanted:
        return {}
    query, values = sql.queries("events")["beginnings"], {"ids": json.dumps(wanted), "most": characters}
    found = await ledgers.events.read(sql.rows, query, values)
    return {row[0]: row[1] for row in found}


async def load_sender_names(
    ledgers: Ledgers, found: Iterable[tuple[str, str | None]]
) -> dict[tuple[str, str], str]:
    """Load the names of senders, by channel and sender; those that nothing is known of are left out."""
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
    """Load the title of each conversation on a channel, or who wrote there last, by its session."""
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
