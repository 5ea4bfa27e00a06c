"""Why: facts with what caused them and what they led to, and causes right behind what they caused."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import apsw

from nexus.memory.recall.item import Item, Link, Sighting
from nexus.memory.recall.reading import SQL
from nexus.memory.recall.scope import Scope, permitted
from nexus.memory.recall.search import Search
from nexus.memory.recall.selection import Ranked

_MOST_LINKS = 5
# What is far down the order does not pull its causes up.
_EFFECTS = 10
_BEHIND = 1e-6


async def linked(search: Search, items: list[Item]) -> list[Item]:
    """The items, with the causes and effects of the facts among them that the asker may see."""
    ids = json.dumps([item.id for item in items if item.kind == "fact"])

    def work(connection: apsw.Connection) -> list[tuple[str, str, str, str, str]]:
        return cast(
            "list[tuple[str, str, str, str, str]]", connection.execute(SQL["causal_links"], (ids,)).fetchall()
        )

    rows = await search.read(search.ledgers.memory, work)
    if not rows:
        return items
    seen = await _visible(search, {id_ for row in rows for id_ in (row[0], row[2])})
    causes: dict[str, list[Link]] = {}
    effects: dict[str, list[Link]] = {}
    for cause, cause_text, effect, effect_text, relation in rows:
        if cause in seen and effect in seen:
            causes.setdefault(effect, []).append(Link(cause, cause_text, relation))
            effects.setdefault(cause, []).append(Link(effect, effect_text, relation))
    return [
        replace(
            item,
            caused_by=tuple(causes.get(item.id, ())[:_MOST_LINKS]),
            leads_to=tuple(effects.get(item.id, ())[:_MOST_LINKS]),
        )
        for item in items
    ]


def order(ranked: Sequence[Ranked], *, asks_why: bool) -> list[Ranked]:
    """The same candidates; asked why, the causes of each of the best come right behind it.

    A cause that is ahead of its effect stays there. The two answer together: both are strong if one is.
    """
    if not asks_why:
        return list(ranked)
    by_id = {entry.item.id: entry for entry in ranked}
    ordered: dict[str, Ranked] = {}
    for place, entry in enumerate(ranked):
        here = ordered.setdefault(entry.item.id, entry)
        for link in here.item.caused_by if place < _EFFECTS else ():
            cause = by_id.get(link.id)
            if cause is None or link.id in ordered:
                continue
            surest = max(here.probability, cause.probability)
            is_strong = here.strong or cause.strong
            here = ordered[here.item.id] = replace(here, probability=surest, strong=is_strong)
            score = max(cause.score, here.score - _BEHIND)
            ordered[link.id] = replace(cause, score=score, probability=surest, strong=is_strong)
    return list(ordered.values())


async def _visible(search: Search, ids: set[str]) -> set[str]:
    """Those of the facts that the asker may see, whatever time was asked for."""
    scope = Scope(places=search.scope.places, kinds=frozenset({"fact"}), after=None, before=None)
    sightings = [Sighting(arm="causal", kind="fact", id=id_, rank=1, score=1.0) for id_ in sorted(ids)]
    return {s.id for s in await permitted(search.ledgers, scope, sightings, search.deadline)}
