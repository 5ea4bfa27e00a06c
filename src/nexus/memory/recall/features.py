"""The features of a candidate, each a named number: words, meaning, neighbors, people, time and age."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from heapq import nlargest
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nexus import clock
from nexus.memory.languages import cues
from nexus.memory.recall.item import Item, Named, Stretch
from nexus.memory.recall.question import Question
from nexus.memory.recall.words import (
    ROLE_WORDS,
    function_words,
    may_hold_digit,
    names_time_or_number,
    split_words,
    tokens,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Rows are items; rows of one stretch lie together and in order."""

    items: list[Item]
    candidate: Flags
    stretch: Integers
    thread: Integers
    said: Flags  # rows by terms: whether the text says the word
    counts: Floats  # how often it does; the words that name an entity count in whatever is about it
    spoken_by: Floats  # rows by terms: whether the speaker's name holds the word
    lengths: Floats
    pairs: Floats  # how many of the question's word pairs the text holds
    says_time: Flags  # of candidates only, as what else only they need
    says_number: Flags
    constrains: Flags
    reaches: Flags
    cosine: Floats  # of the question
    gist: Floats  # of its content words alone
    idf: Floats
    names: tuple[str, ...]  # speakers whom the question names
    name_term: Flags  # which terms are such a name
    by_named: Flags  # said by or about somebody whom the question names
    about_name: Flags  # about somebody or something that the question names
    about_role: Flags  # about somebody whom it means by a role: my husband
    about_owner: Flags
    means_somebody: bool  # whether it names or means anybody but the owner


def build_pool(
    question: Question,
    stretches: Sequence[Stretch],
    cosine_of: Mapping[str, tuple[float, float]],
    idf: Mapping[str, float],
    named: Mapping[str, Named] = MappingProxyType({}),
) -> Pool:
    """Count what the features need, once."""
    items = [item for stretch in stretches for item in stretch.items]
    column = {term: j for j, term in enumerate(question.terms)}
    counts = np.zeros((len(items), len(column)))
    terms = frozenset(column)
    lengths: list[int] = []
    pairs: list[int] = []
    says: list[tuple[bool, bool, bool, bool]] = []
    candidate = [flag for stretch in stretches for flag in stretch.candidate]
    for row, (item, may_answer) in enumerate(zip(items, candidate, strict=True)):
        text = split_words(item.text, question.language)
        lengths.append(len(text.order))
        for term in terms & text.distinct:
            counts[row, column[term]] = text.order.count(term)
        pairs.append(text.count_pairs(question.pairs))
        says.append(_judge_text(item.text, question.language) if may_answer else _NEIGHBOR)
    said = counts > 0
    # Whatever it is called in the text, what is about a named entity speaks of it.
    columns_of = {
        id_: [column[word] for word in about.words if word in column]
        for id_, about in named.items()
        if not about.is_owner
    }
    for row, item in enumerate(items if columns_of else ()):
        for place in columns_of.get(item.subject_id or "", ()):
            counts[row, place] = max(1.0, counts[row, place])
    says_time, says_number, constrains, reaches = np.array(says, bool).reshape(-1, 4).T
    names, spoken_by, by_named = _speakers(items, column, question.language)
    others = {id_: meant for id_, meant in named.items() if not meant.is_owner}
    if others:
        by_named |= np.array([item.subject_id in others for item in items], bool)
    nothing = (0.0, 0.0)
    cosine, gist = np.array([cosine_of.get(item.id, nothing) for item in items]).reshape(-1, 2).T.copy()
    return Pool(
        items=items,
        candidate=np.array(candidate, bool),
        stretch=np.repeat(np.arange(len(stretches)), np.array([len(s.items) for s in stretches], np.int64)),
        thread=_threads(items),
        said=said,
        counts=counts,
        spoken_by=spoken_by,
        lengths=np.array(lengths, float),
        pairs=np.array(pairs, float),
        says_time=says_time,
        says_number=says_number,
        constrains=constrains,
        reaches=reaches,
        cosine=cosine,
        gist=gist,
        idf=np.array([idf.get(term, 0.0) for term in question.terms]),
        names=names,
        name_term=_name_terms(names, column, question.language),
        by_named=by_named,
        about_name=_about(items, {id_ for id_, meant in others.items() if not meant.by_role}),
        about_role=_about(items, {id_ for id_, meant in others.items() if meant.by_role}),
        about_owner=_about(items, {id_ for id_, meant in named.items() if meant.is_owner}),
        means_somebody=bool(others) or bool(names),
    )


