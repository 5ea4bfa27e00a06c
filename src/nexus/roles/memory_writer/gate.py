"""The memory writer's own rules at the gate: what is news, and on whose word it is written.

Its instructions ask for all of this as well. But a model reads other people's words while it writes, so
nothing that counts is left to it: who said something, what is only remembered, and who somebody is.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import apsw

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, memory, sql
from nexus.memory.gate import MERGES, TEXTS
from nexus.memory.languages import speech
from nexus.memory.normalisation import IDENTIFYING, normalised, typed
from nexus.memory.operations import OPERATIONS
from nexus.memory.references import is_known, meant
from nexus.roles.memory_writer.attribution import Source, attribute, source
from nexus.roles.memory_writer.evidence import Evidence, Finding, Referred
from nexus.roles.memory_writer.turns import Message

_STATEMENTS: Final = frozenset({"fact", "relationship", "person-fact"})
_CHANGES: Final = frozenset({"describe", "alias", "entity"})
_REFERENCES: Final = ("about", "source", "target", "entity")
_MOST_WRITES: Final = 200
_LEAVE: Final = "Write what the turns themselves say, in their words and with their names, numbers and dates."
_BETWEEN_DIGITS = re.compile(r"[\s().\-/]")
# A number is written with its country, or without.
_DIGITS = 8


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
    meant: frozenset[str] = frozenset()
    """Entities that the messages mean without naming them: "my sister"."""
    phone_region: str = ""
    counts: Counter[str] = field(default_factory=Counter[str])
    refusals: list[str] = field(default_factory=list[str])
    named: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The names of entities that were to be made in this run, by their ids."""
    made: set[str] = field(default_factory=set[str])
    """Those that could be."""

    def __post_init__(self) -> None:
        # Who is quoted speaks as well.
        self.is_owners = self.is_owners and not any(each.quoted_in for each in self.evidence.heard)

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
        if operation == "entity" and isinstance(given.get("id"), str):
            called = [str(given.get("name") or ""), *(text for text, _ in _aliases(given))]
            self.named[given["id"]] = tuple(filter(None, called))
        asked = self._asked(given)
        who = await self._resolved(operation, given)
        # Comparing with a long conversation takes its time.
        finding = await asyncio.to_thread(self._finding, operation, given, who, asked)
        found = source(finding, asked or self._last, self.conversation)
        self._check_rights(operation, given, found, who)
        await asyncio.to_thread(self._check_texts, operation, given, who)
        given.pop("request", None)
        if operation in _STATEMENTS or operation == "entity":
            given["event"] = found.message.event.id if found.message else None
        if operation in _STATEMENTS:
            if finding.refusal:
                raise UsageError(finding.refusal, hint=_LEAVE)
            if asked and found.message and given.get("as_of") == asked.event.occurred_at:
                given["as_of"] = found.message.event.occurred_at
            await self._check_news(given, found)
            attribute(operation, given, found, who.about)
            await self._supersede(operation, given, finding)
        if operation == "episode":
            self._check_events(given)
        if operation == "entity" and isinstance(given.get("id"), str):
            self.made.add(given["id"])
        if operation == "describe":
            given.pop("event", None)
        return {name: value for name, value in given.items() if value is not None}

    @property
    def _last(self) -> Message | None:
        return self.messages[-1] if self.messages else None

    def _asked(self, given: Mapping[str, Any]) -> Message | None:
        """The message that something is said to be learned from; None where none is named."""
        asked = given.get("event")
        if asked is None:
            return None
        for message in self.conversation:
            if message.event.id == asked:
                return message
        known = ", ".join(message.event.id for message in self.messages) or "none"
        raise UsageError(f"{asked!r} is not a message of these turns", hint=f"There are: {known}.")

    def _finding(
        self, operation: str, given: Mapping[str, Any], who: "_Who", asked: Message | None
    ) -> Finding:
        """What says it. Values of hard facts are too short to be told apart by their words."""
        texts = [str(given.get(name) or "") for name in TEXTS.get(operation, ())[:1]]
        texts += [text for text, _ in _aliases(given)] if operation == "alias" else []
        cited = next((each for each in self.evidence.heard if each.message is asked and asked), None)
        if operation in _STATEMENTS:
            return self.evidence.find(" ".join(texts), who.referred, cited)
        names = [name for each in who.referred for name in each.names]
        heard = self.evidence.supporter(" ".join(texts), names, asked and asked.event.id)
        return Finding(heard=cited or heard)

    async def _resolved(self, operation: str, given: Mapping[str, Any]) -> "_Who":
        named = [str(given[name]) for name in _REFERENCES if isinstance(given.get(name), str)]
        if operation == "entity" and isinstance(given.get("id"), str):
            return await self.ledgers.identity.read(_known, entity_id=str(given["id"]))
        found = await self.ledgers.identity.read(_who, named=named, phone_region=self.phone_region)
        return replace(found, referred=tuple(map(self._granted, found.referred)))

    def _granted(self, referred: Referred) -> Referred:
        """Who speaks, whom the messages mean, and who was made in this run are meant without their names."""
        if referred.id in self.named:
            return replace(referred, names=self.named[referred.id])
        speakers = {message.sender.entity_id for message in self.conversation if message.sender}
        is_speaker = referred.id is not None and referred.id in speakers
        is_word = len(referred.names) == 1 and speech.is_first_person(referred.names[0])
        return replace(referred, granted=is_speaker or is_word or referred.id in self.meant)

    def _check_rights(self, operation: str, given: Mapping[str, Any], found: Source, who: "_Who") -> None:
        if operation in MERGES and (not self.is_owners or who.senders):
            raise UsageError(
                "These may be two people who write to you, and are not made one here",
                hint="Leave it: they are shown to the owner as merge candidates.",
            )
        if (
            operation == "describe"
            and given.get("name")
            and (found.speaker is None or who.about != found.speaker)
        ):
            raise UsageError(
                "Only people themselves say what they are called",
                hint="Give another name of somebody as an `alias`.",
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
        named = _aliases(given) if operation in _CHANGES else []
        names = [name for each in who.referred for name in each.names]
        texts = [str(given[name]) for name in TEXTS.get(operation, ()) if given.get(name)]
        if operation not in _STATEMENTS:
            for text in texts:
                if self.evidence.memory_behind(text, names):
                    raise UsageError("This is a memory, and nobody said it in these turns", hint=_LEAVE)
                is_name = text == given.get("name")
                if is_name and operation == "entity" and who.about is not None:
                    continue  # it is known by that id, and has that name
                missing = (
                    self.evidence.unsaid("", [Referred(names=(text,))])
                    if is_name
                    else self.evidence.unsaid(text, who.referred)
                )
                if missing and not (is_name and text in _senders(self.conversation)):
                    raise UsageError(f"Nobody said {missing!r} here", hint=_LEAVE)
        said = [*(heard.text for heard in self.evidence.heard), *_senders(self.conversation)]
        for alias, type_ in named:
            if not _stands_in(said, alias, type_):
                raise UsageError(f"Nobody wrote {alias!r} here", hint="Give an alias as it was written.")

    async def _check_news(self, given: Mapping[str, Any], found: Source) -> None:
        if self.is_delegated and found.is_said:
            raise UsageError(
                "This was said to the agent that gave the task, and is written from its turn",
                hint="Write what was found out in this one.",
            )
        event_id, fact = given.get("event"), given.get("fact")
        if not event_id or not isinstance(fact, str):
            return
        if await self.ledgers.memory.read(memory.is_learned, event_id=str(event_id), fact=fact):
            raise UsageError(
                "This is written already, from the same message", hint="Leave it out, write the rest."
            )

    async def _supersede(self, operation: str, given: dict[str, Any], finding: Finding) -> None:
        """State that it replaces the memory that it differs from, where the memory is a fact."""
        if operation == "person-fact" or not finding.replaces or given.get("replaces"):
            return
        replaced = await self.ledgers.memory.read(memory.find_told, line=finding.replaces)
        if replaced is not None:
            given["replaces"] = [replaced]

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
    referred: tuple[Referred, ...] = ()
    senders: bool = False


def _known(connection: apsw.Connection, entity_id: str) -> _Who:
    return _Who(about=entity_id if is_known(connection, entity_id) else None)


def _who(connection: apsw.Connection, named: Sequence[str], phone_region: str) -> _Who:
    queries = sql.queries("identity")
    found = [_meant(connection, each, phone_region) for each in named]
    known = json.dumps([each for each in found if each])
    called: dict[str, list[str]] = {}
    for id_, name, _ in connection.execute(queries["told_of"], (known,)).fetchall():
        called.setdefault(str(id_), []).append(str(name))
    for id_, alias, *_ in connection.execute(queries["aliases_of"], (known,)).fetchall():
        called.setdefault(str(id_), []).append(str(alias))
    return _Who(
        about=found[0] if found else None,
        referred=tuple(
            Referred(
                id=id_ or name, known=bool(id_), names=tuple(dict.fromkeys(called.get(id_ or "", [name])))
            )
            for name, id_ in zip(named, found, strict=True)
        ),
        senders=any(connection.execute(queries["can_send"], (each,)).get for each in found if each),
    )


def _meant(connection: apsw.Connection, reference: str, phone_region: str) -> str | None:
    try:
        return meant(connection, reference, phone_region)
    except UsageError:
        return None  # more than one: the memory asks which


def _aliases(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The aliases among an operation's arguments, each with its type."""
    listed = given.get("alias")
    items = cast("list[Any]", listed) if isinstance(listed, list) else [listed]
    return [_typed_alias(item) for item in items if item]


def _stands_in(texts: Iterable[str], alias: str, type_: str) -> bool:
    """Whether an alias was written in one of the texts."""
    if type_ == "phone":
        digits = re.sub(r"\D", "", alias)[-_DIGITS:]
        return any(digits in _BETWEEN_DIGITS.sub("", text) for text in texts)
    form = re.escape(normalised(alias, type_))
    # Part of an address is another address; part of a name is a name.
    before, after = (r"[\w.+-]", r"\w|[.-]\w") if type_ in IDENTIFYING else (r"\w", r"\w")
    whole = re.compile(rf"(?<!{before}){form}(?!{after})")
    return any(whole.search(normalised(text)) for text in texts)


def _typed_alias(item: object) -> tuple[str, str]:
    if not isinstance(item, Mapping):
        return typed(str(item))
    fields = cast("Mapping[str, Any]", item)
    text, guessed = typed(str(fields.get("alias") or ""))
    return text, str(fields.get("type") or guessed)
