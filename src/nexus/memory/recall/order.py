"""From what the arms found to an answer: features, scores, the choice, and the reasons for each result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil

import numpy as np

from nexus import clock
from nexus.memory.embedding.catalogue import MULTILINGUAL_MODEL
from nexus.memory.languages import DEFAULT
from nexus.memory.recall import features, ranker
from nexus.memory.recall.features import Floats, Integers, Pool
from nexus.memory.recall.item import (
    CANDIDATE_REACH,
    NEIGHBOUR_ARM,
    Item,
    Kind,
    Match,
    Matches,
    Named,
    Query,
    Reasons,
    Sighting,
    preset,
)
from nexus.memory.recall.question import Question
from nexus.memory.recall.reading import Deadline, timed
from nexus.memory.recall.reranker import Reranker
from nexus.memory.recall.words import says_name, split_words, token_count

# Two texts that share this much of their words say the same.
_SAME = 0.8


@dataclass(kw_only=True, slots=True)
class Ranked:
    """An item in its place. Never changed: not frozen, as an `Item` isn't."""

    item: Item
    score: float
    probability: float
    strong: bool = False
    need: float = 0.0
    factors: dict[str, float] = field(default_factory=dict[str, float])
    replaces: str | None = None  # the id of the item whose place it took, because it replaced that
    precedes: str | None = None  # or because it was asked for what came before that


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """An item that made it, its size, and those that say the same."""

    ranked: Ranked
    tokens: int
    also: tuple[str, ...]


def choose(ranked: Sequence[Ranked], *, max_results: int, max_tokens: int) -> list[Chosen]:
    """Choose the best that fit; one that is too large for the tokens left is skipped."""
    chosen: list[Chosen] = []
    said = _Said()
    left = max_tokens
    for entry in ranked:
        if len(chosen) >= max_results:
            break
        words = split_words(entry.item.text).distinct
        twin = said.same_as(words)
        # A fact and what replaced it are often said in nearly the same words, and say different things.
        if twin is not None and _is_replaced(entry.item) == _is_replaced(chosen[twin].ranked.item):
            old = chosen[twin]
            chosen[twin] = Chosen(ranked=old.ranked, tokens=old.tokens, also=(*old.also, entry.item.id))
            continue
        size = token_count(entry.item.text)
        if size <= left:
            chosen.append(Chosen(ranked=entry, tokens=size, also=()))
            said.add(words)
            left -= size
    return chosen


def _is_replaced(item: Item) -> bool:
    return item.replaced_by is not None or item.outdated_by is not None


class _Said:
    """The words of each text that was chosen, found again by a few of them.

    Sort both sets. If they share 80 %, their prefixes of length n - ⌈0.8 n⌉ + 1 share a word (prefix
    filtering), so only texts with such a word in common are compared.
    """

    def __init__(self) -> None:
        self._texts: list[frozenset[str]] = []
        self._by_word: dict[str, list[int]] = {}

    def same_as(self, words: frozenset[str]) -> int | None:
        """The place of the first text that says the same."""
        found = {place for word in _first(words) for place in self._by_word.get(word, ())}
        return min((place for place in found if _same(words, self._texts[place])), default=None)

    def add(self, words: frozenset[str]) -> None:
        for word in _first(words):
            self._by_word.setdefault(word, []).append(len(self._texts))
        self._texts.append(words)


def _first(words: frozenset[str]) -> list[str]:
    return sorted(words)[: len(words) - ceil(_SAME * len(words)) + 1]


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    if min(len(one), len(other)) < _SAME * max(len(one), len(other)):
        return False  # even if the shorter one were part of the longer one
    shared = len(one & other)
    total = len(one) + len(other) - shared
    if total == 0 or shared < _SAME * total:
        return False
    # Numbers tell things apart that are otherwise said in the same words.
    return not any(word.isdigit() for word in one ^ other)


