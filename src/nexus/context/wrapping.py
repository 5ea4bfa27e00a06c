"""Text that others wrote, wrapped so that a model can tell it from its instructions."""

import re
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import quoteattr

_SIGNATURE: Final = re.compile(r"--[ \t]?")
_SEPARATOR: Final = re.compile(
    r"[ \t]*(?:-{2,}[ \t]*(?:original message|original appointment|ursprüngliche nachricht|message d'origine|"
    r"mensaje original|messaggio originale|oorspronkelijk bericht)[ \t]*-{2,}|_{20,})[ \t]*",
    re.IGNORECASE,
)
_FORWARDED: Final = re.compile(
    r"[ \t]*(?:-{2,}[ \t]*(?:forwarded message|weitergeleitete nachricht|message transféré|mensaje reenviado|"
    r"messaggio inoltrato|doorgestuurd bericht)[ \t]*-{2,}|begin forwarded message:)[ \t]*",
    re.IGNORECASE,
)
_FROM: Final = re.compile(r"[ \t*>]*(?:from|von|de|da|van)[ \t*]*:[ \t*]*(.+)", re.IGNORECASE)
_SUBJECT: Final = re.compile(
    r"[ \t*>]*(?:subject|betreff|objet|asunto|oggetto|onderwerp)[ \t*]*:", re.IGNORECASE
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
_NEAR: Final = 10
_LONGEST_QUOTE: Final = 200_000
_LONGEST_AUTHOR: Final = 200


def wrapped(tag: str, text: str, **attributes: str) -> str:
    """The text between tags that it cannot close itself, nor tell a situation of its own."""
    head = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    # A model reads tags as a person does: case and blanks make no difference to it.
    own = re.compile(rf"<(?=\s*+(?:/\s*+{re.escape(tag)}|(?:/\s*+)?situation))", re.IGNORECASE)
    return f"<{tag}{head}>\n{own.sub('&lt;', text)}\n</{tag}>"


def quoted(text: str, *, sender: str | None, trust: str) -> str:
    """Somebody's message, with who wrote it and how far they are trusted."""
    return wrapped("message", text, sender=sender or "unknown", trust=trust)


@dataclass(frozen=True, slots=True)
class Quote:
    """What somebody else wrote, and who, as far as the text says; empty if it doesn't."""

    text: str
    author: str


def split_quotes(text: str) -> tuple[str, list[Quote]]:
    """The words of whoever sent a text, and what it quotes or forwards.

    From the first line on that begins a forwarded mail, all of it is another's.
    """
    passages = _passages(text)
    own = "\n".join(line for author, lines in passages if author is None for line in lines)
    return own.strip(), [
        Quote("\n".join(map(_without_marks, lines)).strip()[:_LONGEST_QUOTE], author[:_LONGEST_AUTHOR])
        for author, lines in passages
        if author is not None and any(_without_marks(line).strip() for line in lines)
    ]


def wrap_quotes(text: str) -> str:
    """A text in which what it quotes or forwards stands between tags with its author."""
    passages = _passages(text)
    if all(author is None for author, _ in passages):
        return text
    parts = (
        "\n".join(lines).strip()
        if author is None
        else wrapped("quoted", "\n".join(lines), author=author[:_LONGEST_AUTHOR] or "unknown")
        for author, lines in passages
    )
    return "\n\n".join(filter(None, parts))


def _passages(text: str) -> list[tuple[str | None, list[str]]]:
    """The lines of a text, cut where another begins to speak. The author is None for whoever sent it."""
    passages: list[tuple[str | None, list[str]]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        near = lines[number : number + _NEAR]
        # People write `From:` and `To:` of trains as well.
        is_mail = _has_headers(lines, number) and any(map(_SUBJECT.match, near))
        if is_mail or _FORWARDED.fullmatch(line) or _SEPARATOR.fullmatch(line):
            found = next(filter(None, map(_FROM.match, near)), None)
            passages.append((found[1].strip() if found else "", lines[number:]))
            break
        if not line.lstrip().startswith(">"):
            if not passages or passages[-1][0] is not None:
                passages.append((None, []))
        elif number == 0 or not lines[number - 1].lstrip().startswith(">"):
            own = passages[-1][1] if passages else []
            while own and not own[-1].strip():
                own.pop()
            count = _attribution(own)
            passages.append((_author(" ".join(own[len(own) - count :])) if count else "", []))
            del own[len(own) - count :]
        passages[-1][1].append(line)
    return passages


def _without_marks(line: str) -> str:
    return re.sub(r"^[ \t]*(?:>[ \t]?)+", "", line)


def _author(attribution: str) -> str:
    """Who wrote, of `On Monday, Hana Ito <hana@home.example> wrote:`."""
    found = re.search(r"([^,:;]*<[^<>]{1,254}>|[^,:;\d]+?)[ \t]*$", _WROTE.sub("", attribution).strip())
    return found[1].strip() if found else ""


def without_history(text: str) -> str:
    """The text without what it quotes at its end; all of it, if nothing else is there."""
    lines = text.split("\n")
    lines = lines[: _history_begins(lines)]
    lines = _without_trailing_quotes(lines)
    found = "\n".join(lines).strip()
    return found or text.strip()


def _history_begins(lines: list[str]) -> int:
    for number, line in enumerate(lines):
        if _FORWARDED.fullmatch(line):
            break  # it is what the mail is about
        is_history = _SEPARATOR.fullmatch(line) or _SIGNATURE.fullmatch(line) or _has_headers(lines, number)
        if is_history and any(each.strip() for each in lines[:number]):
            return number
    return len(lines)


def _has_headers(lines: list[str], number: int) -> bool:
    """Whether a line is the first of the headers of another mail."""
    following = lines[number : number + _HEADERS]
    return len(following) == _HEADERS and all(map(_HEADER.match, following))


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
