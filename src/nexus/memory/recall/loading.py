"""The texts behind the sightings, from the ledgers that hold them."""

import asyncio
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import apsw

from nexus import clock
from nexus.ledgers import sql
from nexus.ledgers.memory import How
from nexus.memory.digest import digests
from nexus.memory.recall import causality, surroundings
from nexus.memory.recall.item import Item, Link, Replacement, Sighting
from nexus.memory.recall.reading import SQL, LateError
from nexus.memory.recall.scope import permitted
from nexus.memory.recall.search import Search
from nexus.memory.recall.surroundings import Stretch


async def fetch(
    search: Search, sightings: Mapping[str, list[Sighting]]
) -> tuple[list[Stretch], dict[str, float]]:
    """The stretches that hold what was seen, and how telling each word of the question is."""
    ids: dict[str, list[str]] = {}
    for id_, seen in sightings.items():
        place = {"event": "event", "entity": "entity"}.get(seen[0].kind, "memory")
        ids.setdefault(place, []).append(id_)
    stretches, items, entities, idf = await asyncio.gather(
        _around(search, ids.get("event", [])),
        _remembered(search, ids.get("memory", [])),
        _entities(search, ids.get("entity", [])),
        _telling(search),
    )
    items = await _disclosed(search, items)
    stretches += [Stretch([item], [True]) for item in (*items, *entities)]
    if search.query.entity_id is not None:
        stretches = await _about(search, stretches)
    if not search.query.retained:
        stretches = await _unretained(search, stretches)
    return stretches, idf


async def _around(search: Search, ids: list[str]) -> list[Stretch]:
    if not ids:
        return []
    return await search.read(search.ledgers.events, surroundings.around, ids)


async def _remembered(search: Search, ids: list[str]) -> list[Item]:
    """Facts, observations, mental models and episodes."""

    def work(connection: apsw.Connection) -> list[Item]:
        given = {"ids": json.dumps(ids), "now": clock.timestamp(search.now)}
        facts = [_fact(cast("tuple[Any, ...]", row)) for row in connection.execute(SQL["facts"], given)]
        rest = connection.execute(SQL["summaries"], (given["ids"],))
        return facts + [_summary(cast("tuple[Any, ...]", row)) for row in rest]

    if not ids:
        return []
    items = await search.read(search.ledgers.memory, work)
    blank = [item.id for item in items if not item.text.strip()]
    made = await digests(search.ledgers, blank, search.read)
    items = [replace(item, text=made[item.id].summary) if item.id in made else item for item in items]
    return await causality.linked(search, [item for item in items if item.text.strip()])


async def _disclosed(search: Search, items: list[Item]) -> list[Item]:
    """The items, without successors that the asker may not see; a limit in time doesn't hide one."""
    successors = {by.id for item in items for by in (item.replaced_by, item.outdated_by) if by}
    if search.scope.places.everything or not successors:
        return items
    sightings = [Sighting(arm="succession", kind="fact", id=id_, rank=1, score=1.0) for id_ in successors]
    untimed = replace(search.scope, after=None, before=None)
    allowed = {seen.id for seen in await permitted(search.ledgers, untimed, sightings, search.deadline)}
    return [
        replace(
            item,
            replaced_by=item.replaced_by if item.replaced_by and item.replaced_by.id in allowed else None,
            outdated_by=item.outdated_by if item.outdated_by and item.outdated_by.id in allowed else None,
        )
        for item in items
    ]


async def _entities(search: Search, ids: list[str]) -> list[Item]:
    def work(connection: apsw.Connection) -> list[Item]:
        rows = connection.execute(SQL["entities"], (json.dumps(ids),))
        return [_entity(cast("tuple[Any, ...]", row)) for row in rows]

    return await search.read(search.ledgers.identity, work) if ids else []


