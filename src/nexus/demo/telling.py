"""What the writers of the month share: the ledgers, the time, and who is who."""

import random
from dataclasses import dataclass, field

from nexus.demo.calendar import Calendar
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory


@dataclass(kw_only=True)
class Telling:
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
