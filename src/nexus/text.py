"""How texts and counts read in one line, wherever they are shown."""

import re
from typing import Final

CITED: Final = re.compile(r"\s*\[((?:fact|obs|mod|epi|evt|ent)_\w+)\]")
"""Where a conclusion names what it rests on."""


def join_lines(text: str) -> str:
    """Put a text on one line, with single spaces."""
    return " ".join(text.split())


def shorten(text: str, most: int) -> str:
    """Cut a text to so many characters; `…` as the last one says that it is cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def strip_citations(text: str | None) -> str:
    """Strip a conclusion of the ids that it cites."""
    return CITED.sub("", text or "")


def pluralize(count: int, what: str) -> str:
    """Format a count with its noun: `1 row`, `1,200 rows`."""
    return f"{count:,} {what}{'s' * (count != 1)}"
