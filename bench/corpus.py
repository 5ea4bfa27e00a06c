"""Messages like those of a real home: words by Zipf's law, threads, senders and participants.

The same seed gives the same rows, in every process.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from nexus import ids
from nexus.ledgers.events import NewEvent, Participant

_ONSETS = ("b", "br", "c", "ch", "d", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ou")
_ENDINGS = ("", "", "", "s", "ed", "ing", "er", "ly", "n", "t", "l", "r")
_CHANNELS = ("imessage", "slack", "email", "cli")
_PEOPLE = 2_000
_THREADS = 5_000
_START = datetime(2024, 1, 1, tzinfo=UTC)

Row = tuple[str | None, ...]


@dataclass(frozen=True)
class Batch:
    """The same events twice: as a caller of Nexus has them, and as the bare rows of the tables."""

    events: list[NewEvent]
    event_rows: list[Row]
    participant_rows: list[Row]


class Corpus:
    """An endless stream of messages."""

    def __init__(self, seed: int = 7, vocabulary: int = 60_000) -> None:
        self._random = random.Random(seed)
        self.words = _words(self._random, vocabulary)
        self._weights = list(accumulate(1 / rank for rank in range(1, vocabulary + 1)))
        self._people = [f"+1555{number:07d}" for number in range(_PEOPLE)]
        self.threads = [f"thr_{number:026d}" for number in range(_THREADS)]

    def thread_rows(self) -> list[Row]:
        return [(thread, "imessage", thread) for thread in self.threads]

    def batches(self, events: int, size: int) -> Iterator[Batch]:
        for first in range(0, events, size):
            yield self._batch(range(first, min(first + size, events)))

    def _batch(self, numbers: range) -> Batch:
        events = [self._event(number) for number in numbers]
        names = [ids.new("evt") for _ in numbers]
        return Batch(
            events,
            [_event_row(name, event) for name, event in zip(names, events, strict=True)],
            [
                (name, participant.role, participant.identifier, None, None, None)
                for name, event in zip(names, events, strict=True)
                for participant in event.participants
            ],
        )

    def _event(self, number: int) -> NewEvent:
        choice = self._random
        sender, recipient = choice.sample(self._people, 2)
        participants = [Participant(role="sender", identifier=sender)]
        if choice.random() < 0.5:
            participants.append(Participant(role="recipient", identifier=recipient))
        return NewEvent(
            channel=choice.choice(_CHANNELS),
            content=self._sentence(),
            thread_id=choice.choice(self.threads),
            external_id=f"message-{number}",
            sender=sender,
            occurred_at=_START + timedelta(seconds=30 * number),
            participants=tuple(participants),
        )

    def _sentence(self) -> str:
        count = self._random.randint(5, 40)
        return " ".join(self._random.choices(self.words, cum_weights=self._weights, k=count))


def _words(choice: random.Random, count: int) -> list[str]:
    """Words that can be said; the frequent ones are short."""
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = 1 if len(found) < 100 else 2 if len(found) < 5_000 else 3
        stem = "".join(choice.choice(_ONSETS) + choice.choice(_VOWELS) for _ in range(syllables))
        found[stem + choice.choice(_ENDINGS)] = None
    return list(found)


def _event_row(name: str, event: NewEvent) -> Row:
    assert event.occurred_at is not None
    moment = event.occurred_at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        name, event.thread_id, event.channel, event.direction, event.kind, event.external_id, event.sender,
        event.content, event.content_type, None, None, "{}", moment, moment,
    )  # fmt: skip