# Neighbors that only lend their words aren't judged.
_NEIGHBOR: Final = (False, False, False, False)


@lru_cache(maxsize=16384)
def _judge_text(text: str, language: str) -> tuple[bool, bool, bool, bool]:
    """Tell whether a text names a time, a number, a constraint, and a way to reach somebody."""
    return (*names_time_or_number(text, language), cues.constrains(text), _names_contact(text))


def _about(items: list[Item], entity_ids: set[str]) -> Flags:
    if not entity_ids:
        return np.zeros(len(items), bool)
    return np.array([not entity_ids.isdisjoint(item.entity_ids) for item in items], bool)


def _speakers(
    items: list[Item], column: dict[str, int], language: str
) -> tuple[tuple[str, ...], Floats, Flags]:
    empty = function_words(language)
    parts = {
        speaker: [word for word in split_words(speaker, language).order if word not in empty]
        for speaker in {item.speaker for item in items if item.speaker}
    }
    names = tuple(
        sorted(s for s, words in parts.items() if words and words[0] in column and words[0] not in ROLE_WORDS)
    )
    spoken_by = np.zeros((len(items), len(column)))
    for row, item in enumerate(items):
        for word in parts.get(item.speaker or "", ()):
            if word in column:
                spoken_by[row, column[word]] = 1
    return names, spoken_by, np.array([item.speaker in names for item in items], bool)


def _name_terms(names: tuple[str, ...], column: dict[str, int], language: str) -> Flags:
    flags = np.zeros(len(column), bool)
    for name in names:
        for word in tokens(name, language):
            if word in column:
                flags[column[word]] = True
    return flags


def _threads(items: list[Item]) -> Integers:
    """A number for each thread; what has none is a thread of its own."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(item.thread_id or item.id, len(numbers)) for item in items], np.int64)


# After so long a thing's newness has halved.
_HALF_LIFE_DAYS: Final = 90.0
# How far a fact is believed by the way it was learned. What was said is itself; it needs no belief.
_TRUST: Final = {"self_disclosed": 1.0, "observed": 0.9, "mentioned": 0.8, "inferred": 0.5}
# People speak of a thing for some days after it happened.
_SPOKEN_OF_DAYS = 14.0
# An e-mail address, a phone number or a web address.
_CONTACT = re.compile(r"\S@[^\s@]+\.\w|\bhttps?://|\+?\d[\d ()/-]{6,}\d")
# An entity that more than this share of candidates are about does not distinguish them.
_HUB = 0.3


def factors(item: Item, question: Question, now: datetime, weights: dict[str, float]) -> dict[str, float]:
    """What each factor adds to the item's score.

    Asked about the past, what is new counts less, and so does what names that which came later: "before the
    ferry". This finds what was replaced also where no link says so.
    """
    recency = 0.5 ** (age_days(item, now) / _HALF_LIFE_DAYS)
    came_after = 0.0
    if question.asks_past and question.followed_by:
        said = split_words(item.text, question.language).distinct
        came_after = float(2 * len(question.followed_by & said) > len(question.followed_by))
    values = {
        "recency": recency,
        "too_new": recency * float(question.asks_past),
        "came_after": came_after,
        "stale": float(item.stale_since is not None),
        "unsure": 1.0 - item.confidence,
        "distrust": 1.0 - _TRUST.get(item.source_type or "self_disclosed", 0.8),
    }
    return {name: weight * values[name] for name, weight in weights.items()}


def age_days(item: Item, now: datetime) -> float:
    """How old a thing is; what lies in the future is new."""
    return max(0.0, (now - clock.parse(item.at)).total_seconds() / 86_400)


def table(question: Question, pool: Pool) -> dict[str, Floats]:
    """Compute every feature by name; features that neighbors don't need are computed for candidates only."""
    near = _Neighbors(pool.stretch)
    words = _words(pool, near)
    meaning = _meaning(pool)
    return {
        **words,
        **meaning,
        **_neighbors(near, words, meaning),
        **_together(pool, words, meaning),
        **_speaker(pool, near),
        **_people(pool, meaning),
        **_kind(pool),
        **_shape(pool, near),
        # What a text is good for when something is to be done.
        "constrains": pool.constrains.astype(float),
        "reaches": pool.reaches.astype(float),
        **_wanted(question, pool, words),
        **_time(question, pool),
    }


