"""Names in what was said: a turn that is full of them and taught nothing deserves a second look."""

import re

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_CAPITALISED = re.compile(r"(?<![\w@.])[^\W\d_a-z][\w\u2019'-]*(?:\s+[^\W\d_a-z][\w\u2019'-]*)*")
_SENTENCE_END = re.compile(r"(?:^|[.!?:;\n…]|^[-*>]|[\"\u201c(])\s*$")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
# Written with a capital without naming anybody.
_NO_NAMES = frozenset(
    word
    for line in (
        ("i", "i'm", "i'd", "i'll", "ok", "okay", "yes", "no"),
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        ("january", "february", "march", "april", "may", "june"),
        ("july", "august", "september", "october", "november", "december"),
    )
    for word in line
)


def found(text: str) -> list[str]:
    """The names in a text, each once, in order. A capital at the start of a sentence alone is no sign."""
    names = dict.fromkeys(_EMAIL.findall(text))
    for match in _CAPITALISED.finditer(text):
        words = [_POSSESSIVE.sub("", word) for word in match.group().split()]
        if _SENTENCE_END.search(text[: match.start()]):
            # "Sarah Chen called" names somebody, "The plan" and "Write" do not.
            words = words if len(words) > 1 and not _is_common(words[0]) else words[1:]
        kept = [word for word in words if not _is_common(word)]
        if len("".join(kept)) > 1:
            names[" ".join(kept)] = None
    return list(names)


def _is_common(word: str) -> bool:
    return word.casefold().replace("\u2019", "'") in _NO_NAMES
