"""Long things, a part at a time: no page is larger than a browser shows at once, whatever was said.

Sizes are counted as they stand on a page: escaped, where a quotation mark takes five characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from markupsafe import escape
from starlette.requests import Request

from nexus.gateway.views.sessions import Message
from nexus.memory.views.events import Said
from nexus.memory.views.page import Page, parse_position

PART_CHARACTERS: Final = 16_000
MOST_CALLS: Final = 10
"""So many calls of tools are shown with a message."""
CALL_CHARACTERS: Final = 600
# Answers are Markdown, of which more becomes than of what is only escaped.
_MESSAGES_SIZE: Final = 60_000
_EPISODE_SIZE: Final = 120_000
_LINE_CHARACTERS: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a text; `next` is where the following one begins, and None where this is the last."""

    text: str
    next: int | None
    whole: int
    """How many characters the text has."""


def cut_part(text: str, start: int = 0, most: int = PART_CHARACTERS) -> Part:
    """Cut the part of a text that begins there; it ends with a line, if lines are short enough."""
    cut = text[start : start + most]
    if start + most >= len(text):
        return Part(text=cut, next=None, whole=len(text))
    line = cut.rfind("\n", len(cut) - _LINE_CHARACTERS)
    cut = cut[: line + 1] if line > 0 else cut
    return Part(text=cut, next=start + len(cut), whole=len(text))


def read_position(request: Request, name: str = "from") -> int:
    """Read where the part that is asked for begins; 0 by default."""
    return parse_position(request.query_params.get(name) or "0")


def fit_messages(found: Page[Message]) -> Page[Message]:
    """Choose the newest of some messages that fit on a page together; the next page has the others."""
    size, kept = 0, list[Message]()
    for message in reversed(found.items):
        size += _measure(message)
        if kept and size > _MESSAGES_SIZE:
            return Page(items=tuple(reversed(kept)), next=str(kept[-1].position))
        kept.append(message)
    return found


def fit_beginning(said: Sequence[Said]) -> list[Said]:
    """Choose the first of some messages that fit on a page together."""
    sizes = accumulate(len(escape(each.content)) for each in said)
    fits = [each for each, size in zip(said, sizes, strict=True) if size <= _EPISODE_SIZE]
    return fits or list(said[:1])


def _measure(message: Message) -> int:
    calls = message.calls[:MOST_CALLS]
    texts = [message.content, message.said or "", *(call.arguments[:CALL_CHARACTERS] * 2 for call in calls)]
    texts += [(call.error or call.result or "")[:CALL_CHARACTERS] for call in calls]
    return sum(len(escape(text)) for text in texts)
