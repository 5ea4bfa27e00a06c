"""What kind of work a task is, and for what kind of work a fact matters, by the words that they use.

The words are the topics of `lexicons/<code>.py`, as beginnings of words; all languages count together.
"""

import re
from functools import cache, lru_cache
from typing import Literal

from nexus.memory.languages.lexicon import lexicons

_LONGEST_WHOLE = 4
_NONE: frozenset[str] = frozenset()
_WORD = re.compile(r"[^\W\d_][\w'-]*|[£€$]")


@lru_cache(maxsize=4096)
def of_task(text: str) -> frozenset[str]:
    """The kinds of work that a task is."""
    return _found(text, "task")


@lru_cache(maxsize=16384)
def of_fact(text: str) -> frozenset[str]:
    """The kinds of work for which a fact matters."""
    return _found(text, "fact")


def _found(text: str, side: Literal["task", "fact"]) -> frozenset[str]:
    whole, beginnings = _topics(side)
    found: set[str] = set()
    for word in {word.lower() for word in _WORD.findall(text)}:
        found |= whole.get(word, _NONE)
        for length in range(_LONGEST_WHOLE + 1, len(word) + 1):
            found |= beginnings.get(word[:length], _NONE)
    return frozenset(found)


@cache
def _topics(side: Literal["task", "fact"]) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """The kinds of work by whole words and by beginnings.

    Short words stand for themselves and their plural; longer ones also for what begins with them.
    """
    whole: dict[str, frozenset[str]] = {}
    beginnings: dict[str, frozenset[str]] = {}
    for topic, words in (each for known in lexicons().values() for each in known.topics.items()):
        for stem in words.task if side == "task" else words.fact:
            if len(stem) > _LONGEST_WHOLE:
                beginnings[stem] = beginnings.get(stem, _NONE) | {topic}
                continue
            for form in (stem, *(stem + ending for ending in ("s", "n", "es", "en"))):
                whole[form] = whole.get(form, _NONE) | {topic}
    return whole, beginnings
