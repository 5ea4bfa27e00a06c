"""Text as a ledger can keep it, and text as a search can ask for it."""

import re
import unicodedata

_WORD = re.compile(r"\w+")


def storable(text: str) -> str:
    """Return the text in Unicode that UTF-8 can carry.

    Two halves of a surrogate pair become the character they stand for; a half alone, which stands for
    nothing and which no UTF-8 file can hold, becomes U+FFFD. Everything else, NUL included, is kept.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable_or_none(text: str | None) -> str | None:
    """Return the text as `storable` does; None stays None."""
    return None if text is None else storable(text)


def match_any(words: list[str]) -> str:
    """Return a full-text query for rows that hold any of the words. Nothing in them is an operator."""
    return " OR ".join(_quote(word) for word in words)


def match_all(words: list[str]) -> str:
    """Return a full-text query for rows that hold all of the words. Nothing in them is an operator."""
    return " AND ".join(_quote(word) for word in words)


def words(text: str) -> list[str]:
    """Return the distinct words of any text, in order.

    They are cut where the index cuts, or more coarsely: then the index looks for the parts in a row.
    """
    # Composed, because an accent that stands alone would cut the word here and not in the index.
    composed = unicodedata.normalize("NFC", storable(text))
    return list(dict.fromkeys(_WORD.findall(composed.lower())))


def _quote(word: str) -> str:
    return '"' + word.replace('"', '""').replace("\0", " ") + '"'
