"""The memory writer's own rules at the gate: what is news, and on whose word it is written.

Its instructions ask for all of this as well. But a model reads other people's words while it writes, so
nothing that counts is left to it: who said something, what is only remembered, and who somebody is.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import apsw

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, memory, sql
from nexus.memory.gate import MERGES, TEXTS
from nexus.memory.operations import OPERATIONS
from nexus.memory.references import is_known, meant
from nexus.roles.memory_writer import literal
from nexus.roles.memory_writer.attribution import Source, attribute, source
from nexus.roles.memory_writer.evidence import Evidence
from nexus.roles.memory_writer.turns import Message

_STATEMENTS: Final = frozenset({"fact", "relationship", "person-fact"})
_CHANGES: Final = frozenset({"describe", "alias", "entity"})
_REFERENCES: Final = ("about", "source", "target", "entity")
_MOST_WRITES: Final = 200


@dataclass(kw_only=True)
class Gate:
    """The rules of one run of the writer, asked by `nexus.memory.gate`."""

    ledgers: Ledgers
    messages: Sequence[Message]
    """What people said in the turns that it works on."""
    conversation: Sequence[Message]
    """What people said in all that it is shown, the oldest first."""
    evidence: Evidence
    is_owners: bool = False
    """Whether nobody but the owner speaks in the conversation."""
    is_delegated: bool = False
    """Whether what people said is written from the turn of another agent, which gave this one its task."""
    phone_region: str = ""
    counts: Counter[str] = field(default_factory=Counter[str])
    refusals: list[str] = field(default_factory=list[str])
    made: set[str] = field(default_factory=set[str])
    """The ids of entities that were made in this run."""

    async def admitted(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they are to be written: with the sources that the ledgers tell."""
        return await self._admitted(operation, dict(arguments))

    def refused(self, operation: str, reason: str) -> None:
        self.refusals.append(f"{operation}: {reason}")

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
        asked = self._asked(given)
        who = await self._resolved(operation, given)
        # Comparing with a long conversation takes its time.
        found = await asyncio.to_thread(self._source, operation, given, who, asked)
        self._check_rights(operation, given, found, who)
        await asyncio.to_thread(self._check_texts, operation, given, who)
        given.pop("request", None)
        if operation in _STATEMENTS or operation == "entity":
            given["event"] = found.message.event.id if found.message else None
        if operation in _STATEMENTS:
            await self._check_news(given, found)
            attribute(operation, given, found, who.about)
        if operation == "episode":
            self._check_events(given)
        if operation == "entity" and isinstance(given.get("id"), str):
            self.made.add(given["id"])
        return {name: value for name, value in given.items() if value is not None}

    def _asked(self, given: Mapping[str, Any]) -> Message | None:
        """The message that something is said to be learned from: the one that is named, or the last one."""
        asked = given.get("event")
        if asked is None:
            return self.messages[-1] if self.messages else None
        for message in self.conversation:
            if message.event.id == asked:
                return message
        known = ", ".join(message.event.id for message in self.messages) or "none"
        raise UsageError(f"{asked!r} is not a message of these turns", hint=f"There are: {known}.")

    def _source(self, operation: str, given: Mapping[str, Any], who: "_Who", asked: Message | None) -> Source:
        """What says it, by its words."""
        named = [text for text, _ in literal.aliases(given)] if operation == "alias" else []
        texts = [str(given.get(name) or "") for name in TEXTS.get(operation, ())[:1]]
        heard = self.evidence.supporter(
            " ".join([*texts, *named]), who.names, asked.event.id if asked else None
        )
        return source(heard, asked, self.conversation)

    async def _resolved(self, operation: str, given: Mapping[str, Any]) -> "_Who":
        named = [str(given[name]) for name in _REFERENCES if isinstance(given.get(name), str)]
        if operation == "entity" and isinstance(given.get("id"), str):
            read = partial(_known, entity_id=str(given["id"]))
            return await self.ledgers.identity.read(read)
        return await self.ledgers.identity.read(partial(_who, named=named, phone_region=self.phone_region))

    def _check_rights(self, operation: str, given: Mapping[str, Any], found: Source, who: "_Who") -> None:
        if operation in MERGES and (not self.is_owners or who.senders):
            raise UsageError(
                "These may be two people who write to you, and are not made one here",
                hint="Leave it: they are shown to the owner as merge candidates.",
            )
        if operation in _CHANGES and not (self.is_owners or found.is_owners):
            self._check_change(operation, given, found, who)

    def _check_change(self, operation: str, given: Mapping[str, Any], found: Source, who: "_Who") -> None:
        """On the word of others nobody changes but themselves and whom they brought up first."""
        if operation == "entity" and who.about is None:
            return
        reference = str(given.get("id" if operation == "entity" else "entity", ""))
        is_own = who.about is not None and who.about == found.speaker
        if not is_own and reference not in self.made:
            raise UsageError(
                "Only the owner's words change what somebody else is called or said to be",
                hint="Write it as a `fact`: it is then kept as what was said, and by whom.",
            )

    def _check_texts(self, operation: str, given: Mapping[str, Any], who: "_Who") -> None:
        named = literal.aliases(given) if operation in _CHANGES else []
        texts = [str(given[name]) for name in TEXTS.get(operation, ()) if given.get(name)]
        if any(self.evidence.memory_behind(text, who.names) for text in texts):
            raise UsageError(
                "This is a memory, and nobody said it in these turns",
                hint="Write what the turns themselves say; what is remembered already stays remembered.",
            )
        said = [*(heard.text for heard in self.evidence.heard), *_senders(self.conversation)]
        for alias, type_ in named:
            if not literal.stands_in(said, alias, type_):
                raise UsageError(f"Nobody wrote {alias!r} here", hint="Give an alias as it was written.")

    async def _check_news(self, given: Mapping[str, Any], found: Source) -> None:
        if self.is_delegated and found.is_said:
            raise UsageError(
                "This was said to the agent that gave the task, and is written from its turn",
                hint="Write what was found out in this one.",
            )
        event_id, fact = given.get("event"), given.get("fact")
        if event_id and isinstance(fact, str):
            known = partial(memory.is_learned, event_id=str(event_id), fact=fact)
            if await self.ledgers.memory.read(known):
                raise UsageError(
                    "This is written already, from the same message", hint="Leave it out, write the rest."
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


def _senders(messages: Sequence[Message]) -> list[str]:
    return [message.event.sender for message in messages if message.event.sender]


@dataclass(frozen=True, kw_only=True)
class _Who:
    """The entities that an operation names, as far as they are known."""

    about: str | None
    names: tuple[str, ...] = ()
    senders: bool = False


def _known(connection: apsw.Connection, entity_id: str) -> _Who:
    return _Who(about=entity_id if is_known(connection, entity_id) else None)


def _who(connection: apsw.Connection, named: Sequence[str], phone_region: str) -> _Who:
    queries = sql.queries("identity")
    found = [_meant(connection, each, phone_region) for each in named]
    ids = [each for each in found if each]
    rows = connection.execute(queries["told_of"], (json.dumps(ids),)).fetchall()
    return _Who(
        about=found[0] if found else None,
        names=(*named, *(str(row[1]) for row in rows)),
        senders=any(connection.execute(queries["can_send"], (each,)).get for each in ids),
    )


def _meant(connection: apsw.Connection, reference: str, phone_region: str) -> str | None:
    try:
        return meant(connection, reference, phone_region)
    except UsageError:
        return None  # more than one: the memory asks which
