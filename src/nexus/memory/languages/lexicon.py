"""What Nexus knows about languages: `lexicons/<code>.py`, one module of data for each.

To add a language, add its module: the name of its Snowball stemmer, letters that give it away, its
function words, time words and number words in every inflection, the cues by which people ask, agree,
deny or suppose, and how it names dates.
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
from typing import Any, cast

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Lexicon:
    """The words of one language that say something about a sentence, not about the world."""

    code: str  # ISO 639-1
    stemmer: str = ""  # the name of its Snowball stemmer; empty if it has none
    letters: str = ""
    function_words: frozenset[str] = frozenset()
    time_words: frozenset[str] = frozenset()
    number_words: frozenset[str] = frozenset()
    cues: Mapping[str, str] = field(default_factory=dict[str, str])  # patterns
    dates: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how statements name dates
    calendar: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how questions name times

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
