"""What Nexus knows about languages: `lexicons/<code>.py`, one module of data for each.

To add a language, add its module: the name of its Snowball stemmer, letters that give it away, its
function words, time words and number words in every inflection, the cues by which people ask, agree,
deny or suppose, how it names dates and people, and the words that tell topics and changes.
"""

import pkgutil
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import cast

import Stemmer

_local = threading.local()
# The Portuguese stemmer keeps these plurals apart from their singulars.
_PORTUGUESE_PLURAL = re.compile(r"(?<=\w\w)[õã]es$")


@lru_cache(maxsize=1 << 16)
def stem(word: str, language: str) -> str:
    """The stem of a lower-case word, without accents: people leave them out."""
    algorithm = lexicon(language).stemmer
    if language == "pt":
        word = _PORTUGUESE_PLURAL.sub("ão", word)
    return fold(_stemmer(algorithm)(word) if algorithm else word)


def fold(word: str) -> str:
    """The word without accents, as the full-text index keeps it."""
    if word.isascii():
        return word
    return "".join(
        letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter)
    )


def _stemmer(algorithm: str) -> Callable[[str], str]:
    # A stemmer may be used by one thread at a time.
    stemmers: dict[str, Callable[[str], str]] | None = getattr(_local, "stemmers", None)
    if stemmers is None:
        stemmers = _local.stemmers = {}
    if algorithm not in stemmers:
        made = Stemmer.Stemmer(algorithm)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - untyped
        stemmers[algorithm] = cast("Callable[[str], str]", made.stemWord)  # pyright: ignore[reportUnknownMemberType]
    return stemmers[algorithm]


