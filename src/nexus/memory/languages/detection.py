"""Which language a short text is written in: its function words vote, its letters help.

Questions and facts are short, and a third of their words are function words, which hardly any two
languages share. The table is read once and a text takes about ten microseconds, so every text that is
compared can be looked at. Where nothing speaks for any language, the home's own is assumed.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Final

from nexus.memory.languages.lexicon import lexicons

DEFAULT: Final = "en"

# The beginning of a text tells its language.
_READ_CHARACTERS = 300
# The prior is worth a little less than one word that only one language has.
_PRIOR_VOTES = 0.6
# A name may be foreign, and so may its letters.
_LETTER_VOTES = 0.3
# A second language is in a text if it has so many words of its own there.
_MIXED_VOTES = 2.0
_WORD = re.compile(r"[^\W\d_]+")

# First and last code point of each script, and the language that is assumed for it.
_SCRIPTS = (
    (0x0370, 0x03FF, "el"),
    (0x0400, 0x052F, "ru"),
    (0x0530, 0x058F, "hy"),
    (0x0590, 0x05FF, "he"),
    (0x0600, 0x06FF, "ar"),
    (0x0900, 0x097F, "hi"),
    (0x0B80, 0x0BFF, "ta"),
    (0x0E00, 0x0E7F, "th"),
    (0x1100, 0x11FF, "ko"),
    (0x3040, 0x30FF, "ja"),
    (0x3400, 0x9FFF, "zh"),
    (0xAC00, 0xD7AF, "ko"),
    (0xF900, 0xFAFF, "zh"),
)
_OTHER_SCRIPT = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last, _ in _SCRIPTS) + "]")
# Letters that one language of a script has and the one assumed for it doesn't.
_TELLING = {"ru": ("uk", "іїєґ"), "ar": ("fa", "پچژگ")}


def detect(text: str, prior: str = DEFAULT) -> str:
    """The language of a text; `prior` if the text doesn't tell."""
    return _detect(text[:_READ_CHARACTERS], prior)[0]


def mixture(text: str, prior: str = DEFAULT) -> tuple[str, ...]:
    """The language of a text, then every other one that it holds words of."""
    return _detect(text[:_READ_CHARACTERS], prior)


@lru_cache(maxsize=4096)
def _detect(text: str, prior: str) -> tuple[str, ...]:
    text = text.lower()
    script = None if text.isascii() else _by_script(text)
    if script is not None:
        return (script,)
    words = list(filter(_table().__contains__, _WORD.findall(text)))
    if text.isascii() and _words_of(prior).issuperset(words):
        return (prior,)  # whoever else gets votes gets them from words that vote for it too
    votes, own = _votes(text, words)
    votes[prior] = votes.get(prior, 0.0) + _PRIOR_VOTES
    best = max(votes, key=lambda code: votes[code])
    others = sorted(
        (code for code in own if code != best and own[code] >= _MIXED_VOTES), key=lambda c: -own[c]
    )
    return (best, *others)


def _votes(text: str, words: Iterable[str]) -> tuple[dict[str, float], dict[str, float]]:
    """How much speaks for each language, and how many words it alone has."""
    votes: dict[str, float] = {}
    own: dict[str, float] = {}
    table = _table()
    for word in words:
        codes, weight = table[word]
        for code in codes:
            votes[code] = votes.get(code, 0.0) + weight
        if len(codes) == 1:
            own[codes[0]] = own.get(codes[0], 0.0) + weight
    if not text.isascii():
        for letter in set(text):
            for code in _letters().get(letter, ()):
                votes[code] = votes.get(code, 0.0) + _LETTER_VOTES
    return votes, own


def _by_script(text: str) -> str | None:
    """The language of a text of which most letters are of another script than the Latin one."""
    if not _OTHER_SCRIPT.search(text):
        return None
    counts: dict[str, int] = {}
    latin = 0
    for letter in text:
        point = ord(letter)
        if point < _SCRIPTS[0][0]:
            latin += letter.isalpha()
            continue
        for first, last, code in _SCRIPTS:
            if first <= point <= last:
                counts[code] = counts.get(code, 0) + 1
                break
    # One Chinese character is about a word.
    if not counts or 2 * sum(counts.values()) <= latin:
        return None
    best = "ja" if "ja" in counts else max(counts, key=lambda code: counts[code])
    other, letters = _TELLING.get(best, ("", ""))
    return other if any(letter in text for letter in letters) else best


@cache
def _table() -> Mapping[str, tuple[tuple[str, ...], float]]:
    """The languages that have a word, and its vote for each: words of time and number count half."""
    known = lexicons()
    function = _invert({code: each.function_words for code, each in known.items()})
    other = _invert({code: each.time_words | each.number_words for code, each in known.items()})
    found = {word: (codes, 0.5 / len(codes)) for word, codes in other.items()}
    return found | {word: (codes, 1.0 / len(codes)) for word, codes in function.items()}


@cache
def _words_of(language: str) -> frozenset[str]:
    """The words that vote for a language."""
    return frozenset(word for word, (codes, _) in _table().items() if language in codes)


@cache
def _letters() -> Mapping[str, tuple[str, ...]]:
    return _invert({code: frozenset(known.letters) for code, known in lexicons().items()})


def _invert(sets: Mapping[str, frozenset[str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for code in sorted(sets):
        for member in sets[code]:
            found[member] = (*found.get(member, ()), code)
    return found
