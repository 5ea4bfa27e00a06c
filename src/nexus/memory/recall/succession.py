"""Replaced facts in the order of an answer: never above their successors, unless the past is asked about."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from nexus import clock
from nexus.memory.languages import DEFAULT
from nexus.memory.recall.selection import Ranked
from nexus.memory.recall.words import split_words


def order(
    ranked: Sequence[Ranked],
    *,
    asks_past: bool = False,
    asks_first: bool = False,
    followed_by: frozenset[str] = frozenset(),
    until: datetime | None = None,
    language: str = DEFAULT,
) -> list[Ranked]:
    """Rank a replaced fact behind its successor; everything else keeps its place.

    Of a chain A → B → C, C takes the place of the highest. Asked about the past, or about a time that ended
    (`until`) before the successor was known, the highest of the replaced ones takes the place of the current
    one; asked what was first (`asks_first`), the oldest does; asked what was before something (its stemmed
    words, `followed_by`), the one that this replaced. Corrected facts were never true and come last; before
    them those whose replacement is judged, not stated. What moves up counts as much as what it passes.
    The same holds for two messages if what the question asks of them is such a pair.
    """
    links = _links(ranked)
    if not links:
        return list(ranked)
    if asks_past:
        named = {
            entry.item.id: followed_by & split_words(entry.item.text, language).distinct for entry in ranked
        }
        preceded = {old: len(named[new] - named[old]) for old, new in links.items()}
        return _past_first(ranked, links, preceded, oldest=asks_first)
    at = {entry.item.id: entry.item.at for entry in ranked}
    end = "" if until is None else clock.timestamp(until)
    held_then = {old: new for old, new in links.items() if at[old] <= end < at[new]}
    now = _current_first(ranked, {old: new for old, new in links.items() if old not in held_then})
    return _past_first(now, held_then) if held_then else now


def _current_first(ranked: Sequence[Ranked], links: dict[str, str]) -> list[Ranked]:
    by_id = {entry.item.id: entry for entry in ranked}
    placed: dict[str, Ranked] = {}
    waiting: dict[str, list[Ranked]] = {}

    def place(entry: Ranked) -> None:
        placed[entry.item.id] = entry
        for follower in waiting.pop(entry.item.id, []):
            place(_below(follower, entry))

    for entry in ranked:
        if entry.item.id in placed:
            continue
        head = _head(entry.item.id, links)
        if head not in placed:
            place(_above(by_id[head], entry))
        successor = links.get(entry.item.id)
        if entry.item.id in placed:
            continue
        if successor is None or successor in placed:
            place(entry)
        else:
            waiting.setdefault(successor, []).append(entry)
    return list(placed.values())


def _past_first(
    ranked: Sequence[Ranked],
    links: dict[str, str],
    preceded: Mapping[str, int] | None = None,
    *,
    oldest: bool = False,
) -> list[Ranked]:
    replaced = {entry.item.id: entry.item.replaced_by for entry in ranked}
    # "The booking is off" is not how things were: what it called off is.
    cancellations = {
        by.next_id or by.id for by in replaced.values() if by is not None and by.how == "cancelled"
    }

    def rank(place: int, entry: Ranked) -> tuple[bool, int, bool, bool, str, int]:
        id_, by = entry.item.id, replaced[entry.item.id]
        leads_to = [id_, links[id_]] if links[id_] in cancellations else [id_]
        return (
            id_ in cancellations,
            -max((preceded or {}).get(each, 0) for each in leads_to),
            by is not None and by.how == "corrected",
            by is not None and by.basis != "stated",
            entry.item.at if oldest else "",
            place,
        )

    chains: dict[str, list[tuple[int, Ranked]]] = {}
    for place, entry in enumerate(ranked):
        if entry.item.id in links:
            chains.setdefault(_head(entry.item.id, links), []).append((place, entry))
    wanted = {head: min(old, key=lambda each: rank(*each))[1] for head, old in chains.items()}
    placed: dict[str, Ranked] = {}
    for entry in ranked:
        asked = wanted.get(_head(entry.item.id, links))
        if asked is not None and asked.item.id not in placed:
            placed[asked.item.id] = _above(asked, entry)
        placed.setdefault(entry.item.id, entry)
    return list(placed.values())


def _links(ranked: Sequence[Ranked]) -> dict[str, str]:
    """What replaced what, as far as both are here."""
    here = {entry.item.id for entry in ranked}
    links: dict[str, str] = {}
    event_of = {entry.item.id: entry.item.source_event_id for entry in ranked if entry.item.kind == "fact"}
    told: set[str] = set()
    for entry in ranked:
        item = entry.item
        by = item.replaced_by
        # The next of the chain that is here, so that what it names can be asked for.
        following = next((id_ for id_ in (by.next_id, by.id) if id_ in here), None) if by else None
        if following is not None and _head(following, links) != item.id:
            links[item.id] = following
        # A message stands for the best of the facts that were taken from it.
        said = event_of.get(item.id)
        if said is None or said not in here or said in told:
            continue
        told.add(said)
        later = event_of.get(by.next_id or by.id) if by is not None else None
        if later is not None and later in here and later != said and _head(later, links) != said:
            links[said] = later
    return links


def _head(id_: str, links: dict[str, str]) -> str:
    """The end of the chain that an item is in."""
    while id_ in links:
        id_ = links[id_]
    return id_


def _above(entry: Ranked, passed: Ranked) -> Ranked:
    return replace(
        entry,
        score=max(entry.score, passed.score),
        probability=max(entry.probability, passed.probability),
    )


def _below(entry: Ranked, before: Ranked) -> Ranked:
    return replace(entry, score=min(entry.score, before.score))
