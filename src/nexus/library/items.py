"""What goes into the memory and comes out of it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from nexus import clock
from nexus.memory.recall.item import How, Kind, Match, Strength

KINDS: Final[frozenset[Kind]] = frozenset({"event", "fact", "episode", "observation", "mental_model"})
"""What is searched unless a caller says otherwise: all but entities."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A statement to remember, with what is known about it. A string is one without details."""

    text: str
    about: str | None = None
    """The name or id of what it is about; an entity is made if the scope has none of that name."""
    entities: tuple[str, ...] = ()
    """The names or ids of others that it names."""
    at: datetime | None = None
    """When it was true; None: now, or when its message was sent."""
    replaces: tuple[str, ...] = ()
    """The ids of facts that no longer hold."""
    how: How | None = None
    """Whether those were `corrected`, `changed` or `cancelled`."""
    confidence: float = 1.0
    message: int | None = None
    """Of an extracted fact: the place of the message that says it; None: the last one of the user."""


Message = Mapping[str, Any]
"""`role` and `content`, as chat APIs have them, and optionally `name` and `at`."""
Extract = Callable[[Sequence[Message]], Iterable[Fact | str] | Awaitable[Iterable[Fact | str]]]
"""Returns the facts that some messages state. One that isn't async runs on a thread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """The ids of messages that were recorded, and of the facts that were taken from them."""

    messages: tuple[str, ...]
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Successor:
    """What holds in the place of a fact, and since when."""

    id: str
    text: str
    at: datetime
    how: How


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One memory that a search found."""

    id: str
    text: str
    kind: Kind
    strength: Strength
    """`strong`: it probably answers the question."""
    score: float
    """How probable that is, from 0 to 1."""
    at: datetime
    """When it was true, or said."""
    source: str | None
    """The id of the event that it came from."""
    speaker: str | None
    """Who said it, of a message."""
    about: str | None
    """The id of the entity that it is about."""
    replaced_by: Successor | None
    """What replaced it, if anything did."""
    note: str = ""
    """What holds instead, in words, of anything out of date; empty while it holds."""

    @property
    def is_strong(self) -> bool:
        """Whether it probably answers the question."""
        return self.strength == "strong"


def read_text(message: Message) -> str:
    """Return the text of a message; of one in parts, all its texts."""
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = cast("Sequence[Mapping[str, Any]]", content or ())
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text").strip()


def parse_time(at: datetime | str | None) -> datetime | None:
    """Parse a moment; one without a zone is taken as UTC."""
    return clock.parse(at if isinstance(at, str) else at.isoformat()) if at else None


def make_hit(match: Match) -> Hit:
    """Make the library's hit of a match of recall."""
    item, by = match.item, match.item.replaced_by
    successor = by and Successor(id=by.id, text=by.text, at=clock.parse(by.at), how=by.how)
    return Hit(
        id=item.id,
        text=item.text,
        kind=item.kind,
        strength=match.strength,
        score=match.probability,
        at=clock.parse(item.at),
        source=item.source_event_id,
        speaker=item.speaker,
        about=item.subject_id,
        replaced_by=successor or None,
        note=item.note,
    )
