"""What kind of answer a question asks for, by the words with which its language asks.

The patterns are in `lexicon/<code>.toml` under `cues`. Of a language without them nothing is told.
"""

import re
from functools import cache, lru_cache

from nexus.memory.languages.lexicon import lexicon, lexicons


def asks_when(text: str, language: str) -> bool:
    """Whether the answer is a time."""
    return _says("when", text, language)


def asks_count(text: str, language: str) -> bool:
    """Whether the answer is a number."""
    return _says("count", text, language)


def asks_why(text: str, language: str) -> bool:
    """Whether the answer is a reason or a cause."""
    return _says("why", text, language)


@lru_cache(maxsize=4096)
def gives_reason(text: str) -> bool:
    """Whether a text of any of the languages says why something is so."""
    return any(_says("reason", text, language) for language in lexicons())


@lru_cache(maxsize=4096)
def constrains(text: str) -> bool:
    """Whether a text says what somebody must, must not, cannot or likes to have."""
    return any(_says("constraint", text, language) for language in lexicons())


def asks_past(text: str, language: str) -> bool:
    """Whether it asks how things were before they changed: "where did Clara live before?"."""
    return _says("past", text, language) and not _says("present", text, language)


def asks_present(text: str, language: str) -> bool:
    """Whether it asks expressly how things are now, or how they turned out in the end."""
    return _says("present", text, language)


def asks_survey(text: str, language: str) -> bool:
    """Whether it asks for an overview of many things instead of one."""
    return _says("survey", text, language)


def first_person(text: str, language: str) -> bool:
    """Whether the person who asks is part of the question."""
    return _says("first_person", text, language)


def _says(cue: str, text: str, language: str) -> bool:
    pattern = _pattern(cue, language)
    return pattern is not None and pattern.search(text) is not None


@cache
def _pattern(cue: str, language: str) -> re.Pattern[str] | None:
    alternatives = lexicon(language).cues.get(cue)
    return re.compile("|".join(alternatives), re.IGNORECASE) if alternatives else None
