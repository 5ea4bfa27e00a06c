"""Stems: "Häuser" and "Haus" are one word, by the rules of their language."""

import re
import threading
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import Stemmer

from nexus.memory.languages.lexicon import lexicon

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
