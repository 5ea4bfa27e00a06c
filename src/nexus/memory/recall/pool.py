"""The candidates side by side, as numbers: how often each says each word of the question, and around whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nexus.memory.recall.item import Item, Named
from nexus.memory.recall.loading import Stretch
from nexus.memory.recall.question import Question
from nexus.memory.recall.words import ROLE_WORDS, function_words, names_time_or_number, split_words, tokens

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Rows are items; rows of one stretch lie together and in order."""

    items: list[Item]
    candidate: Flags
    stretch: Whole
    thread: Whole
    counts: Floats  # rows by terms: how often the text says the word
    spoken_by: Floats  # rows by terms: whether the speaker's name holds the word
    lengths: Floats
    pairs: Floats  # how many of the question's word pairs the text holds
    says_time: Flags  # of candidates only, as what else only they need
    says_number: Flags
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


def build(
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
    says: list[tuple[bool, bool]] = []
    candidate = [flag for stretch in stretches for flag in stretch.candidate]
    for row, (item, may_answer) in enumerate(zip(items, candidate, strict=True)):
        text = split_words(item.text, question.language)
        lengths.append(len(text.order))
        for term in terms & text.distinct:
            counts[row, column[term]] = text.order.count(term)
        # Whatever it is called in the text, what is about a named entity speaks of it.
        about = named.get(item.subject_id or "")
        for word in about.words if about and not about.is_owner else ():
            if word in column:
                counts[row, column[word]] = max(1.0, counts[row, column[word]])
        pairs.append(text.count_pairs(question.pairs))
        says.append(names_time_or_number(item.text, question.language) if may_answer else (False, False))
    says_time, says_number = np.array(says, bool).reshape(-1, 2).T
    names, spoken_by, by_named = _speakers(items, column, question.language)
    others = {id_: meant for id_, meant in named.items() if not meant.is_owner}
    by_named |= np.array([item.subject_id in others for item in items], bool)
    return Pool(
        items=items,
        candidate=np.array(candidate, bool),
        stretch=np.repeat(np.arange(len(stretches)), np.array([len(s.items) for s in stretches], np.int64)),
        thread=_threads(items),
        counts=counts,
        spoken_by=spoken_by,
        lengths=np.array(lengths, float),
        pairs=np.array(pairs, float),
        says_time=says_time,
        says_number=says_number,
        cosine=np.array([cosine_of.get(item.id, (0.0, 0.0))[0] for item in items]),
        gist=np.array([cosine_of.get(item.id, (0.0, 0.0))[1] for item in items]),
        idf=np.array([idf.get(term, 0.0) for term in question.terms]),
        names=names,
        name_term=_name_terms(names, column, question.language),
        by_named=by_named,
        about_name=_about(items, {id_ for id_, meant in others.items() if not meant.by_role}),
        about_role=_about(items, {id_ for id_, meant in others.items() if meant.by_role}),
        about_owner=_about(items, {id_ for id_, meant in named.items() if meant.is_owner}),
        means_somebody=bool(others) or bool(names),
    )


def _about(items: list[Item], entity_ids: set[str]) -> Flags:
    if not entity_ids:
        return np.zeros(len(items), bool)
    return np.array([not entity_ids.isdisjoint(item.entity_ids) for item in items], bool)


def _speakers(
    items: list[Item], column: dict[str, int], language: str
) -> tuple[tuple[str, ...], Floats, Flags]:
    parts = {
        speaker: [word for word in tokens(speaker, language) if word not in function_words(language)]
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


def _threads(items: list[Item]) -> Whole:
    """A number for each thread; what has none is a thread of its own."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(item.thread_id or item.id, len(numbers)) for item in items], np.int64)
