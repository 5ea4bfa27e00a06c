"""Secrets that must not become memories, told by their shape."""

import re

_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        r"\b(?:sk|pk|rk)[-_](?:ant|live|test|proj)?[-_]?[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.",
        r"(?i)\b(?:password|passphrase|passwort|pin|secret|api[ _-]?key|token)\b\s*(?:is|=|:|ist)\s*\S{4,}",
        r"\b(?:\d[ -]?){13,19}\b",
    )
)


def is_confidential(text: str) -> bool:
    """Whether a text holds a key, a password, a token or the number of a card."""
    return any(shape.search(text) for shape in _SHAPES)