def _words(pool: Pool, near: "_Neighbors") -> dict[str, Floats]:
    plain = ~pool.name_term if not pool.name_term.all() else np.ones_like(pool.name_term)
    counts, idf = pool.counts[:, plain], pool.idf[plain]
    total, total_plain = float(pool.idf.sum()) or 1.0, float(idf.sum()) or 1.0
    said = pool.counts + pool.spoken_by
    whole = _bm25(said, pool.lengths + 1, pool.idf, 1.2, 0.75)
    bare = _bm25(counts, pool.lengths, idf, 0.9, 0.4)
    held = (counts > 0) * idf
    result = {
        "word": _of_best(whole),
        "word_rel": whole / total,
        "bare": _of_best(bare),
        "bare_rel": bare / total_plain,
        "cover": held.sum(axis=1) / total_plain,
        "rarest": held.max(axis=1, initial=0.0) / 8,
        "matched": (counts > 0).sum(axis=1).astype(float),
        "pairs": pool.pairs,
        "pairs_best": _of_best(pool.pairs),
    }
    own = np.column_stack([said, pool.lengths + 1])
    at = {offset: near.shift(own, offset) for offset in range(-5, 6)}
    # How much each neighbor's words count: the turn with its neighbors, the exchange, the topic.
    turn = 0.5 * at[-1] + own + 0.5 * at[1]
    exchange = 0.5 * at[-2] + at[-1] + own + at[1] + 0.5 * at[2]
    for name, window in (
        ("turn", turn),
        ("exchange", exchange),
        ("topic", sum(at.values(), np.zeros_like(own))),
    ):
        counted, length = np.ascontiguousarray(window[:, :-1]), window[:, -1]
        score = _bm25(counted, length, pool.idf, 1.2, 0.75)
        result[name] = _of_best(score)
        result[f"{name}_rel"] = score / total
        result[f"{name}_cover"] = ((counted[:, plain] > 0) * idf).sum(axis=1) / total_plain
    return result


def _meaning(pool: Pool) -> dict[str, Floats]:
    return {
        "cosine": pool.cosine,
        "cosine_best": _above_mean(pool.cosine),
        "cosine_gap": _behind(pool.cosine, pool.candidate),
        "gist": pool.gist,
        "gist_best": _above_mean(pool.gist),
        "gist_gap": _behind(pool.gist, pool.candidate),
    }


def _neighbors(near: "_Neighbors", words: dict[str, Floats], meaning: dict[str, Floats]) -> dict[str, Floats]:
    values = {"bare": words["bare"], "gist": meaning["gist"], "cover": words["cover"]}
    own = np.column_stack(list(values.values()))
    result: dict[str, Floats] = {}
    for offset in (-2, -1, 1, 2):
        side = "before" if offset < 0 else "after"
        columns = near.shift(own, offset).T
        result |= {
            f"{name}_{side}{abs(offset)}": column for name, column in zip(values, columns, strict=True)
        }
    return result


def _together(pool: Pool, words: dict[str, Floats], meaning: dict[str, Floats]) -> dict[str, Floats]:
    guess = words["word"] + meaning["gist_best"] + 0.5 * words["turn"]
    rank = np.argsort(np.argsort(-guess, kind="stable"), kind="stable")
    return {
        "guess_gap": guess.max() - guess,
        "guess_rank": np.minimum(rank, 200) / 50.0,
        "thread_bare": _thread_best(words["bare"], pool.thread),
        "thread_gist": _thread_best(meaning["gist_best"], pool.thread),
        "thread_cover": _thread_cover(pool),
    }


