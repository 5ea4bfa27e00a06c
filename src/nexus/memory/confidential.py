"""Secrets that must not become memories, told by their shape."""

import re

_KEYWORD = r"(?:password|passphrase|passwort|passcode|pin|api[ _-]?key)"
_IS = r"(?:\bis\b|\bist\b|=|:)\s*"
# With a digit or a sign in it, or in quotes: not a word, and not a date.
_NO_WORD = r"(?!\d{4}-\d\d-\d\d)(?:(?=\S*[\d!@#$%^&*_+])\S{4,}|[\"'`\u201c]\S{3,})"
_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        r"\b(?:sk|pk|rk)[-_](?:ant|live|test|proj)?[-_]?[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.",
        rf"(?i)\b(?:{_KEYWORD}|secret|token)\b[^.\n]{{0,40}}?{_IS}{_NO_WORD}",
        # A plain word counts where it is all that follows: "is required for it" is no password.
        rf"(?i)\b{_KEYWORD}\b\s*{_IS}\S{{4,}}\s*$",
    )
)


# A number that begins with a plus is a phone's.
_CARD = re.compile(r"(?<![\d+])(?:\d[ -]?){12,18}\d(?!\d)")


def is_confidential(text: str) -> bool:
    """Whether a text holds a key, a password, a token or the number of a card."""
    return any(shape.search(text) for shape in _SHAPES) or any(map(_is_card, _CARD.findall(text)))


def _is_card(number: str) -> bool:
    """Whether the last digit checks the others, as it does on every card (ISO/IEC 7812)."""
    digits = [int(each) for each in number if each.isdigit()][::-1]
    return sum(digits[::2] + [sum(divmod(2 * each, 10)) for each in digits[1::2]]) % 10 == 0
