"""What the parts and headers of a mail say, whatever program wrote it."""

import email.errors
import email.header
import re
from email.message import Message as Mail
from html.parser import HTMLParser
from typing import Any, Final, cast

_LONGEST_HTML: Final = 4_000_000
_ID: Final = re.compile(r"<([^<>\s]{1,500})>")
_AUTOMATED: Final = re.compile(
    r"(?:no-?reply|do-?not-?reply|mailer-daemon|postmaster|bounces?|notifications?|newsletter)\b",
    re.IGNORECASE,
)
_REPLY: Final = re.compile(r"^(?:(?:re|aw|sv|antw|fwd?|wg|tr|rif)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)
_LIST_HEADERS: Final = ("List-Id", "List-Post", "List-Unsubscribe")
_AUTOMATED_HEADERS: Final = ("X-Autoreply", "X-Autorespond", "X-Auto-Response-Suppress", "Feedback-ID")


def decoded(raw: str, most_characters: int = 200) -> str:
    """A header or a file name with its encoded words read."""
    if "=?" not in raw:
        return raw.strip()[:most_characters]
    try:
        return str(email.header.make_header(email.header.decode_header(raw))).strip()[:most_characters]
    except (ValueError, LookupError, email.errors.HeaderParseError):
        return raw.strip()[:most_characters]


def header(mail: Mail, name: str) -> str:
    """A header as one line of readable text."""
    raw = str(mail.get(name, ""))[:20_000]
    return " ".join(decoded(raw).encode("utf-8", "replace").decode().split())


def message_ids(mail: Mail, name: str) -> list[str]:
    """The message ids in a header, without their brackets."""
    return _ID.findall(" ".join(str(value) for value in cast("list[Any]", mail.get_all(name, []))))


def plain_subject(subject: str) -> str:
    """A subject without the prefixes of replies and forwards."""
    return _REPLY.sub("", subject).strip()


def is_automated(mail: Mail) -> bool:
    """Whether a program or a mailing list sent a mail, by its headers (RFC 3834 and common practice)."""
    return (
        any(mail.get(name) for name in (*_LIST_HEADERS, *_AUTOMATED_HEADERS))
        or _word(mail, "Precedence") in {"bulk", "list", "junk", "auto_reply"}
        or _word(mail, "Auto-Submitted") not in {"", "no"}
    )


def is_automated_address(address: str) -> bool:
    """Whether an address is one that nobody reads."""
    return _AUTOMATED.match(address) is not None


def part_text(part: Mail) -> str:
    """The text of a part. Bytes that its charset doesn't have are replaced."""
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return str(part.get_payload())
    charset = part.get_content_charset() or "utf-8"
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def text_of_html(html: str) -> str:
    """The words of an HTML mail, line by line. What it quotes begins with `>`, as in plain text."""
    stripper = _Stripper()
    stripper.feed(html[:_LONGEST_HTML])
    stripper.close()
    return re.sub(r"\n{3,}", "\n\n", stripper.text()).strip()


def _word(mail: Mail, name: str) -> str:
    return str(mail.get(name, "")).partition(";")[0].strip().casefold()


class _Stripper(HTMLParser):
    _BREAKS: Final = frozenset({"p", "br", "div", "tr", "li", "h1", "h2", "h3", "h4", "table", "blockquote"})
    _HIDDEN: Final = frozenset({"style", "script", "head", "title"})
    _MOST_QUOTES: Final = 10

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[tuple[int, list[str]]] = [(0, [])]
        self._hidden = 0
        self._quotes = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in self._HIDDEN
        self._quotes += tag == "blockquote"
        if tag in self._BREAKS:
            self._break()

    def handle_endtag(self, tag: str) -> None:
        if tag in self._HIDDEN and self._hidden:
            self._hidden -= 1
        if tag == "blockquote" and self._quotes:
            self._quotes -= 1
            self._break()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            first, *more = data.split("\n")
            self._lines[-1][1].append(first)
            for line in more:
                self._break()
                self._lines[-1][1].append(line)

    def text(self) -> str:
        return "\n".join(_line(quotes, parts) for quotes, parts in self._lines)

    def _break(self) -> None:
        self._lines.append((min(self._quotes, self._MOST_QUOTES), []))


def _line(quotes: int, parts: list[str]) -> str:
    text = " ".join("".join(parts).split())
    return f"{'> ' * quotes}{text}" if text else ""
