"""Long texts in pieces, for services that limit how long a message may be."""

from typing import Final

_BASIC_PLANE: Final = 0xFFFF


def pieces(text: str, most: int) -> list[str]:
    """Split a text at paragraphs, lines or words into pieces of at most `most` UTF-16 code units."""
    found: list[str] = []
    rest = text.strip()
    while _units(rest) > most:
        room = _fitting(rest, most)
        cut = _last_break(rest, room)
        found.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*found, rest] if rest else found


def _last_break(text: str, room: int) -> int:
    for separator in ("\n\n", "\n", " "):
        # A break near the beginning would make many small messages.
        place = text.rfind(separator, room // 3, room)
        if place > 0:
            return place
    return room


def _fitting(text: str, most: int) -> int:
    """How many characters fit into that many UTF-16 code units."""
    units = 0
    for number, character in enumerate(text):
        units += 2 if ord(character) > _BASIC_PLANE else 1
        if units > most:
            return number
    return len(text)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", errors="replace")) // 2
