"""How texts and counts read in one line, wherever they are shown."""


def join_lines(text: str) -> str:
    """Put a text on one line, with single spaces."""
    return " ".join(text.split())


def shorten(text: str, most: int) -> str:
    """Cut a text to so many characters; `…` as the last one says that it is cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def pluralize(count: int, what: str) -> str:
    """Format a count with its noun: `1 row`, `1,200 rows`."""
    return f"{count:,} {what}{'s' * (count != 1)}"
