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


# Two letters, two check digits, and up to thirty letters and digits, often in groups of four.
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{2,4}){3,8}\b")
_CODE = re.compile(
    r"(?i)\b(?:(?:door|gate|entry|alarm|lock|safe|access|key ?box|garage|building)[ -]?"
    r"(?:code|combination|number)"
    r"|(?:t[uü]r|eingangs|alarm|schloss|safe|tresor|garagen|zugangs)-?code|c[oó]digo (?:de la|del|da|do|de)"
    r"|code (?:d'entr[ée]e|de la porte|d'acc[èe]s|du portail)|combination (?:of|to|for))\b[^.\n]{0,40}?\d{3,}"
)


def is_code(text: str) -> bool:
    """Whether a text holds a door code, the combination of a safe or an account number (IBAN)."""
    return _CODE.search(text) is not None or any(map(_is_iban, _IBAN.findall(text)))


def _is_iban(number: str) -> bool:
    """Whether the check digits fit (ISO 7064, modulo 97)."""
    plain = number.replace(" ", "")
    digits = "".join(str(int(each, 36)) for each in plain[4:] + plain[:4])
    return 15 <= len(plain) <= 34 and int(digits) % 97 == 1
