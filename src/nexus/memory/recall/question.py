"""A question understood: its words, the kind of answer it wants, the time it means."""

import itertools
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from weakref import WeakKeyDictionary

import apsw

from nexus.ledgers import Ledgers
from nexus.memory.languages import DEFAULT, cues, detect, mixture
from nexus.memory.recall import dates
from nexus.memory.recall.reading import SQL
from nexus.memory.recall.words import forms, function_words, tokens

_READ_TEXTS = 100
# A home that holds less has yet to settle on a language: look again each time.
_SETTLED_TEXTS = 20
_KEPT_S = 600.0
_UNKNOWN = ""

_known: WeakKeyDictionary[Ledgers, tuple[float, str]] = WeakKeyDictionary()
_LONGEST_QUESTION = 2_000
_MOST_TERMS = 48


def find_home_language(connection: apsw.Connection, ledgers: Ledgers) -> str:
    """Find the home's language, looked up every ten minutes; English while there is nothing to tell by."""
    until, language = _known.get(ledgers, (0.0, DEFAULT))
    if time.monotonic() < until:
        return language
    found = Counter[str]()
    for statement in ("newest_fact_texts", "newest_event_texts"):
        found += votes(str(row[0]) for row in connection.execute(SQL[statement], (_READ_TEXTS,)))
    language = found.most_common(1)[0][0] if found else DEFAULT
    if found.total() >= _SETTLED_TEXTS:
        _known[ledgers] = time.monotonic() + _KEPT_S, language
    return language


def votes(texts: Iterable[str]) -> Counter[str]:
    """How many of the texts are in each language; those that don't tell aren't counted."""
    found = Counter(detect(text, _UNKNOWN) for text in texts)
    del found[_UNKNOWN]
    return found


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
    asks_first: bool  # and how they were in the very beginning
    followed_by: frozenset[str]  # the stemmed words of what came after it: "… before the ferry"
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
        asks_first=cues.asks_first(text, language),
        followed_by=frozenset(tokens(cues.what_followed(text, language), language)) - empty,
        asks_survey=cues.asks_survey(text, language),
        first_person=cues.first_person(text, language),
        window=dates.window(text, now, language),
    )
