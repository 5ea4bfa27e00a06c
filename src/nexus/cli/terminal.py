"""Text that others wrote, made fit for a terminal."""

import unicodedata

_KEPT_CONTROLS = "\n\t"


def printable(text: str) -> str:
    """Text without what would steer a terminal: a model, a provider or a file may say anything."""
    return "".join(
        character
        for character in text
        if character in _KEPT_CONTROLS
        or unicodedata.category(character) not in {"Cc", "Cf"}
        or character in "\u200c\u200d"
    )
