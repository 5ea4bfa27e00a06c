"""Words that tell whether a statement changes an earlier one, in the languages of the training lives.

They are matched on folded text: lower case, without accents, words separated by single spaces.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

_WORDS: Final = cast("dict[str, Any]", json.loads(Path(__file__).with_name("cues.json").read_text("utf-8")))
# Of a list of beginnings, words up to this length are whole words.
_WHOLE_UP_TO: Final = 4


def _phrases(name: str) -> re.Pattern[str]:
    longest_first = sorted(map(re.escape, cast("list[str]", _WORDS[name])), key=len, reverse=True)
    return re.compile(rf"(?<!\S)(?:{'|'.join(longest_first)})(?!\S)")


def _beginnings(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(word if len(word) <= _WHOLE_UP_TO else rf"{word}\w*" for word in words))


CHANGE: Final = _phrases("change")
"""Something is different from now on, or from a given date."""
END: Final = _phrases("end")
"""Something that held has ended."""
ADDITION: Final = _phrases("addition")
"""Something holds beside what was there before."""
PLAN: Final = _phrases("plan")
"""Something was only planned, expected or wished for."""
WEEKDAYS: Final = frozenset(cast("list[str]", _WORDS["weekdays"]))
MONTHS: Final = frozenset(cast("list[str]", _WORDS["months"]))
FUNCTION_WORDS: Final = frozenset(cast("list[str]", _WORDS["function_words"]))

# What somebody or something has one of at a time, by the beginnings of the words that speak of it.
_ATTRIBUTES: Final = {
    name: _beginnings(words) for name, words in cast("dict[str, list[str]]", _WORDS["attributes"]).items()
}


def attributes(words: Iterable[str]) -> frozenset[str]:
    """The attributes that a text speaks of, by its folded words."""
    spoken = list(words)
    return frozenset(
        name for name, pattern in _ATTRIBUTES.items() if any(pattern.fullmatch(word) for word in spoken)
    )