def words(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


def names(text: str) -> tuple[str, ...]:
    """The words or patterns of a list, in order."""
    return tuple(text.split())


def counts(text: str) -> dict[str, int]:
    """Words with their numbers: `a 1, couple of 2`."""
    pairs = (part.split() for part in text.split(","))
    return {" ".join(said): int(number) for *said, number in pairs}


def phrases(text: str) -> tuple[str, ...]:
    """The phrases of a list with commas."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


def unions(**verbs: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each phrase that makes a pair, as its words, with the relation."""
    return tuple(
        (relation, tuple(phrase.split())) for relation, said in verbs.items() for phrase in said.split("|")
    )


def roles(text: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The words for people by relation, of a man, a woman and anybody: `child: son|sons / daughter / kid`.

    A line that begins with a bar continues the one before.
    """
    pairs = (line.split(":", 1) for line in text.strip().replace("\n|", "|").splitlines())
    return {
        relation: tuple(tuple(filter(None, part.strip().split("|"))) for part in said.split("/"))
        for relation, said in pairs
    }


Forms = tuple[tuple[tuple[str, str], ...], ...]
"""How times are written, by stages: where one stage finds any, the later ones aren't looked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Periods:
    """How a language names times in questions. All but the rough numbers are patterns."""

    seasons: tuple[str, ...]  # from spring on
    quarters: tuple[str, ...]
    about: str = ""  # before a number that is not exact
    rough: Mapping[str, int]  # numbers of what nobody counted: a few days ago
    this: str
    within: str = ""  # in, since, until
    of: str = ""
    joins: str = ""  # what stands between the months of a range
    has_bare_years: bool = False
    forms: Forms = ()  # its own, instead of those of most languages


@dataclass(frozen=True, kw_only=True, slots=True)
class Calendar:
    """How a language names dates. Months, weekdays and units are patterns; the full name comes first."""

    months: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()  # from Monday on
    units: Mapping[str, str] = field(default_factory=dict[str, str])
    days: Mapping[str, int] = field(default_factory=dict[str, int])  # yesterday is -1
    cardinals: tuple[str, ...] = ()
    ordinals: tuple[str, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])  # other words for numbers
    halves: Mapping[str, int] = field(default_factory=dict[str, int])  # of a unit: half a year is 1
    and_half: str = ""  # behind a unit: a year and a half
    next: str = ""
    coming: str = ""  # like next, but also of tomorrow
    last: str = ""
    ahead: tuple[str, ...] = ()  # in {count} {unit}
    ago: tuple[str, ...] = ()
    bare_day: str = ""  # a day of the month, without the month
    doubtful_months: Mapping[str, str] = field(default_factory=dict[str, str])  # with how they stand alone
    past: str = ""  # verbs of a statement that tells what was
    habit: str = ""  # what is said before a weekday that returns
    is_spaced: bool = True
    periods: Periods | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class People:
    """The words that say who belongs to whom, and what one person is to another, by relation."""

    common: frozenset[str]
    first: frozenset[str]  # I, me, my, we
    possessive: frozenset[str]  # my, our
    third: frozenset[str]  # his, her
    of: frozenset[str]
    copula: frozenset[str]  # is, was, called, as
    conjunction: frozenset[str]
    unions: tuple[tuple[str, tuple[str, ...]], ...]  # relations with the verbs that make them: married to
    definite: frozenset[str]  # the
    neutral: frozenset[str]  # articles and titles
    # Of a man, of a woman and of anybody.
    roles: Mapping[str, tuple[tuple[str, ...], ...]] = field(
        default_factory=dict[str, "tuple[tuple[str, ...], ...]"]
    )
    needs_holder: frozenset[str] = frozenset()  # mean something else as well, without "my" or "Nora's"
    needs_language: frozenset[str] = frozenset()  # ordinary words or names in another language
    called: frozenset[str] = frozenset()  # what children call their own: "Ask Grandma"


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic:
    """A kind of work, by the beginnings of words: of a task, and of a fact that matters for it."""

    task: frozenset[str]
    fact: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Lexicon:
    """The words of one language that say something about a sentence, not about the world."""

    code: str  # ISO 639-1
    stemmer: str = ""  # the name of its Snowball stemmer; empty if it has none
    letters: str = ""
    function_words: frozenset[str] = frozenset()
    time_words: frozenset[str] = frozenset()
    number_words: frozenset[str] = frozenset()
    name_verbs: frozenset[str] = frozenset()  # behind one, the first word of a sentence is a name
    noun_articles: frozenset[str] = frozenset()  # behind one, a word with a capital is a noun
    titles: frozenset[str] = frozenset()
    nobody: frozenset[str] = frozenset()  # written with a capital without naming anybody
    cues: Mapping[str, str] = field(default_factory=dict[str, str])  # patterns
    calendar: Calendar = field(default_factory=Calendar)
    people: People | None = None
    topics: Mapping[str, Topic] = field(default_factory=dict[str, Topic])
    # What speaks for one fact replacing another. These words have no accents.
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    fillers: frozenset[str] = frozenset()
    promises: Mapping[str, str] = field(default_factory=dict[str, str])  # patterns, see roles/follow_ups

    @property
    def is_full(self) -> bool:
        """Whether it says how people agree, deny, suppose and joke in this language."""
        return "negation" in self.cues


# Languages recognized by their script alone.
_BY_SCRIPT = {
    "ar": "arabic",
    "el": "greek",
    "fa": "persian",
    "he": "",
    "hi": "hindi",
    "hy": "armenian",
    "ja": "",
    "ko": "",
    "ta": "tamil",
    "th": "",
    "uk": "",
    "zh": "",
}


@cache
def lexicons() -> Mapping[str, Lexicon]:
    """Every language that can be detected, by its code."""
    found = {code: Lexicon(code=code, stemmer=stemmer) for code, stemmer in _BY_SCRIPT.items()}
    package = import_module("nexus.memory.languages.lexicons")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        known = cast("Lexicon", import_module(module.name).LEXICON)
        found[known.code] = known
    return MappingProxyType(found)


def lexicon(code: str) -> Lexicon:
    """The lexicon of a language; an empty one if Nexus doesn't know the language."""
    return lexicons().get(code) or Lexicon(code=code)