def place_successors(
    ranked: Sequence[Ranked],
    *,
    asks_past: bool = False,
    asks_first: bool = False,
    followed_by: frozenset[str] = frozenset(),
    until: datetime | None = None,
    language: str = DEFAULT,
) -> list[Ranked]:
    """Rank a replaced fact behind its successor; everything else keeps its place.

    Of a chain A → B → C, C takes the place of the chain's highest-ranked member. Asked about the past, or
    about a time that ended (`until`) before the successor was known, the highest of the replaced ones takes
    the place of the current one; asked what was first (`asks_first`), the oldest does; asked what was before
    something (its stemmed words, `followed_by`), the one that this replaced. Among the replaced ones,
    corrected facts come last, because they were never true; before them come those whose replacement is
    judged, not stated.

    What moves up counts as much as what it passes. A successor is strong, and needed, if what it replaced is;
    so is, asked about the past, the one that comes first if any of its chain is.
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
            place(_above(by_id[head], entry, links))
        successor = links.get(entry.item.id)
        if entry.item.id in placed:
            continue
        if successor is None or successor in placed:
            place(entry)
        else:
            waiting.setdefault(successor, []).append(entry)
    for id_ in reversed(placed):
        if id_ in links:
            old, new = placed[id_], placed[links[id_]]
            placed[new.item.id] = replace(new, strong=old.strong or new.strong, need=max(old.need, new.need))
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
    strong: set[str] = set()
    needs: dict[str, float] = {}
    for entry in ranked:
        head = _head(entry.item.id, links)
        needs[head] = max(needs.get(head, 0.0), entry.need)
        strong |= {head} if entry.strong else set()
    wanted = {
        head: replace(entry, strong=head in strong, need=needs[head])
        for head, old in chains.items()
        for _, entry in [min(old, key=lambda each: rank(*each))]
    }
    placed: dict[str, Ranked] = {}
    for entry in ranked:
        asked = wanted.get(_head(entry.item.id, links))
        if asked is not None and asked.item.id not in placed:
            placed[asked.item.id] = _above(asked, entry, links)
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


def _above(entry: Ranked, passed: Ranked, links: dict[str, str]) -> Ranked:
    """Let an entry take the place of another one of its chain."""
    if entry.item.id == passed.item.id:
        return entry
    is_later = _leads(passed.item.id, entry.item.id, links)
    return replace(
        _score_as(entry, max(entry.score, passed.score)),
        probability=max(entry.probability, passed.probability),
        need=max(entry.need, passed.need),
        replaces=passed.item.id if is_later else None,
        precedes=None if is_later else passed.item.id,
    )


def _below(entry: Ranked, before: Ranked) -> Ranked:
    return _score_as(entry, min(entry.score, before.score))


def _leads(id_: str, to: str, links: dict[str, str]) -> bool:
    """Whether one item was replaced by another, directly or by way of others."""
    while id_ in links and id_ != to:
        id_ = links[id_]
    return id_ == to


def _score_as(entry: Ranked, score: float) -> Ranked:
    """Give an entry the score of its new place, with the difference among its factors."""
    if score == entry.score:
        return entry
    moved = entry.factors.get("moved", 0.0) + score - entry.score
    return replace(entry, score=score, factors={**entry.factors, "moved": moved})


# Factors decide between things that answer about equally well, so only the top gets them. Scores further down
# are without them.
_WEIGHED = 3
# Only results this high pull their causes up.
_EFFECTS = 10
_BEHIND = 1e-6


def rank_threads(
    pool: Pool, table: dict[str, Floats], rows: Integers, scores: Floats, weights: dict[str, float]
) -> tuple[tuple[str, float], ...]:
    """Every thread that has a candidate, best first, with its score."""
    named: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        thread_id = pool.items[int(row)].thread_id
        if thread_id is not None:
            named.setdefault(thread_id, []).append(position)
    values = {
        thread_id: _score(thread_features(positions, rows, table, scores), weights)
        for thread_id, positions in named.items()
    }
    return tuple(sorted(values.items(), key=lambda pair: -pair[1]))


def thread_features(
    positions: list[int], rows: Integers, table: dict[str, Floats], scores: Floats
) -> dict[str, float]:
    """What a thread's candidates say of it."""
    own = np.sort(scores[positions])[::-1]
    first = rows[positions[0]]
    return {
        "best": float(own[0]),
        "best3": float(own[:3].mean()),
        "best5": float(own[:5].mean()),
        "cover": float(table["thread_cover"][first]),
        "gist": float(table["thread_gist"][first]),
        "bare": float(table["bare"][rows[positions]].sum()),
        "exchange": float(np.sort(table["exchange"][rows[positions]])[::-1][:3].mean()),
    }


def _score(values: dict[str, float], weights: dict[str, float]) -> float:
    return sum(weight * values[name] for name, weight in weights.items())


@dataclass(slots=True)
class Gathered:
    """What the arms brought together, before it is ordered."""

    question: Question
    pool: Pool
    sightings: dict[str, list[Sighting]]
    late: tuple[str, ...] = ()
    entities: dict[str, Named] = field(default_factory=dict[str, Named])
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    # The model whose cosines the pool holds, if any: probabilities were learned for some.
    model_id: str | None = None