def _speaker(pool: Pool, near: "_Neighbors") -> dict[str, Floats]:
    named = pool.by_named.astype(float)
    return {
        "named": named,
        "not_named": (1 - named) * bool(pool.names),
        "named_before": near.shift(named, -1),
        "names": np.full(len(named), float(len(pool.names))),
        "outbound": np.array([float(item.outbound) for item in pool.items]),
    }


def _people(pool: Pool, meaning: dict[str, Floats]) -> dict[str, Floats]:
    """Whether it is about whom the question means, by name or by role, and what else is known of them."""
    by_name, by_role = pool.about_name.astype(float), pool.about_role.astype(float)
    return {
        "about_name": by_name,
        "about_role": by_role,
        "about_other": (1 - np.maximum(by_name, by_role)) * float(pool.means_somebody),
        "about_owner": pool.about_owner.astype(float),
        "of_same_subject": _best_of_same_subject(pool, meaning["cosine"]),
    }


def _best_of_same_subject(pool: Pool, values: Floats) -> Floats:
    """The best value among the other rows about the same people and things, as far above the mean.

    "What do I owe the bus driver?" is nearest to who the bus driver is; what is owed is another fact of his.
    An entity that most rows are about, above all the owner, does not distinguish them.
    """
    rows_of: dict[str, list[int]] = {}
    candidate = pool.candidate.tolist()
    for row, item in enumerate(pool.items):
        for entity_id in item.entity_ids if candidate[row] else ():
            rows_of.setdefault(entity_id, []).append(row)
    known = values[pool.candidate]
    mean, most = float(known.mean()) if len(known) else 0.0, max(3.0, _HUB * float(pool.candidate.sum()))
    cosines, result = values.tolist(), [0.0] * len(pool.items)
    for rows in rows_of.values():
        if not 1 < len(rows) <= most:
            continue
        best, second = nlargest(2, rows, key=cosines.__getitem__)
        for row in rows:
            other = second if row == best else best
            result[row] = max(result[row], cosines[other] - mean)
    return np.array(result)


def _kind(pool: Pool) -> dict[str, Floats]:
    kinds = np.array([_KINDS.get(item.kind, _CONCLUSION) for item in pool.items])
    return {
        "is_fact": (kinds == _KINDS["fact"]).astype(float),
        "is_event": (kinds == _KINDS["event"]).astype(float),
        "is_entity": (kinds == _KINDS["entity"]).astype(float),
        "is_conclusion": (kinds == _CONCLUSION).astype(float),
    }


_KINDS: Final[Mapping[str, int]] = {"fact": 0, "event": 1, "entity": 2}
_CONCLUSION: Final = 3


def _shape(pool: Pool, near: "_Neighbors") -> dict[str, Floats]:
    texts = [item.text[:4000] for item in pool.items]
    asks = np.array([float(text.rstrip().endswith("?") or "? " in text) for text in texts])
    return {
        "length": np.log1p(pool.lengths),
        "asks": asks,
        "after_question": near.shift(asks, -1),
        "has_time": pool.says_time.astype(float),
        "has_number": pool.says_number.astype(float),
    }


def _names_contact(text: str) -> bool:
    if "@" not in text and "://" not in text and not may_hold_digit(text):
        return False  # as most don't: the pattern takes ten times as long to say so
    return _CONTACT.search(text) is not None


def _wanted(question: Question, pool: Pool, words: dict[str, Floats]) -> dict[str, Floats]:
    rows = len(pool.items)
    return {
        "q_when": np.full(rows, float(question.asks_when)),
        "q_count": np.full(rows, float(question.asks_count)),
        "q_survey": np.full(rows, float(question.asks_survey)),
        "q_first_person": np.full(rows, float(question.first_person)),
        "q_terms": np.full(rows, float(len(question.terms))),
        "q_best_match": np.full(rows, float(words["bare_rel"].max(initial=0.0))),
        "time_wanted": pool.says_time.astype(float) * float(question.asks_when),
        "number_wanted": pool.says_number.astype(float) * float(question.asks_count),
        "time_missing": (~pool.says_time).astype(float) * float(question.asks_when),
        "number_missing": (~pool.says_number).astype(float) * float(question.asks_count),
        "cause_wanted": _judge_candidates(pool, lambda item: cues.gives_reason(item.text))
        if question.asks_why
        else np.zeros(rows),
    }


