"""The texts behind the sightings, and what was said around them: an answer stands beside its question.

Around every event that an arm saw, the stretch of its thread is fetched; neighbours close by become
candidates themselves, those farther off only lend their words.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import apsw

from nexus import clock
from nexus.ledgers.memory import How
from nexus.memory.digest import make_digests
from nexus.memory.recall.item import Item, Link, Replacement, Sighting
from nexus.memory.recall.reading import SQL, LateError
from nexus.memory.recall.scope import Scope, keep_permitted
from nexus.memory.recall.search import Search

# A neighbour this near may itself be the answer.
CANDIDATE_REACH = 2
# Words this far away still tell what a turn is about (the widest window of the features).
CONTEXT_REACH = 5
_MOST_LINKS = 5


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events that follow each other directly in one thread, and which of them may be answers."""

    items: list[Item]
    candidate: list[bool]

    def keep(self, may_answer: Callable[[Item], bool]) -> "Stretch":
        """Return it with those candidates only that may answer; the others lend their words."""
        flags = zip(self.items, self.candidate, strict=True)
        return Stretch(self.items, [flag and may_answer(item) for item, flag in flags])


def load_stretches(search: Search, sightings: Mapping[str, list[Sighting]]) -> list[Stretch]:
    """Load the stretches that hold what was seen, and mark in each what may be an answer."""
    ids: dict[str, list[str]] = {"event": [], "entity": [], "memory": []}
    for id_, seen in sightings.items():
        ids[seen[0].kind if seen[0].kind in ids else "memory"].append(id_)
    stretches = load_surroundings(search.connection, ids["event"]) if ids["event"] else []
    items = _load_memories(search, ids["memory"]) if ids["memory"] else []
    items += (
        [_entity(row) for row in search.read("entities", (json.dumps(ids["entity"]),))]
        if ids["entity"]
        else []
    )
    stretches += [Stretch([item], [True]) for item in items]
    scope, query = search.scope, search.query
    if query.entity_id is not None:
        # Only what is tied to the entity that was asked for, or names it, may be an answer.
        family = search.narrow()
        given = json.dumps(list(family))
        names = [name for (name,) in search.read("names_of_entities", (given,))]
        known = json.dumps([item.id for each in stretches for item in each.items if item.kind != "event"])
        about = search.read("about_entities", {"ids": known, "entities": given})
        tied = {row[0] for row in about} | family.keys()
        stretches = [
            each.keep(lambda item: item.id in tied or (item.kind == "event" and _names(item, names)))
            for each in stretches
        ]
    if not query.retained:
        # Messages that facts were taken from lend their words and are no answers.
        said = [item.id for each in stretches for item in each.items if item.kind == "event"]
        gone = {id_ for (id_,) in search.read("retained", (json.dumps(said),))} if said else set[str]()
        stretches = [each.keep(lambda item: item.id not in gone) for each in stretches] if gone else stretches
    if scope.after is not None or scope.before is not None or scope.without:
        # Neighbours share the thread of what was seen, and so its place, but not its time.
        stretches = [
            each.keep(lambda item: scope.holds_time(item.at) and item.id not in scope.without)
            for each in stretches
        ]
    return stretches


def weigh_words(search: Search) -> dict[str, float]:
    """Weigh each word of the question by its inverse document frequency, over events and facts together."""
    holding, total = dict.fromkeys(search.question.terms, 0), 0
    term_of = {form: term for term, form in search.question.forms.items()}
    # An arm that was late leaves its counts unknown; the words then count alike.
    with suppress(LateError), search.deadline.guard(search.connection):
        for log in ("event", "fact"):
            found = search.count_words(log)
            total += found.newest
            for word in found.words:
                holding[term_of[word.word]] += word.rows
    return {term: math.log(1 + (max(total - rows, 0) + 0.5) / (rows + 0.5)) for term, rows in holding.items()}


def load_surroundings(connection: apsw.Connection, event_ids: Collection[str]) -> list[Stretch]:
    """Load the stretches of conversation that hold the events, oldest first within each."""
    given = {"ids": json.dumps(list(event_ids)), "reach": CANDIDATE_REACH + CONTEXT_REACH}
    rows = connection.execute(SQL["event_places"], given).fetchall()
    follows: dict[int, int] = {}
    near: set[int] = set()
    every: set[int] = set()
    for seq, before, after in cast("list[tuple[int, str | None, str | None]]", rows):
        earlier = [int(each) for each in before.split(",")][::-1] if before else []
        later = [int(each) for each in after.split(",")] if after else []
        seqs, at = [*earlier, seq, *later], len(earlier)
        every.update(seqs)
        near.update(seqs[max(0, at - CANDIDATE_REACH) : at + CANDIDATE_REACH + 1])
        follows.update(pairwise(seqs))
    found = connection.execute(SQL["events"], (json.dumps(sorted(every)),))
    items = {
        seq: Item(
            kind="event",
            seq=seq,
            id=id_,
            text=text,
            at=at,
            speaker=speaker,
            outbound=direction == "outbound",
            thread_id=thread_id,
            source_event_id=id_,
        )
        for seq, id_, text, at, speaker, direction, thread_id in cast(
            "list[tuple[Any, ...]]", found.fetchall()
        )
    }
    # Overlapping stretches become one.
    inner = set(follows.values())
    stretches: list[Stretch] = []
    for start in sorted(seq for seq in items if seq not in inner):
        chain: list[int] = []
        seq: int | None = start
        while seq is not None:
            chain.append(seq)
            seq = follows.get(seq)
        stretches.append(
            Stretch([items[s] for s in chain], [s in near and items[s].text.strip() != "" for s in chain])
        )
    return stretches


def _load_memories(search: Search, ids: Sequence[str]) -> list[Item]:
    """Load facts, observations, mental models and episodes, with causes and successors that may be seen."""
    given = {"ids": json.dumps(ids), "now": clock.timestamp(search.now)}
    items = [_fact(row) for row in search.read("facts", given)]
    items += [_summary(row) for row in search.read("summaries", (given["ids"],))]
    blank = [item.id for item in items if not item.text.strip()]
    if blank:
        made = make_digests(search.connection, blank)
        items = [replace(item, text=made[item.id].summary) if item.id in made else item for item in items]
        items = [item for item in items if item.text.strip()]
    items = _link_causes(search, items)
    successors = {by.id for item in items for by in (item.replaced_by, item.outdated_by) if by}
    if search.scope.places.everything or not successors:
        return items
    allowed = _keep_visible(search, successors, without=search.scope.without)
    return [
        replace(
            item,
            replaced_by=item.replaced_by if item.replaced_by and item.replaced_by.id in allowed else None,
            outdated_by=item.outdated_by if item.outdated_by and item.outdated_by.id in allowed else None,
        )
        for item in items
    ]


def _link_causes(search: Search, items: list[Item]) -> list[Item]:
    """Add the causes and effects of the facts that the asker may see."""
    rows = search.read("causal_links", (json.dumps([item.id for item in items if item.kind == "fact"]),))
    if not rows:
        return items
    seen = _keep_visible(search, {id_ for row in rows for id_ in (row[0], row[2])})
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


def _keep_visible(search: Search, fact_ids: set[str], without: frozenset[str] = frozenset()) -> set[str]:
    """Keep the facts that the asker may see, whatever time was asked for."""
    scope = Scope(
        places=search.scope.places, kinds=frozenset({"fact"}), after=None, before=None, without=without
    )
    sightings = [Sighting(arm="id", kind="fact", id=id_, rank=1, score=1.0) for id_ in sorted(fact_ids)]
    return {each.id for each in keep_permitted(search.connection, scope, sightings)}


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