def order(
    gathered: Gathered,
    query: Query,
    now: clock.Clock,
    reranker: Reranker | None = None,
    deadline: Deadline | None = None,
) -> Matches:
    """The answer: best first, each marked strong or weak, within the token budget."""
    rows = np.flatnonzero(gathered.pool.candidate)
    window = gathered.question.window
    if not len(rows):
        return Matches(
            results=(),
            late_arms=gathered.late,
            window=window,
            timings_ms=gathered.timings_ms,
            named=gathered.entities,
        )
    with timed(gathered.timings_ms, "order"):
        learned, limits = ranker.load(), preset(query.budget)
        table = features.table(gathered.question, gathered.pool)
        kinds: list[Kind] = [gathered.pool.items[int(row)].kind for row in rows]
        scores = learned.scores(table, rows, kinds)
        by_score = np.argsort(-scores, kind="stable")
        sorted_rows, sorted_scores = rows[by_score].tolist(), scores[by_score].tolist()
        best = _weighed(gathered, sorted_rows, sorted_scores, query, now())
        if reranker is not None and deadline is not None:
            with timed(gathered.timings_ms, "rerank"):
                best = _reranked(best, gathered, reranker, limits.reranked, deadline)
        ranked = [
            *_judged(best, gathered, table, now() if query.for_task else None),
            *_rest(gathered, sorted_rows[len(best) :], sorted_scores[len(best) :]),
        ]
        chosen = choose(
            place_successors(
                place_causes(ranked, asks_why=gathered.question.asks_why),
                asks_past=gathered.question.asks_past,
                asks_first=gathered.question.asks_first,
                followed_by=gathered.question.followed_by,
                language=gathered.question.language,
                until=None if window is None else window[1],
            ),
            max_results=query.max_results,
            max_tokens=query.max_tokens,
        )
        best_threads: tuple[tuple[str, float], ...] = ()
        if query.rank_threads:
            best_threads = rank_threads(gathered.pool, table, rows, scores, learned.threads)
        row_of = {item.id: row for row, item in enumerate(gathered.pool.items)}
        results = [_result(entry, gathered, row_of[entry.ranked.item.id], now()) for entry in chosen]
    return Matches(
        results=tuple(results),
        threads=best_threads,
        late_arms=gathered.late,
        window=window,
        asks_past=gathered.question.asks_past,
        timings_ms=gathered.timings_ms,
        considered=len(rows),
        named=gathered.entities,
        answerable=max((result.probability for result in results), default=0.0),
    )


def place_causes(ranked: Sequence[Ranked], *, asks_why: bool) -> list[Ranked]:
    """Place the causes of each of the best right behind it, if it was asked why.

    A cause that is ahead of its effect stays there. The two answer together: both are strong, and needed, if
    one is.
    """
    if not asks_why:
        return list(ranked)
    by_id = {entry.item.id: entry for entry in ranked}
    ordered: dict[str, Ranked] = {}
    for place, entry in enumerate(ranked):
        here = ordered.setdefault(entry.item.id, entry)
        for link in here.item.caused_by if place < _EFFECTS else ():
            cause = ordered.get(link.id) or by_id.get(link.id)
            if cause is None:
                continue
            if link.id not in ordered:
                cause = _score_as(cause, max(cause.score, here.score - _BEHIND))
            surest, needed = max(here.probability, cause.probability), max(here.need, cause.need)
            is_strong = here.strong or cause.strong
            here = replace(here, probability=surest, strong=is_strong, need=needed)
            cause = replace(cause, probability=surest, strong=is_strong, need=needed)
            ordered |= {here.item.id: here, link.id: cause}
    return list(ordered.values())


@dataclass(slots=True)
class _Entry:
    """A candidate on its way to a place."""

    row: int
    score: float
    factors: dict[str, float]
    fit: float | None = None  # the reranker's log-odds, if it read the text


def _weighed(
    gathered: Gathered, rows: list[int], scores: list[float], query: Query, now: datetime
) -> list[_Entry]:
    """The best, with the factors that decide between things that answer equally well."""
    weights = ranker.load().factors
    entries: list[_Entry] = []
    for row, score in zip(rows[: max(_WEIGHED * query.max_results, 50)], scores, strict=False):
        added = features.factors(gathered.pool.items[row], gathered.question, now, weights)
        entries.append(_Entry(row, score + sum(added.values()), added))
    return sorted(entries, key=lambda entry: -entry.score)


def _reranked(
    entries: list[_Entry], gathered: Gathered, reranker: Reranker, most: int, deadline: Deadline
) -> list[_Entry]:
    """The best few again, by how well each fits the question; what was not read keeps its score."""
    if not most or (reranker.languages and gathered.question.language not in reranker.languages):
        return entries
    weight = ranker.load().fit
    texts = [gathered.pool.items[entry.row].text for entry in entries[:most]]
    fits = reranker.fits(gathered.question.text, texts, deadline)
    read = [
        replace(
            entry, score=entry.score + weight * fit, factors={**entry.factors, "fit": weight * fit}, fit=fit
        )
        for entry, fit in zip(entries, fits, strict=False)
    ]
    # What was not read would have had a fit too: the worst that was read stands for it.
    missing = weight * min(fits, default=0.0)
    rest = [replace(entry, score=entry.score + missing) for entry in entries[len(read) :]]
    return sorted([*read, *rest], key=lambda entry: -entry.score)