def _judge_candidates(pool: Pool, judge: Callable[[Item], float]) -> Floats:
    """Judge the candidates; neighbors that only lend their words are not worth the time."""
    result = np.zeros(len(pool.items))
    for row in np.flatnonzero(pool.candidate).tolist():
        result[row] = judge(pool.items[row])
    return result


def _time(question: Question, pool: Pool) -> dict[str, Floats]:
    rows = len(pool.items)
    window = question.window
    if window is None:
        return {"in_window": np.zeros(rows), "has_window": np.zeros(rows)}
    closeness = _judge_candidates(pool, lambda item: _closeness(item.at, window))
    return {"in_window": closeness, "has_window": np.ones(rows)}


def _closeness(at: str, window: tuple[datetime, datetime]) -> float:
    """1 inside the window, falling over the days after it (and faster before it)."""
    moment, (start, end) = clock.parse(at), window
    if start <= moment < end:
        return 1.0
    late = (moment - end).total_seconds() / 86_400
    if late >= 0:
        return max(0.0, 0.9 - late / _SPOKEN_OF_DAYS)
    return max(0.0, 0.4 - (start - moment).total_seconds() / 86_400 / 7)


def _bm25(counts: Floats, lengths: Floats, idf: Floats, k1: float, b: float) -> Floats:
    mean = float(lengths.mean()) or 1.0
    norm = k1 * (1 - b + b * lengths / mean)
    return (counts * (k1 + 1) / (counts + norm[:, None] + 1e-9)) @ idf


class _Neighbors:
    """What was said before and after each row, in the same stretch."""

    def __init__(self, stretch: Integers) -> None:
        self._stretch = stretch
        # Facts, and what was concluded from them, stand alone.
        self._alone = len(stretch) == 0 or stretch[-1] == len(stretch) - 1
        self._masks: dict[int, Floats] = {}

    def shift(self, values: Floats, offset: int) -> Floats:
        """Each row's neighbor at the offset; nothing past the ends of its stretch."""
        if offset == 0:
            return values
        result = np.zeros_like(values)
        rows = len(values)
        if abs(offset) >= rows or self._alone:
            return result
        here, there = (slice(0, rows - offset), slice(offset, rows))
        if offset < 0:
            here, there = (slice(-offset, rows), slice(0, rows + offset))
        same = self._masks.get(offset)
        if same is None:
            same = self._masks[offset] = (self._stretch[here] == self._stretch[there]).astype(float)
        np.multiply(values[there], same if values.ndim == 1 else same[:, None], out=result[here])
        return result


def _thread_best(values: Floats, thread: Integers) -> Floats:
    best = np.full(int(thread.max()) + 1, -np.inf)
    np.maximum.at(best, thread, values)
    return best[thread]


def _thread_cover(pool: Pool) -> Floats:
    held = np.zeros((int(pool.thread.max()) + 1, pool.counts.shape[1]))
    np.maximum.at(held, pool.thread, (pool.counts + pool.spoken_by > 0).astype(float))
    return (held @ pool.idf / (float(pool.idf.sum()) or 1.0))[pool.thread]


def _of_best(values: Floats) -> Floats:
    best = float(values.max(initial=0.0))
    return values / best if best > 0 else values


def _behind(values: Floats, candidate: Flags) -> Floats:
    """How far each lies behind the best candidate."""
    return values - float(values[candidate].max(initial=0.0)) if candidate.any() else values


def _above_mean(values: Floats) -> Floats:
    mean, best = float(values.mean()), float(values.max())
    return (values - mean) / (best - mean + 1e-6)
