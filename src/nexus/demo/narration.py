"""What the writers of the month share: the ledgers, the time, and who is who."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory


class Calendar:
    """A clock that goes forward when it is told to, and never back."""

    def __init__(self, start: datetime) -> None:
        self._moment = start

    def now(self) -> datetime:
        """Return the moment at which the story stands."""
        return self._moment

    def now_us(self) -> int:
        """Return the same in microseconds since 1970, as ids are made from it."""
        return round(self._moment.timestamp() * 1_000_000)

    def reach(self, moment: datetime) -> None:
        """Go to a moment, unless it has passed already."""
        self._moment = max(self._moment, moment)

    def spend(self, milliseconds: float) -> None:
        """Let some time go by."""
        self._moment += timedelta(milliseconds=milliseconds)


@dataclass(kw_only=True)
class Narrator:
    """A month while it is being written."""

    ledgers: Ledgers
    memory: Memory
    calendar: Calendar
    draw: random.Random
    owner_id: str = ""
    request_id: str = ""
    """The message that was answered last, which pays for what is concluded after it."""
    addresses: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """For a person's name and a channel: how the channel names them."""
    facts: dict[str, str] = field(default_factory=dict[str, str])
    """For the key of something learned in the story: the fact's id."""
    said: dict[str, str] = field(default_factory=dict[str, str])
    """For the same key: the words."""