def _judged(
    entries: list[_Entry], gathered: Gathered, table: dict[str, Floats], now: datetime | None
) -> list[Ranked]:
    """Each with the probability that it answers, and whether that makes it strong; need, at a task's time."""
    learned = ranker.load()
    # Of a model that nothing was learned for, cosines say how to order, not how sure to be.
    language = gathered.question.language
    by_meaning = "words"
    if learned.knows(gathered.model_id):
        is_multilingual = (gathered.model_id or "").startswith(MULTILINGUAL_MODEL)
        by_meaning = "multilingual" if is_multilingual else "meaning"
    rows = np.array([entry.row for entry in entries], np.int64)
    values = {name: column[rows] for name, column in table.items()}
    values["fit"] = np.array([entry.fit or 0.0 for entry in entries])
    values["score_gap"] = np.array([entry.score for entry in entries])
    values["score_gap"] -= values["score_gap"].max(initial=-np.inf)
    needed = _needed(entries[: ranker.CONSIDERED], gathered, values, now) if now else ()
    chances = {given: learned.strength[given].probability(values) for given in (by_meaning, "reranked")}
    ranked: list[Ranked] = []
    for at, entry in enumerate(entries):
        given = by_meaning if entry.fit is None else "reranked"
        probability = float(chances[given][at])
        ranked.append(
            Ranked(
                item=gathered.pool.items[entry.row],
                score=entry.score,
                probability=probability,
                strong=probability >= learned.strong_from(given, language),
                need=float(needed[at]) if at < len(needed) else 0.0,
                factors=entry.factors,
            )
        )
    return ranked


def _needed(entries: list[_Entry], gathered: Gathered, values: dict[str, Floats], now: datetime) -> Floats:
    """How likely a task needs each of the best."""
    items = [gathered.pool.items[entry.row] for entry in entries]
    best = {name: column[: len(entries)] for name, column in values.items()}
    use = ranker.columns(gathered.question.text, items, best, named=gathered.entities, now=now)
    return ranker.load().need.probability({**best, **use})


def _rest(gathered: Gathered, rows: list[int], scores: list[float]) -> list[Ranked]:
    """What lies too far down for anything but its score to count."""
    items = gathered.pool.items
    return [
        Ranked(item=items[row], score=score, probability=0.0) for row, score in zip(rows, scores, strict=True)
    ]


def _result(chosen: Chosen, gathered: Gathered, row: int, now: datetime) -> Match:
    ranked = chosen.ranked
    return Match(
        item=ranked.item,
        score=ranked.score,
        probability=ranked.probability,
        tokens=chosen.tokens,
        reasons=_reasons(ranked, gathered, row, now),
        also=chosen.also,
        strength="strong" if ranked.strong else "weak",
        need=ranked.need,
    )


def _reasons(ranked: Ranked, gathered: Gathered, row: int, now: datetime) -> Reasons:
    item = ranked.item
    seen = gathered.sightings.get(item.id, [])
    names = [name for name in gathered.pool.names if name == item.speaker]
    known = [named.name for named in gathered.entities.values() if not named.is_owner]
    names += [name for name in known if name and says_name(item.text, name)]
    about = gathered.entities.get(item.subject_id or "")
    about = None if about and about.is_owner else about
    names += [about.name] if about and about.name else []
    arms: dict[str, tuple[int, float]] = {}
    for sighting in seen:  # best first
        arms.setdefault(sighting.arm, (sighting.rank, sighting.score))
    return Reasons(
        arms=arms or {NEIGHBOUR_ARM: (0, 0.0)},
        matched_words=tuple(
            gathered.question.forms[term]
            for term, is_said in zip(gathered.question.terms, gathered.pool.said[row], strict=True)
            if is_said
        ),
        matched_names=tuple(dict.fromkeys(names)),
        about=about and about.name,
        neighbour_of=None if seen else _nearest_seen(row, gathered),
        age_days=features.age_days(item, now),
        stale_since=item.stale_since,
        confidence=item.confidence,
        source_type=item.source_type,
        source_event_id=item.source_event_id,
        replaces=ranked.replaces,
        precedes=ranked.precedes,
        factors=ranked.factors,
    )


def _nearest_seen(row: int, gathered: Gathered) -> str | None:
    for distance in range(1, CANDIDATE_REACH + 1):
        for other in (row - distance, row + distance):
            if (
                not 0 <= other < len(gathered.pool.items)
                or gathered.pool.stretch[other] != gathered.pool.stretch[row]
            ):
                continue
            if gathered.pool.items[other].id in gathered.sightings:
                return gathered.pool.items[other].id
    return None
