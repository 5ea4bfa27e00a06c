"""On whose word something is written: the one that the ledgers tell, whatever the writer claims."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from nexus.memory.gate import HEARSAY

if TYPE_CHECKING:
    from nexus.roles.memory_writer.evidence import Finding
    from nexus.roles.memory_writer.turns import Message

# What a writer may say of its sources itself: these claim less than what the ledgers tell.
_WEAKER: Final = frozenset({"inferred", "observed"})


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a statement comes from."""

    message: "Message | None"
    """The message that says it, or that is nearest to what a tool gave."""
    tool: str | None = None
    author: str = ""
    """Who wrote it, where the message only quotes it."""
    is_said: bool = False
    """Whether the message itself says it."""

    @property
    def is_owners(self) -> bool:
        return self.is_said and self.message is not None and self.message.is_owners

    @property
    def speaker(self) -> str | None:
        """The entity of whoever said it."""
        return (
            self.message.sender.entity_id if self.is_said and self.message and self.message.sender else None
        )


def source(finding: "Finding", asked: "Message | None", messages: Sequence["Message"]) -> Source:
    """The source of a statement by what says it. What nothing says is not laid to the owner."""
    heard = finding.heard
    if heard is not None and heard.message is not None:
        return Source(message=heard.message, is_said=True)
    others = [message for message in messages if not message.is_owners]
    near = asked if asked in others else None
    if heard is not None and heard.quoted_in is not None:
        return Source(message=heard.quoted_in, author=heard.name)
    return Source(message=near or (others or messages or [None])[-1], tool=heard and heard.tool)


def attribute(operation: str, given: dict[str, Any], found: Source, about: str | None) -> None:
    """Say who said it and how far that carries."""
    claimed = given.get("source_type")
    is_own = found.speaker is not None and found.speaker == about
    if found.is_said:
        given["source_type"] = claimed if claimed in _WEAKER else "self_disclosed" if is_own else "mentioned"
    else:
        given["source_type"] = "mentioned" if found.author else "observed"
    if not found.is_owners and not is_own:
        given["confidence"] = min(_number(given.get("confidence")), HEARSAY)
    if operation != "person-fact":
        given["metadata"] = _metadata(found)


def _metadata(found: Source) -> dict[str, Any]:
    if found.author:
        return {"speaker": found.author, "speaker_id": None}
    if found.tool:
        return {"speaker": f"tool:{found.tool}", "speaker_id": None}
    message = found.message
    if message is None or (message.is_owners and not found.is_said):
        return {"speaker": "nexus", "speaker_id": None}
    return {"speaker": message.event.sender, "speaker_id": message.sender and message.sender.entity_id}


def _number(given: object) -> float:
    try:
        return float(cast("Any", given))
    except (TypeError, ValueError):
        return 1.0


def speakers(messages: Iterable["Message"]) -> list[str]:
    """One line for each message: its id, when and where it was said, and by whom."""
    return [_speaker(message) for message in messages]


def _speaker(message: "Message") -> str:
    event, sender = message.event, message.sender
    who = f"{event.sender or 'unknown'}{' (the owner)' * message.is_owners}"
    return (
        f"{event.id} {event.occurred_at} {event.channel} said by {who}, entity {sender and sender.entity_id}"
    )
