"""Names in what was said: a turn that is full of them and taught nothing deserves a second look."""

import re

EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_CAPITALISED = re.compile(r"(?<![\w@.])[^\W\d_a-z][\w\u2019'-]*(?:\s+[^\W\d_a-z][\w\u2019'-]*)*")
_SENTENCE_END = re.compile(r"(?:[.!?:;\n…]|[\"\u201c(])\s*$|(?:^|\n)\s*[-*>]\s*$")
# What stands before a word tells whether it begins a sentence; further back nothing does.
_BEFORE = 8
# A log pasted into a chat names nobody after its first part.
_LONGEST = 20_000
_POSSESSIVE = re.compile(r"['\u2019]s?$")
# Written with a capital without naming anybody.
_NO_NAMES = frozenset(
    word
    for line in (
        ("i", "i'm", "i'd", "i'll", "ok", "okay", "yes", "no"),
        ("the", "this", "that", "my", "your", "it", "he", "she", "we", "you", "they", "and", "but", "if"),
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        ("january", "february", "march", "april", "may", "june"),
        ("july", "august", "september", "october", "november", "december"),
    )
    for word in line
)


def found(text: str) -> list[str]:
    """The names in a text, each once, in order. A capital at the start of a sentence alone is no sign."""
    text = text[:_LONGEST]
    names = dict.fromkeys(EMAIL.findall(text))
    for match in _CAPITALISED.finditer(text):
        words = [_POSSESSIVE.sub("", word) for word in match.group().split()]
        if _begins_sentence(text, match.start()):
            # "Sarah Chen called" names somebody, "The plan" and "Write" do not.
            words = words if len(words) > 1 and not _is_common(words[0]) else words[1:]
        kept = [word for word in words if not _is_common(word)]
        if len("".join(kept)) > 1:
            names[" ".join(kept)] = None
    return list(names)


def _begins_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - _BEFORE) : start]
    is_first = start <= _BEFORE and not before.strip()
    return is_first or _SENTENCE_END.search(before) is not None


def _is_common(word: str) -> bool:
    return word.casefold().replace("\u2019", "'") in _NO_NAMES