async def _telling(search: Search) -> dict[str, float]:
    """The inverse document frequency of each word, over events and facts together."""
    holding, total = dict.fromkeys(search.question.terms, 0), 0
    term_of = {form: term for term, form in search.question.forms.items()}
    # An arm that was late leaves its counts unknown; the words then count alike.
    with suppress(LateError):
        for log in ("event", "fact"):
            found = await search.frequencies(log)
            total += found.newest
            for word in found.words:
                holding[term_of[word.word]] += word.rows
    return {term: math.log(1 + (max(total - rows, 0) + 0.5) / (rows + 0.5)) for term, rows in holding.items()}


async def _about(search: Search, stretches: list[Stretch]) -> list[Stretch]:
    """Only what is tied to the entity that was asked for, or names it, may be an answer."""
    family = await search.narrowed()
    given = json.dumps(list(family))
    called = await search.read(search.ledgers.identity, sql.rows, SQL["names_of_entities"], (given,))
    names = [name for (name,) in called]
    ids = json.dumps([item.id for stretch in stretches for item in stretch.items if item.kind != "event"])
    wanted = {"ids": ids, "entities": given}
    about = await search.read(search.ledgers.memory, sql.rows, SQL["about_entities"], wanted)
    tied = {row[0] for row in about} | family.keys()
    return [
        Stretch(
            stretch.items,
            [
                flag and (item.id in tied or (item.kind == "event" and _names(item, names)))
                for item, flag in zip(stretch.items, stretch.candidate, strict=True)
            ],
        )
        for stretch in stretches
    ]


async def _unretained(search: Search, stretches: list[Stretch]) -> list[Stretch]:
    """Messages that facts were taken from lend their words and are no answers."""
    ids = [item.id for stretch in stretches for item in stretch.items if item.kind == "event"]
    if not ids:
        return stretches
    retained = await search.read(search.ledgers.memory, sql.rows, SQL["retained"], (json.dumps(ids),))
    gone = {id_ for (id_,) in retained}
    return [
        Stretch(
            s.items, [flag and item.id not in gone for item, flag in zip(s.items, s.candidate, strict=True)]
        )
        for s in stretches
    ]


def _names(item: Item, names: Iterable[str]) -> bool:
    said = f"{item.speaker or ''} {item.text}".lower()
    return any(name in said for name in names)


def _fact(row: tuple[Any, ...]) -> Item:
    id_, text, at, seq, source_event_id, confidence, source_type, source, target, stale_since, *by = row
    return Item(
        kind="fact",
        id=id_,
        text=text,
        at=at,
        seq=seq,
        source_event_id=source_event_id,
        confidence=confidence,
        source_type=source_type,
        stale_since=stale_since,
        entity_ids=tuple(entity for entity in (source, target) if entity),
        subject_id=source,
        replaced_by=_replacement(*by) if by[0] else None,
    )


def _replacement(
    id_: str, text: str, at: str, how: How, basis: str, signals: str, next_id: str
) -> Replacement:
    return Replacement(
        id=id_,
        text=text,
        at=at,
        how=how,
        basis=basis,
        signals=tuple(json.loads(signals)),
        next_id=next_id if next_id != id_ else None,
    )


def _summary(row: tuple[Any, ...]) -> Item:
    kind, id_, text, at, confidence, stale_since, subject, newer_id, newer = row
    return Item(
        kind=kind,
        id=id_,
        text=text,
        at=at,
        confidence=confidence,
        stale_since=stale_since,
        entity_ids=(subject,) if subject else (),
        subject_id=subject,
        outdated_by=Link(newer_id, newer, "newer") if newer_id else None,
    )


def _entity(row: tuple[Any, ...]) -> Item:
    id_, name, type_, summary, at, source_event_id, aliases, details = row
    text = f"{name} ({type_})" + (f", also {aliases}" if aliases else "")
    text += (f"; {details}" if details else "") + (f": {summary}" if summary else "")
    return Item(
        kind="entity",
        id=id_,
        text=text,
        at=at,
        source_event_id=source_event_id,
        entity_ids=(id_,),
        subject_id=id_,
    )
