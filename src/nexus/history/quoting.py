"""What is new in a reply: the history that mail programs put below it, and signatures, are cut off.

Quotes between which somebody wrote stay: the answer would make no sense without them.
"""

import re
from typing import Final

_SIGNATURE: Final = re.compile(r"--[ \t]?")
_SEPARATOR: Final = re.compile(
    r"[ \t]*(?:-{2,}[ \t]*(?:original message|original appointment|ursprüngliche nachricht|message d'origine|"
    r"mensaje original|messaggio originale|oorspronkelijk bericht)[ \t]*-{2,}|_{20,})[ \t]*",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(
    r"[ \t*]*(?:from|von|de|da|van|sent|gesendet|envoyé|enviado|date|datum|to|an|à|para|"
    r"subject|betreff|objet|asunto)[ \t*]*:",
    re.IGNORECASE,
)
_BEGINS: Final = re.compile(r"(?:on|am|le|el|il|op|den|em)\b", re.IGNORECASE)
_WROTE: Final = re.compile(
    r"\b(?:wrote|schrieb|écrit|escribió|escreveu|scrisse|schreef|skrev)\b.*:$", re.IGNORECASE
)
_HEADERS: Final = 3
_ATTRIBUTION_LINES: Final = 3
_LONGEST_ATTRIBUTION: Final = 300


def without_history(text: str) -> str:
    """The text without what it quotes at its end; all of it, if nothing else is there."""
    lines = text.split("\n")
    lines = lines[: _history_begins(lines)]
    lines = _without_trailing_quotes(lines)
    found = "\n".join(lines).strip()
    return found or text.strip()


def _history_begins(lines: list[str]) -> int:
    for number, line in enumerate(lines):
        is_history = (
            _SEPARATOR.fullmatch(line)
            or _SIGNATURE.fullmatch(line)
            or all(_HEADER.match(each) for each in _next(lines, number, _HEADERS))
        )
        if is_history and any(each.strip() for each in lines[:number]):
            return number
    return len(lines)


def _next(lines: list[str], number: int, count: int) -> list[str]:
    following = lines[number : number + count]
    return following if len(following) == count else [""]


def _without_trailing_quotes(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(">")):
        end -= 1
    if not any(line.lstrip().startswith(">") for line in lines[end:]):
        return lines
    return lines[: end - _attribution(lines[:end])]


def _attribution(lines: list[str]) -> int:
    """How many of the last lines say who wrote what follows: mail programs break a long one over lines."""
    for count in range(1, min(_ATTRIBUTION_LINES, len(lines)) + 1):
        told = " ".join(lines[-count:]).strip()
        if len(told) < _LONGEST_ATTRIBUTION and _BEGINS.match(told) and _WROTE.search(told):
            return count
    return 0
