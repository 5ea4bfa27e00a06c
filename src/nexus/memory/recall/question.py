"""A question understood: its words, the kind of answer it wants, the time it means."""

import itertools
from dataclasses import dataclass
from datetime import datetime

from nexus.memory.languages import DEFAULT, cues, mixture
from nexus.memory.recall import dates
from nexus.memory.recall.words import forms, function_words, tokens

_LONGEST_QUESTION = 2_000
_MOST_TERMS = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What was asked, as the arms and the features use it."""

    text: str
    language: str  # what it is asked in: all texts are stemmed by its rules
    terms: tuple[str, ...]  # the distinct stemmed words that carry content
    forms: dict[str, str]  # each of them as it was written
    pairs: tuple[tuple[str, str], ...]  # neighbouring words, not both of them function words
    asks_when: bool
    asks_count: bool
    asks_why: bool
    asks_past: bool  # how things were before they changed
    asks_survey: bool
    first_person: bool
    window: tuple[datetime, datetime] | None


def gist(question: Question, names: frozenset[str]) -> str:
    """The question's content words without whom it is about: nearer to an answer than the question is."""
    kept = [form for term, form in question.forms.items() if term not in names]
    return " ".join(kept) or question.text


def understand(text: str, now: datetime, prior: str = DEFAULT) -> Question:
    """Read a question. Any text is one; one without content words keeps those that it has.

    `prior` is the language that is assumed if the text doesn't tell: the home's.
    """
    text = text[:_LONGEST_QUESTION]
    language, *others = mixture(text, prior)
    words = tokens(text, language)
    empty = function_words(language, *others)
    content = [word for word in dict.fromkeys(words) if word not in empty]
    pairs = [
        pair
        for pair in dict.fromkeys(itertools.pairwise(words))
        if not (pair[0] in empty and pair[1] in empty)
    ]
    terms = tuple((content or list(dict.fromkeys(words)))[:_MOST_TERMS])
    written = forms(text, language)
    return Question(
        text=text,
        language=language,
        terms=terms,
        forms={term: written[term] for term in terms},
        pairs=tuple(pairs[:_MOST_TERMS]),
        asks_when=cues.asks_when(text, language),
        asks_count=cues.asks_count(text, language),
        asks_why=cues.asks_why(text, language),
        asks_past=cues.asks_past(text, language),
        asks_survey=cues.asks_survey(text, language),
        first_person=cues.first_person(text, language),
        window=dates.window(text, now, language),
    )
