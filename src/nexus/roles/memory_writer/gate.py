"""What the writer may write, and on whose word.

Its instructions ask for all of this as well. But a model reads other people's words while it writes, so
nothing that counts is left to it: who said something, what is only remembered, and who somebody is.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import apsw

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, sql
from nexus.memory.operations import OPERATIONS
from nexus.memory.references import meant
from nexus.roles.memory_writer.confidential import is_confidential
from nexus.roles.memory_writer.evidence import Evidence
from nexus.roles.memory_writer.turns import Message

_TEXTS: Final = {
    "fact": "fact",
    "relationship": "fact",
    "person-fact": "value",
    "entity": "summary",
    "describe": "summary",
    "episode": "summary",
}
_STATEMENTS: Final = frozenset({"fact", "relationship", "person-fact"})
_MERGES: Final = frozenset({"merge", "unmerge", "reject"})
# Who sends under which address decides about rights: that is for people to say.
_NEVER: Final = frozenset({"contact"})
_REFERENCES: Final = ("about", "source", "target", "entity")
# What a writer may say of its sources itself: these claim less than what the ledgers tell.
_WEAKER: Final = frozenset({"inferred", "observed"})
# How sure one can be of what somebody other than the owner says about others.
_HEARSAY: Final = 0.6
_MOST_WRITES: Final = 200


@dataclass(kw_only=True)
class Gate:
    """The gate of one run of the writer."""

    ledgers: Ledgers
    messages: Sequence[Message]
    """What people said in the turns that it works on; nothing where an agent gave the task."""
    evidence: Evidence
    counts: Counter[str] = field(default_factory=Counter[str])
    refused: list[str] = field(default_factory=list[str])

    async def admitted(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they are to be written: with the sources that the ledgers tell."""
        try:
            return await self._admitted(operation, dict(arguments))
        except UsageError as error:
            self.refused.append(f"{operation}: {error.message}")
            raise

    def written(self, operation: str, arguments: Mapping[str, Any]) -> None:
        self.counts[operation] += 1

    def recalled(self, answer: Mapping[str, Any]) -> None:
        """What the writer looked up is memory as well."""
        results = cast("list[dict[str, Any]]", answer.get("results", []))
        self.evidence.remember(str(each["text"]) for each in results if each.get("type") != "event")

    async def _admitted(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        if operation not in OPERATIONS:
            return given  # the memory says what there is
        if self.counts.total() >= _MOST_WRITES:
            raise UsageError(f"{_MOST_WRITES} writes are enough for one turn", hint="End your work here.")
        message = self._source(given)
        who = await self._resolved(operation, given)
        self._check_rights(operation, message, who)
        self._check_text(operation, given, who)
        given.pop("request", None)
        if operation in _STATEMENTS or operation == "entity":
            given["event"] = message.event.id if message else None
        if operation in _STATEMENTS:
            _attribute(operation, given, message, who)
        if operation == "episode":
            self._check_events(given)
        return {name: value for name, value in given.items() if value is not None}

    def _source(self, given: Mapping[str, Any]) -> Message | None:
        """The message that something was learned from: the one that is named, or the last one."""
        asked = given.get("event")
        if asked is None:
            return self.messages[-1] if self.messages else None
        for message in self.messages:
            if message.event.id == asked:
                return message
        known = ", ".join(message.event.id for message in self.messages) or "none"
        raise UsageError(f"{asked!r} is not a message of these turns", hint=f"There are: {known}.")

    async def _resolved(self, operation: str, given: Mapping[str, Any]) -> "_Who":
        named = [str(given[name]) for name in _REFERENCES if isinstance(given.get(name), str)]
        if operation == "alias" and not named:
            named = [str(given.get("entity", ""))]
        return await self.ledgers.identity.read(lambda connection: _who(connection, named))

    def _check_rights(self, operation: str, message: Message | None, who: "_Who") -> None:
        owners = message is None or message.is_owners
        speaker = message.sender.entity_id if message and message.sender else None
        if operation in _NEVER:
            raise UsageError(
                "Addresses of senders are not for the writer",
                hint="Use `alias` for an address that was mentioned.",
            )
        if operation in _MERGES and (not owners or who.senders):
            raise UsageError(
                "These may be two people who write to you, and are not made one here",
                hint="Leave it: they are shown to the owner as merge candidates.",
            )
        if operation in {"describe", "alias"} and not owners and who.about not in {speaker, None}:
            raise UsageError(
                "Only the owner's words change what somebody else is called or said to be",
                hint="Write it as a `fact`: it is then kept as what was said, and by whom.",
            )

    def _check_text(self, operation: str, given: Mapping[str, Any], who: "_Who") -> None:
        text = given.get(_TEXTS.get(operation, ""))
        if not isinstance(text, str):
            return
        if is_confidential(text):
            raise UsageError("This holds a secret, and secrets are not remembered", hint="Leave it out.")
        memory = self.evidence.memory_behind(text, who.names)
        if memory is not None:
            raise UsageError(
                f"This is a memory, and nobody said it in these turns: {memory[:200]!r}",
                hint="Write what the turns themselves say; what is remembered already stays remembered.",
            )

    def _check_events(self, given: dict[str, Any]) -> None:
        listed = given.get("events")
        asked = listed.split(",") if isinstance(listed, str) else cast("list[Any]", listed or [])
        known = [message.event.id for message in self.messages]
        others = [str(each) for each in asked if str(each).strip() not in known]
        if others:
            raise UsageError(
                f"{others[0]!r} is not a message of these turns", hint=f"There are: {', '.join(known)}."
            )
        given["events"] = known


@dataclass(frozen=True, kw_only=True)
class _Who:
    """The entities that an operation names, as far as they are known."""

    about: str | None
    names: tuple[str, ...]
    senders: bool


def _who(connection: apsw.Connection, named: Sequence[str]) -> _Who:
    queries = sql.queries("identity")
    found = [_meant(connection, each) for each in named]
    ids = [each for each in found if each]
    rows = connection.execute(queries["told_of"], (json.dumps(ids),)).fetchall()
    return _Who(
        about=found[0] if found else None,
        names=(*named, *(str(row[1]) for row in rows)),
        senders=any(connection.execute(queries["can_send"], (each,)).get for each in ids),
    )


def _meant(connection: apsw.Connection, reference: str) -> str | None:
    try:
        return meant(connection, reference)
    except UsageError:
        return None  # more than one: the memory asks which


def _attribute(operation: str, given: dict[str, Any], message: Message | None, who: _Who) -> None:
    """Say who said it and how far that carries, whatever the writer claims."""
    claimed = given.get("source_type")
    speaker = message.sender if message else None
    is_own = speaker is not None and who.about == speaker.entity_id
    if message is None:
        given["source_type"] = claimed if claimed in _WEAKER else "observed"
    elif claimed not in _WEAKER:
        given["source_type"] = "self_disclosed" if is_own else "mentioned"
    if message is not None and not message.is_owners and not is_own:
        given["confidence"] = min(_number(given.get("confidence")), _HEARSAY)
    if operation != "person-fact":
        given["metadata"] = {
            "speaker": message.event.sender if message else "nexus",
            "speaker_id": speaker.entity_id if speaker else None,
        }


def _number(given: object) -> float:
    try:
        return float(cast("Any", given))
    except (TypeError, ValueError):
        return 1.0


def speakers(messages: Iterable[Message]) -> list[str]:
    """One line for each message: its id, when and where it was said, and by whom."""
    return [_speaker(message) for message in messages]


def _speaker(message: Message) -> str:
    event, sender = message.event, message.sender
    who = f"{event.sender or 'unknown'}{' (the owner)' * message.is_owners}"
    return (
        f"{event.id} {event.occurred_at} {event.channel} said by {who}, entity {sender and sender.entity_id}"
    )
