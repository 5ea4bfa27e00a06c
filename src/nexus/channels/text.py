"""Texts as services take them: as HTML, and long ones in pieces that fit into a message."""

import re
from typing import Final

from markdown_it import MarkdownIt

_markdown: Final = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
"""Without images: what a program loads by itself could tell others what was said."""
_BASIC_PLANE: Final = 0xFFFF
_FENCE: Final = re.compile(r"^ {0,3}(?P<mark>`{3,})(?P<language>[^`\n]*)$", re.MULTILINE)
_FENCE_SHARE: Final = 8
"""A fence that takes more than this part of a message isn't repeated."""


def render_html(text: str) -> str:
    """A Markdown text as HTML."""
    return _markdown.render(text)


def split_text(text: str, most: int) -> list[str]:
    """Split a text at paragraphs, lines or words into pieces of at most `most` UTF-16 code units.

    A block of code that doesn't fit goes on as one in the next piece: its fence is closed, and opened again.
    """
    found: list[str] = []
    rest = text.strip()
    while _count_units(rest) > most:
        cut = _find_last_break(rest, _count_fitting(rest, most))
        fence = _find_open_fence(rest[:cut])
        if fence is not None and len(fence[0]) * _FENCE_SHARE < most:
            room = _count_fitting(
                rest, most - 1 - max(len(each["mark"]) for each in _FENCE.finditer(rest[:cut]))
            )
            line_end = rest.rfind("\n", room // 3, room)
            cut = room if line_end < 0 else line_end
            fence = _find_open_fence(rest[:cut])
            if fence is not None and fence.start() > 0 and fence.end() == cut:
                cut, fence = fence.start(), None  # nothing of the block fits
        if fence is None or len(fence[0]) * _FENCE_SHARE >= most:
            found.append(rest[:cut].rstrip())
            rest = rest[cut:].lstrip()
            continue
        found.append(f"{rest[:cut]}\n{fence['mark']}")
        rest = rest[cut:].removeprefix("\n")
        closing = _FENCE.match(rest)
        is_over = closing is not None and _closes(closing, fence)
        rest = rest[closing.end() :].lstrip() if closing and is_over else f"{fence[0]}\n{rest}"
    return [*found, rest] if rest else found


def _find_open_fence(text: str) -> re.Match[str] | None:
    """The fence that a block begins with which doesn't end in this text."""
    opened = None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif _closes(line, opened):
            opened = None
    return opened


def _closes(line: re.Match[str], opened: re.Match[str]) -> bool:
    return line["mark"].startswith(opened["mark"]) and not line["language"].strip()


def _find_last_break(text: str, room: int) -> int:
    for separator in ("\n\n", "\n", " "):
        # A break near the beginning would make many small messages.
        place = text.rfind(separator, room // 3, room)
        if place > 0:
            return place
    return room


def _count_fitting(text: str, most: int) -> int:
    """How many characters fit into that many UTF-16 code units."""
    units = 0
    for number, character in enumerate(text):
        units += 2 if ord(character) > _BASIC_PLANE else 1
        if units > most:
            return number
    return len(text)


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le", errors="replace")) // 2
