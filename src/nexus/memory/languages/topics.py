"""What kind of work a task is, and for what kind of work a fact matters, by the words that they use.

The words are in `topics.toml`, as beginnings of words of all languages together.
"""

import re
import tomllib
from functools import cache, lru_cache
from importlib.resources import files

_WORD = re.compile(r"[^\W\d_][\w'-]*|[£€$]")


@lru_cache(maxsize=4096)
def of_task(text: str) -> frozenset[str]:
    """The kinds of work that a task is."""
    return _found(text, "task")


@lru_cache(maxsize=16384)
def of_fact(text: str) -> frozenset[str]:
    """The kinds of work for which a fact matters."""
    return _found(text, "fact")


def _found(text: str, side: str) -> frozenset[str]:
    words = {word.lower() for word in _WORD.findall(text)}
    return frozenset(topic for topic, stems in _topics(side).items() if any(map(stems.fullmatch, words)))


@cache
def _topics(side: str) -> dict[str, re.Pattern[str]]:
    read = tomllib.loads(files("nexus.memory.languages").joinpath("topics.toml").read_text("utf-8"))
    return {topic: _pattern(words[side].split()) for topic, words in read.items()}


def _pattern(stems: list[str]) -> re.Pattern[str]:
    """Short words stand for themselves and their plural; longer ones also for what begins with them."""
    said = [re.escape(stem) + (r"\w*" if len(stem) > _LONGEST_WHOLE else r"(?:e?[sn])?") for stem in stems]
    return re.compile("|".join(said))


_LONGEST_WHOLE = 4
