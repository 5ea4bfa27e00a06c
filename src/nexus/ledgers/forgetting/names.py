"""The names that an entity goes by, and how they are found in text.

A name is found where it stands as whole words, whatever the case and accents, with or without an s at
its end ("Anna's", "Annas"). Text inside JSON is read through its escapes.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

# One letter alone names nobody.
_SHORTEST = 2
# Scripts that are written without spaces: neither word edges nor the full-text index find a name in them.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_NESTED_ESCAPES = 3


def fold(text: str) -> str:
    """The text without case and accents."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part))


@dataclass(frozen=True)
class Names:
    """The names of one entity, by which its mentions are found."""

    all: tuple[str, ...] = ()

    @staticmethod
    def of(texts: Iterable[str | None], without: Sequence[str] = ()) -> "Names":
        """The distinct names among the texts, leaving out those that the caller does not want used."""
        unwanted = {fold(text.strip()) for text in without}
        kept: dict[str, str] = {}
        for text in texts:
            name = (text or "").strip()
            if len(name) >= _SHORTEST and fold(name) not in unwanted:
                kept.setdefault(fold(name), name)
        return Names(tuple(kept.values()))

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        each = [_pattern(fold(name)) for name in self.all]
        return [re.compile(pattern) for pattern in [*each, "|".join(each) or r"(?!)"]]

    @cached_property
    def _hints(self) -> list[tuple[str, ...]]:
        """A word of each name, which is quick to miss in a text."""
        each = [_hint(fold(name)) for name in self.all]
        return [*((hint,) for hint in each), tuple(dict.fromkeys(each))]

    def found(self, text: str | None, which: int = -1) -> bool:
        """Whether a text holds one of the names, or the one at an index."""
        if not text:
            return False
        if self._stands_in(fold(text), which):
            return True
        for _ in range(_NESTED_ESCAPES):
            if "\\" not in text:
                return False
            text = _unescaped(text)
            if self._stands_in(fold(text), which):
                return True
        return False

    def _stands_in(self, folded: str, which: int) -> bool:
        return any(hint in folded for hint in self._hints[which]) and bool(
            self._patterns[which].search(folded)
        )

    def query(self, which: int) -> str | None:
        """What to ask the full-text index for; None where it cannot find the name."""
        words = _WORD.findall(self.all[which])
        if not words or _UNSPACED.search(self.all[which]):
            return None
        return f'"{" ".join(words)}"'


def _pattern(name: str) -> str:
    """A regular expression for a folded name. Between its words may stand a space, a dot, a dash, …"""
    words = _WORD.findall(name)
    if _UNSPACED.search(name) or not words:
        return re.escape(name)
    # What is left of "C++" without its signs would be found everywhere.
    short = len("".join(words)) <= _SHORTEST
    inner = re.escape(name) if short else r"[\W_]{1,3}".join(words)
    return rf"(?<![^\W_]){inner}(?:['\u2019]?s)?(?![^\W_])"


def _hint(name: str) -> str:
    return max(_WORD.findall(name), key=len, default=name)


def _unescaped(text: str) -> str:
    decoded = _ESCAPE.sub(_character, text)
    # Two escapes of a surrogate pair are one character.
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _BLANKS.get(code, code)
