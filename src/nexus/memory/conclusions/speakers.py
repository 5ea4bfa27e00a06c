"""Who said what something known rests on, so that no conclusion loses whose word it is."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import apsw

from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.memory.conclusions.statements import SQL

_NAMED: Final = 3


async def behind(ledgers: Ledgers, ids: Iterable[str]) -> dict[str, str]:
    """By the id of a fact, an observation or a mental model: the names of those who said it."""
    given = (json.dumps(sorted(set(ids))),)
    found = await ledgers.memory.read(rows, SQL["said"], given)
    senders = await _senders(ledgers, {event for _, speaker, event in found if event and not speaker})
    names = defaultdict[str, list[str]](list)
    for id_, speaker, event in found:
        name = _plain(speaker or senders.get(event, ""))
        if name and name not in names[id_]:
            names[id_].append(name)
    return {id_: _listed(each) for id_, each in names.items() if each}


async def _senders(ledgers: Ledgers, event_ids: set[str]) -> dict[str, str]:
    def work(connection: apsw.Connection) -> dict[str, str]:
        given = (json.dumps(sorted(event_ids)),)
        found = connection.execute(sql.queries("events")["senders"], given)
        return {str(id_): str(sender) for id_, sender in found}

    return await ledgers.events.read(work) if event_ids else {}


def _plain(name: object) -> str:
    """A name is somebody's own choice, and must not end the brackets that it stands in."""
    return re.sub(r"[(),\s<>]+", " ", str(name)).strip()


def _listed(names: list[str]) -> str:
    shown = names[:_NAMED] + ["others"] * (len(names) > _NAMED)
    return " and ".join(shown)
