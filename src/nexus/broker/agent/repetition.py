"""Notices that a model has begun to say the same thing over and over, while it does so."""

from typing import Final

# How often a span must come again, and how much text that must be: tables and code repeat themselves too.
_TIMES: Final = 8
_LEAST_CHARACTERS: Final = 2_000
_LONGEST_SPAN: Final = 500
# Whatever repeats has an end of this many characters that stands before it, one span earlier.
_SAMPLE: Final = 24
# How much new text there must be before it is looked at again.
_EVERY_CHARACTERS: Final = 200


class Repetition:
    """Watches one text as it grows."""

    def __init__(self) -> None:
        self._tail = ""
        self._unseen = 0

    def add(self, text: str) -> int:
        """How many characters at the end of the text so far only repeat what stands before them; 0: none."""
        self._tail = (self._tail + text)[-_LONGEST_SPAN * _TIMES :]
        self._unseen += len(text)
        if self._unseen < _EVERY_CHARACTERS:
            return 0
        self._unseen = 0
        return repeated(self._tail)


def repeated(text: str) -> int:
    """How many characters at the end of a text repeat the span before them, beyond its first occurrence."""
    if text.find(text[-_SAMPLE:], max(0, len(text) - _LONGEST_SPAN - _SAMPLE), len(text) - 1) < 0:
        return 0  # its end doesn't stand within a span before: the look below takes a hundred times as long
    backwards = text[::-1]
    # The failure function of the text read from its end: how long a beginning comes again where it ends.
    matches = [0] * len(backwards)
    best = 0
    for place in range(1, len(backwards)):
        length = matches[place - 1]
        while length and backwards[place] != backwards[length]:
            length = matches[length - 1]
        matches[place] = length + (backwards[place] == backwards[length])
        period, covered = place + 1 - matches[place], place + 1
        if period <= _LONGEST_SPAN and covered >= max(_LEAST_CHARACTERS, _TIMES * period):
            best = max(best, covered - period)
    return best
